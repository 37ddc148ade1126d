//! Where the time of a program went in memory management: CPU time and blocked time, by mechanism.

mod forks;
mod summary;
mod summary_rows;
mod tlb;

use serde::{Deserialize, Serialize};

use crate::earlier::{subtract_earlier, subtract_fields};
use crate::{Mechanism, Text, named_enum};
pub use summary::AccountSummary;
pub use summary_rows::{AccountCeiling, AdviceShare, HolderShare, MechanismRow, PartShare, WhoRow};
pub use tlb::{CounterReading, TlbCounts, TlbMisses};

named_enum! {
    /// A part of the work of a mechanism.
    #[derive(
        Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
    )]
    pub enum MechanismPart with serde {
        /// Pages are taken from the free ones.
        Alloc = "alloc",
        /// Pages are given back to the free ones.
        Free = "free",
        /// A page is copied.
        Copy = "copy",
        /// Pages are charged to a control group.
        Memcg = "memcg",
        /// Pages are put into the lists by which reclaim works.
        Lru = "lru",
        /// It is noted who maps a page.
        Rmap = "rmap",
        /// Page tables are walked, filled and emptied.
        Tables = "tables",
        /// Mappings are found, made, joined and split.
        Mappings = "mappings",
        /// The CPU's own TLB is flushed.
        Flush = "flush",
        /// A CPU spins for a lock that never sleeps.
        Spin = "spin",
        /// All else.
        #[default]
        Other = "other",
    }
}

impl MechanismPart {
    /// Returns the part of a name; a name that only a newer quell knows is [`MechanismPart::Other`].
    #[must_use]
    pub fn from_name(name: &str) -> Self {
        name.parse().unwrap_or_default()
    }
}

/// The cost of one function of a process by one mechanism.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountRow {
    /// The process.
    pub pid: u32,
    /// The work of the kernel.
    pub mechanism: Mechanism,
    /// The part of that work.
    pub part: MechanismPart,
    /// The advice that the program gave, as `MADV_FREE`; empty but for [`Mechanism::Advise`].
    #[serde(default)]
    pub advice: Text,
    /// The program's function that had it done; empty where it is not known.
    pub function: Text,
    /// The file that the function is in; empty where it is not known.
    pub file: Text,
    /// The allocator's function that it called for it, with its file; empty where there was none.
    #[serde(default)]
    pub allocator: Text,
    /// Samples of CPU time.
    pub samples: u64,
    /// How often a thread was made to sleep.
    pub waits: u64,
    /// How long those sleeps took, until the thread ran again, ns.
    pub blocked_ns: u64,
    /// The longest of them, ns.
    pub longest_ns: u64,
}

named_enum! {
    /// How a lock was held that others waited for.
    #[derive(
        Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
    )]
    pub enum HolderRole with serde {
        /// By one thread alone.
        Alone = "alone",
        /// By several that read: the one that is named came last.
        Reader = "reader",
        /// By several that read, and the one that is named waited to have it alone: for its sake one more reader had to wait.
        Queued = "queued",
        /// The lock was on its way from one to another.
        #[default]
        Unknown = "unknown",
    }
}

/// Who held a lock that a process waited for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HolderRow {
    /// The process that waited.
    pub pid: u32,
    /// Whose lock it was.
    pub mechanism: Mechanism,
    /// The process that held it; 0 where that could not be told.
    pub holder_pid: u32,
    /// Its name.
    pub holder_comm: Text,
    /// The holder's work when the wait began.
    pub doing: Text,
    /// How it held it.
    pub role: HolderRole,
    /// How often.
    pub waits: u64,
    /// How long those waits took, ns.
    pub blocked_ns: u64,
    /// The longest of them, ns.
    pub longest_ns: u64,
}

/// A process, and how its threads spent their time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessTime {
    /// The process.
    pub pid: u32,
    /// Its name.
    pub comm: Text,
    /// CPU time of all its threads, ns, as getrusage(2) tells it: without interrupts and the time that a hypervisor took.
    pub run_ns: u64,
    /// Time in which they had a CPU, ns.
    #[serde(default)]
    pub on_cpu_ns: u64,
    /// Time in which they wanted to run and had no CPU, ns.
    pub ready_ns: u64,
    /// Time in which they slept, for whatever reason, ns.
    pub sleep_ns: u64,
    /// Samples of its CPU time.
    pub samples: u64,
    /// How often it forked a child with a copy of its page tables.
    #[serde(default)]
    pub forks: u64,
}

/// The account, as it was counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// How far apart samples of one CPU are, ns.
    pub period_ns: u64,
    /// By process, mechanism and function; without work that is no memory management.
    pub rows: Vec<AccountRow>,
    /// Who held locks.
    pub holders: Vec<HolderRow>,
    /// All processes that were watched.
    pub processes: Vec<ProcessTime>,
    /// Samples that found no room.
    pub lost_samples: u64,
    /// Waits that found no room.
    pub lost_waits: u64,
    /// How long these took, ns.
    pub lost_wait_ns: u64,
    /// Threads whose time could not be kept.
    pub lost_threads: u64,
    /// Kernel stacks of waits that could not be kept: their mechanism is told by the system call alone.
    pub lost_stacks: u64,
    /// Stacks of programs that were taken for ones seen before, and compared, and were others.
    #[serde(default)]
    pub wrong_stacks: u64,
    /// Samples and waits with a stack of the program, as far as it was looked up.
    #[serde(default)]
    pub with_stack: u64,
    /// Those of them whose stack does not go on to where its thread began.
    #[serde(default)]
    pub early_ends: u64,
    /// Whether the kernel says who holds a lock that is waited for: from Linux 5.19 on.
    #[serde(default)]
    pub sees_holders: bool,
    /// Time that a victim loses by a shootdown, ns; `None` where it was not measured.
    #[serde(default)]
    pub hit_ns: Option<u64>,
    /// TLB misses, which are no memory management; `None` where nobody looked at them.
    #[serde(default)]
    pub tlb: Option<TlbCounts>,
}

