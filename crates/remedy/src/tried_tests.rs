//! Tests of changes that are offered to be tried: malloc_trim(3) of the program's own, and settings of runtimes.

use std::collections::BTreeMap;
use std::path::PathBuf;

use quell_event::Cause;

use super::tests::{APP, LIBC, MB, chosen, found, ids, libc, seen, source};
use super::*;
use crate::{Linking, ShootdownSource, Version, Wrappers};

/// A program whose threads call malloc_trim(3), and give back memory of malloc's in other ways.
fn trims(by_trim: u64, others: u64) -> Evidence {
    let of = |symbol: &str, shootdowns| ShootdownSource {
        caller_symbol: Some(symbol.to_owned()),
        ..source(Cause::MadviseDontneed, LIBC, shootdowns)
    };
    seen(&[of("malloc_trim", by_trim), of("heap_trim", others)])
}

/// Check that a program's own malloc_trim(3) gets the library, which drops it and does nothing else, within the budget.
#[test]
fn heap_trim() {
    let plan = chosen(&[libc()], &trims(1000, 0), 0.25);
    assert_eq!(ids(&plan), ["shim.malloc-trim"]);
    let expected = "malloc_trim=drop,cache=0,zero=off,free=pass,rss=480M";
    assert_eq!(plan.remedies[0].sets["QUELL_SHIM"], expected);
    assert!((plan.predicted_stop() - 0.99).abs() < 0.001, "{plan:?}");
}

/// Check that glibc's tunables are known not to reach malloc_trim(3), and that both are taken where both count.
#[test]
fn heap_trim_beside_tunables() {
    let plan = chosen(&[libc()], &trims(500, 500), 0.8);
    assert_eq!(ids(&plan), ["glibc.keep", "shim.malloc-trim"]);
    let stops: Vec<f64> = plan.remedies.iter().map(|r| r.predicted_stop).collect();
    assert!((0.45..0.5).contains(&stops[0]), "{stops:?}");
    let others = chosen(&[libc()], &trims(0, 1000), 0.8);
    assert_eq!(ids(&others), ["glibc.keep"]);
}

/// Check that where nobody is interrupted it is offered to a program that names the function and faults much, and to no other.
#[test]
fn heap_trim_by_one_thread() {
    let offered = |names: &[u8], faults| {
        let evidence = Evidence {
            page_faults: Some(faults),
            max_rss: Some(400 * MB),
            wrappers: BTreeMap::from([
                (PathBuf::from(APP), Wrappers::from_names(names)),
                (
                    PathBuf::from(LIBC),
                    Wrappers::from_names(b"\0malloc_trim\0"),
                ),
            ]),
            ..Evidence::default()
        };
        let candidates = candidates(&[libc()], &evidence);
        candidates.iter().any(|c| c.remedy == "shim.malloc-trim")
    };
    assert!(offered(b"\0malloc_trim\0", 100_000));
    assert!(!offered(b"\0malloc\0", 100_000));
    assert!(!offered(b"\0malloc_trim\0", 1_000));
}

/// Check that it is refused where the loader would not load the library, with the reason.
#[test]
fn heap_trim_without_a_loader() {
    let evidence = Evidence {
        secure: true,
        ..trims(1000, 0)
    };
    let plan = chosen(&[libc()], &evidence, 0.25);
    assert!(!ids(&plan).contains(&"shim.malloc-trim"), "{plan:?}");
    assert!(plan.notes.join("").contains("secure-execution"), "{plan:?}");
}

/// All that can be tried.
fn candidates(found: &[FoundSoftware], evidence: &Evidence) -> Vec<Planned> {
    candidates_in(found, evidence, &|_: &str| None)
}

fn candidates_in(
    found: &[FoundSoftware],
    evidence: &Evidence,
    env: &impl Fn(&str) -> Option<String>,
) -> Vec<Planned> {
    let options = PlanOptions {
        preload: true,
        ..PlanOptions::default()
    };
    choose_remedies(found, evidence, &options, env).candidates
}

