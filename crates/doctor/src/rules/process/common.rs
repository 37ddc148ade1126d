//! The allocators in a process, their settings, and quell's own remedies, for the rules about a process.

use std::path::{Path, PathBuf};

use quell_host::under;
use quell_remedy::{Evidence, Recognised};

use crate::finding::FindingStatus;
use crate::judged_allocators::JudgedAllocators;
use crate::rules;
use crate::rules::prelude::*;

/// Said where smaps, maps or numa_maps can't be read.
pub(super) const MAPPINGS_UNREADABLE: &str =
    "its mappings can't be read (CAP_SYS_PTRACE or CAP_PERFMON)";

/// Why there is no second reading of the process.
pub(super) fn why_no_second_reading(look: &SystemView<'_>) -> &'static str {
    match look.evidence.counter_growth {
        Some(_) => "it ended while it was watched",
        None => rules::why_no_growth(look),
    }
}

/// A variable of the environment that the process was started with.
pub(super) type StartEnvironment<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// The inputs that an allocator in a process may listen to.
pub(super) struct AllocatorInputs<'a> {
    /// All allocators in it.
    pub(super) all: &'a [FoundSoftware],
    /// Its environment.
    pub(super) env: &'a StartEnvironment<'a>,
    /// Its arguments; `None` if they can't be read.
    pub(super) arguments: Option<Vec<String>>,
    /// Its root folder, as we see it.
    pub(super) root: PathBuf,
}

