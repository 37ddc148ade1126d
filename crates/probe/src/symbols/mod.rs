//! Names for the frames of user stacks, from the files that the code came from and from the maps that
//! JITs write. docs/symbols.md has the order, and the meaning of each mark.
//!
//! No line numbers are looked up, because a large program's line tables cost seconds.

mod debug_file;
mod demangle;
mod file_names;
mod files;
mod go_table;
mod identity;
mod jit_maps;
mod mini_debug;
mod open_files;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use quell_event::trace::{MissingNameReason, StackFrame, TracedProcess, TracedStack};

pub(crate) use files::{CodeFiles, device_number};
pub(crate) use jit_maps::JitMaps;

/// Where the name of a frame may come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FrameSource {
    /// The number of its file.
    pub(crate) file: Option<u32>,
    /// The program made the code as it ran.
    pub(crate) jit: bool,
}

/// The offset that is looked up: for a caller that of the call, and not of the instruction after it. A call that never
/// returns may be the last of its function, and the next byte belongs to another function.
fn lookup_offset(index: usize, at: u64) -> u64 {
    if index == 0 { at } else { at.saturating_sub(1) }
}

/// Names the frames that have neither name nor mark, or gives them a mark. `source` returns where to look for
/// the name of a frame, by the stack and the frame's place in it.
pub(crate) fn name_stack_frames(
    stacks: &mut [TracedStack],
    files: &CodeFiles,
    jits: &JitMaps,
    source: impl Fn(&TracedStack, usize) -> FrameSource,
) {
    let mut offsets: BTreeMap<u32, BTreeSet<u64>> = BTreeMap::new();
    let mut addresses: BTreeMap<u32, BTreeSet<u64>> = BTreeMap::new();
    for_nameless_frames(stacks, |stack, i, frame| {
        let from = source(stack, i);
        if let (Some(file), Some(offset)) = (from.file, frame.offset) {
            offsets
                .entry(file)
                .or_default()
                .insert(lookup_offset(i, offset));
        }
        if let (true, Some(pid)) = (from.jit, stack.pid) {
            addresses
                .entry(pid)
                .or_default()
                .insert(lookup_offset(i, frame.addr));
        }
    });
    let named: HashMap<(u32, u64), Result<String, MissingNameReason>> = offsets
        .into_iter()
        .flat_map(|(file, offsets)| {
            let offsets: Vec<u64> = offsets.into_iter().collect();
            let names = match files.file_contents(file) {
                Ok(data) => file_names::names_in_file(
                    &data,
                    files.file_path(file),
                    &files.root_folders(file),
                    &offsets,
                ),
                Err(mark) => vec![Err(mark); offsets.len()],
            };
            offsets.into_iter().map(move |o| (file, o)).zip(names)
        })
        .collect();
    let mapped: HashMap<(u32, u64), String> = addresses
        .into_iter()
        .flat_map(|(pid, addresses)| {
            let addresses: Vec<u64> = addresses.into_iter().collect();
            let names = jits.names_at(pid, &addresses);
            let keys = addresses.into_iter().map(move |a| (pid, a));
            keys.zip(names).filter_map(|(key, name)| Some((key, name?)))
        })
        .collect();
    for stack in stacks {
        for i in 0..stack.frames.len() {
            if !is_nameless(&stack.frames[i]) {
                continue;
            }
            let from = source(stack, i);
            let frame = &stack.frames[i];
            let by_map = || mapped.get(&(stack.pid?, lookup_offset(i, frame.addr)));
            let by_file = || named.get(&(from.file?, lookup_offset(i, frame.offset?)));
            let found = match (by_file(), by_map()) {
                (Some(Ok(name)), _) | (_, Some(name)) => Some(Ok(name.clone())),
                _ if from.jit => Some(Err(MissingNameReason::Jit)),
                (Some(Err(mark)), None) => Some(Err(*mark)),
                (None, None) => None,
            };
            let frame = &mut stack.frames[i];
            match found {
                Some(Ok(name)) => (frame.symbol, frame.mark) = (Some(name), None),
                Some(Err(mark)) => frame.mark = Some(mark),
                None => {}
            }
        }
    }
}

/// Whether a frame still lacks a name. Frames of a JIT get their mark when they are found, in case the recording is cut
/// short, and a map may still name them.
fn is_nameless(frame: &StackFrame) -> bool {
    frame.symbol.is_none() && matches!(frame.mark, None | Some(MissingNameReason::Jit))
}

fn for_nameless_frames(
    stacks: &[TracedStack],
    mut f: impl FnMut(&TracedStack, usize, &StackFrame),
) {
    for stack in stacks {
        for (i, frame) in stack.frames.iter().enumerate() {
            if is_nameless(frame) {
                f(stack, i, frame);
            }
        }
    }
}

/// Names the frames of a trace whose recording was cut short before it came to names, from the files
/// that have the same build id today as they had then.
pub fn name_frames<'p>(
    stacks: &mut [TracedStack],
    process: impl Fn(u32) -> Option<&'p TracedProcess>,
) {
    let mut files = CodeFiles::new(Path::new("/"));
    let mut numbers: HashMap<(u32, usize), u32> = HashMap::new();
    for stack in stacks.iter() {
        let Some(process) = stack.pid.and_then(&process) else {
            continue;
        };
        for (i, frame) in stack.frames.iter().enumerate() {
            let module = process
                .module_at(frame.addr)
                .filter(|m| Some(&m.path) == frame.module.as_ref() && m.path.starts_with('/'));
            if let Some(module) = module.filter(|_| is_nameless(frame) && frame.mark.is_none()) {
                numbers.insert((stack.id, i), files.recall_file(process.pid, module));
            }
        }
    }
    name_stack_frames(stacks, &files, &JitMaps::default(), |stack, i| {
        FrameSource {
            file: numbers.get(&(stack.id, i)).copied(),
            jit: false,
        }
    });
    // A file whose identity can't be checked gives no names.
    for frame in stacks.iter_mut().flat_map(|s| &mut s.frames) {
        if frame.symbol.is_none() && frame.mark.is_none() && frame.offset.is_some() {
            frame.mark = Some(MissingNameReason::Unreadable);
        }
    }
}

#[cfg(test)]
mod later_tests;
#[cfg(test)]
mod tests;
