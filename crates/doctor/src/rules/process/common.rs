//! What rules of this group share: the allocators in a process, what they are told, and quell's own remedies.

use std::path::{Path, PathBuf};

use quell_host::under;
use quell_remedy::{Evidence, FoundSoftware, Recognised, SoftwareKind};

use crate::finding::{Read, Severity, Status};
use crate::fix::Fix;
use crate::harm::Callers;
use crate::look::{Look, Value};
use crate::process::Process;
use crate::rule::Checked;
use crate::rules;

/// Said where smaps, maps or numa_maps can't be read.
pub(super) const UNREADABLE: &str = "its mappings can't be read (CAP_SYS_PTRACE or CAP_PERFMON)";

/// Why there is no second reading of the process.
pub(super) fn unseen(look: &Look<'_>) -> &'static str {
    match look.evidence().grown {
        Some(_) => "it ended while it was watched",
        None => rules::unseen(look),
    }
}

/// A variable of the environment that the process was started with.
pub(super) type Env<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// What an allocator in a process may listen to.
pub(super) struct Seen<'a> {
    /// All allocators in it.
    pub(super) all: &'a [FoundSoftware],
    /// Its environment.
    pub(super) env: &'a Env<'a>,
    /// Its arguments; `None` if they can't be read.
    pub(super) arguments: Option<Vec<String>>,
    /// Its root folder, as we see it.
    pub(super) root: PathBuf,
}

/// Asks about each allocator of these kinds in the process. The worst answers are put together.
pub(super) fn each(
    process: &Process,
    kinds: &[SoftwareKind],
    judge: impl Fn(&FoundSoftware, &Seen<'_>) -> Checked,
) -> Checked {
    let maps = process.path("maps");
    let all = match process.recognised() {
        Ok(all) => all,
        Err(why) => {
            return Checked::unknown(UNREADABLE).read([Read::new(maps, format!("({why})"))]);
        }
    };
    let found = all.found.iter().filter(|f| kinds.contains(&f.kind));
    let found: Vec<&FoundSoftware> = found.collect();
    if found.is_empty() {
        return without(kinds, all).read([Read::new(maps, "none found")]);
    }
    let read = found.iter().map(|f| Read::new(maps.clone(), f.to_string()));
    if let Some(why) = unreadable(&process.file("environ")) {
        return Checked::unknown(why).read(read);
    }
    let seen = Seen {
        all: &all.found,
        env: &|name: &str| process.variable(name).flatten(),
        arguments: process.arguments(),
        root: under(process.root(), Path::new(&process.path("root"))),
    };
    let answers = found.iter().map(|found| judge(found, &seen)).collect();
    let mut checked = alone(process, worst(answers, read.collect()));
    checked.callers = Some(Callers {
        all: all.found.clone(),
        kinds: kinds.to_vec(),
    });
    checked
}

/// Why an environment can't be told, if so.
fn unreadable(environ: &Value) -> Option<&'static str> {
    let Some(text) = environ.text() else {
        return Some(
            "its environment can't be read (CAP_DAC_READ_SEARCH, and CAP_SYS_PTRACE or CAP_PERFMON)",
        );
    };
    // Redis and PostgreSQL write their title over it: NULs where Redis did, seen in 7.0.15
    let first = text.split('\0').next().unwrap_or_default();
    (!text.is_empty() && !first.contains('=')).then_some(
        "its environment was overwritten, as programs do that change their title: look at how it is started",
    )
}

/// None of these kinds was found: because there is none, or because a file could not be read.
fn without(kinds: &[SoftwareKind], all: &Recognised) -> Checked {
    // code that the program made as it runs (a JIT's memfd) is no file of an allocator, readable or not
    let missed = |line: &&String| !line.contains("not an ELF file") && !line.contains(" /memfd:");
    let names: Vec<&str> = kinds.iter().map(|k| k.name()).collect();
    match all.skipped.iter().find(missed) {
        Some(line) => Checked::unknown(format!("a file of it can't be read: {line}")),
        None => Checked::ok(format!("no {} in it", names.join(" and no "))),
    }
}

