//! Names for the frames of user stacks, from the files that the code came from.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{Input, Symbolizer};
use quell_event::trace::Stack;

/// Fills in the names of all frames of which the file is known and readable. What has no
/// name keeps none.
///
/// The path is the process's own: in another mount namespace it may name another file, so frames of
/// containers may stay without a name.
pub fn name_frames(stacks: &mut [Stack]) {
    let mut wanted: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
    for frame in stacks.iter().flat_map(|s| &s.frames) {
        if let (None, Some(module), Some(offset)) = (&frame.symbol, &frame.module, frame.offset) {
            wanted.entry(module.clone()).or_default().insert(offset);
        }
    }
    let symbolizer = Symbolizer::builder().enable_code_info(false).build();
    let mut names: BTreeMap<(&str, u64), String> = BTreeMap::new();
    for (module, offsets) in &wanted {
        let offsets: Vec<u64> = offsets.iter().copied().collect();
        let mut elf = Elf::new(Path::new(module));
        // names alone: a large program's line tables cost seconds
        elf.debug_syms = false;
        let source = Source::Elf(elf);
        let Ok(found) = symbolizer.symbolize(&source, Input::FileOffset(&offsets)) else {
            continue;
        };
        for (sym, &offset) in found.iter().zip(&offsets) {
            if let Some(sym) = sym.as_sym() {
                names.insert((module, offset), sym.name.clone().into_owned());
            }
        }
    }
    for frame in stacks.iter_mut().flat_map(|s| &mut s.frames) {
        if let (None, Some(module), Some(offset)) = (&frame.symbol, &frame.module, frame.offset) {
            frame.symbol = names.get(&(module.as_str(), offset)).cloned();
        }
    }
}
