//! The library against a model of Linux, by random calls.
#![allow(clippy::unwrap_used, missing_docs, unreachable_pub, reason = "a test")]

mod model;

use model::{Setup, World};
use proptest::prelude::*;

/// Few under Miri, which is a thousand times slower; more if `PROPTEST_CASES` says so.
fn config() -> ProptestConfig {
    let most = if cfg!(miri) { 6 } else { 400 };
    let wanted = std::env::var("PROPTEST_CASES").ok();
    ProptestConfig {
        cases: wanted.and_then(|n| n.parse().ok()).unwrap_or(most),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// On one line where a test fails.
struct Bytes(Vec<u8>);

impl std::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

fn bytes() -> impl Strategy<Value = Bytes> {
    let most = if cfg!(miri) { 100 } else { 1500 };
    proptest::collection::vec(any::<u8>(), 0..most).prop_map(Bytes)
}

proptest! {
    #![proptest_config(config())]

    /// Check that any calls of one thread do what Linux promises: what they return, what is in memory,
    /// and that nothing is left over.
    #[test]
    fn alone(bytes in bytes(), places in 3..80usize, cache in 0..60usize, keep in 0..64usize, hint in 0..5usize, firm in 0..60usize) {
        World::new(Setup { places, cache, keep, hint, firm, ..Setup::default() }, &bytes.0).run();
    }

    /// Check the same where another thread runs at any call of the kernel's.
    #[test]
    fn threads(bytes in bytes(), places in 3..80usize, cache in 0..60usize, threads in 1..90u8, hint in 0..5usize, least in 1..6usize, firm in 0..60usize) {
        World::new(Setup { places, cache, threads, hint, least, firm, ..Setup::default() }, &bytes.0).run();
    }

    /// Check the same where the kernel refuses calls and does batches in part.
    #[test]
    fn refused(bytes in bytes(), places in 3..80usize, refuse in 1..90u8, batch: bool, firm in 0..30usize) {
        World::new(Setup { places, refuse, batch, firm, ..Setup::default() }, &bytes.0).run();
    }

    /// Check the same where the bound is the memory of the process.
    #[test]
    fn bounded(bytes in bytes(), places in 3..80usize, resident in 1..90usize, threads in 0..90u8) {
        World::new(Setup { places, cache: 60, resident, threads, ..Setup::default() }, &bytes.0).run();
    }

    /// Check the same where the program also does what the library does not see: by system calls of its own, by devices
    /// and by other processes.
    #[test]
    fn unseen(bytes in bytes(), places in 3..80usize, cache in 0..60usize, threads in 0..90u8, refuse in 0..40u8, batch: bool, least in 1..6usize, firm in 0..60usize) {
        let threads = threads.saturating_sub(45);
        let refuse = refuse.saturating_sub(20);
        World::new(Setup { places, cache, threads, refuse, batch, least, firm, unseen: true, ..Setup::default() }, &bytes.0).run();
    }

    /// Check the same where what is mapped is counted, and that nothing is kept then.
    #[test]
    fn counted(bytes in bytes(), places in 3..80usize, bound in 1..600usize, threads in 0..90u8) {
        // Half of them with one thread: what another leaves is not looked at.
        let threads = threads.saturating_sub(45);
        World::new(Setup { places, bound, threads, ..Setup::default() }, &bytes.0).run();
    }

    /// Check the same with all of it at once, and in the strict mode.
    #[test]
    fn all(bytes in bytes(), places in 3..80usize, refuse in 0..40u8, threads in 0..90u8, strict: bool, firm in 0..30usize) {
        World::new(Setup { places, refuse, threads, strict, firm, ..Setup::default() }, &bytes.0).run();
    }
}
