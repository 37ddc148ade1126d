//! What each remedy is expected to stop, by who asks and why: a table for questions over many programs at once.
//!
//! Nothing is said here that a plan does not say: each row is the plan for a program that makes only such shootdowns.

use std::path::PathBuf;

use quell_event::Cause;

use crate::choose::{Options, choose_plan};
use crate::evidence::is_thread_end;
use crate::owner::{Owner, owner};
use crate::{Evidence, Found, Kind, Source, by_name};

/// Who asks where it is the program itself.
pub const OWN_CALLS: &str = "own calls";
/// Who asks where it is a thread that ends.
pub const THREADS: &str = "ending threads";
/// Who asks where nobody knows.
pub const UNKNOWN: &str = "";

/// Kinds that ask the kernel for memory.
const KINDS: [Kind; 12] = [
    Kind::Glibc,
    Kind::Musl,
    Kind::Jemalloc,
    Kind::Mimalloc,
    Kind::Gperftools,
    Kind::GoogleTcmalloc,
    Kind::GoRuntime,
    Kind::Jvm,
    Kind::Node,
    Kind::DotNet,
    Kind::Beam,
    Kind::CPython,
];
/// Enough for a plan.
const MANY: u64 = 1_000;

/// What a remedy is expected to stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The name of an allocator or runtime, [`OWN_CALLS`], [`THREADS`] or [`UNKNOWN`].
    pub asker: &'static str,
    /// Why.
    pub cause: Cause,
    /// The remedy.
    pub remedy: String,
    /// The share that it is expected to stop, in thousandths.
    pub permille: u32,
}

/// Somebody who asks, as a plan would see it.
struct Asker {
    name: &'static str,
    found: Vec<Found>,
    module: Option<PathBuf>,
    symbol: Option<&'static str>,
}

fn askers() -> Vec<Asker> {
    let libc = by_name::usual(Kind::Glibc);
    let kind = |kind: &Kind| {
        let found = by_name::usual(*kind);
        Asker {
            name: kind.name(),
            module: Some(found.module.clone()),
            found: vec![found],
            symbol: Some("free"),
        }
    };
    let own = |name, symbol| Asker {
        name,
        found: vec![libc.clone()],
        module: Some(PathBuf::from("/program")),
        symbol: Some(symbol),
    };
    let unknown = Asker {
        name: UNKNOWN,
        found: Vec::new(),
        module: None,
        symbol: None,
    };
    let mut all: Vec<Asker> = KINDS.iter().map(kind).collect();
    all.extend([
        own(OWN_CALLS, "work"),
        own(THREADS, "start_thread"),
        unknown,
    ]);
    all
}

/// All rows: of each asker and cause the remedy that stops most, where there is one.
#[must_use]
pub fn table() -> Vec<Row> {
    let mut rows = Vec::new();
    for Asker {
        name: asker,
        found,
        module,
        symbol,
    } in askers()
    {
        for &cause in Cause::ALL {
            let source = Source {
                cause,
                caller_module: module.clone(),
                caller_symbol: symbol.map(str::to_owned),
                region: None,
                shootdowns: MANY,
            };
            let evidence = Evidence {
                shootdowns: MANY,
                sources: vec![source],
                ..Evidence::default()
            };
            let options = Options {
                preload: true,
                ..Options::default()
            };
            let plan = choose_plan(&found, &evidence, &options, &|_| None);
            let most = plan
                .remedies
                .into_iter()
                .max_by(|a, b| a.predicted_stop.total_cmp(&b.predicted_stop));
            if let Some(most) = most.filter(|m| m.predicted_stop > 0.0) {
                rows.push(Row {
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

/// Who asked, in the words of the table: by the stack, or where none says so the one that most likely did.
#[must_use]
pub fn asker(found: &[Found], source: &Source) -> &'static str {
    if is_thread_end(source) {
        return THREADS;
    }
    match owner(found, source, &std::collections::BTreeMap::new()) {
        Owner::Allocator(index, _) => found.get(index).map_or(UNKNOWN, |f| f.kind.name()),
        Owner::Program(..) => OWN_CALLS,
        Owner::Unknown => UNKNOWN,
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

    /// Check that the table says what plans say: settings of allocators, the library for a program's own calls, what is
    /// asked of the kernel, and nothing for what no remedy stops.
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
        assert_eq!(of(UNKNOWN, Cause::MigrateNuma), row("numa.local", 900));
        assert_eq!(of("jemalloc", Cause::ThpCollapse), row("thp.never", 900));
        assert_eq!(of("jemalloc", Cause::Reclaim), None);
        assert_eq!(of("musl malloc", Cause::MadviseDontneed), None);
        assert!(of(OWN_CALLS, Cause::Munmap).is_some_and(|(remedy, _)| remedy == "shim.cache"));
        assert!(of(THREADS, Cause::Munmap).is_some_and(|(remedy, _)| remedy == "glibc.stacks"));
        assert!(table().iter().all(|r| (1..=1000).contains(&r.permille)));
        let known: Vec<&str> = crate::remedies().iter().map(|r| r.id()).collect();
        assert!(table().iter().all(|r| known.contains(&r.remedy.as_str())));
    }

    /// Check that stacks say who asked, and that without one the most likely is taken.
    #[test]
    fn askers() {
        let found = [by_name::usual(Kind::Jemalloc), by_name::usual(Kind::Glibc)];
        let source = |module: Option<&str>, symbol: Option<&str>| Source {
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
            THREADS
        );
        assert_eq!(asker(&[], &source(None, None)), UNKNOWN);
    }
}
