//! The host as /proc, /sys, ELF files and the CPU describe it, read only.
//!
//! Each reader takes the root path that it reads under, so that tests feed it a folder of fixtures
//! and the program feeds it `/`. The text may be foreign, cut short or hostile (a mapping's name
//! is chosen by whoever made the file), so parsers here return errors or less, and never panic.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod contents;
pub mod cpus;
pub mod elf;
pub mod flush;
pub mod functions;
pub mod interrupts;
pub mod kallsyms;
pub mod maps;
pub mod memory;
pub mod needed;
pub mod perf_map;
pub mod proc;
pub mod status;
pub mod vmstat;

use std::path::{Path, PathBuf};

/// The path under `root` that stands for the absolute path `path` (for `/`, the path itself).
#[must_use]
pub fn under(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}
