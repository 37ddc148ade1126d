//! META-CONFLICT: who will take a fix back.

use std::collections::BTreeMap;

use crate::finding::{Read, Severity};
use crate::fix::Fix;
use crate::look::{Look, Value};
use crate::rule::{Check, Checked, Rule};

const TUNED: &str = "/etc/tuned/active_profile";
/// Where settings lie, the first place first: a file hides one of the same name further down (sysctl.d(5)).
const FOLDERS: &[&str] = &[
    "/etc/sysctl.d",
    "/run/sysctl.d",
    "/usr/local/lib/sysctl.d",
    "/usr/lib/sysctl.d",
    "/lib/sysctl.d",
];
/// Read last (sysctl(8)), by systemd as a link of the name 99-sysctl.conf.
const FILE: &str = "/etc/sysctl.conf";
/// Settings that rules have fixes for.
const OURS: &[&str] = &[
    "kernel.numa_balancing",
    "kernel.sched_rt_runtime_us",
    "kernel.timer_migration",
    "kernel.watchdog",
    "kernel.watchdog_cpumask",
    "vm.compact_unevictable_allowed",
    "vm.compaction_proactiveness",
    "vm.dirty_background_ratio",
    "vm.dirty_bytes",
    "vm.dirty_ratio",
    "vm.nr_overcommit_hugepages",
    "vm.stat_interval",
    "vm.watermark_boost_factor",
    "vm.watermark_scale_factor",
    "vm.zone_reclaim_mode",
];
/// Programs that change what rules have fixes for, and what they do.
const MANAGERS: &[(&str, &str)] = &[
    ("ksmtuned", "switches same-page merging on and off"),
    ("numad", "moves programs and their pages between nodes"),
];

pub(super) const RULE: Rule = Rule {
    id: "META-CONFLICT",
    title: "somebody else sets this too",
    severity: Severity::Info,
    why: "A program that manages the machine, or a file that is read later, sets the same settings again: a fix \
          holds until then only.",
    risk: "None: it is told where the settings belong.",
    source: "tuned-adm(8); sysctl.d(5)",
    causes: &[],
    check: Check::System(check),
};

fn check(look: &Look<'_>) -> Checked {
    let (mut said, mut reads, mut fixes) = (Vec::new(), Vec::new(), Vec::new());
    let (profile, read) = look.read(TUNED);
    if look.runs("tuned") {
        let name = profile
            .text()
            .filter(|p| !p.is_empty())
            .unwrap_or("of a name that can't be read");
        said.push(format!("tuned runs with the profile {name}"));
        fixes.push(
            "tuned: put the settings into a profile of your own that includes this one (--emit tuned)".to_owned(),
        );
        reads.push(read);
    }
    for (name, what) in MANAGERS.iter().filter(|(name, _)| look.runs(name)) {
        said.push(format!("{name} runs and {what}"));
        fixes.push(format!(
            "{name}: stop it before you set what it manages (systemctl mask --now {name})"
        ));
        reads.push(Read::new("/proc/*/comm", *name));
    }
    let (settings, unread) = settings(look);
    for (name, set) in &settings {
        let (now, read) = look.read(&format!("/proc/sys/{}", name.replace('.', "/")));
        let Some(words) = conflict(name, set, &now) else {
            continue;
        };
        said.push(words);
        reads.extend(
            set.iter()
                .map(|s| Read::new(&*s.file, format!("{name} = {}", s.value))),
        );
        reads.push(read);
        let last = set.last().map_or("", |s| s.file.as_str());
        fixes.push(format!(
            "sysctl.d: set {name} in {last} itself, or in a file whose name sorts after it"
        ));
    }
    if said.is_empty() {
        let checked = if unread {
            Checked::unknown("files of sysctl.d can't be read")
        } else if !look.sees_all() {
            Checked::unknown("not all processes of the machine can be seen from here")
        } else {
            Checked::ok("nobody else is seen to set what the rules set")
        };
        return checked.read([Read::new(
            FOLDERS[0],
            format!("{} of these settings", settings.len()),
        )]);
    }
    let checked = Checked::hazard(said.join("; ")).read(reads);
    fixes
        .into_iter()
        .fold(checked, |checked, text| checked.fix(Fix::Advice(text)))
}

/// A setting of a file.
struct Setting {
    file: String,
    value: String,
}

/// What the files set of ours, in the order in which they are read, and whether one could not be.
fn settings(look: &Look<'_>) -> (BTreeMap<&'static str, Vec<Setting>>, bool) {
    let (all, unread) = assignments(look);
    let mut found = BTreeMap::<_, Vec<Setting>>::new();
    for (name, setting) in all {
        if let Some(ours) = OURS.iter().find(|o| **o == name) {
            found.entry(*ours).or_default().push(setting);
        }
    }
    (found, unread)
}

