//! The machine on which an experiment was run.

use std::fs;
use std::path::Path;

use quell_lab::summary::MachineSummary;
use quell_lab::tsc;

/// The machine on which quell runs, by /proc.
pub(crate) fn this_machine(victim_cpu: u32, culprit_cpu: u32) -> MachineSummary {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let value = |key: &str| {
        info.lines()
            .find_map(|line| line.strip_prefix(key)?.split_once(':'))
            .map(|(_, value)| value.trim())
    };
    MachineSummary {
        kernel: rustix::system::uname()
            .release()
            .to_string_lossy()
            .into_owned(),
        cpu: value("model name").unwrap_or_default().to_owned(),
        // They are not those that this process may run on, for it keeps off the victim's.
        cpus: info.lines().filter(|l| l.starts_with("processor")).count(),
        virtual_machine: quell_host::cpus::is_virtual(Path::new("/")),
        // It was usable before anything was begun.
        counter: tsc::tsc_quality().unwrap_or(tsc::TscQuality::Measured),
        victim_cpu,
        culprit_cpu,
    }
}
