//! A foreign memory map, as a process may name its mappings to look.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quell_host::maps;

fuzz_target!(|bytes: &[u8]| {
    let mappings = maps::parse_maps(bytes);
    let _ = maps::executable_files(&mappings);
    for mapping in &mappings {
        let _ = (mapping.is_file(), mapping.map_file_name(), maps::mapping_at(&mappings, mapping.start));
    }
});
