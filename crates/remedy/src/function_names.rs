//! Facts that the name of a function, or of its file, tells.

use std::path::Path;

/// The C library's wrappers: a stack that ends in one does not name its caller.
pub(crate) fn is_wrapper(symbol: &str) -> bool {
    let name = symbol
        .trim_start_matches('_')
        .split('@')
        .next()
        .unwrap_or_default();
    matches!(
        name,
        "munmap"
            | "madvise"
            | "mmap"
            | "mmap64"
            | "mremap"
            | "brk"
            | "sbrk"
            | "mprotect"
            | "syscall"
    )
}

/// Whether a function of this name works on the stacks of threads.
pub(crate) fn is_thread_code(symbol: &str) -> bool {
    let named = [
        "start_thread",
        "nptl_",
        "pthread_",
        "advise_stack",
        "free_stacks",
    ];
    named.iter().any(|n| symbol.contains(n))
}

/// Whether a file of this name is the C library, or musl, which is its own loader.
pub(crate) fn is_libc_file(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with("libc.so") || name.starts_with("libc-2") || name.starts_with("ld-musl")
}

/// The functions of glibc's and musl's malloc that give memory back, or map it.
pub(crate) fn is_libc_malloc(symbol: &str) -> bool {
    const MALLOC_NAMES: [&str; 26] = [
        "arena_get2",
        "calloc",
        "cfree",
        "free",
        "glibc_morecore",
        "default_morecore",
        "grow_heap",
        "heap_trim",
        "int_free",
        "int_free_maybe_consolidate",
        "int_malloc",
        "int_realloc",
        "libc_calloc",
        "libc_free",
        "libc_malloc",
        "libc_realloc",
        "malloc",
        "malloc_trim",
        "mremap_chunk",
        "munmap_chunk",
        "new_heap",
        "nontrivial_free",
        "realloc",
        "shrink_heap",
        "sysmalloc",
        "systrim",
    ];
    // GCC's clones: munmap_chunk.part.0, sysmalloc_mmap.isra.0
    let name = symbol.trim_start_matches('_');
    let name = name.split(['.', '@']).next().unwrap_or(name);
    MALLOC_NAMES.contains(&name)
        || name.starts_with("sysmalloc")
        || name.starts_with("libc_free_impl")
}

/// Functions by which a program makes its allocator give memory back at once, whatever its policy is.
const RELEASE_FUNCTIONS: [&str; 7] = [
    "malloc_trim",
    "ReleaseFreeMemory",
    "ReleaseToSystem",
    "ReleaseMemoryToSystem",
    "mallctl",
    "mi_collect",
    "mi_heap_collect",
];

/// Whether a program calls this function to have memory given back. `_rjem_mallctl` is `mallctl` with
/// a prefix, and C++ has the class before a function and the types behind.
pub(crate) fn is_asked(function: &str) -> bool {
    let name = function.split(['(', '@', ' ']).next().unwrap_or_default();
    let name = name.rsplit("::").next().unwrap_or(name);
    RELEASE_FUNCTIONS.iter().any(|ask| name.ends_with(ask))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that calls for memory to be given back are known in each language's form, and that an allocator's own work is not
    /// taken for one.
    #[test]
    fn what_is_asked_for() {
        for asked in [
            "malloc_trim",
            "__malloc_trim",
            "_rjem_mallctl",
            "MallocExtension_ReleaseFreeMemory",
            "TCMallocImplementation::ReleaseToSystem(unsigned long)",
            "mi_collect",
        ] {
            assert!(is_asked(asked), "{asked}");
        }
        for own in [
            "free",
            "",
            "systrim",
            "tcmalloc::PageHeap::ReleaseSpan(tcmalloc::Span*)",
        ] {
            assert!(!is_asked(own), "{own}");
        }
    }
}
