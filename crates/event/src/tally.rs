//! Exact counts, as the probe keeps them in the kernel: by culprit and cause, and by victim.

use serde::{Deserialize, Serialize};

use crate::earlier::{subtract_earlier, subtract_fields};
use crate::{Account, Cause, FunctionCalls, Histogram, text};

/// All culprits or victims that found no room to be told apart have this name.
pub const CROWDED_NAME: &str = "(more)";

/// How many shootdowns there were and what they cost: of one culprit process and one cause, or a sum of such.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShootdownCounts {
    /// Shootdowns: rounds of requests to one or more CPUs each.
    pub shootdowns: u64,
    /// Those of them that flushed the whole address space.
    pub full: u64,
    /// Pages of 4 KiB that all others asked to flush.
    pub pages: u64,
    /// CPUs interrupted, each as often as it was.
    pub victims: u64,
    /// Time culprits waited, ns.
    pub wait_ns: u64,
    /// Time from queueing until victims' handlers started, ns, summed over victims.
    pub delay_ns: u64,
    /// Time in victims' handlers, ns, summed over victims.
    pub stall_ns: u64,
}

impl ShootdownCounts {
    /// Adds `other`. Pages and times wrap rather than overflow: those of a garbled trace may be any, and must not end who reads it.
    pub fn add(&mut self, other: &Self) {
        self.shootdowns += other.shootdowns;
        self.full += other.full;
        self.pages = self.pages.wrapping_add(other.pages);
        self.victims += other.victims;
        self.wait_ns = self.wait_ns.wrapping_add(other.wait_ns);
        self.delay_ns = self.delay_ns.wrapping_add(other.delay_ns);
        self.stall_ns = self.stall_ns.wrapping_add(other.stall_ns);
    }

    fn subtract(&mut self, earlier: &Self) {
        subtract_fields!(self, earlier; shootdowns, full, pages, victims, wait_ns, delay_ns, stall_ns);
    }
}

/// One culprit process and one cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CulpritTally {
    /// Process, 0 for the kernel's idle task and for [`CROWDED_NAME`], and where only cgroups are told apart.
    pub pid: u32,
    /// Its name.
    #[serde(deserialize_with = "text::clean_string")]
    pub comm: String,
    /// Id in the cgroup v2 hierarchy.
    pub cgroup: u64,
    /// Why.
    pub cause: Cause,
    /// The kernel function that says more, where the cause is `other`.
    #[serde(default, deserialize_with = "text::clean_optional_string")]
    pub detail: Option<String>,
    /// How much.
    pub counts: ShootdownCounts,
}

/// One victim process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VictimTally {
    /// Process, 0 for an idle CPU and for [`CROWDED_NAME`], and where only cgroups are told apart.
    pub pid: u32,
    /// Its name.
    #[serde(deserialize_with = "text::clean_string")]
    pub comm: String,
    /// Id in the cgroup v2 hierarchy, where only that is told apart; else 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cgroup: u64,
    /// Interrupted for an address space that is not its own.
    pub bystander: bool,
    /// Interrupts.
    pub hits: u64,
    /// Time in the handler, ns.
    pub stall_ns: u64,
}

impl VictimTally {
    /// Says whether these are the victims that found no room, and not one process.
    #[must_use]
    pub fn is_crowded(&self) -> bool {
        self.pid == 0 && self.comm == CROWDED_NAME
    }
}

/// Records and counts that the probe could not see or keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeLosses {
    /// Records that found the ring full: missing in the trace, not in the counts.
    pub records: u64,
    /// Stacks that could not be kept.
    pub stacks: u64,
    /// Shootdowns whose culprit is known in the counts but has no record.
    pub details: u64,
    /// Shootdowns counted without their culprit, and interrupts without their victim, because too many
    /// were told apart.
    pub crowded: u64,
    /// Kernel stacks that were taken for ones seen before, and that a walk did not confirm. One in
    /// 256 is checked so.
    #[serde(default)]
    pub wrong_stacks: u64,
}

impl ProbeLosses {
    /// Everything that makes a figure incomplete.
    #[must_use]
    pub fn missing_total(&self) -> u64 {
        self.records + self.details + self.crowded
    }
}