/// The last file that sets this, and to what.
pub(crate) fn last_set(look: &Look<'_>, name: &str) -> Option<(String, String)> {
    let (all, _) = assignments(look);
    let last = all.into_iter().rfind(|(set, _)| set == name);
    last.map(|(_, setting)| (setting.file, setting.value))
}

/// What the files set, in the order in which they are read, and whether one could not be.
fn assignments(look: &Look<'_>) -> (Vec<(String, Setting)>, bool) {
    let mut files = BTreeMap::new();
    for folder in FOLDERS {
        for path in look.list(folder, |name| name.ends_with(".conf")) {
            let name = path.rsplit('/').next().unwrap_or_default().to_owned();
            files.entry(name).or_insert(path);
        }
    }
    let (mut found, mut unread) = (Vec::new(), false);
    for file in files.into_values().chain([FILE.to_owned()]) {
        let text = look.file(&file);
        unread |= matches!(text, Value::Refused(_));
        for (name, value) in text
            .text()
            .unwrap_or_default()
            .lines()
            .filter_map(assignment)
        {
            let file = file.clone();
            found.push((name, Setting { file, value }));
        }
    }
    (found, unread)
}

/// `name = value`; before the name `-` says that errors are none. A name is written with dots or slashes,
/// whichever comes first (sysctl.d(5)).
fn assignment(line: &str) -> Option<(String, String)> {
    let line = line.trim();
    if line.starts_with(['#', ';']) {
        return None;
    }
    let (name, value) = line.split_once('=')?;
    let name = name.trim();
    let name = name.strip_prefix('-').unwrap_or(name).trim();
    let slashes = name
        .find(['.', '/'])
        .is_some_and(|at| name[at..].starts_with('/'));
    let name = if slashes {
        name.replace('/', ".")
    } else {
        name.to_owned()
    };
    Some((name, value.trim().to_owned()))
}

/// What of a setting does not agree: two files, or the last file and what is set now.
fn conflict(name: &str, set: &[Setting], now: &Value) -> Option<String> {
    let last = set.last()?;
    if let Some(other) = set.iter().find(|s| s.value != last.value) {
        return Some(format!(
            "{} sets {name} to {}, and {} after it to {}",
            other.file, other.value, last.file, last.value
        ));
    }
    let now = now.text()?.trim();
    (now != last.value).then(|| {
        format!(
            "{name} is {now} now, and at the next start {} sets it to {}",
            last.file, last.value
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Status;
    use crate::rules::fixture::{ask, assert_hazard, status};

    const NOW: &str = "/proc/sys/vm/compaction_proactiveness";
    const FIRST: &str = "/etc/sysctl.d/10-own.conf";
    const LAST: &str = "/usr/lib/sysctl.d/99-other.conf";

    /// Check that programs that manage the machine are named, with where the settings belong.
    #[test]
    fn managers_are_named() {
        let files = [
            (TUNED, "balanced"),
            ("/proc/8/comm", "tuned"),
            ("/proc/9/comm", "numad"),
        ];
        let found = ask(&RULE, &files);
        assert_hazard(
            &found,
            "",
            "tuned: put the settings into a profile of your own that includes this one (--emit tuned)\n\
             numad: stop it before you set what it manages (systemctl mask --now numad)",
        );
        assert_eq!(found.severity, Severity::Info);
        assert_eq!(status(&RULE, &files[..1]), Status::Ok, "tuned does not run");
        assert_eq!(status(&RULE, &[]), Status::Ok);
    }

    /// Check that files that don't agree with one another, or with what is set now, are a conflict.
    #[test]
    fn files_that_disagree() {
        let own = (FIRST, "# ours\nvm.compaction_proactiveness = 0");
        let other = (LAST, "-vm/compaction_proactiveness=20\nkernel.sysrq=16");
        let found = ask(&RULE, &[own, other, (NOW, "20")]);
        assert_eq!(
            found.said,
            "/etc/sysctl.d/10-own.conf sets vm.compaction_proactiveness to 0, and \
             /usr/lib/sysctl.d/99-other.conf after it to 20"
        );
        let fixed = ask(&RULE, &[other, (NOW, "0")]);
        assert_hazard(
            &fixed,
            "",
            "sysctl.d: set vm.compaction_proactiveness in /usr/lib/sysctl.d/99-other.conf itself, or in a file \
             whose name sorts after it",
        );
        assert_eq!(status(&RULE, &[own, (NOW, "0")]), Status::Ok);
        let whole = ("/etc/sysctl.conf", "vm.compaction_proactiveness = 20");
        assert_eq!(
            status(&RULE, &[own, whole, (NOW, "0")]),
            Status::Hazard,
            "read after all others"
        );
        let unseen = ("/proc/2/comm", "bash");
        assert_eq!(status(&RULE, &[own, unseen, (NOW, "0")]), Status::Unknown);
        let hidden = (
            "/usr/lib/sysctl.d/10-own.conf",
            "vm.compaction_proactiveness = 20",
        );
        assert_eq!(status(&RULE, &[own, hidden, (NOW, "0")]), Status::Ok);
    }
}
