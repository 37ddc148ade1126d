//! The expected effect of each remedy, by asker and cause: a table for questions over many programs at once.
//!
//! It says nothing that a plan does not say: each row is the plan for a program that makes only such shootdowns.

use std::path::PathBuf;

use quell_event::Cause;

use crate::choose::{PlanOptions, choose_remedies};
use crate::evidence::is_thread_end;
use crate::owner::{Owner, owner_of};
use crate::{Evidence, FoundSoftware, ShootdownSource, SoftwareKind, by_name};

/// The asker's name where it is the program itself.
pub const OWN_CALLS: &str = "own calls";
/// The asker's name where it is a thread that ends.
pub const ENDING_THREADS: &str = "ending threads";
/// The asker's name where it is not known.
pub const UNKNOWN_ASKER: &str = "";

/// Enough for a plan.
const PLAN_SHOOTDOWNS: u64 = 1_000;

/// The share that a remedy is expected to stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedStop {
    /// The name of an allocator or runtime, [`OWN_CALLS`], [`ENDING_THREADS`] or [`UNKNOWN_ASKER`].
    pub asker: &'static str,
    /// Why.
    pub cause: Cause,
    /// The remedy.
    pub remedy: String,
    /// The share that it is expected to stop, in thousandths.
    pub permille: u32,
}

/// An asker's name, the software that a plan would find, and the file and function that call for the shootdown, where they are known.
type UsualAsker = (
    &'static str,
    Vec<FoundSoftware>,
    Option<(PathBuf, &'static str)>,
);

/// One asker of each kind. `free` is malloc's own function in the C library; with all others the file decides. `/program` is a
/// file in which no allocator was found.
fn usual_askers() -> Vec<UsualAsker> {
    let libc = by_name::usual_version(SoftwareKind::Glibc);
    let kind = |kind: &SoftwareKind| {
        let found = by_name::usual_version(*kind);
        let caller = (found.module.clone(), "free");
        (kind.name(), vec![found], Some(caller))
    };
    let own = |name, symbol| {
        let caller = (PathBuf::from("/program"), symbol);
        (name, vec![libc.clone()], Some(caller))
    };
    let mut all: Vec<UsualAsker> = SoftwareKind::ALLOCATORS.iter().map(kind).collect();
    all.extend([
        own(OWN_CALLS, "work"),
        own(ENDING_THREADS, "start_thread"),
        (UNKNOWN_ASKER, Vec::new(), None),
    ]);
    all
}

/// All rows: of each asker and cause the remedy that stops most, where there is one. The plans behind them know neither memory
/// nor page faults nor CPUs, so that no budget bounds them.
#[must_use]
pub fn table() -> Vec<ExpectedStop> {
    let mut rows = Vec::new();
    for (asker, found, caller) in usual_askers() {
        let (module, symbol) = caller.unzip();
        for cause in Cause::ALL {
            let source = ShootdownSource {
                cause,
                caller_module: module.clone(),
                caller_symbol: symbol.map(str::to_owned),
                region: None,
                shootdowns: PLAN_SHOOTDOWNS,
            };
            let evidence = Evidence {
                shootdowns: PLAN_SHOOTDOWNS,
                sources: vec![source],
                ..Evidence::default()
            };
            let options = PlanOptions {
                preload: true,
                ..PlanOptions::default()
            };
            let plan = choose_remedies(&found, &evidence, &options, &|_| None).plan;
            let most = plan
                .remedies
                .into_iter()
                .max_by(|a, b| a.predicted_stop.total_cmp(&b.predicted_stop));
            if let Some(most) = most.filter(|m| m.predicted_stop > 0.0) {
                rows.push(ExpectedStop {
                    asker,
                    cause,
                    remedy: most.remedy,
                    permille: (most.predicted_stop * 1000.0).round() as u32,
                });
            }
        }
    }
    rows
}

/// The asker of a source, by the table's name: from the stack, or else the most likely one.
#[must_use]
pub fn asker(found: &[FoundSoftware], source: &ShootdownSource) -> &'static str {
    if is_thread_end(source) {
        return ENDING_THREADS;
    }
    match owner_of(found, source, &std::collections::BTreeMap::new()) {
        Owner::Allocator(index, _) => found.get(index).map_or(UNKNOWN_ASKER, |f| f.kind.name()),
        Owner::Program(..) => OWN_CALLS,
        Owner::Unknown => UNKNOWN_ASKER,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(asker: &str, cause: Cause) -> Option<(String, u32)> {
        let row = table()
            .into_iter()
            .find(|r| r.asker == asker && r.cause == cause);
        row.map(|r| (r.remedy, r.permille))
    }

    /// Check that the table agrees with plans: settings of allocators, the library for a program's own calls, settings of the
    /// process for the kernel's work, and nothing where no remedy helps.
    #[test]
    fn as_plans_say() {
        let row = |remedy: &str, permille| Some((remedy.to_owned(), permille));
        assert_eq!(
            of("jemalloc", Cause::MadviseDontneed),
            row("jemalloc.decay", 950)
        );
        assert_eq!(of("glibc malloc", Cause::Munmap), row("glibc.keep", 970));
        assert_eq!(
            of("mimalloc", Cause::MadviseDontneed),
            row("mimalloc.purge", 970)
        );
        assert_eq!(
            of("Go runtime", Cause::MadviseDontneed),
            row("go.gogc", 930)
        );
        assert_eq!(
            of(UNKNOWN_ASKER, Cause::MigrateNuma),
            row("numa.local", 900)
        );
        assert_eq!(of("jemalloc", Cause::ThpCollapse), row("thp.never", 900));
        assert_eq!(of("jemalloc", Cause::Reclaim), None);
        assert_eq!(of("musl malloc", Cause::MadviseDontneed), None);
        assert!(of(OWN_CALLS, Cause::Munmap).is_some_and(|(remedy, _)| remedy == "shim.cache"));
        assert!(
            of(ENDING_THREADS, Cause::Munmap).is_some_and(|(remedy, _)| remedy == "glibc.stacks")
        );
        assert!(table().iter().all(|r| (1..=1000).contains(&r.permille)));
        let known: Vec<&str> = crate::ALL_REMEDIES.iter().map(|r| r.id).collect();
        assert!(table().iter().all(|r| known.contains(&r.remedy.as_str())));
    }

    /// Check that stacks name the asker, and that without one the most likely is taken.
    #[test]
    fn usual_askers() {
        let found = [
            by_name::usual_version(SoftwareKind::Jemalloc),
            by_name::usual_version(SoftwareKind::Glibc),
        ];
        let source = |module: Option<&str>, symbol: Option<&str>| ShootdownSource {
            cause: Cause::Munmap,
            caller_module: module.map(PathBuf::from),
            caller_symbol: symbol.map(str::to_owned),
            region: None,
            shootdowns: 1,
        };
        assert_eq!(
            asker(&found, &source(Some("/opt/app"), Some("work"))),
            OWN_CALLS
        );
        assert_eq!(
            asker(&found, &source(Some("/lib/libc.so.6"), Some("munmap"))),
            "jemalloc"
        );
        assert_eq!(asker(&found, &source(None, None)), "jemalloc");
        assert_eq!(
            asker(&found[1..], &source(Some("/lib/libc.so.6"), Some("free"))),
            "glibc malloc"
        );
        assert_eq!(
            asker(&found, &source(Some("/opt/app"), Some("start_thread"))),
            ENDING_THREADS
        );
        assert_eq!(asker(&[], &source(None, None)), UNKNOWN_ASKER);
    }
}
