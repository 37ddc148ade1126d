//! Tests of choosing: the library, the budget, the kernel's own work, and refusals.

use std::collections::BTreeMap;
use std::path::PathBuf;

use quell_event::Cause;

use super::*;
use crate::{Linking, ShootdownSource, Version, Wrappers};

fn choose_plan(
    found: &[FoundSoftware],
    evidence: &Evidence,
    options: &PlanOptions,
    env: &impl Fn(&str) -> Option<String>,
) -> Plan {
    choose_remedies(found, evidence, options, env).plan
}

pub(super) const LIBC: &str = "/lib/x86_64-linux-gnu/libc.so.6";
pub(super) const APP: &str = "/opt/app";
pub(super) const MB: u64 = 1 << 20;

pub(super) fn found(
    kind: SoftwareKind,
    module: &str,
    linking: Linking,
    version: Version,
) -> FoundSoftware {
    let mut found = FoundSoftware::new(kind, module, linking, "");
    found.version = Some(version);
    found.conf_env = Some("MALLOC_CONF".into());
    found
}

/// A shared library that takes malloc's place.
fn replacing(kind: SoftwareKind, module: &str, version: Version) -> FoundSoftware {
    let mut found = found(kind, module, Linking::SharedLibrary, version);
    found.replaces_malloc = true;
    found
}

pub(super) fn libc() -> FoundSoftware {
    let version = Version::exact(2, 36, 0);
    found(SoftwareKind::Glibc, LIBC, Linking::SharedLibrary, version)
}

pub(super) fn source(cause: Cause, module: &str, shootdowns: u64) -> ShootdownSource {
    ShootdownSource {
        cause,
        caller_module: (!module.is_empty()).then(|| module.into()),
        caller_symbol: Some("work".to_owned()),
        region: None,
        shootdowns,
    }
}

/// A program of 400 MB that faults in a megabyte for each shootdown.
pub(super) fn seen(sources: &[ShootdownSource]) -> Evidence {
    let shootdowns = sources.iter().map(|s| s.shootdowns).sum();
    Evidence {
        shootdowns,
        page_faults: Some(256 * shootdowns),
        sources: sources.to_vec(),
        max_rss: Some(400 * MB),
        cpus: Some(2),
        from_start: true,
        ..Evidence::default()
    }
}

pub(super) fn chosen(found: &[FoundSoftware], evidence: &Evidence, budget: f64) -> Plan {
    let options = PlanOptions {
        budget,
        at_least: 0,
        preload: true,
        without_gain: false,
    };
    choose_plan(found, evidence, &options, &|_: &str| None)
}

pub(super) fn ids(plan: &Plan) -> Vec<&str> {
    plan.remedies.iter().map(|r| r.remedy.as_str()).collect()
}

/// Check that the program's own churn gets the library, with a cache that the budget allows, and no other
/// setting.
#[test]
fn own_calls() {
    let evidence = seen(&[source(Cause::Munmap, APP, 1000)]);
    let plan = chosen(&[libc()], &evidence, 0.25);
    assert_eq!(ids(&plan), ["shim.cache"]);
    let cache = &plan.remedies[0];
    assert_eq!(cache.sets["LD_PRELOAD"], "libquell.so");
    assert_eq!(cache.sets["QUELL_SHIM"], "cache=480M,rss=480M");
    assert!(
        cache
            .evidence
            .contains("1000 shootdowns (100 %) are from app's own calls: munmap 1000"),
        "{cache:?}"
    );
    assert!((plan.predicted_stop() - 0.99).abs() < 0.001, "{plan:?}");
    assert!(
        cache.cost.contains("each process that it starts"),
        "{cache:?}"
    );
}

/// Check that a small program gets the library too, and that a budget that the user set is kept.
#[test]
fn small_programs() {
    let mut evidence = seen(&[source(Cause::Munmap, APP, 1000)]);
    evidence.max_rss = Some(4 * MB);
    let options = PlanOptions {
        preload: true,
        ..PlanOptions::default()
    };
    let plan = choose_plan(&[libc()], &evidence, &options, &|_: &str| None);
    assert_eq!(plan.remedies[0].sets["QUELL_SHIM"], "cache=64M,rss=19M");
    let asked = chosen(&[libc()], &evidence, 0.25);
    assert!(asked.remedies.is_empty() && asked.notes.join("").contains("the memory budget"));
}

/// Check that in a static program its own calls are not taken for its malloc's.
#[test]
fn own_calls_of_a_static_program() {
    let glibc = found(
        SoftwareKind::Glibc,
        APP,
        Linking::Static,
        Version::exact(2, 36, 0),
    );
    let of = |symbol: &str| ShootdownSource {
        caller_symbol: Some(symbol.to_owned()),
        ..source(Cause::Munmap, APP, 1000)
    };
    let own = chosen(std::slice::from_ref(&glibc), &seen(&[of("work")]), 0.25);
    assert!(own.remedies.is_empty(), "{own:?}");
    assert!(
        own.notes
            .join("")
            .contains("app's own calls: munmap 1000: the program is linked statically")
    );
    let malloc = chosen(&[glibc], &seen(&[of("munmap_chunk")]), 0.25);
    assert_eq!(ids(&malloc), ["glibc.keep"]);
}