/// The worst of several answers, each thing once.
fn worst(answers: Vec<Checked>, read: Vec<Read>) -> Checked {
    let status = answers.iter().filter_map(|a| a.status).max();
    let mut out = Checked {
        status,
        read,
        ..Checked::default()
    };
    let mut said: Vec<String> = Vec::new();
    for answer in answers {
        add(&mut out.read, answer.read);
        if answer.status == status {
            add(&mut said, vec![answer.said]);
            add(&mut out.fixes, answer.fixes);
            add(&mut out.notes, answer.notes);
            add(&mut out.counters, answer.counters);
            out.severity = out.severity.max(answer.severity);
        }
    }
    out.said = said.join("; ");
    out
}

fn add<T: PartialEq>(to: &mut Vec<T>, more: Vec<T>) {
    for one in more {
        if !to.contains(&one) {
            to.push(one);
        }
    }
}

/// With one thread there is nobody to interrupt: what is left are page faults.
fn alone(process: &Process, checked: Checked) -> Checked {
    let (threads, read) = process.status("Threads");
    if checked.status != Some(Status::Hazard) || threads.as_deref() != Some("1") {
        return checked;
    }
    let note = "it has one thread now, so that it interrupts nobody: memory that was given back costs a page \
                fault when it is used again";
    checked.severity(Severity::Low).read([read]).note(note)
}

/// A variable, and what of it goes into the finding.
pub(super) fn variable(env: &Env<'_>, name: &str) -> (Option<String>, Read) {
    let value = env(name);
    let shown = value.clone().unwrap_or_else(|| "(not set)".to_owned());
    (value, Read::new(format!("environment {name}"), shown))
}

/// Adds what quell itself would set (crates/remedy, measured in docs/remedies.md), behind what the user has set.
pub(super) fn remedied(mut checked: Checked, found: &FoundSoftware, env: &Env<'_>) -> Checked {
    // as if all of its shootdowns came from this allocator. Without page faults, so that no huge pages are
    // asked for: they are weighed where the faults are counted (quell plan)
    let evidence = Evidence {
        shootdowns: 1000,
        page_faults: Some(0),
        ..Evidence::default()
    };
    let env = |name: &str| env(name);
    let plan = quell_remedy::plan(std::slice::from_ref(found), &evidence, &env);
    if plan.remedies.is_empty() {
        checked.notes.extend(plan.notes.iter().cloned());
    }
    let sets = plan.environment(&env).into_iter();
    add(
        &mut checked.fixes,
        sets.map(|(name, value)| Fix::env(name, value)).collect(),
    );
    checked
}

/// Adds words to JAVA_TOOL_OPTIONS, where later ones win.
pub(super) fn java_options(env: &Env<'_>, words: &str) -> Fix {
    let before = env("JAVA_TOOL_OPTIONS").unwrap_or_default();
    Fix::env("JAVA_TOOL_OPTIONS", format!("{before} {words}").trim())
}

/// Programs made of constants, to recognise allocators in.
#[cfg(test)]
pub(super) mod made {
    use super::*;
    use crate::finding::Finding;
    use crate::rule::Rule;
    use crate::rules::fixture::ask;

    /// jemalloc as Redis has it, which reads JE_MALLOC_CONF.
    pub(in super::super) const REDIS: &str =
        "\0<jemalloc>: Error in %s\n\0JE_MALLOC_CONF\0dirty_decay_ms\x005.2.1-0-g0\0";

    /// The smallest ELF program with these constants. Each byte of it is ASCII, as files of the fixture are text.
    pub(in super::super) fn program(constants: &str) -> String {
        const SIZE: u64 = 1024;
        let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0\x01\0\0\0".to_vec();
        for word in [0x40_0000, 64, 0] {
            file.extend(u64::to_le_bytes(word));
        }
        file.extend(0u32.to_le_bytes());
        for half in [64u16, 56, 1, 64, 0, 0] {
            file.extend(half.to_le_bytes());
        }
        file.extend(b"\x01\0\0\0\x04\0\0\0");
        for word in [0, 0x40_0000, 0x40_0000, SIZE, SIZE, 4096] {
            file.extend(u64::to_le_bytes(word));
        }
        file.extend(constants.as_bytes());
        file.resize(1024, 0);
        String::from_utf8(file).unwrap()
    }

    /// What a rule finds in a process that runs /opt/NAME with these constants, in this environment, with these
    /// arguments (both ended by NUL).
    pub(in super::super) fn asked(
        rule: &Rule,
        name: &str,
        constants: &str,
        environ: &str,
        arguments: &str,
    ) -> Finding {
        let file = format!("/opt/{name}");
        let maps = format!("400000-401000 r-xp 00000000 fe:00 5 {file}");
        ask(
            rule,
            &[
                ("PID/maps", &maps),
                (&file, &program(constants)),
                ("PID/environ", environ),
                ("PID/cmdline", arguments),
            ],
        )
    }

