//! The kind of program that the audit judges for: a setting that stalls one keeps another one fast.

use quell_event::named_enum;

use crate::finding::Severity;

named_enum! {
    /// The aim of the program.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum WorkloadProfile {
        /// Every stall counts, memory and power do not: trading, audio, control.
        #[default]
        LowLatency = "low-latency",
        /// The mean counts: batch work, data frames, builds.
        Throughput = "throughput",
        /// Tails of ms count, memory is full: databases and caches.
        Database = "database",
    }
}

impl WorkloadProfile {
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
