//! A foreign perf map: anybody may put one into /tmp.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let addresses = [0, 0x1000, 0x7f00_0000_1000, u64::MAX];
    let _ = quell_host::perf_map::find_function_names(bytes, &addresses);
});
