//! Lists and masks of CPUs, and flags of the processor, for the rules about the machine.

use crate::rules::prelude::*;

pub(super) const ISOLATED_CPUS_FILE: &str = "/sys/devices/system/cpu/isolated";
pub(super) const NOHZ_FULL_FILE: &str = "/sys/devices/system/cpu/nohz_full";
const ONLINE_CPUS_FILE: &str = "/sys/devices/system/cpu/online";
const KERNEL_RELEASE_FILE: &str = "/proc/sys/kernel/osrelease";

/// More groups of 32 CPUs than any Linux has (CONFIG_NR_CPUS of x86 ends at 8192).
const MAX_MASK_GROUPS: usize = 256;

/// The CPUs that a file lists: none if it is missing, empty or `(null)`, as nohz_full is where the kernel was
/// not told of any (drivers/base/cpu.c). `None` if it can't be read or is no list.
pub(super) fn cpu_list(value: &FileValue) -> Option<Vec<u32>> {
    match value {
        FileValue::Text(text) if matches!(text.trim(), "" | "(null)") => Some(Vec::new()),
        FileValue::Text(text) => cpus::parse_cpu_list(text.trim()),
        FileValue::Absent => Some(Vec::new()),
        FileValue::Refused(_) => None,
    }
}

/// The CPUs that are online; none where that can't be read.
pub(super) fn online_cpus(look: &SystemView<'_>) -> Vec<u32> {
    cpu_list(&look.file(ONLINE_CPUS_FILE)).unwrap_or_default()
}

/// The configuration that the kernel was built with, where its package left it.
pub(super) fn kernel_config(look: &SystemView<'_>) -> Option<String> {
    let kernel = look.file(KERNEL_RELEASE_FILE);
    let config = look.file(&format!("/boot/config-{}", kernel.text()?));
    let text = config.text().filter(|t| t.contains("CONFIG_"))?;
    Some(text.to_owned())
}

/// These CPUs without those.
pub(super) fn cpus_without(these: &[u32], those: &[u32]) -> Vec<u32> {
    let kept = these.iter().filter(|cpu| !those.contains(cpu));
    kept.copied().collect()
}

/// Asks about the CPUs that nobody is to disturb, where there are any.
pub(super) fn check_hot_cpus(
    look: &SystemView<'_>,
    check: fn(&SystemView<'_>, &[u32]) -> CheckResult,
) -> CheckResult {
    let hot = look.hot_cpus();
    if !hot.is_empty() {
        return check(look, &hot);
    }
    let (isolated, first) = look.read(ISOLATED_CPUS_FILE);
    let (full, second) = look.read(NOHZ_FULL_FILE);
    let readable = [isolated, full].iter().all(|v| cpu_list(v).is_some());
    let checked = if readable {
        CheckResult::ok("no CPU is set apart for a program")
    } else {
        CheckResult::unknown("which CPUs are set apart can't be read")
    };
    checked.with_reads([first, second])
}

/// The CPUs of a mask as the kernel writes it: groups of 32 in hexadecimal, the highest first.
pub(super) fn parse_cpu_mask(text: &str) -> Option<Vec<u32>> {
    let groups: Vec<&str> = text.trim().split(',').collect();
    if groups.len() > MAX_MASK_GROUPS {
        return None;
    }
    let mut cpus = Vec::new();
    for (first, group) in (0..).step_by(32).zip(groups.iter().rev()) {
        let hex = (1..=8).contains(&group.len()) && group.bytes().all(|b| b.is_ascii_hexdigit());
        let bits = u32::from_str_radix(group, 16).ok().filter(|_| hex)?;
        cpus.extend(
            (0..32)
                .filter(|bit| bits >> bit & 1 == 1)
                .map(|bit| first + bit),
        );
    }
    Some(cpus)
}

/// A mask of CPUs as the kernel takes it.
pub(super) fn cpu_mask_text(cpus: &[u32]) -> String {
    let top = cpus.iter().max().map_or(0, |cpu| cpu / 32);
    let group = |group: u32| {
        let of_it = cpus.iter().filter(|&cpu| cpu / 32 == group);
        let bits = of_it.fold(0_u32, |bits, cpu| bits | 1 << (cpu % 32));
        if group == top {
            format!("{bits:x}")
        } else {
            format!("{bits:08x}")
        }
    };
    (0..=top).rev().map(group).collect::<Vec<_>>().join(",")
}

/// The kernel's version: `6.12`.
pub(super) fn kernel_version(look: &SystemView<'_>) -> Option<(u32, u32)> {
    let value = look.file(KERNEL_RELEASE_FILE);
    let mut parts = value.text()?.split('.');
    let major = parts.next()?.trim().parse().ok()?;
    let minor: String = parts
        .next()?
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    Some((major, minor.parse().ok()?))
}

/// The value of a parameter of the kernel's command line, empty for one without; the last one counts.
pub(super) fn kernel_parameter<'w>(words: &'w [String], name: &str) -> Option<&'w str> {
    words.iter().rev().find_map(|word| {
        let rest = word.strip_prefix(name)?;
        if rest.is_empty() {
            Some(rest)
        } else {
            rest.strip_prefix('=')
        }
    })
}

/// Whether the first CPU has a flag, with the part of the file that goes into the finding.
pub(super) fn read_cpu_flag(look: &SystemView<'_>, name: &str) -> (Option<bool>, FileReading) {
    let flag = look.cpu_flag(name);
    let said = match flag {
        Some(true) => name.to_owned(),
        Some(false) => format!("no {name}"),
        None => "(not readable)".to_owned(),
    };
    (flag, FileReading::new("/proc/cpuinfo flags", said))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that masks read as the kernel writes them, are written so, and that nonsense is none.
    #[test]
    fn masks() {
        assert_eq!(parse_cpu_mask("c"), Some(vec![2, 3]));
        assert_eq!(parse_cpu_mask("1,00000003"), Some(vec![0, 1, 32]));
        assert_eq!(parse_cpu_mask("0"), Some(vec![]));
        for bad in ["", "x", "1,,2", "+1", "123456789"] {
            assert_eq!(parse_cpu_mask(bad), None, "{bad}");
        }
        assert_eq!(cpu_mask_text(&[2, 3]), "c");
        assert_eq!(cpu_mask_text(&[0, 1, 32]), "1,00000003");
        assert_eq!(cpu_mask_text(&[]), "0");
    }

    /// Check that lists that name no CPU are told from those that can't be read.
    #[test]
    fn lists() {
        let text = |t: &str| FileValue::Text(t.to_owned());
        assert_eq!(cpu_list(&text("  (null)")), Some(vec![]));
        assert_eq!(cpu_list(&text("")), Some(vec![]));
        assert_eq!(cpu_list(&text("2-3")), Some(vec![2, 3]));
        assert_eq!(cpu_list(&text("x")), None);
        assert_eq!(cpu_list(&FileValue::Refused(String::new())), None);
    }

    /// Check that a parameter is found with and without a value, and the last one counts.
    #[test]
    fn parameters() {
        let words: Vec<String> = ["rcu_nocbs=1", "nopcid", "rcu_nocbs=2-3", "nopcidx"]
            .map(str::to_owned)
            .to_vec();
        assert_eq!(kernel_parameter(&words, "rcu_nocbs"), Some("2-3"));
        assert_eq!(kernel_parameter(&words, "nopcid"), Some(""));
        assert_eq!(kernel_parameter(&words, "rcu"), None);
    }
}
