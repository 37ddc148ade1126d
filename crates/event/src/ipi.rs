//! Function calls between CPUs: one CPU makes another one run a function. They are counted by function, culprit and victim.
//!
//! A shootdown is one of many reasons for which the kernel interrupts another CPU (kernel/smp.c). To
//! those who want a CPU left alone all are alike.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use crate::earlier::{subtract_earlier, subtract_fields};
use crate::{named_enum, text};

named_enum! {
    /// The kind of a function's work, of a closed set; docs/ipi.md says where each kind comes from.
    #[derive(
        Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
    )]
    pub enum CallKind with serde {
        /// A flush of user memory.
        Shootdown = "shootdown",
        /// A flush of the kernel's own mappings: vmalloc, modules, eBPF.
        VmapFlush = "vmap-flush",
        /// membarrier(2).
        Membarrier = "membarrier",
        /// The kernel changes its own code: static keys, ftrace, kprobes, eBPF.
        TextPatching = "text-patching",
        /// Read-copy-update: expedited grace periods, rcu_barrier().
        Rcu = "rcu",
        /// Performance counters of other CPUs.
        Perf = "perf",
        /// CPU caches: write-back and invalidate, memory types of pages.
        Cache = "cache",
        /// Model-specific registers of other CPUs, and values that are read from them.
        Msr = "msr",
        /// A thread is woken on another CPU.
        WakeUp = "wake-up",
        /// The scheduler, other than wake-ups.
        Scheduler = "scheduler",
        /// Timers and clocks.
        Timer = "timer",
        /// Completions of block I/O.
        Block = "block",
        /// Network packets that are handed on.
        Network = "network",
        /// Virtual machines that run here.
        Virtualisation = "virtualisation",
        /// Work that is queued to run as an interrupt.
        IrqWork = "irq-work",
        /// Any other; also a kind that a later quell knows.
        #[default]
        #[serde(other)]
        Other = "other",
    }
}

/// The kind of a function follows from the beginning of its name; the longest stands first where one begins another. The names are
/// those of Linux 6.1 to 6.18; the name of a function that a compiler has split ends in `.isra.0` and the like.
const KIND_BY_FUNCTION_PREFIX: &[(&str, CallKind)] = &[
    ("flush_tlb_func", CallKind::Shootdown),
    ("do_flush_tlb_all", CallKind::VmapFlush),
    ("do_kernel_range_flush", CallKind::VmapFlush),
    // kernel/sched/membarrier.c
    ("ipi_mb", CallKind::Membarrier),
    ("ipi_sync", CallKind::Membarrier),
    ("ipi_rseq", CallKind::Membarrier),
    // arch/x86/kernel/alternative.c
    ("do_sync_core", CallKind::TextPatching),
    ("text_poke", CallKind::TextPatching),
    ("smp_text_poke", CallKind::TextPatching),
    ("rcu_", CallKind::Rcu),
    ("trc_", CallKind::Rcu),
    // kernel/events/core.c
    ("remote_function", CallKind::Perf),
    ("__perf_", CallKind::Perf),
    ("perf_", CallKind::Perf),
    // arch/x86/lib/cache-smp.c, arch/x86/mm/pat/
    ("wbinvd", CallKind::Cache),
    ("__wbinvd", CallKind::Cache),
    ("__cpa_flush", CallKind::Cache),
    ("__rdmsr", CallKind::Msr),
    ("__wrmsr", CallKind::Msr),
    ("__rwmsr", CallKind::Msr),
    ("aperfmperf", CallKind::Msr),
    ("sched_ttwu_pending", CallKind::WakeUp),
    ("nohz_csd_func", CallKind::Scheduler),
    ("__hrtick", CallKind::Scheduler),
    ("retrigger_next_event", CallKind::Timer),
    ("tick_", CallKind::Timer),
    ("hrtimer", CallKind::Timer),
    ("clock", CallKind::Timer),
    ("__blk_mq", CallKind::Block),
    ("blk_", CallKind::Block),
    ("rps_trigger_softirq", CallKind::Network),
    ("trigger_rx_softirq", CallKind::Network),
    ("kvm_", CallKind::Virtualisation),
    ("ack_kick", CallKind::Virtualisation),
    ("__loaded_vmcs_clear", CallKind::Virtualisation),
];

