//! META-CONFLICT: who will take a fix back.

use std::collections::BTreeMap;

use crate::fix::sysctl_path;
use crate::rules::prelude::*;
use crate::sysctl_files::{SYSCTL_FOLDERS, SysctlAssignment, read_assignments};

const TUNED_PROFILE_FILE: &str = "/etc/tuned/active_profile";

/// Settings that rules have fixes for.
const MENDED_SYSCTLS: &[&str] = &[
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
/// Programs that change settings which rules have fixes for, and how.
const SETTING_MANAGERS: &[(&str, &str)] = &[
    ("ksmtuned", "switches same-page merging on and off"),
    ("numad", "moves programs and their pages between nodes"),
];

pub(super) const META_CONFLICT: AuditRule = AuditRule {
    id: "META-CONFLICT",
    title: "somebody else sets this too",
    severity: Severity::Info,
    why: "A program that manages the machine, or a file that is read later, sets the same settings again: a fix \
          holds until then only.",
    risk: "None: it is told where the settings belong.",
    source: "tuned-adm(8); sysctl.d(5)",
    causes: &[],
    check: RuleCheck::System(check_meta_conflict),
};

fn check_meta_conflict(look: &SystemView<'_>) -> CheckResult {
    let (mut said, mut reads, mut fixes) = (Vec::new(), Vec::new(), Vec::new());
    let (profile, read) = look.read(TUNED_PROFILE_FILE);
    if look.is_running("tuned") {
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
    for (name, what) in SETTING_MANAGERS
        .iter()
        .filter(|(name, _)| look.is_running(name))
    {
        said.push(format!("{name} runs and {what}"));
        fixes.push(format!(
            "{name}: stop it before you set what it manages (systemctl mask --now {name})"
        ));
        reads.push(FileReading::new("/proc/*/comm", *name));
    }
    let (settings, unread) = mended_assignments(look);
    for (name, set) in &settings {
        let (now, read) = look.read(&sysctl_path(name));
        let Some(words) = describe_conflict(name, set, &now) else {
            continue;
        };
        said.push(words);
        reads.extend(
            set.iter()
                .map(|s| FileReading::new(&*s.file, format!("{name} = {}", s.value))),
        );
        reads.push(read);
        let last = set.last().map_or("", |s| s.file.as_str());
        fixes.push(format!(
            "sysctl.d: set {name} in {last} itself, or in a file whose name sorts after it"
        ));
    }
    if said.is_empty() {
        let checked = if unread {
            CheckResult::unknown("files of sysctl.d can't be read")
        } else if !look.sees_all_processes() {
            CheckResult::unknown("not all processes of the machine can be seen from here")
        } else {
            CheckResult::ok("nobody else is seen to set what the rules set")
        };
        return checked.with_reads([FileReading::new(
            SYSCTL_FOLDERS[0],
            format!("{} of these settings", settings.len()),
        )]);
    }
    CheckResult::hazard(said.join("; "))
        .with_reads(reads)
        .with_fixes(fixes.into_iter().map(Fix::Advice))
}

/// The assignments to settings of the rules, in the order in which they are read, and whether one could not be.
fn mended_assignments(
    look: &SystemView<'_>,
) -> (BTreeMap<&'static str, Vec<SysctlAssignment>>, bool) {
    let (all, unread) = read_assignments(look);
    let mut found = BTreeMap::<_, Vec<SysctlAssignment>>::new();
    for (name, setting) in all {
        if let Some(ours) = MENDED_SYSCTLS.iter().find(|o| **o == name) {
            found.entry(*ours).or_default().push(setting);
        }
    }
    (found, unread)
}

/// The disagreement about a setting: of two files, or of the last file and its value now.
fn describe_conflict(name: &str, set: &[SysctlAssignment], now: &FileValue) -> Option<String> {
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
    use crate::finding::FindingStatus;
    use crate::rules::fixture::{ask_rule_on, assert_hazard, status_on};

    const NOW: &str = "/proc/sys/vm/compaction_proactiveness";
    const FIRST: &str = "/etc/sysctl.d/10-own.conf";
    const LAST: &str = "/usr/lib/sysctl.d/99-other.conf";

    /// Check that programs that manage the machine are named, with where the settings belong.
    #[test]
    fn managers_are_named() {
        let files = [
            (TUNED_PROFILE_FILE, "balanced"),
            ("/proc/8/comm", "tuned"),
            ("/proc/9/comm", "numad"),
        ];
        let found = ask_rule_on(&META_CONFLICT, &files);
        assert_hazard(
            &found,
            "",
            "tuned: put the settings into a profile of your own that includes this one (--emit tuned)\n\
             numad: stop it before you set what it manages (systemctl mask --now numad)",
        );
        assert_eq!(found.severity, Severity::Info);
        assert_eq!(
            status_on(&META_CONFLICT, &files[..1]),
            FindingStatus::Ok,
            "tuned does not run"
        );
        assert_eq!(status_on(&META_CONFLICT, &[]), FindingStatus::Ok);
    }

    /// Check that files that don't agree with one another, or with what is set now, are a conflict.
    #[test]
    fn files_that_disagree() {
        let own = (FIRST, "# ours\nvm.compaction_proactiveness = 0");
        let other = (LAST, "-vm/compaction_proactiveness=20\nkernel.sysrq=16");
        let found = ask_rule_on(&META_CONFLICT, &[own, other, (NOW, "20")]);
        assert_eq!(
            found.said,
            "/etc/sysctl.d/10-own.conf sets vm.compaction_proactiveness to 0, and \
             /usr/lib/sysctl.d/99-other.conf after it to 20"
        );
        let fixed = ask_rule_on(&META_CONFLICT, &[other, (NOW, "0")]);
        assert_hazard(
            &fixed,
            "",
            "sysctl.d: set vm.compaction_proactiveness in /usr/lib/sysctl.d/99-other.conf itself, or in a file \
             whose name sorts after it",
        );
        assert_eq!(
            status_on(&META_CONFLICT, &[own, (NOW, "0")]),
            FindingStatus::Ok
        );
        let whole = ("/etc/sysctl.conf", "vm.compaction_proactiveness = 20");
        assert_eq!(
            status_on(&META_CONFLICT, &[own, whole, (NOW, "0")]),
            FindingStatus::Hazard,
            "read after all others"
        );
        let unseen = ("/proc/2/comm", "bash");
        assert_eq!(
            status_on(&META_CONFLICT, &[own, unseen, (NOW, "0")]),
            FindingStatus::Unknown
        );
        let hidden = (
            "/usr/lib/sysctl.d/10-own.conf",
            "vm.compaction_proactiveness = 20",
        );
        assert_eq!(
            status_on(&META_CONFLICT, &[own, hidden, (NOW, "0")]),
            FindingStatus::Ok
        );
    }
}
