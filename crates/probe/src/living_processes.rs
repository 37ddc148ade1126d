//! Names for the code of processes that are watched no longer but still live.

use std::collections::HashMap;
use std::path::Path;

use quell_event::trace::{MissingNameReason, StackFrame, StackKind, TracedStack};
use quell_host::maps;

use crate::symbols::{self, CodeFiles, FrameSource, JitMaps};

/// Names the code at these addresses of processes, innermost first. The code of a process that has ended is marked as gone; a
/// new process with its number is taken for it.
#[must_use]
pub fn name_living(asked: &[(u32, Vec<u64>)]) -> Vec<Vec<StackFrame>> {
    let root = Path::new("/");
    let (mut files, mut jits) = (CodeFiles::new(root), JitMaps::default());
    let mut processes = HashMap::new();
    let mut sources: HashMap<u32, Vec<FrameSource>> = HashMap::new();
    let mut stacks = Vec::new();
    for (id, (pid, addresses)) in (0..).zip(asked) {
        let maps = processes.entry(*pid).or_insert_with(|| {
            let maps = maps::read_maps(root, *pid).unwrap_or_default();
            for mapping in maps.iter().filter(|m| m.perms.exec) {
                files.hold_file(*pid, mapping);
            }
            if maps.iter().any(maps::Mapping::is_made_at_run_time) {
                jits.follow_process(root, *pid);
            }
            maps
        });
        let mut frames = Vec::new();
        let of = sources.entry(id).or_default();
        for addr in addresses {
            let mapping = maps::mapping_at(maps, *addr).filter(|m| m.perms.exec);
            let jit = mapping.is_some_and(maps::Mapping::is_made_at_run_time);
            of.push(FrameSource {
                file: mapping.and_then(|m| files.file_number(*pid, m)),
                jit,
            });
            let path = mapping.and_then(|m| m.path.as_ref());
            frames.push(StackFrame {
                addr: *addr,
                module: path.map(|path| path.display().to_string()),
                offset: mapping
                    .filter(|m| m.is_file())
                    .map(|m| addr - m.start + m.offset),
                mark: match mapping {
                    None if maps.is_empty() => Some(MissingNameReason::Gone),
                    None => Some(MissingNameReason::Unmapped),
                    Some(_) => jit.then_some(MissingNameReason::Jit),
                },
                ..StackFrame::default()
            });
        }
        stacks.push(TracedStack {
            id,
            kind: StackKind::User,
            pid: Some(*pid),
            frames,
            ..TracedStack::default()
        });
    }
    symbols::name_stack_frames(&mut stacks, &files, &jits, |stack, i| {
        let of = sources.get(&stack.id);
        of.and_then(|of| of.get(i)).copied().unwrap_or_default()
    });
    stacks.into_iter().map(|stack| stack.frames).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that this program's own function is named with its file, and that a process that is not there has no names.
    #[test]
    fn own_code_is_named() {
        let here = own_code_is_named as fn() as usize as u64;
        let named = name_living(&[(std::process::id(), vec![here, 1]), (0, vec![here])]);
        let [own, nobody] = named.as_slice() else {
            panic!("{named:?}");
        };
        let symbol = own[0].symbol.as_deref().unwrap_or_default();
        assert!(symbol.contains("own_code_is_named"), "{own:?}");
        assert!(own[0].module.is_some());
        assert_eq!(
            (own[1].symbol.as_ref(), own[1].mark),
            (None, Some(MissingNameReason::Unmapped))
        );
        assert_eq!(nobody[0].mark, Some(MissingNameReason::Gone));
    }
}
