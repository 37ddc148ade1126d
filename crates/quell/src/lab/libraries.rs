//! Allocators that the system has as shared libraries.

use std::fs;
use std::path::{Path, PathBuf};

use crate::usage::usage;

/// The folders in which systems have their libraries.
const LIBRARY_FOLDERS: [&str; 5] = [
    "/usr/lib/x86_64-linux-gnu",
    "/lib/x86_64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/lib",
];

/// The refusal to load an allocator where nothing can be loaded.
pub(super) fn preload_refusal() -> anyhow::Error {
    usage(
        "this quell is linked statically, so no allocator can be put in its place: use one that is not",
    )
}

/// The libraries whose names begin with one of these, each file once.
pub(super) fn installed_libraries(names: &[&str]) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = LIBRARY_FOLDERS
        .iter()
        .filter_map(|folder| fs::read_dir(Path::new(folder)).ok())
        .flatten()
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let name = path.file_name()?.to_string_lossy().into_owned();
            let is_one = names.iter().any(|start| name.starts_with(start));
            is_one.then(|| fs::canonicalize(&path).ok()).flatten()
        })
        .collect();
    files.sort();
    files.dedup();
    files
}
