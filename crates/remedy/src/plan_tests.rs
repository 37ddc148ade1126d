//! Tests of choosing remedies, on made findings and evidence.

use quell_event::Cause;

use super::*;
use crate::{
    Evidence, FoundSoftware, Linking, ShootdownSource, SoftwareKind, Version, plan, remedy,
};

const POLARS: &str = "/venv/_polars_runtime.abi3.so";
const LIBC: &str = "/lib/x86_64-linux-gnu/libc.so.6";

fn jemalloc(version: Version) -> FoundSoftware {
    let mut found = FoundSoftware::new(SoftwareKind::Jemalloc, POLARS, Linking::Static, "");
    found.version = Some(version);
    found.conf_env = Some("_RJEM_MALLOC_CONF".into());
    found
}

fn glibc(minor: u32) -> FoundSoftware {
    let mut found = FoundSoftware::new(SoftwareKind::Glibc, LIBC, Linking::SharedLibrary, "");
    found.version = Some(Version::exact(2, minor, 0));
    found.conf_env = Some("GLIBC_TUNABLES".into());
    found
}

fn source(cause: Cause, module: &str, symbol: &str, shootdowns: u64) -> ShootdownSource {
    let text = |s: &str| (!s.is_empty()).then(|| s.to_owned());
    let caller_module = text(module).map(Into::into);
    ShootdownSource {
        cause,
        caller_module,
        caller_symbol: text(symbol),
        region: None,
        shootdowns,
    }
}

fn evidence(page_faults: u64, sources: Vec<ShootdownSource>) -> Evidence {
    let shootdowns = sources.iter().map(|s| s.shootdowns).sum();
    Evidence {
        shootdowns,
        page_faults: Some(page_faults),
        sources,
        ..Evidence::default()
    }
}

fn none(_: &str) -> Option<String> {
    None
}

fn ids(plan: &Plan) -> Vec<&str> {
    plan.remedies.iter().map(|r| r.remedy.as_str()).collect()
}

/// Check the plan for Polars: jemalloc by evidence, glibc left alone and said so.
#[test]
fn polars() {
    let found = [glibc(36), jemalloc(Version::exact(5, 3, 1))];
    let seen = evidence(
        200_000,
        vec![
            source(
                Cause::MadviseDontneed,
                POLARS,
                "_rjem_je_pages_purge_forced",
                1500,
            ),
            source(Cause::Munmap, POLARS, "", 92),
            source(Cause::Munmap, LIBC, "__libc_free", 8),
        ],
    );
    let plan = plan(&found, &seen, &none);
    assert_eq!(ids(&plan), ["jemalloc.decay"]);
    let decay = &plan.remedies[0];
    let expected = "dirty_decay_ms:-1,muzzy_decay_ms:-1,oversize_threshold:65536,\
        lg_extent_max_active_fit:16,thp:always";
    assert_eq!(decay.sets["_RJEM_MALLOC_CONF"], expected);
    assert!(
        (decay.predicted_stop - 0.945).abs() < 0.001,
        "{}",
        decay.predicted_stop
    );
    assert_eq!(
        decay.evidence,
        "1592 of 1600 shootdowns (99.5 %) are from jemalloc 5.3.1 in _polars_runtime.abi3.so: madvise.dontneed 1500, munmap 92"
    );
    assert!(
        plan.notes
            .iter()
            .any(|n| n.contains("glibc malloc 2.36.0") && n.contains("8 of 1600")),
        "{:?}",
        plan.notes
    );
}

/// Check that few shootdowns and few faults give no remedy, and say why.
#[test]
fn nothing_to_gain() {
    let found = [glibc(36), jemalloc(Version::exact(5, 3, 1))];
    let seen = evidence(900, vec![source(Cause::Munmap, LIBC, "free", 12)]);
    let plan = plan(&found, &seen, &none);
    assert!(plan.remedies.is_empty());
    assert_eq!(
        plan.notes,
        ["12 shootdowns and 900 page faults in the whole run: nothing to gain"]
    );
}

/// Check that many faults alone tune an allocator that was built in, but never the C library.
#[test]
fn faults_alone() {
    let seen = evidence(400_000, vec![source(Cause::Munmap, "", "", 30)]);
    let found = [glibc(36), jemalloc(Version::exact(5, 3, 1))];
    assert_eq!(ids(&plan(&found, &seen, &none)), ["jemalloc.decay"]);
    assert_eq!(ids(&plan(&found[..1], &seen, &none)), Vec::<&str>::new());
}

