//! Tests of ceilings: which calls and which faults a change can touch, and that a change that can't win is not offered.

use std::collections::BTreeMap;

use quell_event::account::{HolderRole, HolderRow, MechanismPart, ProcessTime};

use super::*;
use crate::{
    Evidence, FoundSoftware, Linking, PlanOptions, Planned, Proposal, ShootdownSource,
    SoftwareKind, Version, Wrappers, choose_remedies,
};

const LIBC: &str = "/lib/x86_64-linux-gnu/libc.so.6";
const TCMALLOC: &str = "/usr/lib/libtcmalloc_minimal.so.4.5.10";

/// A row of samples: mechanism, function, file, the allocator's function.
pub(crate) type Row<'t> = (Mechanism, &'t str, &'t str, &'t str, u64);

/// A second of CPU time in 1,000 samples, in two seconds.
pub(crate) fn spent(rows: &[Row<'_>]) -> ObservedTime {
    let row = |&(mechanism, function, file, allocator, samples): &Row<'_>| AccountRow {
        pid: 7,
        mechanism,
        part: MechanismPart::Other,
        advice: quell_event::Text::default(),
        function: function.into(),
        file: file.into(),
        allocator: allocator.into(),
        samples,
        waits: 0,
        blocked_ns: 0,
        longest_ns: 0,
    };
    ObservedTime {
        account: Account {
            rows: rows.iter().map(row).collect(),
            processes: vec![ProcessTime {
                pid: 7,
                comm: "p".into(),
                run_ns: 1_000_000_000,
                samples: 1000,
                ..ProcessTime::default()
            }],
            ..Account::default()
        },
        hits_ns: 0,
        duration_ns: 2_000_000_000,
    }
}

fn libc() -> FoundSoftware {
    let mut found = FoundSoftware::new(SoftwareKind::Glibc, LIBC, Linking::SharedLibrary, "");
    found.version = Some(Version::exact(2, 36, 0));
    found.conf_env = Some("GLIBC_TUNABLES".into());
    found
}

fn jemalloc(module: &str) -> FoundSoftware {
    let mut found = FoundSoftware::new(SoftwareKind::Jemalloc, module, Linking::Static, "");
    found.version = Some(Version::exact(5, 3, 0));
    found.conf_env = Some("MALLOC_CONF".into());
    found
}

fn source(
    cause: Cause,
    module: &str,
    symbol: &str,
    region: &str,
    shootdowns: u64,
) -> ShootdownSource {
    ShootdownSource {
        cause,
        caller_module: Some(module.into()),
        caller_symbol: Some(symbol.to_owned()),
        region: Some(region.to_owned()),
        shootdowns,
    }
}

/// 400 MB, of which each page was faulted in ten times.
fn seen(sources: &[ShootdownSource], rows: &[Row<'_>]) -> Evidence {
    Evidence {
        shootdowns: sources.iter().map(|s| s.shootdowns).sum(),
        page_faults: Some(1_024_000),
        sources: sources.to_vec(),
        max_rss: Some(400 << 20),
        cpus: Some(2),
        from_start: true,
        spent: Some(spent(rows)),
        ..Evidence::default()
    }
}

fn proposed(found: &[FoundSoftware], evidence: &Evidence) -> Proposal {
    let options = PlanOptions {
        preload: true,
        budget: 10.0,
        ..PlanOptions::default()
    };
    choose_remedies(found, evidence, &options, &|_: &str| None)
}

fn of<'p>(proposal: &'p Proposal, remedy: &str) -> Option<&'p Planned> {
    proposal.candidates.iter().find(|c| c.remedy == remedy)
}

fn share(proposal: &Proposal, remedy: &str) -> f64 {
    of(proposal, remedy).map_or(0.0, |c| c.ceiling.unwrap().cpu)
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 0.0015
}