/// What remedies of this name would set.
fn sets(candidates: &[Planned], remedy: &str) -> Vec<String> {
    let of_name = candidates.iter().filter(|c| c.remedy == remedy);
    of_name.flat_map(|c| c.sets.values().cloned()).collect()
}

/// A program with many page faults, and next to no shootdowns.
fn faulting() -> Evidence {
    Evidence {
        page_faults: Some(1_000_000),
        max_rss: Some(400 * MB),
        ..Evidence::default()
    }
}

/// Check that a larger young generation is tried under Node.js, in no plan, and not where the user has set one.
#[test]
fn young_generation_of_node() {
    let mut node = found(
        SoftwareKind::Node,
        APP,
        Linking::Static,
        Version::exact(20, 0, 0),
    );
    node.conf_env = Some("NODE_OPTIONS".into());
    let all = [libc(), node];
    let tried = candidates(&all, &faulting());
    let sizes = ["--max-semi-space-size=64", "--max-semi-space-size=128"];
    assert_eq!(sets(&tried, "node.semi-space"), sizes);
    assert!(!ids(&chosen(&all, &faulting(), 0.25)).contains(&"node.semi-space"));
    let theirs = |name: &str| (name == "NODE_OPTIONS").then(|| "--max_semi_space_size=32".into());
    let tried = candidates_in(&all, &faulting(), &theirs);
    assert!(sets(&tried, "node.semi-space").is_empty());
    let command = Evidence {
        command: ["node", "--max-semi-space-size=32", "a.js"]
            .map(String::from)
            .to_vec(),
        ..faulting()
    };
    assert!(sets(&candidates(&all, &command), "node.semi-space").is_empty());
}

/// Check that Erlang's carriers are tried, except for settings that the user has made.
#[test]
fn carriers_of_erlang() {
    let beam = found(
        SoftwareKind::Beam,
        APP,
        Linking::Static,
        Version::exact(13, 1, 5),
    );
    let all = [libc(), beam];
    assert_eq!(
        sets(&candidates(&all, &faulting()), "erlang.carriers").len(),
        2
    );
    assert!(chosen(&all, &faulting(), 0.25).remedies.is_empty());
    let theirs = |name: &str| (name == "ERL_FLAGS").then(|| "+MBsbct 1024".into());
    let tried = candidates_in(&all, &faulting(), &theirs);
    assert_eq!(sets(&tried, "erlang.carriers"), ["+MMscs1024 +MMscofalse"]);
}

/// Check that NumPy's huge pages are tried without where huge pages take time, also where nobody is interrupted.
#[test]
fn huge_pages_of_numpy() {
    let numpy = FoundSoftware::new(
        SoftwareKind::NumPy,
        "/lib/_multiarray_umath.so",
        Linking::SharedLibrary,
        "",
    );
    let mut evidence = faulting();
    let without = |evidence: &Evidence| {
        let tried = candidates(&[libc(), numpy.clone()], evidence);
        sets(&tried, "numpy.no-huge-pages")
    };
    assert!(without(&evidence).is_empty());
    evidence.huge_time_permille = 100;
    assert_eq!(without(&evidence), ["0"]);
}

/// Check that huge pages are tried by the library under an allocator that can't ask for them, and not where the program forks as
/// it works.
#[test]
fn huge_pages_by_the_library() {
    let beam = found(
        SoftwareKind::Beam,
        APP,
        Linking::Static,
        Version::exact(13, 1, 5),
    );
    let all = [libc(), beam];
    let asks = |evidence: &Evidence| {
        let tried = candidates(&all, evidence);
        sets(&tried, "shim.huge-pages").contains(&"huge=2M,cache=0,zero=off,free=pass".to_owned())
    };
    assert!(asks(&faulting()));
    assert!(!asks(&seen(&[
        source(Cause::Munmap, APP, 900),
        source(Cause::Fork, "", 100)
    ])));
    let glibc = candidates(&[libc()], &faulting());
    assert!(sets(&glibc, "shim.huge-pages").is_empty());
}