impl CallKind {
    /// Returns the kind of a function with this name; `irq_work` if it was queued as such.
    #[must_use]
    pub fn of_function(function: &str, irq_work: bool) -> Self {
        let known = KIND_BY_FUNCTION_PREFIX
            .iter()
            .find(|(name, _)| function.starts_with(name));
        match known {
            Some(&(_, kind)) => kind,
            None if irq_work => Self::IrqWork,
            None => Self::Other,
        }
    }
}

/// One function that one process made one CPU run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallTally {
    /// The function's name; its address where it has none.
    #[serde(deserialize_with = "text::clean_string")]
    pub function: String,
    /// The kind of its work.
    pub kind: CallKind,
    /// The process that ran on the culprit's CPU, 0 where that was idle. From an interrupt, such as a
    /// timer's, it is whichever ran there.
    pub pid: u32,
    /// Its name.
    #[serde(deserialize_with = "text::clean_string")]
    pub comm: String,
    /// The victim's CPU.
    pub cpu: u32,
    /// How often it was asked for.
    pub calls: u64,
    /// Of them with the times that follow.
    pub timed: u64,
    /// From queueing until the function starts, ns.
    pub delay_ns: u64,
    /// The longest of these since the beginning.
    pub delay_max_ns: u64,
    /// Time in the function, ns.
    pub stall_ns: u64,
    /// The longest of these since the beginning.
    pub stall_max_ns: u64,
}

/// One process that was interrupted by one function.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallVictim {
    /// The function's name.
    #[serde(deserialize_with = "text::clean_string")]
    pub function: String,
    /// The kind of its work.
    pub kind: CallKind,
    /// The process, 0 for idle CPUs.
    pub pid: u32,
    /// Its name.
    #[serde(deserialize_with = "text::clean_string")]
    pub comm: String,
    /// How often.
    pub hits: u64,
    /// Time in the function, ns.
    pub stall_ns: u64,
}

/// All function calls of a time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionCalls {
    /// By function, culprit and victim CPU, most calls first.
    pub by: Vec<CallTally>,
    /// By function and victim process, most hits first; of those with times only.
    pub at: Vec<CallVictim>,
    /// Calls that are counted nowhere else: they found a table full, or came while another one was being
    /// counted on the same CPU.
    pub lost: u64,
    /// quell's own, counted nowhere else.
    pub own: u64,
}

impl FunctionCalls {
    /// Calls of all functions.
    #[must_use]
    pub fn total_calls(&self) -> u64 {
        self.by.iter().map(|c| c.calls).sum()
    }

    /// Time in all functions, ns.
    #[must_use]
    pub fn stall_ns(&self) -> u64 {
        self.by.iter().map(|c| c.stall_ns).sum()
    }

    /// Adds up rows of the same key (the kernel may have two functions of one name), and puts the largest first; rows that are as large
    /// are in the order of their keys.
    pub fn merge_and_sort(&mut self) {
        merge_equal_rows(
            &mut self.by,
            |a, b| call_key(a).cmp(&call_key(b)),
            |first, next| {
                first.calls += next.calls;
                first.timed += next.timed;
                first.delay_ns += next.delay_ns;
                first.delay_max_ns = first.delay_max_ns.max(next.delay_max_ns);
                first.stall_ns += next.stall_ns;
                first.stall_max_ns = first.stall_max_ns.max(next.stall_max_ns);
            },
        );
        merge_equal_rows(
            &mut self.at,
            |a, b| victim_key(a).cmp(&victim_key(b)),
            |first, next| {
                first.hits += next.hits;
                first.stall_ns += next.stall_ns;
            },
        );
        self.by
            .sort_by(|a, b| (b.calls, call_key(a)).cmp(&(a.calls, call_key(b))));
        self.at
            .sort_by(|a, b| (b.hits, victim_key(a)).cmp(&(a.hits, victim_key(b))));
    }

    /// Returns the calls since `earlier`, a snapshot of the same. The longest times stay those since the beginning.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut calls = Self {
            by: subtract_earlier(&self.by, &earlier.by, call_key, |now, then| {
                subtract_fields!(now, then; calls, timed, delay_ns, stall_ns);
            }),
            at: subtract_earlier(&self.at, &earlier.at, victim_key, |now, then| {
                subtract_fields!(now, then; hits, stall_ns);
            }),
            lost: self.lost.saturating_sub(earlier.lost),
            own: self.own.saturating_sub(earlier.own),
        };
        calls.by.retain(|c| c.calls > 0 || c.timed > 0);
        calls.at.retain(|v| v.hits > 0);
        calls.merge_and_sort();
        calls
    }
}

