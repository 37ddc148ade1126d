//! Recognition of every allocator that can be had here, by version and by how it is linked.
//!
//! What the machine has is taken from Debian's packages; what `bench/remedies/allocators` has built or
//! unpacked under `target/allocators` is taken too. Each is tried as its own library, from a program that
//! needs it, inside static programs as built and stripped, inside a Python extension, a Node addon and a
//! Rust program. The result is a table; one wrong line in it fails the test.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

#[path = "recognition/forms.rs"]
mod forms;
#[path = "recognition/subjects.rs"]
mod subjects;

use std::collections::BTreeMap;
use std::path::Path;

use quell_remedy::{
    FoundSoftware, Linking, SoftwareKind, Version, recognise_command, recognise_file,
};

use forms::Form;
use subjects::{ShootdownOrigin, Triple};

/// What has to be found is in here, or the reason why this form can't be had.
enum Had {
    FoundSoftware(Vec<FoundSoftware>),
    Not(String),
}

/// Check that each glibc is named right.
#[test]
fn glibc() {
    check(SoftwareKind::Glibc);
}

/// Check that each musl is named right.
#[test]
fn musl() {
    check(SoftwareKind::Musl);
}

/// Check that each jemalloc is named right.
#[test]
fn jemalloc() {
    check(SoftwareKind::Jemalloc);
}

/// Check that each mimalloc is named right.
#[test]
fn mimalloc() {
    check(SoftwareKind::Mimalloc);
}

/// Check that each gperftools is named right.
#[test]
fn gperftools() {
    check(SoftwareKind::Gperftools);
}

/// Check that google/tcmalloc is named right.
#[test]
fn google_tcmalloc() {
    check(SoftwareKind::GoogleTcmalloc);
}

/// Check that software from registries is named right: a Python extension and a Node addon.
#[test]
fn packages() {
    let packages = subjects::packages();
    if packages.is_empty() {
        println!(
            "SKIPPED: Python and Node packages: none in target/allocators; bench/remedies/allocators gets them"
        );
    }
    for (file, name, version) in packages {
        let found = recognise_file(&file).unwrap();
        println!("{}: {}", file.display(), show(&found));
        let [one] = &found[..] else {
            panic!("{}: {found:#?}", file.display());
        };
        assert_eq!((one.kind.name(), one.linking), (&*name, Linking::Static));
        let said = one.version.unwrap().to_string();
        assert!(said.starts_with(&version), "{said}, not {version}");
    }
}

/// All forms of all versions of one kind; prints its part of the table.
fn check(kind: SoftwareKind) {
    let dir = tempfile::tempdir().unwrap();
    let mut wrong = 0;
    let mut lines = vec![format!(
        "{:<24} {:<28} {:<44} verdict",
        "allocator", "form", "recognised as"
    )];
    let subjects = subjects::all(kind);
    for subject in &subjects {
        let mut skipped = BTreeMap::new();
        for form in Form::of(kind) {
            let had = find(subject, form, dir.path());
            let (shown, verdict) = match &had {
                Had::Not(why) => {
                    let forms: &mut Vec<String> = skipped.entry(why.clone()).or_default();
                    forms.push(form.to_string());
                    continue;
                }
                Had::FoundSoftware(found) => (show(found), judge(subject, form, found)),
            };
            wrong += usize::from(verdict.is_err());
            let verdict = verdict.err().unwrap_or_else(|| "right".to_owned());
            lines.push(format!(
                "{:<24} {:<28} {shown:<44} {verdict}",
                subject.label(),
                form.to_string()
            ));
        }
        for (why, forms) in skipped {
            let forms = forms.join("; ");
            println!("SKIPPED: {}, {forms}: {why}", subject.label());
        }
    }
    for why in subjects::missing(kind, &subjects) {
        println!("SKIPPED: {why}");
    }
    println!("{}", lines.join("\n"));
    assert_eq!(wrong, 0, "named wrong:\n{}", lines.join("\n"));
}

/// Makes the form and looks at it, as quell would.
fn find(subject: &ShootdownOrigin, form: Form, dir: &Path) -> Had {
    let file = match forms::make(subject, form, dir) {
        Ok(file) => file,
        Err(why) => return Had::Not(why),
    };
    let found = if form == Form::Dynamic {
        let none = |_: &str| None;
        recognise_command(&[file.into()], &none).map(|seen| seen.found)
    } else {
        recognise_file(&file)
    };
    Had::FoundSoftware(found.unwrap())
}

fn show(found: &[FoundSoftware]) -> String {
    let names = found.iter().map(|one| {
        let version = one.version.map_or("?".to_owned(), |v| v.to_string());
        format!("{} {version}", one.kind)
    });
    names.collect::<Vec<_>>().join(", ")
}

/// Whether the one allocator that is there was named, with its version, and nothing else.
fn judge(subject: &ShootdownOrigin, form: Form, found: &[FoundSoftware]) -> Result<(), String> {
    // The C library comes along wherever a program is looked at.
    let named: Vec<&FoundSoftware> = found
        .iter()
        .filter(|one| subject.kind.is_libc() || !one.kind.is_libc())
        .collect();
    let [one] = named[..] else {
        return Err(format!("WRONG: {} found, not 1", named.len()));
    };
    let kind = subject.kind;
    if one.kind != kind {
        return Err("WRONG: another allocator".to_owned());
    }
    if one.linking
        != if form.is_own_library() {
            Linking::SharedLibrary
        } else {
            Linking::Static
        }
    {
        return Err(format!("WRONG: taken for {:?}", one.linking));
    }
    if kind == SoftwareKind::Jemalloc {
        let conf = format!("{}MALLOC_CONF", subject.prefix.to_uppercase());
        if one.conf_env.as_deref() != Some(&conf) || one.prefix.as_deref() != Some(&subject.prefix)
        {
            return Err(format!("WRONG: said to read {:?}", one.conf_env));
        }
    }
    match (one.version, subject.version) {
        (Some(said), Some(is)) if !holds(said, is) => Err("WRONG: the version".to_owned()),
        (Some(said), Some(is)) if form.is_own_library() && !said.is_exact() && states(kind, is) => {
            Err("WRONG: a library's version is known exactly".to_owned())
        }
        (None, Some(_)) if form.states_version(kind) => Err("WRONG: no version".to_owned()),
        _ => Ok(()),
    }
}

/// Whether the library says its version: mimalloc has a function for that since 1.1, and the crates of jemalloc
/// before 5.1 leave the version out.
fn states(kind: SoftwareKind, is: Triple) -> bool {
    match kind {
        SoftwareKind::Mimalloc => is >= (1, 1, 0),
        SoftwareKind::Jemalloc => is >= (5, 1, 0),
        _ => true,
    }
}

/// Whether a version, or a range, holds the one that it is.
fn holds(said: Version, is: Triple) -> bool {
    said.from <= is && said.to.is_none_or(|to| is <= to)
}
