//! A kernel that is locked down (lockdown(7)), as it is after Secure Boot: what works, and what is said.

use crate::common::{alone, json, quell, root_only};

/// The mode that is on, or none where the kernel has no such thing.
fn mode() -> Option<String> {
    let modes = std::fs::read_to_string("/sys/kernel/security/lockdown").ok()?;
    let (_, rest) = modes.split_once('[')?;
    rest.split_once(']').map(|(mode, _)| mode.to_owned())
}

fn is(test: &str, wanted: &str) -> bool {
    let found = mode();
    let same = found.as_deref() == Some(wanted);
    if !same {
        eprintln!(
            "SKIPPED {test}: this kernel is not locked down for {wanted} ({found:?}); 'make test-kernels' boots one that is"
        );
    }
    root_only(test) && same
}

/// Check that under lockdown for integrity the probe records, and that user and kernel code have names.
#[test]
fn integrity_hides_nothing() {
    if !is("integrity_hides_nothing", "integrity") {
        return;
    }
    let _alone = alone();
    let dir = tempfile::tempdir().expect("a folder");
    let trace = dir.path().join("t.quell");
    let trace = trace.to_str().expect("a path");
    let causes = crate::common::example("causes");
    let out = quell(&["record", "-o", trace, "--", &causes, "fork", "50"]);
    assert!(out.status.success(), "{out:?}");
    let report = json(&quell(&["report", trace, "--json"]).stdout);
    assert!(
        crate::common::cause(&report, "fork", "shootdowns") > 20,
        "{report:#}"
    );
    let text = quell(&["report", trace, "-n", "1000"]).stdout;
    let text = String::from_utf8_lossy(&text);
    assert!(text.contains("(causes)"), "{text}");
}

/// Check that under lockdown for confidentiality, which lets no program read the kernel's memory, stat counts what /proc tells, and record and top say in one line what forbids them and what helps.
#[test]
fn confidentiality_is_said() {
    if !is("confidentiality_is_said", "confidentiality") {
        return;
    }
    let out = quell(&["stat", "-a", "-d", "0.5"]);
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success() && said.contains("(proc, "), "{out:?}");
    for verb in [&["record", "-a", "-d", "1"][..], &["top", "--batch", "1"]] {
        let out = quell(verb);
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.contains("lockdown=integrity"), "{said}");
    }
}
