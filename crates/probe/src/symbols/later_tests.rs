//! Names that are given after the recording, by what the trace knows of the files.

use std::path::Path;

use quell_event::trace::{MappedModule, MissingNameReason, TracedProcess, TracedStack};
use quell_host::maps;

use super::*;

/// This process, as a trace would have it, and where a function of it lies.
fn own(build_id: bool) -> (TracedProcess, TracedStack) {
    let pid = std::process::id();
    let maps = maps::read_maps(Path::new("/"), pid).unwrap();
    let address = later_names as *const () as u64;
    let mapping = maps::mapping_at(&maps, address).unwrap();
    let mut files = CodeFiles::new(Path::new("/"));
    files.hold_file(pid, mapping).unwrap();
    let path = mapping.path.clone().unwrap().display().to_string();
    let module = MappedModule {
        path: path.clone(),
        start: mapping.start,
        end: mapping.end,
        offset: mapping.offset,
        dev: device_number(mapping),
        inode: mapping.inode,
        build_id: files.build_id(pid, mapping).filter(|_| build_id),
        ..MappedModule::default()
    };
    let frame = StackFrame {
        addr: address,
        module: Some(path),
        offset: Some(address - mapping.start + mapping.offset),
        ..StackFrame::default()
    };
    let stack = TracedStack {
        id: 1,
        pid: Some(pid),
        frames: vec![frame],
        ..TracedStack::default()
    };
    (
        TracedProcess {
            pid,
            modules: vec![module],
            ..TracedProcess::default()
        },
        stack,
    )
}

/// Check that names are given later only from the file that was mapped, by its build id; where the trace
/// has none and the file has one, nobody can tell.
#[test]
fn later_names() {
    let later = |process: &TracedProcess, stack: &TracedStack| {
        let mut stacks = [stack.clone()];
        name_frames(&mut stacks, |_| Some(process));
        let frame = &stacks[0].frames[0];
        (frame.symbol.clone(), frame.mark)
    };
    let name = "quell_probe::symbols::later_tests::later_names";
    for build_id in [true, false] {
        let (mut process, stack) = own(build_id);
        let found = match build_id {
            true => (Some(name.to_owned()), None),
            false => (None, Some(MissingNameReason::Unreadable)),
        };
        assert_eq!(later(&process, &stack), found);
        match &mut process.modules[0].build_id {
            Some(id) => id.push('0'),
            None => process.modules[0].inode += 1,
        }
        assert_eq!(
            later(&process, &stack),
            (None, Some(MissingNameReason::Replaced))
        );
        process.modules[0].path += ".gone";
        let mut gone = stack.clone();
        gone.frames[0].module = Some(process.modules[0].path.clone());
        assert_eq!(
            later(&process, &gone),
            (None, Some(MissingNameReason::Unreadable))
        );
    }
    // a process that the trace knows nothing of
    let (process, stack) = own(true);
    let stranger = TracedProcess {
        pid: process.pid,
        ..TracedProcess::default()
    };
    assert_eq!(
        later(&stranger, &stack),
        (None, Some(MissingNameReason::Unreadable))
    );
}
