//! The names of functions at offsets of one file.

use std::os::fd::OwnedFd;
use std::path::Path;

use quell_event::trace::MissingNameReason;
use quell_host::functions::{self, ReadRef, Table};

use super::{debug_file, demangle, go_table, mini_debug};

/// The names at offsets of a file, which must be sorted, or why there is none.
///
/// The file's own symbols come first. Only for a stripped one are other tables asked: its debug file, the
/// small table inside, the functions that it exports, and at last the table that Go's own runtime needs.
pub(super) fn names_in_file<'d>(
    data: impl ReadRef<'d>,
    path: &Path,
    roots: &[OwnedFd],
    offsets: &[u64],
) -> Vec<Result<String, MissingNameReason>> {
    if !functions::is_elf(data) {
        return vec![Err(MissingNameReason::Unreadable); offsets.len()];
    }
    let mut search = NameSearch::new(data, offsets);
    if !search.ask_table(|at| functions::names_at(data, Table::Full, at)) {
        let whole = debug_file::find_debug_file(data, path, roots);
        let found = whole.is_some_and(|whole| {
            search.ask_table(|at| functions::names_at(&whole, Table::Full, at))
        });
        if !found && let Some(packed) = functions::section_contents(data, ".gnu_debugdata") {
            let small = mini_debug::unpack_mini_debug(packed).unwrap_or_default();
            search.ask_table(|at| functions::names_at(&small[..], Table::Full, at));
        }
    }
    search.ask_table(|at| functions::names_at(data, Table::Exported, at));
    search.ask_table(|at| go_table::names_at(data, at));
    search
        .names
        .into_iter()
        .map(|name| name.ok_or(MissingNameReason::Stripped))
        .collect()
}

/// The names that have been found so far, and the addresses that they are looked up by.
struct NameSearch {
    /// Linked addresses; 0 for an offset that is no code of the file.
    addresses: Vec<u64>,
    names: Vec<Option<String>>,
}

impl NameSearch {
    fn new<'d>(data: impl ReadRef<'d>, offsets: &[u64]) -> Self {
        let address = |offset: &u64| functions::linked_address(data, *offset).unwrap_or(0);
        Self {
            addresses: offsets.iter().map(address).collect(),
            names: vec![None; offsets.len()],
        }
    }

    /// Asks a table for the names that are still missing; false if there is no such table.
    fn ask_table(&mut self, table: impl FnOnce(&[u64]) -> Option<Vec<Option<String>>>) -> bool {
        let mut missing: Vec<(u64, usize)> = self
            .addresses
            .iter()
            .copied()
            .zip(0..)
            .filter(|&(address, i)| address != 0 && self.names[i].is_none())
            .collect();
        if missing.is_empty() {
            return true;
        }
        missing.sort_unstable();
        let addresses: Vec<u64> = missing.iter().map(|&(address, _)| address).collect();
        let Some(found) = table(&addresses) else {
            return false;
        };
        for ((_, i), name) in missing.into_iter().zip(found) {
            self.names[i] = name.as_deref().map(demangle::readable_name);
        }
        true
    }
}
