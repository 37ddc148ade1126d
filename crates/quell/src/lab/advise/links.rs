//! The short set of experiments, and the rules that each of them is evidence for.

use quell_lab::attribute::GapClass;

/// The rules that an experiment is evidence for.
pub(super) struct Link {
    pub(super) experiment: &'static str,
    /// Its parameters that are not the defaults.
    pub(super) set: &'static [(&'static str, u64)],
    /// The gaps of this class in the idle arm are the evidence, and not the culprit's effect.
    pub(super) idle: Option<GapClass>,
    pub(super) rules: &'static [&'static str],
}

/// The short set, and the rules that each part of it is evidence for: those whose hazard makes the kernel do the same as the
/// experiment, or whose subject the idle arm shows.
pub(super) const LINKS: &[Link] = &[
    Link {
        experiment: "untouched",
        set: &[],
        idle: Some(GapClass::Timer),
        rules: &["SYS-TIMER", "CPU-ISO", "SYS-STAT", "SYS-WDOG"],
    },
    Link {
        experiment: "untouched",
        set: &[],
        idle: Some(GapClass::Sched),
        rules: &["CPU-ISO", "SYS-RT", "WQ-MASK"],
    },
    Link {
        experiment: "untouched",
        set: &[],
        idle: Some(GapClass::Irq),
        rules: &["IRQ-AFF"],
    },
    Link {
        experiment: "untouched",
        set: &[],
        idle: Some(GapClass::None),
        rules: &["VM-STEAL", "CPU-SMT", "CPU-IDLE"],
    },
    Link {
        experiment: "dontneed",
        set: &[],
        idle: None,
        rules: &[
            "VM-PVFLUSH",
            "CPU-INVLPGB",
            "CPU-PCID",
            "CPU-PTI",
            "SYS-BALLOON",
        ],
    },
    // the last size that is flushed page by page, and the first for which all of the TLB goes
    Link {
        experiment: "dontneed",
        set: &[("pages", 33)],
        idle: None,
        rules: &["CPU-CEILING"],
    },
    Link {
        experiment: "dontneed",
        set: &[("pages", 34)],
        idle: None,
        rules: &["CPU-CEILING"],
    },
    Link {
        experiment: "msync",
        set: &[],
        idle: None,
        rules: &["SYS-WB", "PROC-WBMAP"],
    },
    Link {
        experiment: "swap",
        set: &[],
        idle: None,
        rules: &[
            "SYS-SWAP",
            "SYS-MGLRU",
            "SYS-WMARK",
            "SYS-ZRECLAIM",
            "SYS-DAMON",
            "CG-MEM",
            "PROC-MLOCK",
        ],
    },
    Link {
        experiment: "ksm",
        set: &[],
        idle: None,
        rules: &["SYS-KSM", "PROC-KSM", "SYS-KSM-RESIDUE"],
    },
    Link {
        experiment: "collapse",
        set: &[],
        idle: None,
        rules: &[
            "SYS-THP",
            "SYS-KHUGE",
            "SYS-MTHP",
            "PROC-THP",
            "SYS-THP-SHRINK",
        ],
    },
    Link {
        experiment: "compact",
        set: &[],
        idle: None,
        rules: &["SYS-COMPACT", "SYS-THP-DEFRAG", "SYS-COMPACT-MLOCK"],
    },
    Link {
        experiment: "numa-balancing",
        set: &[],
        idle: None,
        rules: &["SYS-NUMABAL", "SYS-NUMAD", "PROC-NUMA", "SYS-DEMOTE"],
    },
];

impl Link {
    /// The experiment with the parameters that are not its defaults.
    pub(super) fn name(&self) -> String {
        let set = self.set.iter().map(|(name, n)| format!(" {name}={n}"));
        self.experiment.to_owned() + &set.collect::<String>()
    }
}
