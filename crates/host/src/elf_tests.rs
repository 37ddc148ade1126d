//! Tests of the ELF reader: on this machine's own files, and on damaged ones.

use super::*;
use proptest::prelude::*;

/// The smallest file worth reading: a header, one PT_LOAD over everything, some text.
fn tiny(text: &[u8]) -> Vec<u8> {
    let total = 64 + 56 + text.len() as u64;
    let mut file = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let half = |v: u16, f: &mut Vec<u8>| f.extend(v.to_le_bytes());
    half(2, &mut file); // ET_EXEC
    half(62, &mut file);
    file.extend(1u32.to_le_bytes());
    for word in [0x40_0000u64, 64, 0] {
        file.extend(word.to_le_bytes()); // entry, program headers, no sections
    }
    file.extend(0u32.to_le_bytes());
    for v in [64, 56, 1, 64, 0, 0] {
        half(v, &mut file);
    }
    file.extend(1u32.to_le_bytes()); // PT_LOAD
    file.extend(4u32.to_le_bytes());
    for word in [0, 0x40_0000, 0x40_0000, total, total, 4096] {
        file.extend(word.to_le_bytes());
    }
    file.extend(text);
    file
}

/// Check that a file without sections is searched, and that strings end at NULs.
#[test]
fn no_sections() {
    let elf = ElfFile::from_bytes(tiny(b"\0one\0prefix_two suffix\0two\0")).unwrap();
    assert_eq!(
        elf.find_strings(b"two", 9),
        [&b"prefix_two suffix"[..], b"two"]
    );
    assert_eq!(elf.find_strings(b"\0two\0", 9), [&b"two"[..]]);
    assert_eq!(elf.find_strings(b"two", 1).len(), 1);
    assert!(elf.has_string(b"one\0") && !elf.has_string(b"three"));
    assert!(!elf.is_library() && elf.interpreter().is_none() && elf.build_id().is_none());
    assert_eq!(elf.bytes_at(0x40_0000, 4), Some(&b"\x7fELF"[..]));
    assert_eq!(elf.bytes_at(0x50_0000, 4), None);
    assert_eq!(elf.dynamic(), &Dynamic::default());
}

/// Check that this test program is read: its libraries, its build id, and a symbol of its own.
#[test]
fn own_file() {
    let elf = ElfFile::open(&std::env::current_exe().unwrap()).unwrap();
    assert!(
        elf.dynamic()
            .needed
            .iter()
            .any(|n| n.starts_with("libc.so")),
        "{:?}",
        elf.dynamic()
    );
    assert!(elf.interpreter().is_some_and(|i| i.starts_with("/lib")));
    assert!(!elf.is_library());
    let main = elf.symbols(|n| n == b"main");
    assert_eq!(main.len(), 1);
    assert!(
        elf.bytes_at(main[0].address, 8)
            .is_some_and(|b| b.len() == 8)
    );
    assert!(elf.has_string(b"a string that only this test holds"));
}

/// Check that other files are refused with a reason: no ELF, 32-bit, empty, a folder, missing.
#[test]
fn refuses() {
    let why = |bytes: &[u8]| format!("{:#}", ElfFile::from_bytes(bytes.to_vec()).unwrap_err());
    assert_eq!(why(b""), "not an ELF file");
    assert_eq!(why(b"#!/bin/sh\n"), "not an ELF file");
    assert!(why(b"\x7fELF\x01").contains("32-bit"));
    assert!(why(b"\x7fELF\x02\x01").contains("damaged"));
    let dir = tempfile::tempdir().unwrap();
    let open = |path: &Path| format!("{:#}", ElfFile::open(path).unwrap_err());
    assert!(open(dir.path()).contains("not a regular file"));
    let missing = open(&dir.path().join("none"));
    assert!(
        missing.contains("none") && missing.contains("No such file"),
        "{missing}"
    );
    let empty = dir.path().join("empty");
    std::fs::write(&empty, b"").unwrap();
    assert!(open(&empty).contains("opening"));
}

fn everything(elf: &ElfFile) {
    let _ = (
        elf.interpreter(),
        elf.build_id(),
        elf.is_library(),
        elf.machine(),
        elf.dynamic(),
    );
    let _ = elf.symbols(|n| n.starts_with(b"m"));
    let _ = elf.find_strings(b"e", 50);
    let _ = elf.section_contents(".go.buildinfo");
    let _ = elf.bytes_at(0x1000, 100);
    let _ = elf.bytes_at(u64::MAX, usize::MAX);
}

/// A real file that is small, so that damage hits something.
fn small_real() -> Vec<u8> {
    let all = [
        "/lib/x86_64-linux-gnu/libdl.so.2",
        "/lib64/libdl.so.2",
        "/usr/bin/true",
    ];
    all.iter()
        .find_map(|p| std::fs::read(p).ok())
        .unwrap_or_else(|| tiny(b"\0text\0"))
}

proptest! {
    /// Check that arbitrary bytes behind an ELF magic never panic.
    #[test]
    fn arbitrary(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        let mut file = vec![0x7f, b'E', b'L', b'F', 2, 1];
        file.extend(bytes);
        if let Ok(elf) = ElfFile::from_bytes(file) {
            everything(&elf);
        }
    }

    /// Check that a real file cut anywhere, with words changed anywhere, never panics.
    #[test]
    fn damaged(
        cut in 0.0..1.0f64,
        early in proptest::collection::vec((0usize..1024, any::<u8>()), 0..12),
        anywhere in proptest::collection::vec((0.0..1.0f64, any::<u8>()), 0..40),
    ) {
        let mut file = small_real();
        let size = file.len();
        for (at, byte) in early {
            file[at % size] = byte;
        }
        for (at, byte) in anywhere {
            file[(at * size as f64) as usize] = byte;
        }
        file.truncate((cut * size as f64) as usize);
        if let Ok(elf) = ElfFile::from_bytes(file.clone()) {
            everything(&elf);
        }
    }
}