/// Check that both remedies of the library are one preload with all settings, and that each names its own share.
#[test]
fn library_once() {
    let evidence = seen(&[
        source(Cause::Munmap, APP, 500),
        source(Cause::MadviseDontneed, APP, 500),
        source(Cause::Munmap, "/opt/other.so", 100),
    ]);
    let plan = chosen(&[libc()], &evidence, 0.25);
    assert_eq!(ids(&plan), ["shim.cache", "shim.zero"]);
    let environment = plan.environment(&|name: &str| (name == "LD_PRELOAD").then(|| "a.so".into()));
    assert_eq!(environment["LD_PRELOAD"], "a.so:libquell.so");
    assert_eq!(environment["QUELL_SHIM"], "cache=480M,rss=480M,zero=64M");
    assert!(plan.remedies[0].evidence.contains("other.so"), "{plan:?}");
    // No more is zeroed than there is room for.
    assert!((plan.remedies[0].predicted_stop - 0.54).abs() < 0.01);
    assert!((plan.remedies[1].predicted_stop - 0.092).abs() < 0.01);
}

/// Check that two remedies of the library don't take each other's needs away, and that both are known as set where they are in
/// force together.
#[test]
fn library_for_two() {
    let mut python = libc();
    (python.kind, python.module) = (SoftwareKind::CPython, "/usr/bin/python3".into());
    let fast = "/opt/libmimalloc.so";
    let mimalloc = found(
        SoftwareKind::Mimalloc,
        fast,
        Linking::SharedLibrary,
        Version::exact(2, 2, 7),
    );
    let found = [libc(), python, mimalloc];
    let evidence = seen(&[
        source(Cause::Munmap, "/usr/bin/python3", 700),
        source(Cause::MadviseFree, fast, 300),
    ]);
    let first = chosen(&found, &evidence, 0.25);
    assert_eq!(ids(&first), ["shim.cache", "shim.mimalloc"]);
    let environment = first.environment(&|_| None);
    assert_eq!(environment["QUELL_SHIM"], "cache=480M,rss=480M,zero=off");
    assert_eq!(environment["MIMALLOC_PURGE_DELAY"], "-1");
    let options = PlanOptions {
        budget: 0.25,
        at_least: 0,
        preload: true,
        without_gain: false,
    };
    let again = choose_plan(&found, &evidence, &options, &|name: &str| {
        environment.get(name).cloned()
    });
    assert!(again.remedies.is_empty(), "{again:?}");
}

/// Check that a remedy that sets a variable of the allocator's besides sets that of each allocator.
#[test]
fn library_for_two_jemallocs() {
    let jemalloc = |module: &str, variable: &str| {
        let version = Version::exact(5, 3, 0);
        let mut found = found(
            SoftwareKind::Jemalloc,
            module,
            Linking::SharedLibrary,
            version,
        );
        found.conf_env = Some(variable.to_owned());
        found
    };
    let found = [
        libc(),
        jemalloc("/opt/one.so", "MALLOC_CONF"),
        jemalloc("/opt/two.so", "_RJEM_MALLOC_CONF"),
    ];
    let evidence = seen(&[
        source(Cause::MadviseDontneed, "/opt/one.so", 700),
        source(Cause::MadviseDontneed, "/opt/two.so", 300),
    ]);
    let decays = |_: &str| Some("dirty_decay_ms:0".to_owned());
    let env = |name: &str| decays(name).filter(|_| name.ends_with("MALLOC_CONF"));
    let options = PlanOptions {
        preload: true,
        ..PlanOptions::default()
    };
    let plan = choose_plan(&found, &evidence, &options, &env);
    assert_eq!(ids(&plan), ["shim.jemalloc"]);
    for variable in ["MALLOC_CONF", "_RJEM_MALLOC_CONF"] {
        assert!(
            plan.remedies[0].sets[variable].contains("muzzy_decay_ms:0"),
            "{plan:?}"
        );
    }
}

/// Check that a plan of the library's that is in force already is known as that, and not complained of.
#[test]
fn library_in_force() {
    let evidence = seen(&[source(Cause::Munmap, APP, 1000)]);
    let first = chosen(&[libc()], &evidence, 0.25);
    let environment = first.environment(&|_| None);
    let options = PlanOptions {
        budget: 0.25,
        at_least: 0,
        preload: true,
        without_gain: false,
    };
    let again = choose_plan(&[libc()], &evidence, &options, &|name: &str| {
        environment.get(name).cloned()
    });
    assert!(again.remedies.is_empty(), "{again:?}");
    let notes = again.notes.join("\n");
    assert!(notes.contains("app: its remedy was set already"), "{notes}");
    assert!(!notes.contains("no setting"), "{notes}");
}

