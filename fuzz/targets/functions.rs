//! A foreign ELF file: everything that naming code asks of it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quell_host::functions::{self, Table};

fuzz_target!(|bytes: &[u8]| {
    let addresses = [0, 0x1000, 0x1139, 0x40_1000, u64::MAX];
    let _ = functions::build_id(bytes);
    for address in addresses {
        let _ = functions::linked_address(bytes, address);
    }
    for name in [".gnu_debuglink", ".gnu_debugdata", ".gopclntab"] {
        let _ = (functions::section_contents(bytes, name), functions::section_address(bytes, name));
    }
    for table in [Table::Full, Table::Exported] {
        let _ = functions::names_at(bytes, table, &addresses);
    }
});
