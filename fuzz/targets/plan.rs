//! Plans that somebody edited, and strings that may be a version.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = quell_remedy::Version::parse_leading(bytes);
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(plan) = quell_remedy::Plan::from_toml(text) {
        // what was read is written so that it is read again
        let again = quell_remedy::Plan::from_toml(&plan.to_toml()).expect("its own text");
        assert_eq!(again.to_toml(), plan.to_toml());
    }
});