/// Check that the predicted effect of zeroing depends on the size of the released blocks, on the room there is, and on the
/// origin: a program's own calls may use other memory next.
#[test]
fn zeroing_by_size_and_room() {
    let file = "/opt/libmimalloc.so";
    let mimalloc = found(
        SoftwareKind::Mimalloc,
        file,
        Linking::SharedLibrary,
        Version::exact(1, 2, 0),
    );
    let found = [libc(), mimalloc];
    let stops = |evidence: &Evidence, budget| {
        let plan = chosen(&found, evidence, budget);
        assert_eq!(ids(&plan), ["shim.zero"], "{plan:?}");
        plan.predicted_stop()
    };
    let mut evidence = seen(&[source(Cause::MadviseDontneed, file, 1000)]);
    assert!((stops(&evidence, 0.25) - 0.99).abs() < 0.001);
    // Blocks of 12 MB: a bound of 80 MB more, and of 4 MB more.
    evidence.page_faults = Some(3072 * 1000);
    assert!((stops(&evidence, 0.25) - 0.88).abs() < 0.001);
    let little = stops(&evidence, 0.0425);
    assert!((0.75..0.83).contains(&little), "{little}");
    // Nothing says how large they are.
    evidence.page_faults = None;
    assert!((stops(&evidence, 0.25) - 0.88).abs() < 0.001);

    let own = seen(&[source(Cause::MadviseDontneed, APP, 1000)]);
    assert!((stops(&own, 0.25) - 0.20).abs() < 0.01);
    assert!((stops(&own, 0.0425) - 0.011).abs() < 0.01);
    assert!((stops(&own, 2.0) - 0.99).abs() < 0.001);
}

/// Check that nothing is zeroed in place where the program forks as it works, also by remedies for other calls.
#[test]
fn zeroing_and_forks() {
    let sources = |forks| {
        seen(&[
            source(Cause::MadviseDontneed, APP, 500),
            source(Cause::Munmap, APP, 500),
            source(Cause::Fork, APP, forks),
            source(Cause::Cow, APP, 2),
        ])
    };
    let works = chosen(&[libc()], &sources(5), 0.25);
    assert_eq!(ids(&works), ["shim.cache"]);
    let library = &works.remedies[0].sets["QUELL_SHIM"];
    assert_eq!(library, "cache=480M,rss=480M,zero=off");
    assert!(
        works.notes.join("").contains("forks as it works"),
        "{works:?}"
    );
    let version = Version::exact(5, 3, 0);
    let jemalloc = replacing(SoftwareKind::Jemalloc, "/opt/libjemalloc.so.2", version);
    let mut both = sources(20);
    both.sources
        .push(source(Cause::MadviseDontneed, "/opt/libjemalloc.so.2", 500));
    let options = PlanOptions {
        preload: true,
        ..PlanOptions::default()
    };
    let env = |name: &str| (name == "MALLOC_CONF").then(|| "dirty_decay_ms:0".to_owned());
    let plan = choose_plan(&[libc(), jemalloc], &both, &options, &env);
    assert_eq!(ids(&plan), ["shim.jemalloc", "shim.cache"]);
    let environment = plan.environment(&env);
    assert!(environment["QUELL_SHIM"].ends_with("zero=off"), "{plan:?}");
    let once = chosen(&[libc()], &sources(1), 0.25);
    assert_eq!(ids(&once), ["shim.cache", "shim.zero"]);
}

/// Check that google/tcmalloc's prediction agrees with its measurement, 78 to 98 % with small blocks; and that of large ones less
/// is zeroed, which takes less memory and stops less.
#[test]
fn google_tcmalloc() {
    let file = "/opt/libtcmalloc_google.so";
    let mut tcmalloc = FoundSoftware::new(
        SoftwareKind::GoogleTcmalloc,
        file,
        Linking::SharedLibrary,
        "",
    );
    tcmalloc.replaces_malloc = true;
    let measured = [
        (211, 89, 40_000, 0.90, ",zero=64M"),
        (191, 63, 40_000, 0.90, ",zero=64M"),
        (1007, 110, 400_000, 0.78, ",zero=16M"),
    ];
    for (rss, shootdowns, faults, stops, zero) in measured {
        let mut evidence = seen(&[source(Cause::MadviseDontneed, file, shootdowns)]);
        evidence.max_rss = Some(rss * MB);
        evidence.page_faults = Some(faults);
        let plan = chosen(&[libc(), tcmalloc.clone()], &evidence, 0.25);
        assert!((plan.predicted_stop() - stops).abs() < 0.001, "{plan:?}");
        let settings = &plan.remedies[0].sets["QUELL_SHIM"];
        assert!(settings.ends_with(zero), "{settings}");
    }
}