/// Asks about each allocator of these kinds in the process. The worst answers are put together.
pub(super) fn judge_allocators(
    process: &AuditedProcess,
    kinds: &[SoftwareKind],
    judge: impl Fn(&FoundSoftware, &AllocatorInputs<'_>) -> CheckResult,
) -> CheckResult {
    let maps = process.proc_path("maps");
    let all = match process.recognised_software() {
        Ok(all) => all,
        Err(why) => {
            return CheckResult::unknown(MAPPINGS_UNREADABLE)
                .with_reads([FileReading::new(maps, format!("({why})"))]);
        }
    };
    let found = all.found.iter().filter(|f| kinds.contains(&f.kind));
    let found: Vec<&FoundSoftware> = found.collect();
    if found.is_empty() {
        return none_found(kinds, all).with_reads([FileReading::new(maps, "none found")]);
    }
    let read = found
        .iter()
        .map(|f| FileReading::new(maps.clone(), f.to_string()));
    if let Some(why) = why_environment_unknown(&process.file("environ")) {
        return CheckResult::unknown(why).with_reads(read);
    }
    let seen = AllocatorInputs {
        all: &all.found,
        env: &|name: &str| process.start_variable(name).flatten(),
        arguments: process.arguments(),
        root: under(process.root(), Path::new(&process.proc_path("root"))),
    };
    let answers = found.iter().map(|found| judge(found, &seen)).collect();
    let mut checked = weigh_single_thread(process, worst_answer(answers, read.collect()));
    checked.callers = Some(JudgedAllocators {
        all_in_process: all.found.clone(),
        kinds: kinds.to_vec(),
    });
    checked
}

/// Why an environment can't be told, if so.
fn why_environment_unknown(environ: &FileValue) -> Option<&'static str> {
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
fn none_found(kinds: &[SoftwareKind], all: &Recognised) -> CheckResult {
    // code that the program made as it runs (a JIT's memfd) is no file of an allocator, readable or not
    let missed = |line: &&String| !line.contains("not an ELF file") && !line.contains(" /memfd:");
    let names: Vec<&str> = kinds.iter().map(|k| k.name()).collect();
    match all.skipped.iter().find(missed) {
        Some(line) => CheckResult::unknown(format!("a file of it can't be read: {line}")),
        None => CheckResult::ok(format!("no {} in it", names.join(" and no "))),
    }
}

/// The worst of several answers, each thing once.
fn worst_answer(answers: Vec<CheckResult>, read: Vec<FileReading>) -> CheckResult {
    let status = answers.iter().filter_map(|a| a.status).max();
    let mut out = CheckResult {
        status,
        read,
        ..CheckResult::default()
    };
    let mut said: Vec<String> = Vec::new();
    for answer in answers {
        add_missing(&mut out.read, answer.read);
        if answer.status == status {
            add_missing(&mut said, vec![answer.said]);
            add_missing(&mut out.fixes, answer.fixes);
            add_missing(&mut out.notes, answer.notes);
            add_missing(&mut out.counters, answer.counters);
            out.severity = out.severity.max(answer.severity);
        }
    }
    out.said = said.join("; ");
    out
}

fn add_missing<T: PartialEq>(to: &mut Vec<T>, more: Vec<T>) {
    for one in more {
        if !to.contains(&one) {
            to.push(one);
        }
    }
}

/// With one thread there is nobody to interrupt: only page faults are left.
fn weigh_single_thread(process: &AuditedProcess, checked: CheckResult) -> CheckResult {
    let (threads, read) = process.status_field("Threads");
    if checked.status != Some(FindingStatus::Hazard) || threads.as_deref() != Some("1") {
        return checked;
    }
    let note = "it has one thread now, so that it interrupts nobody: memory that was given back costs a page \
                fault when it is used again";
    checked
        .with_severity(Severity::Low)
        .with_reads([read])
        .with_note(note)
}

/// A variable, with the text that goes into the finding.
pub(super) fn read_variable(
    env: &StartEnvironment<'_>,
    name: &str,
) -> (Option<String>, FileReading) {
    let value = env(name);
    let shown = value.clone().unwrap_or_else(|| "(not set)".to_owned());
    (
        value,
        FileReading::new(format!("environment {name}"), shown),
    )
}

/// Adds the settings of quell's own remedy (crates/remedy, measured in docs/remedies.md), behind those of the user.
pub(super) fn with_remedy(
    mut checked: CheckResult,
    found: &FoundSoftware,
    env: &StartEnvironment<'_>,
) -> CheckResult {
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
    add_missing(
        &mut checked.fixes,
        sets.map(|(name, value)| Fix::set_variable(name, value))
            .collect(),
    );
    checked
}

/// Adds words to JAVA_TOOL_OPTIONS, where later ones win.
pub(super) fn add_java_options(env: &StartEnvironment<'_>, words: &str) -> Fix {
    let before = env("JAVA_TOOL_OPTIONS").unwrap_or_default();
    Fix::set_variable("JAVA_TOOL_OPTIONS", format!("{before} {words}").trim())
}

/// Programs made of constants, to recognise allocators in.
#[cfg(test)]
pub(super) mod made {
    use super::*;
    use crate::finding::Finding;
    use crate::rule::AuditRule;
    use crate::rules::fixture::ask_rule_on;

    /// jemalloc as Redis has it, which reads JE_MALLOC_CONF.
    pub(in super::super) const REDIS_JEMALLOC: &str =
        "\0<jemalloc>: Error in %s\n\0JE_MALLOC_CONF\0dirty_decay_ms\x005.2.1-0-g0\0";

    /// The smallest ELF program with these constants. Each byte of it is ASCII, as files of the fixture are text.
    pub(in super::super) fn elf_program(constants: &str) -> String {
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

    /// The finding of a rule in a process that runs /opt/NAME with these constants, in this environment, with these
    /// arguments (both ended by NUL).
    pub(in super::super) fn ask_about_program(
        rule: &AuditRule,
        name: &str,
        constants: &str,
        environ: &str,
        arguments: &str,
    ) -> Finding {
        let file = format!("/opt/{name}");
        let maps = format!("400000-401000 r-xp 00000000 fe:00 5 {file}");
        ask_rule_on(
            rule,
            &[
                ("PID/maps", &maps),
                (&file, &elf_program(constants)),
                ("PID/environ", environ),
                ("PID/cmdline", arguments),
            ],
        )
    }

    /// An allocator of this version.
    pub(in super::super) fn allocator_of_version(
        kind: SoftwareKind,
        version: (u32, u32, u32),
    ) -> FoundSoftware {
        let mut found =
            FoundSoftware::new(kind, "/lib/x.so", quell_remedy::Linking::SharedLibrary, "");
        found.version = Some(quell_remedy::Version::exact(
            version.0, version.1, version.2,
        ));
        found
    }

    /// The answer of a rule about an allocator in this environment.
    pub(in super::super) fn judge_in_environment(
        judge: fn(&FoundSoftware, &AllocatorInputs<'_>) -> CheckResult,
        found: &FoundSoftware,
        env: &[(&str, &str)],
    ) -> CheckResult {
        let get = |name: &str| {
            let hit = env.iter().find(|(n, _)| *n == name);
            hit.map(|(_, value)| (*value).to_owned())
        };
        let seen = AllocatorInputs {
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
    use super::made::{REDIS_JEMALLOC, elf_program};
    use super::*;
    use crate::rule::{AuditRule, RuleCheck};
    use crate::rules::fixture::ask_rule_on;

    const ANY: AuditRule = AuditRule {
        id: "X",
        title: "",
        severity: Severity::High,
        why: "",
        risk: "",
        source: "",
        causes: &[],
        check: RuleCheck::Process(|_, process| {
            judge_allocators(process, &[SoftwareKind::Jemalloc], |_, _| {
                CheckResult::hazard("x")
            })
        }),
    };
    const MAPS: &str = "400000-401000 r-xp 00000000 fe:00 5 /opt/app";

    /// Check that an allocator is found, that one that can't be looked for is unknown, and that none is fine.
    #[test]
    fn allocators_are_found() {
        let status = |files: &[(&str, &str)]| ask_rule_on(&ANY, files).status;
        let redis = elf_program(REDIS_JEMALLOC);
        let maps = ("PID/maps", MAPS);
        let environ = ("PID/environ", "A=b\0");
        assert_eq!(
            status(&[maps, ("/opt/app", &redis), environ]),
            FindingStatus::Hazard
        );
        let title = ("PID/environ", "\0\0\0");
        assert_eq!(
            status(&[maps, ("/opt/app", &redis), title]),
            FindingStatus::Unknown
        );
        assert_eq!(
            status(&[maps, ("/opt/app", &redis)]),
            FindingStatus::Unknown
        );
        assert_eq!(
            status(&[maps, environ]),
            FindingStatus::Unknown,
            "no such file"
        );
        assert_eq!(status(&[environ]), FindingStatus::Unknown, "no mappings");
        assert_eq!(
            status(&[maps, ("/opt/app", &elf_program(""))]),
            FindingStatus::Ok
        );
        let made = ("PID/map_files/400000-401000", "a JIT's code");
        assert_eq!(status(&[maps, made]), FindingStatus::Ok);
        let hidden = (
            "PID/maps",
            "400000-401000 r-xs 00000000 00:01 5 /memfd:jit (deleted)",
        );
        assert_eq!(status(&[hidden]), FindingStatus::Ok);
    }

    /// Check that a process of one thread is not judged as one of many.
    #[test]
    fn one_thread_interrupts_nobody() {
        let with = |threads: &str| {
            let status = format!("Threads:\t{threads}");
            ask_rule_on(
                &ANY,
                &[
                    ("PID/maps", MAPS),
                    ("/opt/app", &elf_program(REDIS_JEMALLOC)),
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
        let fix = || Fix::set_variable("A", "1");
        let answers = vec![
            CheckResult::ok("fine"),
            CheckResult::hazard("a").with_fix(fix()),
            CheckResult::hazard("b").with_fix(fix()),
        ];
        let out = worst_answer(answers, Vec::new());
        assert_eq!(
            (out.status, out.said.as_str()),
            (Some(FindingStatus::Hazard), "a; b")
        );
        assert_eq!(out.fixes, [fix()]);
    }
}