    /// An allocator of this version, and what was found of it.
    pub(in super::super) fn found(kind: SoftwareKind, version: (u32, u32, u32)) -> FoundSoftware {
        let mut found =
            FoundSoftware::new(kind, "/lib/x.so", quell_remedy::Linking::SharedLibrary, "");
        found.version = Some(quell_remedy::Version::exact(
            version.0, version.1, version.2,
        ));
        found
    }

    /// What a rule says of an allocator in this environment.
    pub(in super::super) fn judged(
        judge: fn(&FoundSoftware, &Seen<'_>) -> Checked,
        found: &FoundSoftware,
        env: &[(&str, &str)],
    ) -> Checked {
        let get = |name: &str| {
            let hit = env.iter().find(|(n, _)| *n == name);
            hit.map(|(_, value)| (*value).to_owned())
        };
        let seen = Seen {
            all: std::slice::from_ref(found),
            env: &get,
            arguments: None,
            root: PathBuf::from("/nowhere"),
        };
        judge(found, &seen)
    }
}

#[cfg(test)]
mod tests {
    use super::made::{REDIS, program};
    use super::*;
    use crate::rule::{Check, Rule};
    use crate::rules::fixture::ask;

    const ANY: Rule = Rule {
        id: "X",
        title: "",
        severity: Severity::High,
        why: "",
        risk: "",
        source: "",
        causes: &[],
        check: Check::Process(|_, process| {
            each(process, &[SoftwareKind::Jemalloc], |_, _| {
                Checked::hazard("x")
            })
        }),
    };
    const MAPS: &str = "400000-401000 r-xp 00000000 fe:00 5 /opt/app";

    /// Check that an allocator is found, that one that can't be looked for is unknown, and that none is fine.
    #[test]
    fn allocators_are_found() {
        let status = |files: &[(&str, &str)]| ask(&ANY, files).status;
        let redis = program(REDIS);
        let maps = ("PID/maps", MAPS);
        let environ = ("PID/environ", "A=b\0");
        assert_eq!(
            status(&[maps, ("/opt/app", &redis), environ]),
            Status::Hazard
        );
        let title = ("PID/environ", "\0\0\0");
        assert_eq!(
            status(&[maps, ("/opt/app", &redis), title]),
            Status::Unknown
        );
        assert_eq!(status(&[maps, ("/opt/app", &redis)]), Status::Unknown);
        assert_eq!(status(&[maps, environ]), Status::Unknown, "no such file");
        assert_eq!(status(&[environ]), Status::Unknown, "no mappings");
        assert_eq!(status(&[maps, ("/opt/app", &program(""))]), Status::Ok);
        let made = ("PID/map_files/400000-401000", "a JIT's code");
        assert_eq!(status(&[maps, made]), Status::Ok);
        let hidden = (
            "PID/maps",
            "400000-401000 r-xs 00000000 00:01 5 /memfd:jit (deleted)",
        );
        assert_eq!(status(&[hidden]), Status::Ok);
    }

    /// Check that a process of one thread is not judged as one of many.
    #[test]
    fn one_thread_interrupts_nobody() {
        let with = |threads: &str| {
            let status = format!("Threads:\t{threads}");
            ask(
                &ANY,
                &[
                    ("PID/maps", MAPS),
                    ("/opt/app", &program(REDIS)),
                    ("PID/environ", "A=b\0"),
                    ("PID/status", &status),
                ],
            )
        };
        assert_eq!(with("1").severity, Severity::Low);
        assert_eq!(with("2").severity, Severity::High);
    }

    /// Check that of several answers the worst are said, and no fix twice.
    #[test]
    fn the_worst_counts() {
        let fix = || Fix::env("A", "1");
        let answers = vec![
            Checked::ok("fine"),
            Checked::hazard("a").fix(fix()),
            Checked::hazard("b").fix(fix()),
        ];
        let out = worst(answers, Vec::new());
        assert_eq!(
            (out.status, out.said.as_str()),
            (Some(Status::Hazard), "a; b")
        );
        assert_eq!(out.fixes, [fix()]);
    }
}