/// Check that the library is refused where it can't help, and that the plan says why.
#[test]
fn library_refused() {
    let evidence = seen(&[source(Cause::Munmap, APP, 1000)]);
    let why = |found: &[FoundSoftware], evidence: &Evidence| {
        let plan = chosen(found, evidence, 0.25);
        assert!(
            !plan.remedies.iter().any(|r| r.remedy.starts_with("shim")),
            "{plan:?}"
        );
        plan.notes.join("\n")
    };
    let statically = found(
        SoftwareKind::Glibc,
        "/opt/static",
        Linking::Static,
        Version::exact(2, 36, 0),
    );
    assert!(why(&[statically], &evidence).contains("linked statically"));
    assert!(why(&[], &evidence).contains("no C library"));
    let go = FoundSoftware::new(SoftwareKind::GoRuntime, APP, Linking::Static, "");
    assert!(why(&[libc(), go], &evidence).contains("Go calls the kernel itself"));
    let secure = Evidence {
        secure: true,
        ..evidence.clone()
    };
    assert!(why(&[libc()], &secure).contains("secure-execution"));
    let unfit = Evidence {
        unfit: Some("the program is built with AddressSanitizer".to_owned()),
        ..evidence.clone()
    };
    assert!(why(&[libc()], &unfit).contains("built with AddressSanitizer"));
    let musl = found(
        SoftwareKind::Musl,
        "/lib/ld-musl-x86_64.so.1",
        Linking::SharedLibrary,
        Version::exact(1, 2, 3),
    );
    let evidence = seen(&[source(Cause::Munmap, "/lib/ld-musl-x86_64.so.1", 1000)]);
    assert!(why(&[musl], &evidence).contains("by names inside the library"));
}

/// Check that a program which does not name munmap is not taken for its caller, that nobody else is either, and that under musl,
/// whose stacks name nobody, it is said who may have called, and no remedy rests on that.
#[test]
fn by_names() {
    let names = |text: &[u8]| BTreeMap::from([(PathBuf::from(APP), Wrappers::from_names(text))]);
    let mut skipped = seen(&[source(Cause::Munmap, APP, 1000)]);
    skipped.wrappers = names(b"\0free\0");
    let guessed = |found: &[FoundSoftware], evidence: &Evidence, who: &str| {
        let plan = chosen(found, evidence, 0.25);
        assert!(plan.remedies.is_empty(), "{plan:?}");
        let notes = plan.notes.join("\n");
        let told = format!("it may be {who}, and no remedy rests on that");
        assert!(notes.contains(&told), "{notes}");
    };
    guessed(&[libc()], &skipped, "glibc malloc");
    let go = found(
        SoftwareKind::GoRuntime,
        APP,
        Linking::Static,
        Version::exact(1, 22, 0),
    );
    let own = chosen(&[libc(), go], &skipped, 2.0);
    assert_eq!(ids(&own), ["go.gogc"]);
    skipped.wrappers = names(b"\0munmap\0");
    assert_eq!(ids(&chosen(&[libc()], &skipped, 0.25)), ["shim.cache"]);

    let loader = "/lib/ld-musl-x86_64.so.1";
    let musl = found(
        SoftwareKind::Musl,
        loader,
        Linking::SharedLibrary,
        Version::exact(1, 2, 3),
    );
    let mut silent = seen(&[ShootdownSource {
        caller_symbol: Some("munmap".to_owned()),
        ..source(Cause::Munmap, loader, 1000)
    }]);
    silent.wrappers = names(b"\0free\0");
    guessed(std::slice::from_ref(&musl), &silent, "musl malloc");
    silent.wrappers = names(b"\0munmap\0");
    guessed(&[musl], &silent, "app");
}

/// Check that calls that a setting stops well are not preloaded too, and that the rest is.
#[test]
fn tuned_first() {
    let mimalloc = |version| {
        let mut found = found(
            SoftwareKind::Mimalloc,
            "/opt/libmimalloc.so",
            Linking::SharedLibrary,
            version,
        );
        found.replaces_malloc = true;
        found
    };
    let of = |cause| source(cause, "/opt/libmimalloc.so", 1000);
    let third = chosen(
        &[libc(), mimalloc(Version::exact(3, 3, 2))],
        &seen(&[of(Cause::MadviseDontneed)]),
        0.25,
    );
    assert_eq!(ids(&third), ["mimalloc.purge"]);
    // What it frees by MADV_FREE whatever is set is dropped, and purging is off then too.
    let free = seen(&[of(Cause::MadviseFree), of(Cause::MadviseDontneed)]);
    let second = chosen(&[libc(), mimalloc(Version::exact(2, 2, 7))], &free, 0.25);
    assert_eq!(ids(&second), ["shim.mimalloc"]);
    let sets = &second.remedies[0].sets;
    assert_eq!(sets["MIMALLOC_PURGE_DELAY"], "-1");
    assert_eq!(sets["QUELL_SHIM"], "cache=0,rss=480M,zero=off");
    // Its unmapped memory is kept: version 3 takes any address, and of version 1 nobody knows which it wants.
    let gone = seen(&[of(Cause::Munmap)]);
    let third = chosen(&[libc(), mimalloc(Version::exact(3, 1, 5))], &gone, 0.25);
    assert_eq!(ids(&third), ["shim.mimalloc"]);
    let sets = &third.remedies[0].sets;
    assert_eq!(sets["QUELL_SHIM"], "cache=447M,rss=447M,zero=off");
    let second = chosen(&[libc(), mimalloc(Version::exact(2, 0, 6))], &gone, 0.25);
    let sets = &second.remedies[0].sets;
    assert_eq!(sets["QUELL_SHIM"], "cache=480M,rss=480M,zero=off,hint=32M");
    assert!(!sets.contains_key("MIMALLOC_ALLOW_DECOMMIT"), "{sets:?}");
    let first = chosen(&[libc(), mimalloc(Version::exact(1, 7, 0))], &gone, 0.25);
    assert!(first.remedies.is_empty(), "{first:?}");
    let why = first.notes.join(" ");
    assert!(why.contains("addresses of its own choice"), "{why}");
}

