//! Which CPUs there are, and which of them nobody is to disturb.

use std::path::Path;

use anyhow::{Context, Result};

use crate::under;

/// More than any Linux has (CONFIG_NR_CPUS of x86 ends at 8192).
const MAX_CPUS: u32 = 8192;

/// Parses a list of CPUs as the kernel writes it, such as `2,4-7`; `None` if it is none. Lists of NUMA nodes look alike.
#[must_use]
pub fn parse_cpu_list(text: &str) -> Option<Vec<u32>> {
    let mut list = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.trim().split_once('-').unwrap_or((part, part));
        let first: u32 = first.trim().parse().ok()?;
        let last: u32 = last.trim().parse().ok()?;
        if first > last || last >= MAX_CPUS {
            return None;
        }
        list.extend(first..=last);
    }
    list.sort_unstable();
    list.dedup();
    Some(list)
}

/// CPUs as the kernel writes them: `2-5,8`.
#[must_use]
pub fn format_cpu_list(cpus: &[u32]) -> String {
    let mut out: Vec<(u32, u32)> = Vec::new();
    for &cpu in cpus {
        match out.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(cpu) => *last = cpu,
            _ => out.push((cpu, cpu)),
        }
    }
    let text = |&(a, b): &(u32, u32)| {
        if a == b {
            a.to_string()
        } else {
            format!("{a}-{b}")
        }
    };
    out.iter().map(text).collect::<Vec<_>>().join(",")
}

/// Whether a hypervisor is beneath this machine: the CPU says so (flag `hypervisor`).
#[must_use]
pub fn is_virtual(root: &Path) -> bool {
    let text = std::fs::read(under(root, Path::new("/proc/cpuinfo"))).unwrap_or_default();
    let mut lines = text.split(|&b| b == b'\n');
    let flags = lines.find(|l| l.starts_with(b"flags")).unwrap_or_default();
    flags
        .split(u8::is_ascii_whitespace)
        .any(|flag| flag == b"hypervisor")
}

/// The names by which a processor calls itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessorModel {
    /// As `GenuineIntel`.
    pub vendor: String,
    /// Its family.
    pub family: u32,
    /// Its model in that family.
    pub model: u32,
}

/// Reads the names of the first CPU; one that it does not say is empty, a number 0.
#[must_use]
pub fn read_processor_model(root: &Path) -> ProcessorModel {
    let text = std::fs::read(under(root, Path::new("/proc/cpuinfo"))).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let value = |name: &str| {
        let lines = text.lines().filter_map(|line| line.split_once(':'));
        let mut values = lines.filter(|(key, _)| key.trim() == name);
        values.next().map_or("", |(_, value)| value.trim())
    };
    ProcessorModel {
        vendor: value("vendor_id").to_owned(),
        family: value("cpu family").parse().unwrap_or(0),
        model: value("model").parse().unwrap_or(0),
    }
}

/// The CPUs that are online.
///
/// # Errors
///
/// If the kernel doesn't say.
pub fn read_online_cpus(root: &Path) -> Result<Vec<u32>> {
    let path = under(root, Path::new("/sys/devices/system/cpu/online"));
    let text =
        std::fs::read_to_string(&path).with_context(|| format!("can't read {}", path.display()))?;
    parse_cpu_list(text.trim()).with_context(|| format!("{} has no list of CPUs", path.display()))
}

/// How much CPU time there is while CPUs come and go. It goes by looks, and knows of a CPU that came or went between
/// two of them only that it did: half of the time between counts for it.
#[derive(Clone, Copy, Debug)]
pub struct OnlineTime {
    at_ns: u64,
    cpus: u32,
    /// Twice the sum, which keeps the halves.
    twice_ns: u64,
}

impl OnlineTime {
    /// Begins at the moment 0 of the caller's clock, with so many CPUs.
    #[must_use]
    pub fn new(cpus: u32) -> Self {
        Self {
            at_ns: 0,
            cpus,
            twice_ns: 0,
        }
    }

    /// Whether the last look is older than `ns` at this moment of the caller's clock.
    #[must_use]
    pub fn is_older(&self, at_ns: u64, ns: u64) -> bool {
        at_ns.saturating_sub(self.at_ns) > ns
    }

    /// So many CPUs are online at that moment. Returns all CPU time until then, ns.
    pub fn add_look(&mut self, at_ns: u64, cpus: u32) -> u64 {
        let ns = at_ns.saturating_sub(self.at_ns);
        let both = u64::from(self.cpus) + u64::from(cpus);
        self.twice_ns = self.twice_ns.saturating_add(ns.saturating_mul(both));
        self.at_ns = self.at_ns.max(at_ns);
        self.cpus = cpus;
        self.twice_ns / 2
    }
}