/// Check that memory released by a timer counts for both settings of gperftools, and memory released at the program's request for
/// the one that reaches this.
#[test]
fn releases_that_the_program_asks_for() {
    let mut found = FoundSoftware::new(
        SoftwareKind::Gperftools,
        TCMALLOC,
        Linking::SharedLibrary,
        "",
    );
    found.replaces_malloc = true;
    let release =
        "TCMallocImplementation::ReleaseToSystem(unsigned long) (libtcmalloc_minimal.so.4.5.10)";
    let timer = "tc_free (libtcmalloc_minimal.so.4.5.10)";
    let sources = [source(
        Cause::MadviseDontneed,
        TCMALLOC,
        "TCMalloc_SystemRelease(void*, unsigned long)",
        "anonymous memory of gperftools tcmalloc",
        400,
    )];
    let of_caller = |caller| {
        let rows = [
            (Mechanism::Advise, "main", "churn", caller, 100),
            (Mechanism::ShootdownWait, "main", "churn", caller, 50),
            (Mechanism::FaultAnon, "worker", "churn", "", 200),
            (Mechanism::Zeroing, "worker", "churn", "", 300),
        ];
        proposed(&[libc(), found.clone()], &seen(&sources, &rows))
    };
    // nine of ten faults are on memory that was there before
    let all = 0.1 + 0.05 + 0.9 * 0.5;
    let asked = of_caller(release);
    assert!(
        of(&asked, "gperftools.release-rate").is_none(),
        "{asked:#?}"
    );
    assert!(
        close(share(&asked, "gperftools.disable-release"), all),
        "{asked:#?}"
    );
    let planned = asked.plan.remedies.iter().map(|r| r.remedy.as_str());
    assert_eq!(planned.collect::<Vec<_>>(), ["gperftools.disable-release"]);
    let own = of_caller(timer);
    assert!(
        close(share(&own, "gperftools.release-rate"), all),
        "{own:#?}"
    );
}

/// Check that malloc_trim(3) is not the policy of glibc's malloc, and is named; trims by free(3) are.
#[test]
fn trimming_that_the_program_asks_for() {
    let of_caller = |symbol: &str, called: &str| {
        let region = "anonymous memory of glibc malloc (libc.so.6)";
        let sources = [source(Cause::MadviseDontneed, LIBC, symbol, region, 1000)];
        let rows = [
            (Mechanism::Advise, "work", "app", called, 50),
            (Mechanism::FaultAnon, "work", "app", "", 100),
        ];
        proposed(&[libc()], &seen(&sources, &rows))
    };
    let asked = of_caller("malloc_trim", "malloc_trim (libc.so.6)");
    assert!(of(&asked, "glibc.keep").is_none(), "{asked:#?}");
    let planned = asked.plan.remedies.iter().map(|r| r.remedy.as_str());
    assert_eq!(planned.collect::<Vec<_>>(), ["shim.malloc-trim"]);
    assert!(
        close(share(&asked, "shim.malloc-trim"), 0.05 + 0.09),
        "{asked:#?}"
    );
    let notes = asked.plan.notes.join("\n");
    assert!(
        notes.contains("1000 shootdowns (100 %) are from malloc_trim (libc.so.6), which the program calls itself"),
        "{notes}"
    );
    let own = of_caller("_int_free", "free (libc.so.6)");
    assert!(close(share(&own, "glibc.keep"), 0.05 + 0.09), "{own:#?}");
}

/// Check that a program's own advice, through a library that names no such call, is nobody else's and carries no remedy.
#[test]
fn guesses_carry_nothing() {
    let ffi = "/usr/lib/libffi.so.8";
    let region = "whole address space, by libffi.so.8";
    let sources = [source(
        Cause::MadviseDontneed,
        ffi,
        "ffi_call",
        region,
        1000,
    )];
    let ctypes = "_ctypes.cpython-311-x86_64-linux-gnu.so";
    let rows = [
        (Mechanism::Advise, "_ctypes_callproc", ctypes, "", 50),
        (Mechanism::FaultAnon, "_ctypes_callproc", ctypes, "", 100),
    ];
    let mut evidence = seen(&sources, &rows);
    evidence.wrappers = BTreeMap::from([(ffi.into(), Wrappers::from_names(b""))]);
    for spent in [evidence.spent.clone(), None] {
        evidence.spent = spent;
        let proposal = proposed(&[libc()], &evidence);
        assert!(proposal.plan.remedies.is_empty(), "{proposal:#?}");
        let notes = proposal.plan.notes.join("\n");
        assert!(notes.contains("no remedy rests on that"), "{notes}");
        if evidence.spent.is_some() {
            assert!(of(&proposal, "glibc.keep").is_none(), "{proposal:#?}");
        }
    }
}