/// Everything that was counted over a time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// How long, ns.
    pub duration_ns: u64,
    /// By culprit process and cause.
    pub culprits: Vec<CulpritTally>,
    /// By victim process.
    pub victims: Vec<VictimTally>,
    /// From queueing the first request until the last victim is done.
    pub wait: Histogram,
    /// From queueing until the handler starts.
    pub delay: Histogram,
    /// Time in the handler.
    pub stall: Histogram,
    /// Flushes of other CPUs that found nobody to interrupt. With a scope of CPUs nobody knows whom
    /// they were for, and they are not counted.
    #[serde(default)]
    pub empty_sends: u64,
    /// Victims whose handler the probe did not see: counted, but without delay, stall and wait.
    pub unseen: u64,
    /// Shootdowns that were counted and not timed, as there were so many: all times are of the others, and
    /// stand for these too.
    #[serde(default)]
    pub untimed: u64,
    /// Records and counts that are missing.
    pub lost: ProbeLosses,
    /// By how much `TLB:` of /proc/interrupts grew meanwhile, whoever the culprit was.
    #[serde(default)]
    pub kernel_interrupts: Option<u64>,
    /// CPU time that there was on the whole machine, ns: CPUs come and go. `None` where nobody looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub online_ns: Option<u64>,
    /// CPU time that quell itself used meanwhile, ns, without its probe in the kernel.
    #[serde(default)]
    pub self_ns: u64,
    /// quell's own shootdowns, counted nowhere else.
    pub self_shootdowns: u64,
    /// Victims of those.
    pub self_victims: u64,
    /// All function calls between CPUs, where they were watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<FunctionCalls>,
    /// Where the time went in memory management, where that was looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<Account>,
}

impl Tally {
    /// Sums over all culprits and causes.
    #[must_use]
    pub fn total_counts(&self) -> ShootdownCounts {
        let mut sum = ShootdownCounts::default();
        self.culprits.iter().for_each(|c| sum.add(&c.counts));
        sum
    }

    /// Victims that `TLB:` in /proc/interrupts counts too: all but those of the kernel's own
    /// mappings (arch/x86/mm/tlb.c: only flush_tlb_func() counts), and those of quell itself.
    #[must_use]
    pub fn tlb_interrupts(&self) -> u64 {
        let counted: u64 = self
            .culprits
            .iter()
            .filter(|c| c.cause != Cause::Kernel)
            .map(|c| c.counts.victims)
            .sum();
        counted + self.self_victims
    }

    /// Returns the counts since `earlier`, a snapshot of the same tally.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let less = |now: u64, then: u64| now.saturating_sub(then);
        let mut culprits = subtract_earlier(
            &self.culprits,
            &earlier.culprits,
            culprit_identity,
            |now, then| now.counts.subtract(&then.counts),
        );
        culprits.retain(|c| c.counts != ShootdownCounts::default());
        let mut victims = subtract_earlier(
            &self.victims,
            &earlier.victims,
            victim_identity,
            |now, then| subtract_fields!(now, then; hits, stall_ns),
        );
        victims.retain(|v| v.hits > 0);
        let mut lost = self.lost;
        subtract_fields!(lost, earlier.lost; records, stacks, details, crowded, wrong_stacks);
        // A literal, so that the compiler asks here for each counter that a tally gets.
        Self {
            duration_ns: less(self.duration_ns, earlier.duration_ns),
            culprits,
            victims,
            wait: self.wait.since(&earlier.wait),
            delay: self.delay.since(&earlier.delay),
            stall: self.stall.since(&earlier.stall),
            empty_sends: less(self.empty_sends, earlier.empty_sends),
            unseen: less(self.unseen, earlier.unseen),
            untimed: less(self.untimed, earlier.untimed),
            lost,
            kernel_interrupts: self
                .kernel_interrupts
                .map(|now| less(now, earlier.kernel_interrupts.unwrap_or(0))),
            online_ns: self
                .online_ns
                .map(|now| less(now, earlier.online_ns.unwrap_or(0))),
            self_ns: less(self.self_ns, earlier.self_ns),
            self_shootdowns: less(self.self_shootdowns, earlier.self_shootdowns),
            self_victims: less(self.self_victims, earlier.self_victims),
            calls: self.calls.as_ref().map(|now| {
                let none = FunctionCalls::default();
                now.since(earlier.calls.as_ref().unwrap_or(&none))
            }),
            account: self.account.as_ref().map(|now| {
                let none = Account::default();
                now.since(earlier.account.as_ref().unwrap_or(&none))
            }),
        }
    }
}