/// Check that copies after mimalloc's MADV_FREE split huge pages are counted to it; and not where the program forks, where it
/// makes no MADV_FREE, or where a file's page is copied.
#[test]
fn copies_after_a_split() {
    let version = Version::exact(2, 3, 2);
    let mimalloc = replacing(SoftwareKind::Mimalloc, "/opt/libmimalloc.so", version);
    let found = [libc(), mimalloc];
    let of = |cause| source(cause, "/opt/libmimalloc.so", 1000);
    let copied = |region: &str| ShootdownSource {
        region: Some(region.to_owned()),
        ..source(Cause::Cow, "/usr/bin/app", 500)
    };
    let part = |sources: &[ShootdownSource]| {
        let plan = chosen(&found, &seen(sources), 0.25);
        plan.remedies[0].predicted_stop
    };
    let anonymous = copied("anonymous memory, by app");
    let free = of(Cause::MadviseFree);
    assert!(part(&[free.clone(), anonymous.clone()]) > 0.96);
    assert!(part(&[free.clone(), copied("app")]) < 0.66);
    let fork = source(Cause::Fork, "/usr/bin/app", 1);
    assert!(part(&[free, anonymous.clone(), fork]) < 0.66);
    assert!(part(&[of(Cause::MadviseDontneed), anonymous]) < 0.66);
}

/// Check that large blocks of mimalloc 3, which take more than a quarter unless purged, are zeroed in place within the
/// budget, and not purged where the budget allows it; small ones take little.
#[test]
fn purging_of_large_blocks() {
    let mimalloc = || {
        replacing(
            SoftwareKind::Mimalloc,
            "/opt/libmimalloc.so",
            Version::exact(3, 6, 0),
        )
    };
    let found = [libc(), mimalloc()];
    let large = seen(&[source(Cause::MadviseDontneed, "/opt/libmimalloc.so", 1000)]);
    let large = Evidence {
        page_faults: Some(3072 * 1000),
        ..large
    };
    assert_eq!(ids(&chosen(&found, &large, 0.25)), ["shim.zero"]);
    let notes = chosen(&found, &large, 0.25).notes.join(" ");
    assert!(notes.contains("mimalloc.purge would stop"), "{notes}");
    assert_eq!(ids(&chosen(&found, &large, 0.30)), ["mimalloc.purge"]);
    // a few that are freed by MADV_FREE change nothing of that
    let mut freed = large.clone();
    freed
        .sources
        .push(source(Cause::MadviseFree, "/opt/libmimalloc.so", 10));
    assert_eq!(ids(&chosen(&found, &freed, 0.25)), ["shim.zero"]);
    let small = Evidence {
        page_faults: Some(256 * 1000),
        ..large
    };
    assert_eq!(ids(&chosen(&found, &small, 0.25)), ["mimalloc.purge"]);
}

/// Check that the heap belongs to the allocator that took malloc's place, which extends it by sbrk(3), where no stack proves an
/// owner: seen of gperftools 2.8.1 with 50 shootdowns, for which glibc's malloc was tuned.
#[test]
fn the_heap_of_another_allocator() {
    let tcmalloc = replacing(
        SoftwareKind::Gperftools,
        "/opt/libtcmalloc_minimal.so.4",
        Version::exact(2, 8, 1),
    );
    let heap = ShootdownSource {
        region: Some("[heap]".to_owned()),
        caller_symbol: None,
        ..source(Cause::MadviseDontneed, "", 1000)
    };
    let evidence = seen(&[heap]);
    let plan = chosen(&[libc(), tcmalloc], &evidence, 0.25);
    assert_eq!(ids(&plan), ["gperftools.release-rate"], "{plan:?}");
    let plan = chosen(&[libc()], &evidence, 0.25);
    assert_eq!(ids(&plan), ["glibc.keep"], "{plan:?}");
}

/// Of these sources, with as many pages in each range that was given back.
fn with_pages(sources: &[ShootdownSource], pages: u64) -> Evidence {
    let copies = sources.iter().filter(|s| s.cause == Cause::Cow);
    let copies: u64 = copies.map(|s| s.shootdowns).sum();
    let seen = seen(sources);
    Evidence {
        pages: copies + pages * (seen.shootdowns - copies),
        ..seen
    }
}