/// Check that a copy of an allocator which nobody calls wins nothing, whatever the program faults in, and that one in use does.
#[test]
fn copies_in_use() {
    let arrow = "/opt/libarrow.so";
    let of_code = |function: &str| {
        let rows = [
            (Mechanism::FaultAnon, "work", "app", "", 300),
            (Mechanism::Unmap, function, "libarrow.so", "", 20),
        ];
        let mimalloc = {
            let mut found = FoundSoftware::new(SoftwareKind::Mimalloc, arrow, Linking::Static, "");
            found.version = Some(Version::exact(2, 2, 7));
            found
        };
        let found = [libc(), jemalloc(arrow), mimalloc];
        let proposal = proposed(&found, &seen(&[], &rows));
        share(&proposal, "jemalloc.decay")
    };
    assert_eq!(of_code("mi_free"), 0.0);
    assert!(of_code("je_pages_unmap") > 0.3);
}

/// Check that the interval of a ceiling is wide where few calls that give memory back were sampled, and narrows with more of them.
#[test]
fn few_samples_say_little() {
    let width = |calls: u64| {
        let rows = [
            (Mechanism::FaultAnon, "work", "app", "", 300),
            (Mechanism::Unmap, "work", "app", "free (libc.so.6)", calls),
            (Mechanism::Unmap, "work", "app", "", calls),
        ];
        let proposal = proposed(&[libc()], &seen(&[], &rows));
        let ceiling = of(&proposal, "glibc.keep").unwrap().ceiling.unwrap();
        let [low, high] = ceiling.cpu_between();
        assert!(low < ceiling.cpu && ceiling.cpu < high, "{ceiling:?}");
        (high - low) / ceiling.cpu
    };
    assert!(width(2) > 1.2, "{}", width(2));
    assert!(width(200) < 0.5, "{}", width(200));
}

/// Check that a file with two allocators and no name to tell them apart is neither's.
#[test]
fn copies_without_a_name() {
    let arrow = "/opt/libarrow.so";
    let region = "anonymous memory, by libarrow.so";
    let mut nameless = source(Cause::MadviseDontneed, arrow, "", region, 1000);
    nameless.caller_symbol = None;
    let mut evidence = seen(&[nameless], &[]);
    evidence.spent = None;
    let mut mimalloc = FoundSoftware::new(SoftwareKind::Mimalloc, arrow, Linking::Static, "");
    mimalloc.version = Some(Version::exact(2, 2, 7));
    let both = proposed(&[jemalloc(arrow), mimalloc.clone()], &evidence);
    assert!(both.plan.remedies.is_empty(), "{both:#?}");
    let one = proposed(&[mimalloc], &evidence);
    assert_eq!(one.plan.remedies[0].remedy, "mimalloc.purge");
}

/// Check that the library, which keeps anonymous memory, is offered for that and not for mappings of files, nor to who makes code.
#[test]
fn regions_that_the_library_keeps() {
    let io = "/opt/libnio.so";
    let rows = [(Mechanism::Unmap, "unmap0", "libnio.so", "", 100)];
    let of_region = |region: &str| {
        let sources = [source(Cause::Munmap, io, "unmap0", region, 1000)];
        proposed(&[libc()], &seen(&sources, &rows))
    };
    let file = of_region("file /dev/shm/close.dat");
    assert!(
        file.candidates.is_empty() && file.plan.remedies.is_empty(),
        "{file:#?}"
    );
    assert!(file.plan.notes.join("").contains("mappings of files"));
    let anonymous = of_region("anonymous memory, by libnio.so");
    assert!(
        close(share(&anonymous, "shim.cache"), 0.1),
        "{anonymous:#?}"
    );
    let code = [
        source(
            Cause::Mprotect,
            io,
            "emit",
            "anonymous memory, by libnio.so",
            900,
        ),
        source(
            Cause::Munmap,
            io,
            "emit",
            "anonymous memory, by libnio.so",
            100,
        ),
    ];
    let code = proposed(&[libc()], &seen(&code, &rows));
    assert!(of(&code, "shim.cache").is_none(), "{code:#?}");
    assert!(
        code.plan
            .notes
            .join("")
            .contains("code, or addresses that were reserved")
    );
}

