//! Tests of recognition on made files: a header, one segment, and the constants of an allocator.

use super::*;
use crate::{SoftwareKind, Version};
use proptest::prelude::*;

/// The smallest ELF program: one loaded segment with these constants, no sections, no symbols.
fn program(constants: &[u8]) -> Vec<u8> {
    let total = 64 + 56 + constants.len() as u64;
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0\x01\0\0\0".to_vec();
    for word in [0x40_0000u64, 64, 0] {
        file.extend(word.to_le_bytes());
    }
    file.extend(0u32.to_le_bytes());
    for half in [64u16, 56, 1, 64, 0, 0] {
        file.extend(half.to_le_bytes());
    }
    file.extend(b"\x01\0\0\0\x04\0\0\0");
    for word in [0, 0x40_0000, 0x40_0000, total, total, 4096] {
        file.extend(word.to_le_bytes());
    }
    file.extend(constants);
    file
}

fn found_in(constants: &[u8]) -> Vec<FoundSoftware> {
    let elf = ElfFile::from_bytes(program(constants)).unwrap();
    let facts = Facts::new(&elf, Path::new("/opt/app"));
    ALL_RECOGNISERS
        .iter()
        .filter_map(|recognise| recognise(&facts))
        .collect()
}

fn only(constants: &[u8]) -> FoundSoftware {
    let mut found = found_in(constants);
    assert_eq!(found.len(), 1, "{found:#?}");
    found.remove(0)
}

const REDIS: &[u8] =
    b"\0<jemalloc>: Error in %s\n\0value of the environment variable MALLOC_CONF\0JE_MALLOC_CONF\0\
    opt.dirty_decay_ms\0opt.metadata_thp\0opt.oversize_threshold\x005.2.1-0-g0\0";

/// Check jemalloc as Redis bundles it: the `je_` name, and a version with a cut hash.
#[test]
fn jemalloc_of_redis() {
    let found = only(REDIS);
    assert_eq!(
        (found.kind, found.version),
        (SoftwareKind::Jemalloc, Some(Version::exact(5, 2, 1)))
    );
    assert_eq!(found.conf_env.as_deref(), Some("JE_MALLOC_CONF"));
    assert_eq!(found.prefix.as_deref(), Some("je_"));
    assert_eq!(found.linking, Linking::Static);
}

/// Check that a linker that keeps MALLOC_CONF only as the tail of a message hides nothing, and that a
/// build without a version is dated by its options.
#[test]
fn jemalloc_by_options() {
    let with = |options: &str| {
        let head = "\0<jemalloc>: Invalid\0the environment variable MALLOC_CONF\x000.0.0-0-g0000\0";
        only(format!("{head}opt.lg_dirty_mult\0{options}\0").as_bytes())
    };
    let cases = [
        ("x", Version::range((3, 0, 0), (4, 0, 4))),
        ("opt.decay_time", Version::range((4, 1, 0), (4, 5, 0))),
        ("dirty_decay_ms", Version::range((5, 0, 0), (5, 0, 1))),
        ("dirty_decay_ms\0metadata_thp", Version::exact(5, 1, 0)),
        (
            "dirty_decay_ms\0oversize_threshold",
            Version::range((5, 2, 0), (5, 2, 1)),
        ),
        (
            "dirty_decay_ms\0hpa_slab_max_alloc",
            Version::exact(5, 3, 0),
        ),
        (
            "dirty_decay_ms\0calloc_madvise_threshold",
            Version {
                from: (5, 3, 1),
                to: None,
            },
        ),
    ];
    for (options, version) in cases {
        let found = with(options);
        assert_eq!(found.version, Some(version), "{options}");
        assert_eq!(found.conf_env.as_deref(), Some("MALLOC_CONF"));
    }
}

/// Check that settings that were compiled in are read, and prose with colons is not taken for them.
#[test]
fn jemalloc_built_in() {
    let with = |conf: &str| only(&[REDIS, conf.as_bytes(), b"\0"].concat()).built_in;
    assert_eq!(
        with("background_thread:true,dirty_decay_ms:500").as_deref(),
        Some("background_thread:true,dirty_decay_ms:500")
    );
    assert_eq!(with("dirty_decay_ms: the time"), None);
}