fn promised(evidence: &Evidence) -> f64 {
    let plan = chosen(&[libc()], evidence, 0.25);
    plan.remedies.iter().map(|r| r.predicted_stop).sum()
}

fn copied(region: &str, file: &str) -> ShootdownSource {
    ShootdownSource {
        region: Some(region.to_owned()),
        ..source(Cause::Cow, file, 3000)
    }
}

/// Check that copies which a program causes by reading before it writes count with the memory that it gives back, each copy once,
/// and no more than it gives back.
#[test]
fn copies_of_what_is_read_first() {
    let stops = |sources: &[ShootdownSource]| promised(&with_pages(sources, 16));
    let own = |cause, shootdowns| source(cause, APP, shootdowns);
    let copies = copied("anonymous memory, by app", APP);
    assert!(stops(&[own(Cause::Munmap, 1000), copies.clone()]) > 0.96);
    let both = [own(Cause::Munmap, 1000), own(Cause::MadviseDontneed, 1000)];
    let without = stops(&both);
    let with = stops(&[&both[..], std::slice::from_ref(&copies)].concat());
    assert!((with - without).abs() < 0.02, "{without} {with}");
    // a large table that stays, and one buffer that does not
    assert!(stops(&[own(Cause::Munmap, 1), copies.clone()]) < 0.01);
    let some = stops(&[own(Cause::Munmap, 100), copies.clone()]);
    assert!((0.50..0.56).contains(&some), "{some}");
    assert!(stops(&[copies, own(Cause::Mprotect, 1000)]) < 0.01);
}

/// Check that copies are no program's own where it forks or may have forked before, of a file's pages, where another file writes,
/// and where it never calls for the memory that is given back.
#[test]
fn copies_of_something_else() {
    let own = source(Cause::Munmap, APP, 1000);
    let copies = copied("anonymous memory, by app", APP);
    let both = [own.clone(), copies.clone()];
    let little = |evidence: &Evidence| assert!(promised(evidence) < 0.30, "{evidence:?}");
    let fork = source(Cause::Fork, APP, 1);
    little(&with_pages(&[own.clone(), copies, fork], 16));
    little(&with_pages(&[own.clone(), copied("app", APP)], 16));
    little(&with_pages(
        &[own, copied("anonymous memory, by app", "/opt/other.so")],
        16,
    ));
    little(&Evidence {
        from_start: false,
        ..with_pages(&both, 16)
    });
    // free(3) without a frame pointer: the next on the stack has called that, and is no caller of munmap(2)
    let silent = Evidence {
        wrappers: BTreeMap::from([(APP.into(), Wrappers::from_names(b""))]),
        ..with_pages(&both, 16)
    };
    let notes = chosen(&[libc()], &silent, 0.25).notes.join(" ");
    assert!(!notes.contains("own calls"), "{notes}");
}

/// Check that a promise is a share of all shootdowns that the program's CPUs suffer, because those are measured later.
#[test]
fn promises_are_of_all() {
    let evidence = seen(&[source(Cause::Munmap, APP, 1000)]);
    let alone = promised(&evidence);
    let beside = promised(&Evidence {
        by_strangers: 1000,
        ..evidence
    });
    assert!((beside - alone / 2.0).abs() < 0.001, "{alone} {beside}");
}

/// Check that the budget decides between the variants of a remedy, and that a variant over it is noted.
#[test]
fn budget() {
    let malloc = |cause| ShootdownSource {
        caller_symbol: Some("munmap_chunk".to_owned()),
        ..source(cause, LIBC, 1000)
    };
    let mut evidence = seen(&[malloc(Cause::Munmap)]);
    let tunables = |plan: &Plan| plan.remedies[0].sets["GLIBC_TUNABLES"].clone();
    // On two CPUs one arena takes no more memory, and on sixteen nobody knows.
    assert!(tunables(&chosen(&[libc()], &evidence, 0.25)).contains("arena_max=1"));
    evidence.cpus = Some(16);
    let wide = chosen(&[libc()], &evidence, 0.25);
    assert!(tunables(&wide).contains("top_pad"), "{wide:?}");
    assert!(!tunables(&wide).contains("arena_max"), "{wide:?}");
    let tight = chosen(&[libc()], &evidence, 0.12);
    assert!(!tunables(&tight).contains("top_pad"), "{tight:?}");
    let none = chosen(&[libc()], &evidence, 0.05);
    assert!(none.remedies.is_empty(), "{none:?}");
    assert!(
        none.notes.iter().any(
            |n| n.contains("glibc.keep would stop 97 % of them, not 0 %")
                && n.contains("19 % more memory as predicted, and the budget leaves 5 %")
        ),
        "{:?}",
        none.notes
    );
}