/// Check that a change that wins less than 1 % at most is noted and not offered, except where a metric of the program's own
/// decides.
#[test]
fn too_little_to_win() {
    let region = "anonymous memory of glibc malloc (libc.so.6)";
    let sources = [source(Cause::Munmap, LIBC, "munmap_chunk", region, 1000)];
    let rows = [(Mechanism::Unmap, "work", "app", "free (libc.so.6)", 4)];
    let evidence = seen(&sources, &rows);
    let none = proposed(&[libc()], &evidence);
    assert!(
        none.candidates.is_empty() && none.plan.remedies.is_empty(),
        "{none:#?}"
    );
    let notes = none.plan.notes.join("\n");
    assert!(
        notes.contains("glibc.keep: not offered, it touches 0.4 % of CPU time and 0.2 % of the time that passed"),
        "{notes}"
    );
    let options = PlanOptions {
        without_gain: true,
        ..PlanOptions::default()
    };
    let metric = choose_remedies(&[libc()], &evidence, &options, &|_: &str| None);
    assert!(close(share(&metric, "glibc.keep"), 0.004), "{metric:#?}");
}

/// Check that waits for the lock count as far as it was held for calls of the origin, and that hits count by its shootdowns.
#[test]
fn locks_and_hits() {
    let region = "anonymous memory, by app";
    let sources = [
        source(Cause::Munmap, "/opt/app", "work", region, 600),
        source(Cause::Mprotect, "/opt/other.so", "x", region, 400),
    ];
    let rows = [
        (Mechanism::Unmap, "work", "app", "", 30),
        (Mechanism::Unmap, "tidy", "third.so", "", 10),
    ];
    let mut evidence = seen(&sources, &rows);
    let spent = evidence.spent.as_mut().unwrap();
    spent.hits_ns = 100_000_000;
    spent.account.rows.push(AccountRow {
        mechanism: Mechanism::LockMmap,
        samples: 0,
        blocked_ns: 500_000_000,
        ..spent.account.rows[0].clone()
    });
    let holder = |doing: &str, blocked_ns| HolderRow {
        pid: 7,
        mechanism: Mechanism::LockMmap,
        holder_pid: 7,
        holder_comm: "p".into(),
        doing: doing.into(),
        role: HolderRole::Alone,
        waits: 1,
        blocked_ns,
        longest_ns: blocked_ns,
    };
    spent.account.holders = vec![
        holder("munmap of 2 pages", 400_000_000),
        holder("mprotect of 1 page", 100_000_000),
    ];
    let proposal = proposed(&[libc()], &evidence);
    let ceiling = of(&proposal, "shim.cache").unwrap().ceiling.unwrap();
    // 30 samples of the calls, and six tenths of the hits
    assert!(close(ceiling.cpu, 0.03 + 0.06), "{ceiling:?}");
    // three quarters of the time by munmap are app's, and four fifths of the waits are for munmap
    assert_eq!(ceiling.blocked_ns, 300_000_000);
    assert!(close(ceiling.wall, (0.09 + 0.3) / 2.0), "{ceiling:?}");
    let [low, high] = ceiling.ci95;
    assert!(low < ceiling.cpu_ns && ceiling.cpu_ns < high);
}

/// Check that huge pages touch the faults of small ones, not the zeroing, and that every change says which mechanisms it touches
/// and why.
#[test]
fn what_changes_say() {
    let rows = [
        (Mechanism::FaultAnon, "work", "app", "", 100),
        (Mechanism::FaultEntry, "work", "app", "", 50),
        (Mechanism::Zeroing, "work", "app", "", 200),
    ];
    let proposal = proposed(&[libc()], &seen(&[], &rows));
    assert!(
        close(share(&proposal, "glibc.huge-pages"), 0.15),
        "{proposal:#?}"
    );
    for remedy in crate::ALL_REMEDIES {
        let touches = remedy.touches;
        assert!(!touches.because.is_empty(), "{}", remedy.id);
    }
}

/// Check that only remedies which set nothing touch nothing: one whose entry leaves that out would never be worth a run.
#[test]
fn what_touches_nothing() {
    let none = crate::ALL_REMEDIES.iter();
    let none = none.filter(|r| r.touches == Touches::NOTHING);
    let ids: Vec<&str> = none.map(|r| r.id).collect();
    let advising = [
        "go.toolchain",
        "cpython.malloc",
        "musl.none",
        "google-tcmalloc.none",
        "node.none",
        "dotnet.none",
        "redis.conf",
        "postgresql.conf",
        "mongodb.parameters",
        "clickhouse.config",
        "mysql.cnf",
        "rocksdb.options",
        "envoy.bootstrap",
    ];
    assert_eq!(ids, advising);
}
