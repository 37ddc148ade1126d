//! The kind of program that the audit judges for: a setting that stalls one keeps another one fast.

use std::fmt;
use std::str::FromStr;

use crate::finding::Severity;

/// The aim of the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WorkloadProfile {
    /// Every stall counts, memory and power do not: trading, audio, control.
    #[default]
    LowLatency,
    /// The mean counts: batch work, data frames, builds.
    Throughput,
    /// Tails of ms count, memory is full: databases and caches.
    Database,
}

impl WorkloadProfile {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::LowLatency, Self::Throughput, Self::Database];

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::LowLatency => "low-latency",
            Self::Throughput => "throughput",
            Self::Database => "database",
        }
    }

    /// How bad a rule's hazard is for this one. Rules are written for low latency.
    pub(crate) fn weigh_severity(self, rule: &str, severity: Severity) -> Severity {
        let most = match self {
            Self::LowLatency => Severity::Critical,
            // single stalls of some µs are lost in the mean, or in a tail of ms
            Self::Throughput | Self::Database if JITTER_RULES.contains(&rule) => Severity::Info,
            // huge pages in the fault cost tails, and save page faults and misses of the TLB
            Self::Throughput if rule == "SYS-THP" => Severity::Info,
            Self::Throughput => Severity::Medium,
            Self::Database => Severity::Critical,
        };
        severity.min(most)
    }
}

/// Rules about interruptions of some µs on a CPU that one thread has to itself.
const JITTER_RULES: [&str; 11] = [
    "CPU-ISO",
    "CPU-IDLE",
    "CPU-SMT",
    "IRQ-AFF",
    "WQ-MASK",
    "SYS-STAT",
    "SYS-WDOG",
    "SYS-TIMER",
    "SYS-RT",
    "SYS-MCE",
    "PROC-BLAST",
];

impl fmt::Display for WorkloadProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for WorkloadProfile {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|p| p.name() == name);
        found.ok_or_else(|| "write low-latency, throughput or database".to_owned())
    }
}