/// Check that an allocator is tuned for many page faults also in a run in which none of the few shootdowns was
/// its own.
#[test]
fn faults_alone() {
    let jemalloc = found(
        SoftwareKind::Jemalloc,
        APP,
        Linking::Static,
        Version::exact(5, 3, 1),
    );
    let mut evidence = seen(&[source(Cause::Munmap, LIBC, 17)]);
    evidence.page_faults = Some(60_000);
    let plan = chosen(&[libc(), jemalloc], &evidence, 0.25);
    assert_eq!(ids(&plan), ["jemalloc.decay"]);
    assert!(plan.predicted_stop() < 1e-9, "{plan:?}");
}

/// Check that jemalloc gives back in batches where there is no memory to keep.
#[test]
fn batches() {
    let jemalloc = found(
        SoftwareKind::Jemalloc,
        APP,
        Linking::Static,
        Version::exact(5, 3, 1),
    );
    let evidence = seen(&[source(Cause::MadviseDontneed, APP, 1000)]);
    let options = PlanOptions {
        budget: 0.02,
        at_least: 0,
        preload: false,
        without_gain: false,
    };
    let plan = choose_plan(&[libc(), jemalloc], &evidence, &options, &|_: &str| None);
    assert_eq!(ids(&plan), ["jemalloc.batch"]);
    assert!((plan.predicted_stop() - 0.5).abs() < 1e-9);
}

/// Check that a jemalloc which gives back at once by the user's setting is known to take more memory when it keeps, without huge
/// pages a quarter: then the library does it within the budget.
#[test]
fn decay_0() {
    let jemalloc = |patch| {
        let version = Version::exact(5, 3, patch);
        found(SoftwareKind::Jemalloc, APP, Linking::Static, version)
    };
    let evidence = seen(&[source(Cause::MadviseDontneed, APP, 1000)]);
    let env = |name: &str| (name == "MALLOC_CONF").then(|| "dirty_decay_ms:0".to_owned());
    let within = |patch, budget| {
        let options = PlanOptions {
            budget,
            at_least: 0,
            preload: true,
            without_gain: false,
        };
        let plan = choose_plan(&[libc(), jemalloc(patch)], &evidence, &options, &env);
        let huge = plan.remedies[0].sets["MALLOC_CONF"].contains("thp:always");
        (ids(&plan).join(" "), huge)
    };
    for (patch, budget, id, huge) in [
        (0, 0.25, "shim.jemalloc", false),
        (0, 0.7, "jemalloc.decay", true),
        (1, 0.2, "shim.jemalloc", false),
        (1, 0.25, "jemalloc.decay", false),
        (1, 0.7, "jemalloc.decay", true),
    ] {
        let chosen = within(patch, budget);
        assert_eq!(chosen, (id.to_owned(), huge), "5.3.{patch}, {budget}");
    }
}

/// Check that the kernel's own work is stopped by a setting of the process where it is much, and that no remedy asks for huge
/// pages then.
#[test]
fn kernel() {
    let jemalloc = found(
        SoftwareKind::Jemalloc,
        APP,
        Linking::Static,
        Version::exact(5, 3, 1),
    );
    let evidence = seen(&[
        source(Cause::MadviseDontneed, APP, 500),
        source(Cause::ThpCollapse, "", 400),
        source(Cause::MigrateNuma, "", 300),
    ]);
    let plan = chosen(&[libc(), jemalloc], &evidence, 0.25);
    assert_eq!(ids(&plan), ["jemalloc.decay", "numa.local", "thp.never"]);
    assert!(!plan.remedies[0].sets["MALLOC_CONF"].contains("thp:always"));
    let starts: Vec<String> = plan.starts().iter().map(ToString::to_string).collect();
    assert_eq!(starts, ["numa=local", "thp=never"]);
    let toml = plan.to_toml();
    assert_eq!(Plan::from_toml(&toml).unwrap(), plan, "{toml}");
}

/// Check that the stacks of threads are kept where their munmap makes the shootdowns, by a glibc that can.
#[test]
fn stacks() {
    let thread = |cause| ShootdownSource {
        caller_symbol: Some("start_thread".to_owned()),
        ..source(cause, LIBC, 1000)
    };
    let plan = chosen(&[libc()], &seen(&[thread(Cause::Munmap)]), 0.25);
    assert_eq!(ids(&plan), ["glibc.stacks"]);
    assert_eq!(
        plan.remedies[0].sets["GLIBC_TUNABLES"],
        "glibc.pthread.stack_cache_size=1073741824"
    );
    let none = chosen(&[libc()], &seen(&[thread(Cause::MadviseDontneed)]), 0.25);
    assert!(none.remedies.is_empty() && none.notes.join("").contains("no setting stops that"));
}

/// Check that a program with settings of its own gets them as exact lines, and is no allocator.
#[test]
fn advice() {
    let redis = FoundSoftware::new(SoftwareKind::Redis, APP, Linking::Static, "");
    let evidence = seen(&[
        source(Cause::Fork, APP, 100),
        source(Cause::Munmap, LIBC, 900),
    ]);
    let plan = chosen(&[redis, libc()], &evidence, 0.25);
    assert_eq!(ids(&plan), ["glibc.keep"]);
    assert!(
        plan.notes
            .iter()
            .any(|n| n.contains("save \"\"; appendonly no: in redis.conf")),
        "{:?}",
        plan.notes
    );
}

