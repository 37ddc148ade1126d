//! The short set of experiments, and the rules that each of them is evidence for.

use quell_lab::attribute::GapClass;

/// The rules that an experiment is evidence for.
pub(super) struct EvidenceLink {
    pub(super) experiment: &'static str,
    /// Its parameters that are not the defaults.
    pub(super) set: &'static [(&'static str, u64)],
    /// The gaps of this class in the idle arm are the evidence, and not the culprit's effect.
    pub(super) idle: Option<GapClass>,
    /// The rules, with a space between two.
    rules: &'static str,
}

/// The short set, and the rules that each part of it is evidence for: those whose hazard makes the kernel do the same as the
/// experiment, or whose subject the idle arm shows.
pub(super) const EVIDENCE_LINKS: &[EvidenceLink] = &[
    idle_link(GapClass::Timer, "SYS-TIMER CPU-ISO SYS-STAT SYS-WDOG"),
    idle_link(GapClass::Sched, "CPU-ISO SYS-RT WQ-MASK"),
    idle_link(GapClass::Irq, "IRQ-AFF"),
    idle_link(GapClass::None, "VM-STEAL CPU-SMT CPU-IDLE"),
    effect_link(
        "dontneed",
        "VM-PVFLUSH CPU-INVLPGB CPU-PCID CPU-PTI SYS-BALLOON",
    ),
    // This is the last size that is flushed page by page, and the next is the first for which all of the TLB goes.
    effect_link_with("dontneed", &[("pages", 33)], "CPU-CEILING"),
    effect_link_with("dontneed", &[("pages", 34)], "CPU-CEILING"),
    effect_link("msync", "SYS-WB PROC-WBMAP"),
    effect_link(
        "swap",
        "SYS-SWAP SYS-MGLRU SYS-WMARK SYS-ZRECLAIM SYS-DAMON CG-MEM PROC-MLOCK",
    ),
    effect_link("ksm", "SYS-KSM PROC-KSM SYS-KSM-RESIDUE"),
    effect_link(
        "collapse",
        "SYS-THP SYS-KHUGE SYS-MTHP PROC-THP SYS-THP-SHRINK",
    ),
    effect_link("compact", "SYS-COMPACT SYS-THP-DEFRAG SYS-COMPACT-MLOCK"),
    effect_link(
        "numa-balancing",
        "SYS-NUMABAL SYS-NUMAD PROC-NUMA SYS-DEMOTE",
    ),
];

/// Links rules to the gaps of a class where nobody works.
const fn idle_link(class: GapClass, rules: &'static str) -> EvidenceLink {
    EvidenceLink {
        idle: Some(class),
        ..effect_link("untouched", rules)
    }
}

/// Links rules to the effect of a culprit.
const fn effect_link(experiment: &'static str, rules: &'static str) -> EvidenceLink {
    effect_link_with(experiment, &[], rules)
}

/// The same with these parameters.
const fn effect_link_with(
    experiment: &'static str,
    set: &'static [(&'static str, u64)],
    rules: &'static str,
) -> EvidenceLink {
    EvidenceLink {
        experiment,
        set,
        idle: None,
        rules,
    }
}

impl EvidenceLink {
    /// The experiment with the parameters that are not its defaults.
    pub(super) fn name(&self) -> String {
        let set = self.set.iter().map(|(name, n)| format!(" {name}={n}"));
        self.experiment.to_owned() + &set.collect::<String>()
    }

    pub(super) fn rule_ids(&self) -> impl Iterator<Item = &'static str> {
        self.rules.split(' ')
    }
}