fn call_key(c: &CallTally) -> (&str, CallKind, u32, u32) {
    (&c.function, c.kind, c.pid, c.cpu)
}

fn victim_key(v: &CallVictim) -> (&str, CallKind, u32) {
    (&v.function, v.kind, v.pid)
}

/// Adds up rows that are equal by this order, and leaves them in it.
fn merge_equal_rows<T>(
    rows: &mut Vec<T>,
    order: impl Fn(&T, &T) -> Ordering,
    add: impl Fn(&mut T, &T),
) {
    rows.sort_by(&order);
    rows.dedup_by(|next, first| {
        let same = order(first, next).is_eq();
        if same {
            add(first, next);
        }
        same
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that functions have the kind of work that they do, also with a compiler's suffix, and that irq_work is told where the name says nothing.
    #[test]
    fn functions_have_kinds() {
        let kind = |name| CallKind::of_function(name, false);
        assert_eq!(kind("flush_tlb_func"), CallKind::Shootdown);
        assert_eq!(kind("do_flush_tlb_all.isra.0"), CallKind::VmapFlush);
        assert_eq!(kind("ipi_sync_core"), CallKind::Membarrier);
        assert_eq!(kind("do_sync_core"), CallKind::TextPatching);
        assert_eq!(kind("rcu_barrier_handler"), CallKind::Rcu);
        assert_eq!(kind("__rdmsr_safe_on_cpu"), CallKind::Msr);
        assert_eq!(kind("invalidate_bh_lru"), CallKind::Other);
        assert_eq!(
            CallKind::of_function("nohz_full_kick_func", true),
            CallKind::IrqWork
        );
        assert_eq!(CallKind::of_function("rcu_iw_handler", true), CallKind::Rcu);
    }

    /// Check that every kind is written in JSON by its name.
    #[test]
    fn kinds_are_written_by_name() {
        for kind in CallKind::ALL {
            let json = serde_json::to_string(&kind).unwrap();
            assert_eq!(json, format!("\"{}\"", kind.name()));
            assert_eq!(serde_json::from_str::<CallKind>(&json).unwrap(), kind);
        }
        let later = serde_json::from_str::<CallKind>("\"of-a-later-quell\"");
        assert_eq!(later.unwrap(), CallKind::Other);
    }

    /// Check that two functions of one name are one row, with sums and the longest of both.
    #[test]
    fn names_are_rows() {
        let call = |calls, stall_max_ns| CallTally {
            function: "twin".to_owned(),
            calls,
            stall_max_ns,
            ..CallTally::default()
        };
        let mut calls = FunctionCalls {
            by: vec![call(1, 9), call(2, 5)],
            ..FunctionCalls::default()
        };
        calls.merge_and_sort();
        assert_eq!(calls.by, [call(3, 9)]);
    }

    /// Check that an interval has what is new, largest first, and drops what did not happen in it.
    #[test]
    fn since_drops_the_quiet() {
        let call = |function: &str, cpu, calls| CallTally {
            function: function.to_owned(),
            cpu,
            calls,
            timed: calls,
            stall_ns: calls * 10,
            ..CallTally::default()
        };
        let hit = |pid, hits| CallVictim {
            pid,
            hits,
            ..CallVictim::default()
        };
        let then = FunctionCalls {
            by: vec![call("a", 0, 5), call("a", 1, 7)],
            at: vec![hit(1, 3)],
            ..FunctionCalls::default()
        };
        let now = FunctionCalls {
            by: vec![call("a", 0, 6), call("a", 1, 7), call("b", 0, 2)],
            at: vec![hit(1, 3), hit(2, 1)],
            lost: 1,
            own: 2,
        };
        let diff = now.since(&then);
        assert_eq!(diff.by, [call("b", 0, 2), call("a", 0, 1)]);
        assert_eq!(diff.at, [hit(2, 1)]);
        assert_eq!(
            (diff.lost, diff.own, diff.total_calls(), diff.stall_ns()),
            (1, 2, 3, 30)
        );
    }
}