/// Check that Python's arenas get the library, and that its own setting is refused with its measured cost.
#[test]
fn python() {
    let version = Version::exact(3, 11, 2);
    let module = "/usr/bin/python3.11";
    let python = found(SoftwareKind::CPython, module, Linking::Static, version);
    let evidence = seen(&[source(Cause::Munmap, module, 1000)]);
    let plan = chosen(&[libc(), python], &evidence, 0.25);
    assert_eq!(ids(&plan), ["shim.cache"]);
    assert!(plan.notes.join("").contains("1.8 to 2.4 times as long"));
}

/// Check that Java's collectors get the words that they know.
#[test]
fn collectors() {
    let jvm = FoundSoftware::new(
        SoftwareKind::Jvm,
        "/opt/libjvm.so",
        Linking::SharedLibrary,
        "",
    );
    let evidence = seen(&[source(Cause::Munmap, "/opt/libjvm.so", 1000)]);
    let options = |value: &'static str| {
        move |name: &str| (name == "JAVA_TOOL_OPTIONS").then(|| value.to_owned())
    };
    let env = options("-Xmx420m -XX:+UseZGC");
    let z = choose_plan(
        &[jvm.clone(), libc()],
        &evidence,
        &PlanOptions::default(),
        &env,
    );
    assert_eq!(
        z.remedies[0].sets["JAVA_TOOL_OPTIONS"],
        "-Xms420m -XX:+AlwaysPreTouch -XX:-ZUncommit"
    );
    let env = options("-Xmx4g");
    let big = choose_plan(
        &[jvm.clone(), libc()],
        &evidence,
        &PlanOptions::default(),
        &env,
    );
    assert!(big.remedies.is_empty() && big.notes.join("").contains("budget leaves 25 %"));
    // The command line counts too; and a cost that the user allows may be tried, by itself and without the touching
    let mut stated = evidence.clone();
    stated.command = ["java", "-Xmx4g", "Main"].map(str::to_owned).to_vec();
    let proposal = choose_remedies(
        &[jvm.clone(), libc()],
        &stated,
        &PlanOptions::default(),
        &|_: &str| None,
    );
    let heaps = proposal
        .candidates
        .iter()
        .filter(|c| c.remedy == "jvm.fixed-heap");
    let heaps: Vec<&str> = heaps
        .map(|c| c.sets["JAVA_TOOL_OPTIONS"].as_str())
        .collect();
    assert_eq!(heaps, ["-Xms4g -XX:+AlwaysPreTouch", "-Xms4g"]);
    assert!(proposal.plan.remedies.is_empty());
    let env = options("-XX:+UseShenandoahGC");
    let unsized_heap = choose_plan(&[jvm, libc()], &evidence, &PlanOptions::default(), &env);
    assert!(
        unsized_heap
            .notes
            .join("")
            .contains("-XX:-ShenandoahUncommit")
    );
}

#[path = "choose/properties.rs"]
mod properties;

/// Check that each change can be tried by itself: every offer of an allocator's remedy, the library's, none twice, none that the
/// user has set, and none that takes more memory than the budget.
#[test]
fn candidates_are_single_changes() {
    let module = "/usr/lib/libjemalloc.so.2";
    let jemalloc = replacing(SoftwareKind::Jemalloc, module, Version::exact(5, 3, 1));
    let evidence = seen(&[source(Cause::MadviseDontneed, module, 1000)]);
    let options = PlanOptions {
        preload: true,
        ..PlanOptions::default()
    };
    let of = |budget: f64, env: &dyn Fn(&str) -> Option<String>| {
        let options = PlanOptions {
            budget,
            at_least: 0,
            ..options
        };
        choose_remedies(&[libc(), jemalloc.clone()], &evidence, &options, &env).candidates
    };
    let all = of(0.25, &|_| None);
    let decays: Vec<_> = all
        .iter()
        .filter(|c| c.remedy == "jemalloc.decay")
        .collect();
    assert!(decays.len() >= 2, "{all:#?}");
    assert!(all.iter().any(|c| c.remedy == "jemalloc.batch"), "{all:#?}");
    for (place, one) in all.iter().enumerate() {
        let again = all[..place]
            .iter()
            .any(|o| o.sets == one.sets && o.starts == one.starts);
        assert!(!again, "{one:?} is there twice");
        // Nobody knows the share that huge pages alone stop.
        let is_known = one.remedy != "jemalloc.huge-pages";
        assert_eq!(one.predicted_stop > 0.0, is_known, "{one:?}");
        assert!(!one.evidence.is_empty());
    }
    let tight = of(0.08, &|_| None);
    assert!(tight.len() < all.len(), "{tight:#?}");
    let batch =
        |name: &str| (name == "MALLOC_CONF").then(|| "process_madvise_max_batch:128".into());
    let with = of(0.25, &batch);
    assert!(
        !with.iter().any(|c| c.remedy == "jemalloc.batch"),
        "{with:#?}"
    );
}