/// CPUs that somebody has set apart so that nothing else runs there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Isolation {
    /// By `isolcpus=` of the kernel's command line, or a cpuset partition of type `isolated`.
    pub isolated: Vec<u32>,
    /// By `nohz_full=`: without a timer tick while one task runs.
    pub nohz_full: Vec<u32>,
}

impl Isolation {
    /// Reads the kernel's lists of CPUs. A file that is missing or empty names no CPU: `nohz_full` reads `(null)`
    /// where the kernel could and was not told to (drivers/base/cpu.c).
    #[must_use]
    pub fn read(root: &Path) -> Self {
        let read = |path: &str| {
            let text = std::fs::read_to_string(under(root, Path::new(path))).unwrap_or_default();
            parse_cpu_list(text.trim()).unwrap_or_default()
        };
        let mut isolated = read("/sys/devices/system/cpu/isolated");
        isolated.extend(read("/sys/fs/cgroup/cpuset.cpus.isolated"));
        isolated.sort_unstable();
        isolated.dedup();
        Self {
            isolated,
            nohz_full: read("/sys/devices/system/cpu/nohz_full"),
        }
    }

    /// The CPUs that are set apart in either way.
    #[must_use]
    pub fn all_cpus(&self) -> Vec<u32> {
        let mut all: Vec<u32> = [&self.isolated[..], &self.nohz_full[..]].concat();
        all.sort_unstable();
        all.dedup();
        all
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Check that CPU time is that of all CPUs while none comes or goes, however often it is looked; and else
        /// the time that there was, but for that between the two looks around each change.
        #[test]
        fn online_time(
            // how long until the next look, and whether a CPU comes (or goes) how far on the way there
            steps in proptest::collection::vec((1u64..1_000_000, -1i64..=1, 0.0..=1.0f64), 1..50),
        ) {
            let mut cpus = 60i64;
            let mut time = OnlineTime::new(60);
            let (mut at, mut exact, mut unsure, mut said) = (0, 0.0, 0.0, 0);
            for (ns, change, share) in steps {
                at += ns;
                exact += cpus as f64 * ns as f64 + change as f64 * ns as f64 * (1.0 - share);
                unsure += change.abs() as f64 * ns as f64 / 2.0;
                cpus += change;
                let before = said;
                said = time.add_look(at, u32::try_from(cpus).unwrap());
                prop_assert!(said >= before);
            }
            prop_assert!((said as f64 - exact).abs() <= unsure + 1.0, "{said}, {exact} ± {unsure}");
            // a clock that stands still adds nothing, nor does one that goes back
            prop_assert_eq!(time.add_look(at, 1), said);
            prop_assert_eq!(time.add_look(at / 2, 64), said);
        }
    }

    /// Check that CPUs are listed as the kernel lists them.
    #[test]
    fn lists_are_written() {
        assert_eq!(format_cpu_list(&[2, 3, 4, 8, 10, 11]), "2-4,8,10-11");
        assert_eq!(format_cpu_list(&[]), "");
    }

    /// Check that lists read as the kernel writes them, and that nonsense is none.
    #[test]
    fn lists() {
        assert_eq!(parse_cpu_list("0-2,5"), Some(vec![0, 1, 2, 5]));
        assert_eq!(parse_cpu_list("3,3, 1"), Some(vec![1, 3]));
        for bad in ["", "x", "3-1", "1-", "-1", "99999999", "0-4294967295"] {
            assert_eq!(parse_cpu_list(bad), None, "{bad}");
        }
    }

    /// Check that isolated CPUs are read from all three places, and that a kernel without any has none.
    #[test]
    fn isolation_is_read() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = under(root.path(), Path::new(path));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        assert_eq!(Isolation::read(root.path()), Isolation::default());
        write("/sys/devices/system/cpu/isolated", "\n");
        write("/sys/devices/system/cpu/nohz_full", "  (null)\n");
        assert_eq!(Isolation::read(root.path()), Isolation::default());
        write("/sys/devices/system/cpu/isolated", "2-3\n");
        write("/sys/devices/system/cpu/nohz_full", "3-4\n");
        write("/sys/fs/cgroup/cpuset.cpus.isolated", "6\n");
        let read = Isolation::read(root.path());
        assert_eq!(
            (&read.isolated[..], &read.nohz_full[..]),
            (&[2, 3, 6][..], &[3, 4][..])
        );
        assert_eq!(read.all_cpus(), [2, 3, 4, 6]);
        write("/sys/devices/system/cpu/online", "0-7\n");
        assert_eq!(read_online_cpus(root.path()).unwrap().len(), 8);
    }
}
