//! A foreign /proc/kallsyms, and a foreign status of a process.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = quell_host::kallsyms::is_hidden(bytes);
    let _ = quell_host::kallsyms::address_of(bytes, "flush_tlb_func");
    let _ = quell_host::status::parse_status(bytes);
});
