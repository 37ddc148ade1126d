//! Calls of a program, by the bytes, through the preload library over a model of Linux: whatever they
//! are, the program must see what Linux promises.
#![no_main]
#![allow(dead_code, unreachable_pub, missing_docs)]

#[path = "../../crates/shim/tests/model/mod.rs"]
mod model;

use libfuzzer_sys::fuzz_target;
use model::{Setup, World};

fuzz_target!(|data: &[u8]| {
    let Some((&[places, cache, keep, refuse, threads, flags, unseen], bytes)) = data.split_first_chunk() else {
        return;
    };
    // Longer ones show nothing that a shorter one does not.
    let bytes = &bytes[..bytes.len().min(4096)];
    let setup = Setup {
        places: 3 + usize::from(places % 80),
        cache: usize::from(cache % 64),
        keep: usize::from(keep % 64),
        refuse: if flags & 1 != 0 { refuse % 64 } else { 0 },
        threads: if flags & 2 != 0 { threads % 96 } else { 0 },
        resident: if flags & 64 != 0 { 1 + usize::from(keep % 96) } else { 0 },
        bound: if flags & 128 != 0 { 1 + 8 * usize::from(refuse) } else { 0 },
        hint: if flags & 24 == 8 { usize::from(places % 9) } else { 0 },
        batch: flags & 4 == 0,
        strict: flags & 56 == 56,
        unseen: unseen % 2 == 1,
        least: 1 + usize::from(unseen / 2 % 5),
        firm: usize::from(unseen / 16) * 4,
    };
    World::new(setup, bytes).run();
});
