//! A foreign ELF file: everything that recognising an allocator asks of it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quell_host::elf::ElfFile;

fuzz_target!(|bytes: &[u8]| {
    let Ok(file) = ElfFile::from_bytes(bytes.to_vec()) else { return };
    let _ = (file.machine(), file.is_library(), file.dynamic(), file.interpreter(), file.build_id());
    let _ = file.section_contents(".gnu_debuglink");
    let _ = file.symbols(|name| name.starts_with(b"je_"));
    let _ = file.bytes_at(0x1000, 64);
    let _ = (file.find_strings(b"jemalloc", 8), file.has_string(b"mi_"));
});
