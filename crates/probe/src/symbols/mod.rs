//! Names for the frames of user stacks, from the files that the code came from and from the maps that
//! JITs write. docs/symbols.md has the order, and what each mark means.
//!
//! Names alone: a large program's line tables cost seconds.

mod debug_file;
mod demangle;
mod files;
mod go;
mod identity;
mod jit;
mod mini_debug;
mod names;
mod open;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use quell_event::trace::{Frame, Mark, Process, Stack};

pub(crate) use files::{Files, device};
pub(crate) use jit::Jits;

/// Where the name of a frame may come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Source {
    /// The number of its file.
    pub(crate) file: Option<u32>,
    /// The program made it as it ran.
    pub(crate) jit: bool,
}

/// The offset that is looked up: of a caller the call, and not what follows it. A call that never
/// returns may be the last of its function, and the next byte is another one's.
fn place(index: usize, at: u64) -> u64 {
    if index == 0 { at } else { at.saturating_sub(1) }
}

/// Names what has neither name nor mark, or gives it a mark. `source` tells of a frame of a stack, by
/// its number, where to look.
pub(crate) fn name(
    stacks: &mut [Stack],
    files: &Files,
    jits: &Jits,
    source: impl Fn(&Stack, usize) -> Source,
) {
    let mut offsets: BTreeMap<u32, BTreeSet<u64>> = BTreeMap::new();
    let mut addresses: BTreeMap<u32, BTreeSet<u64>> = BTreeMap::new();
    for_nameless(stacks, |stack, i, frame| {
        let from = source(stack, i);
        if let (Some(file), Some(offset)) = (from.file, frame.offset) {
            offsets.entry(file).or_default().insert(place(i, offset));
        }
        if let (true, Some(pid)) = (from.jit, stack.pid) {
            addresses
                .entry(pid)
                .or_default()
                .insert(place(i, frame.addr));
        }
    });
    let named: HashMap<(u32, u64), Result<String, Mark>> = offsets
        .into_iter()
        .flat_map(|(file, offsets)| {
            let offsets: Vec<u64> = offsets.into_iter().collect();
            let names = match files.contents(file) {
                Ok(data) => names::of_file(&data, files.path(file), &files.roots(file), &offsets),
                Err(mark) => vec![Err(mark); offsets.len()],
            };
            offsets.into_iter().map(move |o| (file, o)).zip(names)
        })
        .collect();
    let mapped: HashMap<(u32, u64), String> = addresses
        .into_iter()
        .flat_map(|(pid, addresses)| {
            let addresses: Vec<u64> = addresses.into_iter().collect();
            let names = jits.names(pid, &addresses);
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
            let by_map = || mapped.get(&(stack.pid?, place(i, frame.addr)));
            let by_file = || named.get(&(from.file?, place(i, frame.offset?)));
            let found = match (by_file(), by_map()) {
                (Some(Ok(name)), _) | (_, Some(name)) => Some(Ok(name.clone())),
                _ if from.jit => Some(Err(Mark::Jit)),
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

/// JIT frames get their mark when they are found, lest the recording be cut short; a map may still
/// name them.
fn is_nameless(frame: &Frame) -> bool {
    frame.symbol.is_none() && matches!(frame.mark, None | Some(Mark::Jit))
}

fn for_nameless(stacks: &[Stack], mut f: impl FnMut(&Stack, usize, &Frame)) {
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
pub fn name_frames<'p>(stacks: &mut [Stack], process: impl Fn(u32) -> Option<&'p Process>) {
    let mut files = Files::new(Path::new("/"));
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
                numbers.insert((stack.id, i), files.recall(process.pid, module));
            }
        }
    }
    name(stacks, &files, &Jits::default(), |stack, i| Source {
        file: numbers.get(&(stack.id, i)).copied(),
        jit: false,
    });
    // of a file that nobody can tell the identity of, nobody can tell the names
    for frame in stacks.iter_mut().flat_map(|s| &mut s.frames) {
        if frame.symbol.is_none() && frame.mark.is_none() && frame.offset.is_some() {
            frame.mark = Some(Mark::Unreadable);
        }
    }
}

#[cfg(test)]
mod later_tests;
#[cfg(test)]
mod tests;