/// Check mimalloc's lines by their options, where no symbol is left; the first releases had few.
#[test]
fn mimalloc_by_options() {
    let with = |options: &str| {
        let text = format!(
            "\0environment option mimalloc_%s has an invalid value.\n\0mimalloc: \0show_errors\0show_stats\0{options}\0"
        );
        only(text.as_bytes()).version
    };
    assert_eq!(
        with("page_reset"),
        Some(Version::range((1, 0, 0), (1, 2, 2)))
    );
    assert_eq!(
        with("abandoned_page_reset\0eager_commit_delay\0reset_delay"),
        Some(Version::range((1, 3, 0), (1, 8, 1)))
    );
    assert_eq!(
        with("page_reset\0reset_delay\0allow_decommit"),
        Some(Version::range((2, 0, 0), (2, 1, 1)))
    );
    assert_eq!(
        with("reset_delay\0purge_delay"),
        Some(Version::range((1, 8, 2), (2, 99, 99)))
    );
    assert_eq!(
        with("purge_delay\0pagemap_commit"),
        Some(Version {
            from: (3, 0, 0),
            to: None
        })
    );
}

/// Check google/tcmalloc inside a stripped program, by both of its names.
#[test]
fn google_stripped() {
    let text = b"\0tcmalloc.per_cpu_caches_active\0tcmalloc.cpu_free\0";
    let found = only(text);
    assert_eq!(
        (found.kind, found.linking, found.version),
        (SoftwareKind::GoogleTcmalloc, Linking::Static, None)
    );
    assert!(found_in(b"\0tcmalloc.cpu_free\0tcmalloc.other\0").is_empty());
}

/// Check gperftools inside a program, and two allocators in one file.
#[test]
fn several() {
    let gperf =
        b"\0TCMALLOC_RELEASE_RATE\0tcmalloc.max_total_thread_cache_bytes\0gperftools 2.15\0";
    assert_eq!(only(gperf).version, Some(Version::exact(2, 15, 0)));
    let both = [&gperf[..], REDIS].concat();
    let kinds: Vec<SoftwareKind> = found_in(&both).iter().map(|f| f.kind).collect();
    assert_eq!(kinds, [SoftwareKind::Jemalloc, SoftwareKind::Gperftools]);
}

/// Check that the words alone are not enough: a program that talks about allocators holds none. (That
/// quell does not take itself for one is checked in tests/real_files.rs: this file holds fixtures.)
#[test]
fn talk_is_not_an_allocator() {
    let talk =
        b"\0set MALLOC_CONF=dirty_decay_ms:-1 for jemalloc\0<jemalloc>: is how it complains\0\
        mimalloc: MIMALLOC_PURGE_DELAY\0TCMALLOC_RELEASE_RATE for gperftools 2.10\0musl libc (\0";
    let kinds: Vec<SoftwareKind> = found_in(talk).iter().map(|f| f.kind).collect();
    assert_eq!(kinds, []);
}

/// Check google/tcmalloc by its functions, in a program built here.
#[test]
#[allow(clippy::print_stderr)]
fn recognise_google() {
    let dir = tempfile::tempdir().unwrap();
    let (input, output) = (dir.path().join("g.c"), dir.path().join("g"));
    let names = ["SetMemoryLimit", "GetStats", "ReleaseMemoryToSystem"];
    let body: String = names
        .iter()
        .map(|n| format!("void MallocExtension_Internal_{n}(void){{}}\n"))
        .collect();
    std::fs::write(&input, format!("{body}int main(){{return 0;}}")).unwrap();
    let done = std::process::Command::new("cc")
        .arg("-o")
        .arg(&output)
        .arg(&input)
        .status();
    if !done.is_ok_and(|s| s.success()) {
        eprintln!("SKIPPED: no C compiler");
        return;
    }
    let found = recognise_file(&output).unwrap();
    assert_eq!(
        found.iter().map(|f| f.kind).collect::<Vec<_>>(),
        [SoftwareKind::GoogleTcmalloc]
    );
}

proptest! {
    /// Check that no constants, whole or mixed with an allocator's, make a recogniser panic.
    #[test]
    fn any_constants(bytes in proptest::collection::vec(any::<u8>(), 0..300), cut in 0..REDIS.len()) {
        let _ = found_in(&bytes);
        let mixed = [&REDIS[..cut], &bytes, &REDIS[cut..]].concat();
        let _ = found_in(&mixed);
    }

    /// Check that a file cut or changed anywhere is an error or less, never a panic.
    #[test]
    fn damaged(at in 0usize..400, byte: u8, cut in 0usize..400) {
        let mut file = program(REDIS);
        let size = file.len();
        file[at % size] = byte;
        file.truncate(cut.max(1));
        if let Ok(elf) = ElfFile::from_bytes(file) {
            let facts = Facts::new(&elf, Path::new("/x"));
            let _ = ALL_RECOGNISERS.iter().filter_map(|recognise| recognise(&facts)).count();
        }
    }
}