impl Account {
    /// Time on a CPU of all that was watched, ns.
    #[must_use]
    pub fn run_ns(&self) -> u64 {
        self.processes.iter().map(|p| p.run_ns).sum()
    }

    /// Samples of all that was watched.
    #[must_use]
    pub fn total_samples(&self) -> u64 {
        self.processes.iter().map(|p| p.samples).sum()
    }

    /// Returns the CPU time that so many samples stand for, ns: all of them are the time that threads ran, which is exact.
    #[must_use]
    pub fn cpu_ns_of(&self, samples: u64) -> u64 {
        summary::SampleScale::of_account(self).cpu_ns_of(samples)
    }

    /// Returns the account since `earlier`, a snapshot of the same account. The longest waits stay those since the beginning, for the
    /// longest of an interval can't be told from two snapshots.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let less = |now: u64, then: u64| now.saturating_sub(then);
        let mut rows = subtract_earlier(&self.rows, &earlier.rows, account_row_key, |now, then| {
            subtract_fields!(now, then; samples, waits, blocked_ns);
        });
        rows.retain(|r| r.samples > 0 || r.waits > 0);
        let mut holders = subtract_earlier(
            &self.holders,
            &earlier.holders,
            holder_row_key,
            |now, then| subtract_fields!(now, then; waits, blocked_ns),
        );
        holders.retain(|h| h.waits > 0);
        let mut processes = subtract_earlier(
            &self.processes,
            &earlier.processes,
            |p| p.pid,
            |now, then| {
                subtract_fields!(now, then; run_ns, on_cpu_ns, ready_ns, sleep_ns, samples, forks);
            },
        );
        processes.retain(|p| p.run_ns > 0 || p.ready_ns > 0 || p.sleep_ns > 0 || p.samples > 0);
        // A literal, so that the compiler asks here for each counter that an account gets.
        Self {
            period_ns: self.period_ns,
            rows,
            holders,
            processes,
            lost_samples: less(self.lost_samples, earlier.lost_samples),
            lost_waits: less(self.lost_waits, earlier.lost_waits),
            lost_wait_ns: less(self.lost_wait_ns, earlier.lost_wait_ns),
            lost_threads: less(self.lost_threads, earlier.lost_threads),
            lost_stacks: less(self.lost_stacks, earlier.lost_stacks),
            with_stack: less(self.with_stack, earlier.with_stack),
            early_ends: less(self.early_ends, earlier.early_ends),
            wrong_stacks: less(self.wrong_stacks, earlier.wrong_stacks),
            sees_holders: self.sees_holders,
            hit_ns: self.hit_ns,
            tlb: self.tlb.as_ref().map(|now| match &earlier.tlb {
                Some(then) => now.since(then),
                None => now.clone(),
            }),
        }
    }
}

type AccountRowKey<'a> = (u32, Mechanism, MechanismPart, [&'a Text; 4]);

fn account_row_key(r: &AccountRow) -> AccountRowKey<'_> {
    (
        r.pid,
        r.mechanism,
        r.part,
        [&r.advice, &r.function, &r.file, &r.allocator],
    )
}

type HolderRowKey<'a> = (u32, Mechanism, u32, &'a Text, &'a Text, HolderRole);

fn holder_row_key(h: &HolderRow) -> HolderRowKey<'_> {
    (
        h.pid,
        h.mechanism,
        h.holder_pid,
        &h.holder_comm,
        &h.doing,
        h.role,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(pid: u32, samples: u64, blocked_ns: u64) -> AccountRow {
        AccountRow {
            pid,
            mechanism: Mechanism::FaultAnon,
            part: MechanismPart::Other,
            advice: Text::default(),
            function: "f".into(),
            file: "a".into(),
            allocator: Text::default(),
            samples,
            waits: u64::from(blocked_ns > 0),
            blocked_ns,
            longest_ns: blocked_ns,
        }
    }

    /// Check that an interval has what came in it, and no rows of which nothing did.
    #[test]
    fn intervals_are_differences() {
        let before = Account {
            rows: vec![row(1, 5, 0), row(2, 7, 10)],
            processes: vec![ProcessTime {
                pid: 1,
                run_ns: 50,
                samples: 5,
                ..ProcessTime::default()
            }],
            ..Account::default()
        };
        let mut now = before.clone();
        now.rows[0].samples = 8;
        now.rows.push(row(3, 1, 0));
        now.processes[0].run_ns = 80;
        let interval = now.since(&before);
        let rows: Vec<_> = interval.rows.iter().map(|r| (r.pid, r.samples)).collect();
        assert_eq!(rows, [(1, 3), (3, 1)]);
        assert_eq!((interval.run_ns(), interval.total_samples()), (30, 0));
    }
}