/// Check that Java's huge pages and another collector are tried, and the collector only where none is named.
#[test]
fn options_of_java() {
    let java = found(
        SoftwareKind::Jvm,
        APP,
        Linking::SharedLibrary,
        Version::exact(17, 0, 0),
    );
    let all = [libc(), java];
    let tried = candidates(&all, &faulting());
    assert_eq!(sets(&tried, "jvm.parallel"), ["-XX:+UseParallelGC"]);
    let huge = ["-XX:+UseTransparentHugePages"];
    assert_eq!(sets(&tried, "jvm.huge-pages"), huge);
    assert!(chosen(&all, &faulting(), 0.25).remedies.is_empty());
    let command = Evidence {
        command: ["java", "-XX:+UseSerialGC", "A"].map(String::from).to_vec(),
        ..faulting()
    };
    let tried = candidates(&all, &command);
    assert!(sets(&tried, "jvm.parallel").is_empty());
    assert_eq!(sets(&tried, "jvm.huge-pages"), huge);
}

/// Check that a Go of 1.21.0 to 1.21.3 which asks for huge pages gets the advice to build anew, and no other does.
#[test]
fn go_that_collapses() {
    let notes = |version, cause| {
        let go = found(SoftwareKind::GoRuntime, APP, Linking::Static, version);
        let evidence = seen(&[
            source(Cause::MadviseDontneed, APP, 500),
            source(cause, APP, 500),
        ]);
        chosen(&[go], &evidence, 0.25).notes.join("\n")
    };
    let asked = Cause::MadviseOther;
    assert!(notes(Version::exact(1, 21, 3), asked).contains("Go 1.21.4 or later"));
    let later = notes(Version::exact(1, 21, 4), asked);
    assert!(!later.contains("Go 1.21.4 or later"), "{later}");
    assert!(!notes(Version::exact(1, 21, 3), Cause::MadviseDontneed).contains("1.21.4"));
}

/// Check that memory which a runtime keeps by its mimalloc is not promised to fit a budget, and that the price of others is
/// noted.
#[test]
fn mimalloc_inside_a_runtime() {
    let bun = found(
        SoftwareKind::Mimalloc,
        APP,
        Linking::Static,
        Version::exact(3, 3, 0),
    );
    let tried = candidates(
        &[libc(), bun],
        &seen(&[source(Cause::MadviseDontneed, APP, 1000)]),
    );
    let purge = tried.iter().find(|c| c.remedy == "mimalloc.purge").unwrap();
    assert!(purge.cost.contains("4 times"), "{purge:?}");
}

/// Check that jemalloc's huge pages are tried by themselves where there are many page faults, and its metadata's where that is
/// copied much; neither where the user has set it, or a version does not know it.
#[test]
fn huge_pages_of_jemalloc_alone() {
    let tried = |version: Version, conf: Option<&str>, metadata: u64| {
        let jemalloc = found(SoftwareKind::Jemalloc, APP, Linking::Static, version);
        let copies = ShootdownSource {
            caller_symbol: Some("base_alloc_edata".to_owned()),
            region: Some("anonymous memory, by a file".to_owned()),
            ..source(Cause::Cow, APP, metadata)
        };
        let evidence = seen(&[source(Cause::MadviseDontneed, APP, 1000), copies]);
        let env = |name: &str| conf.filter(|_| name == "MALLOC_CONF").map(str::to_owned);
        let all = candidates_in(&[jemalloc], &evidence, &env);
        [
            sets(&all, "jemalloc.huge-pages"),
            sets(&all, "jemalloc.huge-metadata"),
        ]
        .concat()
    };
    let new = || Version::exact(5, 3, 0);
    let [huge, metadata] = ["thp:always", "metadata_thp:always"];
    assert_eq!(tried(new(), None, 10), [huge]);
    assert_eq!(tried(new(), None, 400), [huge, metadata]);
    assert_eq!(tried(new(), Some("thp:default"), 400), [metadata]);
    assert_eq!(tried(new(), Some("metadata_thp:auto"), 400), [huge]);
    assert!(tried(Version::exact(5, 0, 1), None, 400).is_empty());
}