/// Check that glibc's limits always go up together, by the keys that its version takes.
#[test]
fn glibc_keys() {
    let seen = evidence(0, vec![source(Cause::Munmap, LIBC, "__libc_free", 900)]);
    let sets =
        |minor| plan(&[glibc(minor)], &seen, &none).remedies[0].sets["GLIBC_TUNABLES"].clone();
    for minor in [26, 34, 35, 36, 41] {
        let value = sets(minor);
        assert!(value.contains("trim_threshold=4294967296"), "{value}");
        assert_ne!(
            value.contains("mmap_threshold="),
            value.contains("mmap_max=0"),
            "{value}"
        );
        assert_eq!(value.contains("mmap_threshold="), minor >= 35);
    }
    let old = plan(&[glibc(19)], &seen, &none);
    assert!(
        old.remedies.is_empty() && old.notes[0].contains("older than 2.26"),
        "{old:?}"
    );
}

/// Check that each jemalloc gets only keys that it knows.
#[test]
fn jemalloc_keys() {
    let seen = evidence(
        200_000,
        vec![source(Cause::MadviseDontneed, POLARS, "", 900)],
    );
    let conf = |version, env: &dyn Fn(&str) -> Option<String>| {
        let plan = plan(&[jemalloc(version)], &seen, &|n: &str| env(n));
        plan.remedies
            .first()
            .map(|r| r.sets["_RJEM_MALLOC_CONF"].clone())
    };
    let get = |version| conf(version, &none);
    assert_eq!(
        get(Version::exact(3, 6, 0)).as_deref(),
        Some("lg_dirty_mult:-1")
    );
    assert_eq!(
        get(Version::exact(4, 5, 0)).as_deref(),
        Some("lg_dirty_mult:-1")
    );
    let decays = |_: &str| Some("purge:decay".to_owned());
    assert_eq!(
        conf(Version::exact(4, 5, 0), &decays).as_deref(),
        Some("purge:decay,decay_time:-1")
    );
    assert_eq!(
        get(Version::exact(5, 0, 1)).as_deref(),
        Some("dirty_decay_ms:-1,muzzy_decay_ms:-1")
    );
    assert_eq!(
        get(Version::exact(5, 1, 0)).as_deref(),
        Some("dirty_decay_ms:-1,muzzy_decay_ms:-1,thp:always")
    );
    assert!(
        get(Version::range((5, 2, 0), (5, 2, 1))).is_some_and(|c| c.contains("oversize_threshold"))
    );
    assert_eq!(
        get(Version {
            from: (4, 0, 0),
            to: None
        }),
        None
    );
    for version in [Version::exact(4, 5, 0), Version::exact(5, 3, 1)] {
        assert!(get(version).is_some_and(|c| !c.contains(' ')));
    }
}

/// Check that a program that forks as it works gets no huge pages, and that the zero pages of
/// jemalloc's own metadata are counted to it.
#[test]
fn forks_and_zero_pages() {
    let found = [jemalloc(Version::exact(5, 3, 0))];
    let mut sources = vec![
        source(Cause::MadviseDontneed, POLARS, "", 900),
        source(Cause::Cow, POLARS, "_rjem_je_base_alloc_edata", 100),
        source(Cause::Cow, POLARS, "Frame::fill", 90),
    ];
    let decide =
        |sources: &[ShootdownSource]| plan(&found, &evidence(200_000, sources.to_vec()), &none);
    let calm = decide(&sources);
    assert!(
        calm.remedies[0].evidence.starts_with("1000 of 1090"),
        "{calm:?}"
    );
    assert!(calm.remedies[0].sets["_RJEM_MALLOC_CONF"].contains("thp:always"));
    sources.push(source(Cause::Fork, "/usr/bin/app", "save", 3));
    let forks = decide(&sources);
    assert!(
        !forks.remedies[0].sets["_RJEM_MALLOC_CONF"].contains("thp"),
        "{forks:?}"
    );
}

/// Check that pages that are read before they are written are counted to the jemalloc that handed them out, be it its own
/// file that writes or the C library, and not to it where another file does; that huge pages are promised to stop them,
/// and those of its metadata only where these have huge pages too, which is taken where they are many.
#[test]
fn read_before_written() {
    let found = [
        jemalloc(Version::exact(5, 3, 1)),
        FoundSoftware::new(SoftwareKind::Glibc, LIBC, Linking::SharedLibrary, ""),
    ];
    let zeros = |module: &str, symbol: &str, shootdowns| ShootdownSource {
        region: Some("anonymous memory, by a file".to_owned()),
        ..source(Cause::Cow, module, symbol, shootdowns)
    };
    let decide = |metadata: u64| {
        let sources = vec![
            source(Cause::MadviseFree, POLARS, "_rjem_je_pages_purge_lazy", 500),
            zeros(POLARS, "HashKeys::from_df", 200),
            zeros(LIBC, "__memset_avx512_unaligned_erms", 300),
            zeros("/usr/bin/app", "fill", 40),
            zeros(POLARS, "_rjem_je_base_alloc_edata", metadata),
        ];
        let mut seen = evidence(200_000, sources);
        seen.from_start = true;
        seen.max_rss = Some(900 << 20);
        plan(&found, &seen, &none)
    };
    let few = decide(10);
    assert!(
        few.remedies[0].evidence.starts_with("1010 of 1050"),
        "{few:?}"
    );
    let keys = &few.remedies[0].sets["_RJEM_MALLOC_CONF"];
    assert!(
        keys.ends_with("thp:always") && !keys.contains("metadata"),
        "{keys}"
    );
    let many = decide(100);
    let keys = &many.remedies[0].sets["_RJEM_MALLOC_CONF"];
    assert!(keys.ends_with("thp:always,metadata_thp:always"), "{keys}");
    let stops = many.predicted_stop();
    assert!((0.9..0.93).contains(&stops), "{stops}");
}