/// Returns the key by which a culprit is found in two snapshots. The cgroup belongs to it only where there is no process, and cgroups
/// alone are told apart: a process may come to another cgroup meanwhile, and is the same all the same.
fn culprit_identity(culprit: &CulpritTally) -> (u32, u64, Cause, Option<&str>) {
    let cgroup = if culprit.pid == 0 { culprit.cgroup } else { 0 };
    let detail = culprit.detail.as_deref();
    (culprit.pid, cgroup, culprit.cause, detail)
}

/// Returns the key by which a victim is found in two snapshots. The name belongs to it only as far as it tells those that found no room
/// from an idle CPU, which has no process either: a process may take another name meanwhile.
fn victim_identity(victim: &VictimTally) -> (u32, u64, bool, bool) {
    let v = victim;
    (v.pid, v.cgroup, v.bystander, v.is_crowded())
}

// serde asks for a reference
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn culprit(pid: u32, cause: Cause, shootdowns: u64, victims: u64) -> CulpritTally {
        CulpritTally {
            pid,
            comm: "a".into(),
            cgroup: 1,
            cause,
            detail: None,
            counts: ShootdownCounts {
                shootdowns,
                victims,
                ..ShootdownCounts::default()
            },
        }
    }

    /// Check that flushes of the kernel's own mappings are no `TLB:` interrupts, and quell's own are.
    #[test]
    fn kernel_flushes_are_apart() {
        let tally = Tally {
            culprits: vec![
                culprit(1, Cause::Munmap, 10, 20),
                culprit(2, Cause::Kernel, 3, 6),
            ],
            self_victims: 1,
            ..Tally::default()
        };
        assert_eq!(tally.tlb_interrupts(), 21);
        assert_eq!(tally.total_counts().shootdowns, 13);
    }

    /// Check that victims without room and an idle CPU, which have no process either, are told apart.
    #[test]
    fn more_is_not_idle() {
        let victim = |comm: &str, hits| VictimTally {
            pid: 0,
            comm: comm.to_owned(),
            cgroup: 0,
            bystander: false,
            hits,
            stall_ns: hits,
        };
        let then = Tally {
            victims: vec![victim(CROWDED_NAME, 10), victim("swapper/1", 3)],
            ..Tally::default()
        };
        let mut now = then.clone();
        now.victims[0].hits = 12;
        now.victims[1].hits = 8;
        let hits: Vec<_> = now.since(&then).victims.iter().map(|v| v.hits).collect();
        assert_eq!(hits, [2, 5]);
    }

    /// Check that cgroups without processes are told apart in an interval too.
    #[test]
    fn cgroups_are_told_apart() {
        let of = |cgroup, shootdowns| CulpritTally {
            cgroup,
            ..culprit(0, Cause::Munmap, shootdowns, 1)
        };
        let then = Tally {
            culprits: vec![of(7, 10), of(8, 100)],
            ..Tally::default()
        };
        let now = Tally {
            culprits: vec![of(7, 15), of(8, 100)],
            ..Tally::default()
        };
        let diff = now.since(&then);
        assert_eq!(diff.culprits.len(), 1);
        assert_eq!(
            (diff.culprits[0].cgroup, diff.culprits[0].counts.shootdowns),
            (7, 5)
        );
    }

    /// Check that an interval holds only what is new, and drops who did nothing in it.
    #[test]
    fn since_drops_the_quiet() {
        let then = Tally {
            culprits: vec![
                culprit(1, Cause::Munmap, 10, 20),
                culprit(2, Cause::Cow, 1, 1),
            ],
            ..Tally::default()
        };
        let mut now = then.clone();
        now.culprits[0].counts.shootdowns = 15;
        let diff = now.since(&then);
        assert_eq!(diff.culprits.len(), 1);
        assert_eq!(diff.culprits[0].counts.shootdowns, 5);
    }
}
