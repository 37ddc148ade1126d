use std::process::Command;

use proptest::prelude::*;

use super::*;

/// Builds C with these flags, or says loudly that it can't.
fn build(test: &str, source: &str, flags: &[&str]) -> Option<Vec<u8>> {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("a.c"), dir.path().join("a.out"));
    std::fs::write(&from, source).unwrap();
    match Command::new("cc")
        .args(flags)
        .arg("-o")
        .arg(&to)
        .arg(&from)
        .status()
    {
        Ok(status) => {
            assert!(status.success(), "cc builds the program of {test}");
            Some(std::fs::read(to).unwrap())
        }
        Err(error) => {
            eprintln!("SKIPPED {test}: no cc: {error}");
            None
        }
    }
}

const SOURCE: &str = "
    static __attribute__((noinline)) int inner(int x) { return x * 3 + 1; }
    __attribute__((noinline)) int outer(int x) { return inner(x) + 1; }
    int alias(int) __attribute__((alias(\"outer\")));
    int __modest(int) __attribute__((alias(\"outer\")));
    __asm__(\".text\\nlabel:\\n nop\\n nop\\n ret\\n\");
    int main(int argc, char **argv) { (void)argv; return outer(argc); }
";

/// The linked address of a symbol, by another reader.
fn address_of(data: &[u8], name: &str) -> u64 {
    use object::read::elf::ElfFile64;
    use object::{Object as _, ObjectSymbol as _};
    let file = ElfFile64::<Endianness>::parse(data).unwrap();
    let symbol = file.symbols().find(|s| s.name() == Ok(name)).unwrap();
    symbol.address()
}

/// Check that functions, static ones, aliases and labels without a size are named, and nothing else is.
#[test]
fn functions_are_named() {
    let Some(data) = build("functions_are_named", SOURCE, &["-O1"]) else {
        return;
    };
    let name = |at: u64| names_at(&data[..], Table::Full, &[at]).unwrap()[0].clone();
    let outer = address_of(&data, "outer");
    assert_eq!(name(address_of(&data, "inner")).as_deref(), Some("inner"));
    assert_eq!(name(address_of(&data, "main") + 3).as_deref(), Some("main"));
    // of three names for it the shortest without underscores
    assert_eq!(name(outer + 1).as_deref(), Some("alias"));
    assert_eq!(
        name(address_of(&data, "label") + 1).as_deref(),
        Some("label")
    );
    assert_eq!(name(0), None);
    assert_eq!(name(u64::MAX), None);
}

/// Check that all places asked for at once get the names that each gets alone.
#[test]
fn many_are_as_one() {
    let Some(data) = build("many_are_as_one", SOURCE, &["-O1"]) else {
        return;
    };
    let start = address_of(&data, "_init");
    let all: Vec<u64> = (start.saturating_sub(64)..start + 0x400).collect();
    let together = names_at(&data[..], Table::Full, &all).unwrap();
    for (at, name) in all.iter().zip(&together) {
        assert_eq!(
            &names_at(&data[..], Table::Full, &[*at]).unwrap()[0],
            name,
            "{at:#x}"
        );
    }
    assert!(together.iter().any(|n| n.as_deref() == Some("main")));
}

/// Check that a stripped program says that its table is gone, and a library keeps its exports.
#[test]
fn stripped_files_say_so() {
    let Some(data) = build("stripped_files_say_so", SOURCE, &["-O1", "-s"]) else {
        return;
    };
    assert_eq!(names_at(&data[..], Table::Full, &[0x1000]), None);
    let library = build("", SOURCE, &["-O1", "-s", "-shared", "-fPIC"]).unwrap();
    let whole = build("", SOURCE, &["-O1", "-shared", "-fPIC"]).unwrap();
    let (outer, inner) = (address_of(&whole, "outer"), address_of(&whole, "inner"));
    let name = |at| names_at(&library[..], Table::Exported, &[at]).unwrap()[0].clone();
    assert_eq!(name(outer).as_deref(), Some("alias"));
    assert_eq!(name(inner), None);
}

/// Check that an offset becomes the linked address, and one outside of code none.
#[test]
fn offsets_become_addresses() {
    let Some(data) = build("offsets_become_addresses", SOURCE, &["-O1", "-no-pie"]) else {
        return;
    };
    let main = address_of(&data, "main");
    // as ld lays a program out: addresses are offsets, moved as a whole
    let offset = main & 0xfffff;
    assert_eq!(linked_address(&data[..], offset), Some(main));
    assert_eq!(linked_address(&data[..], 0), None);
    assert_eq!(linked_address(&data[..], u64::MAX), None);
    assert_eq!(build_id(&data[..]).map(|id| id.len()), Some(40));
}

/// Check that a program of 32 bits is read as well.
#[test]
fn small_ones_too() {
    let test = "small_ones_too";
    let flags = ["-m32", "-nostdlib", "-static", "-O1"];
    let dir = tempfile::tempdir().unwrap();
    let from = dir.path().join("a.c");
    std::fs::write(&from, "void _start(void) { for (;;) ; }").unwrap();
    let to = dir.path().join("a.out");
    let built = Command::new("cc")
        .args(flags)
        .arg("-o")
        .arg(&to)
        .arg(&from)
        .output();
    if !built.is_ok_and(|o| o.status.success()) {
        eprintln!("SKIPPED {test}: no cc that builds for 32 bits");
        return;
    }
    let data = std::fs::read(to).unwrap();
    let at = linked_address(&data[..], 0x1000).unwrap();
    let names = names_at(&data[..], Table::Full, &[at]).unwrap();
    assert_eq!(names[0].as_deref(), Some("_start"));
}

/// A file with one section of code from 0x1000 to 0x2000, and a table of symbols (name, start, size).
fn with_symbols(symbols: impl Iterator<Item = (u32, u64, u64)>, strings: &[u8]) -> Vec<u8> {
    const HEADERS: usize = 64;
    let mut table = Vec::new();
    for (name, start, size) in symbols {
        table.extend(name.to_le_bytes());
        table.extend([2, 0, 1, 0]); // STT_FUNC, local, in the first section
        table.extend(start.to_le_bytes());
        table.extend(size.to_le_bytes());
    }
    let (symbols_at, names_at) = (HEADERS + 4 * 64, HEADERS + 4 * 64 + table.len());
    // type, flags, address, offset, size, link, size of an entry
    let sections = [
        [0; 7],
        [1, 6, 0x1000, 0, 0x1000, 0, 0],
        [2, 0, 0, symbols_at, table.len(), 3, 24],
        [3, 0, 0, names_at, strings.len(), 0, 0],
    ];
    let mut file = vec![0x7f, b'E', b'L', b'F', 2, 1, 1];
    file.resize(HEADERS, 0);
    file[40] = HEADERS as u8; // e_shoff
    (file[58], file[60], file[62]) = (64, 4, 3); // e_shentsize, e_shnum, e_shstrndx
    for [kind, flags, address, offset, size, link, entry] in sections {
        file.extend([0; 4]);
        file.extend((kind as u32).to_le_bytes());
        for field in [flags, address, offset, size] {
            file.extend(field.to_le_bytes());
        }
        file.extend((link as u32).to_le_bytes());
        file.extend([0; 12]);
        file.extend(entry.to_le_bytes());
    }
    file.extend(table);
    file.extend(strings);
    file
}

/// Check that names end where they should, and one that nothing ends is none.
#[test]
fn names_end() {
    let strings = [b"\0one\0".as_slice(), &[b'x'; MAX_NAME_BYTES - 2]].concat();
    let symbols = [
        (1, 0x1000, 16),
        (5, 0x1010, 16),
        (9999, 0x1020, 16),
        (u32::MAX, 0x1030, 16),
    ];
    let file = with_symbols(symbols.into_iter(), &strings);
    let names = names_at(&file[..], Table::Full, &[0x1001, 0x1011, 0x1021, 0x1031]).unwrap();
    assert_eq!(names, [Some("one".to_owned()), None, None, None]);
    let longer = [strings, vec![b'x'; 3]].concat();
    let file = with_symbols(symbols.into_iter(), &longer);
    let names = names_at(&file[..], Table::Full, &[0x1011]).unwrap();
    assert_eq!(names[0].as_ref().map(String::len), Some(MAX_NAME_BYTES));
}

/// Check that a table made to cost time costs little: a million symbols for each of a thousand places,
/// and each with a name of megabytes. All of it would take days.
#[test]
fn hostile_tables_cost_little() {
    let mut strings = vec![b'_'; 16 << 20];
    strings.push(0);
    let symbols = (0..1 << 20).map(|n| (n, 0x1000, 0x1000));
    let file = with_symbols(symbols, &strings);
    for count in [1, 1000] {
        let places: Vec<u64> = (0x1000..0x1000 + count).collect();
        let start = std::time::Instant::now();
        let names = names_at(&file[..], Table::Full, &places).unwrap();
        assert!(start.elapsed().as_secs() < 60);
        assert_eq!(names[0].as_ref().map(String::len), Some(MAX_NAME_BYTES));
    }
    // labels without a size
    let file = with_symbols((0..1 << 20).map(|n| (n, 0x1000, 0)), &strings);
    let start = std::time::Instant::now();
    assert!(names_at(&file[..], Table::Full, &[0x1000]).unwrap()[0].is_some());
    assert!(start.elapsed().as_secs() < 60);
}

proptest! {
    /// Check that no bytes make the reader panic.
    #[test]
    fn any_bytes(tail in proptest::collection::vec(any::<u8>(), 0..600), wide: bool, at: u64) {
        let mut data = vec![0x7f, b'E', b'L', b'F', if wide { 2 } else { 1 }, 1, 1];
        data.extend(tail);
        let _ = build_id(&data[..]);
        let _ = linked_address(&data[..], at);
        let _ = section_contents(&data[..], ".text");
        for table in [Table::Full, Table::Exported] {
            let _ = names_at(&data[..], table, &[0, at]);
        }
    }
}

/// Check that a real program with bytes changed anywhere in its headers and tables is read without panic.
#[test]
fn damaged() {
    let Some(data) = build("damaged", SOURCE, &["-O1"]) else {
        return;
    };
    let mut seed = 1u64;
    let mut next = move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) as usize
    };
    for _ in 0..300 {
        let mut bad = data.clone();
        for _ in 0..20 {
            // the section headers and the symbol tables are at the end
            let at = if next() % 4 == 0 {
                next() % 1024
            } else {
                bad.len() - 1 - next() % 4096
            };
            bad[at] = next() as u8;
        }
        let addresses: Vec<u64> = (0x1000..0x1400).collect();
        let _ = build_id(&bad[..]);
        let _ = linked_address(&bad[..], 0x1000);
        for table in [Table::Full, Table::Exported] {
            let _ = names_at(&bad[..], table, &addresses);
        }
    }
}