/// Check that the user's settings are kept, replaced with a note, or found to be the remedy already.
#[test]
fn users_environment() {
    let found = [jemalloc(Version::exact(5, 0, 1))];
    let seen = evidence(0, vec![source(Cause::MadviseDontneed, POLARS, "", 900)]);
    let with =
        |value: &'static str| move |n: &str| (n == "_RJEM_MALLOC_CONF").then(|| value.to_owned());
    let env = with("narenas:2, dirty_decay_ms:500");
    let changed = plan(&found, &seen, &env);
    let merged = changed.environment(&env);
    assert_eq!(
        merged["_RJEM_MALLOC_CONF"],
        "narenas:2,dirty_decay_ms:-1,muzzy_decay_ms:-1"
    );
    assert!(
        changed
            .notes
            .iter()
            .any(|n| n.contains("replaces your dirty_decay_ms:500")),
        "{:?}",
        changed.notes
    );
    assert!(
        changed
            .notes
            .iter()
            .any(|n| n.contains("blank behind a comma"))
    );
    let set = plan(&found, &seen, &with("dirty_decay_ms:-1,muzzy_decay_ms:-1"));
    assert!(
        set.remedies.is_empty() && set.notes[0].contains("set already"),
        "{set:?}"
    );
    // A malformed value was not read, so the same settings in it count for nothing.
    let malformed = plan(&found, &seen, &with("dirty_decay_ms:-1, muzzy_decay_ms:-1"));
    assert_eq!(ids(&malformed), ["jemalloc.decay"]);
}

/// Check that shootdowns without a remedy are noted: own calls, thread stacks, the kernel's own causes.
#[test]
fn the_rest() {
    let seen = evidence(
        0,
        vec![
            source(Cause::Munmap, "/opt/app", "Pool::shrink", 100),
            source(Cause::MadviseDontneed, LIBC, "start_thread", 100),
            source(Cause::Ksm, "", "", 70),
            source(Cause::Reclaim, "", "", 30),
            source(Cause::Munmap, LIBC, "munmap", 100),
        ],
    );
    let plan = plan(&[glibc(36)], &seen, &none);
    let notes = plan.notes.join("\n");
    assert!(
        notes.contains("100 shootdowns (25 %) are from app's own calls"),
        "{notes}"
    );
    assert!(
        notes.contains("stacks of ending threads: each thread that ends")
            && notes.contains("30 shootdowns (8 %) are by reclaim, which no allocator does")
            && notes.contains("70 shootdowns (18 %) are by ksm: ksm=never would stop them"),
        "{notes}"
    );
    // The wrapper alone names nobody: said, and nothing rests on it.
    assert!(
        notes.contains(
            "100 shootdowns (25 %) are from calls whose caller no stack names: it may be glibc malloc"
        ),
        "{notes}"
    );
    assert!(plan.remedies.is_empty(), "{plan:?}");
}

/// Check that Go's madvdontneed is never set, and that a GOGC of the user's is respected.
#[test]
fn go() {
    let found = [FoundSoftware::new(
        SoftwareKind::GoRuntime,
        "/opt/app",
        Linking::Static,
        "",
    )];
    let seen = evidence(
        0,
        vec![source(
            Cause::MadviseDontneed,
            "/opt/app",
            "runtime.madvise",
            900,
        )],
    );
    let default = plan(&found, &seen, &none);
    assert_eq!(
        default.environment(&none),
        BTreeMap::from([("GOGC".into(), "400".into())])
    );
    let off = plan(&found, &seen, &|n: &str| {
        (n == "GOGC").then(|| "off".to_owned())
    });
    assert!(off.remedies.is_empty() && off.notes[0].contains("GOGC is off"));
}

/// Check that every remedy states its name, its source and when it makes things worse, and that names are unique.
#[test]
fn remedies_are_documented() {
    let mut seen = std::collections::HashSet::new();
    for remedy in remedy::ALL_REMEDIES {
        assert!(seen.insert(remedy.id), "{} twice", remedy.id);
        for text in [remedy.stops, remedy.worse, remedy.source] {
            assert!(!text.is_empty(), "{}", remedy.id);
        }
    }
}
