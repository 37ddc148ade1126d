//! The account as `quell stat --json` and `quell report --json` print it. Times are integer ns.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use super::summary_rows::{
    AccountCeiling, AdviceShare, HolderShare, MechanismRow, PartShare, WhoRow,
};
use super::{Account, AccountRow, HolderRole, MechanismPart, TlbMisses, forks};
use crate::{Mechanism, Tally, Text};

/// Of a mechanism so many functions are listed.
const MAX_WHO_ROWS: usize = 20;

/// The account.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct AccountSummary {
    /// CPU time of all threads that were watched, as getrusage(2) tells it.
    pub cpu_ns: u64,
    /// Of that in memory management, by samples, and by hits of shootdowns.
    pub memory_cpu_ns: u64,
    /// Between these it is, in 95 of 100 recordings.
    pub memory_cpu_ci95: [u64; 2],
    /// Time in which threads slept because memory management made them: exact.
    pub blocked_ns: u64,
    /// Samples of CPU time.
    pub samples: u64,
    /// Time that a victim loses by a shootdown; 0 where it was not measured, and the handler's time stands for it.
    pub hit_ns: u64,
    /// Time in which threads had a CPU: with interrupts, and the time that a hypervisor took.
    pub on_cpu_ns: u64,
    /// Time in which threads wanted to run and had no CPU.
    pub ready_ns: u64,
    /// Time in which threads slept, for whatever reason.
    pub sleep_ns: u64,
    /// By mechanism, the dearest first.
    pub mechanisms: Vec<MechanismRow>,
    /// The most that could be won.
    pub ceiling: AccountCeiling,
    /// Whether the kernel says who holds a lock that is waited for: from Linux 5.19 on.
    pub sees_holders: bool,
    /// Samples and waits with a stack of the program, as far as it was looked up.
    pub with_stack: u64,
    /// Those of them whose stack does not go on to where its thread began.
    pub early_ends: u64,
    /// Samples, waits and threads that found no room: figures are too low by so many.
    pub lost: u64,
    /// TLB misses: the program's own time, and no part of any sum here. Null where nobody looked at them.
    pub tlb_misses: Option<TlbMisses>,
}

/// The interval in which the share of `all` lies of which `some` were seen, in 95 of 100 cases (Wilson, "Probable
/// inference, the law of succession, and statistical inference", 1927). Samples are taken as independent, which those
/// of a long stretch of one kind are not.
fn share_interval(some: u64, all: u64) -> [f64; 2] {
    const NORMAL_QUANTILE_95: f64 = 1.96;
    if all == 0 {
        return [0.0, 1.0];
    }
    let n = all as f64;
    let share = some.min(all) as f64 / n;
    let middle = share + NORMAL_QUANTILE_95 * NORMAL_QUANTILE_95 / (2.0 * n);
    let half = NORMAL_QUANTILE_95
        * (share * (1.0 - share) / n + NORMAL_QUANTILE_95 * NORMAL_QUANTILE_95 / (4.0 * n * n))
            .sqrt();
    let whole = 1.0 + NORMAL_QUANTILE_95 * NORMAL_QUANTILE_95 / n;
    [
        ((middle - half) / whole).max(0.0),
        ((middle + half) / whole).min(1.0),
    ]
}

/// From samples to time: all samples of an account stand for the time that its threads ran, which is exact, and each for the same part
/// of it.
pub(super) struct SampleScale {
    /// The time that all threads ran, ns.
    cpu_ns: u64,
    /// All samples.
    samples: u64,
}

impl SampleScale {
    pub(super) fn of_account(account: &Account) -> Self {
        Self {
            cpu_ns: account.run_ns(),
            samples: account.total_samples(),
        }
    }

    /// Returns the CPU time that so many of the samples stand for, ns.
    pub(super) fn cpu_ns_of(&self, samples: u64) -> u64 {
        if self.samples == 0 {
            return 0;
        }
        (samples as f64 / self.samples as f64 * self.cpu_ns as f64).round() as u64
    }

    /// Returns the bounds between which the CPU time of so many of the samples lies in 95 of 100 recordings, ns.
    fn cpu_interval_ns(&self, samples: u64) -> [u64; 2] {
        share_interval(samples, self.samples)
            .map(|share| (share * self.cpu_ns as f64).round() as u64)
    }
}

/// The sum of the rows of one kind.
#[derive(Default)]
struct CostSum {
    samples: u64,
    waits: u64,
    blocked_ns: u64,
    longest_ns: u64,
}

impl CostSum {
    fn add(&mut self, row: &AccountRow) {
        self.samples += row.samples;
        self.waits += row.waits;
        self.blocked_ns += row.blocked_ns;
        self.longest_ns = self.longest_ns.max(row.longest_ns);
    }
}

impl AccountSummary {
    /// Of a tally that has an account.
    #[must_use]
    pub fn new(tally: &Tally) -> Option<Self> {
        let account = tally.account.as_ref()?;
        let comms: HashMap<u32, &Text> =
            account.processes.iter().map(|p| (p.pid, &p.comm)).collect();
        let scale = SampleScale::of_account(account);
        let mut sums: BTreeMap<Mechanism, CostSum> = BTreeMap::new();
        for row in &account.rows {
            sums.entry(row.mechanism).or_default().add(row);
        }
        let mut mechanisms: Vec<MechanismRow> = sums
            .iter()
            .map(|(&mechanism, sum)| {
                let rows = || {
                    account
                        .rows
                        .iter()
                        .filter(move |r| r.mechanism == mechanism)
                };
                MechanismRow {
                    mechanism,
                    cpu_ns: scale.cpu_ns_of(sum.samples),
                    ci95: scale.cpu_interval_ns(sum.samples),
                    blocked_ns: sum.blocked_ns,
                    count: sum.waits,
                    longest_ns: sum.longest_ns,
                    who: who_rows(rows(), &comms, &scale),
                    parts: part_shares(rows(), &scale),
                    advice: advice_shares(rows(), &scale),
                    holders: holder_shares(account, mechanism),
                }
            })
            .collect();
        for row in &mut mechanisms {
            match row.mechanism {
                Mechanism::ShootdownWait => row.count = tally.total_counts().shootdowns,
                Mechanism::Fork => forks::add_fork_costs(account, row),
                _ => {}
            }
        }
        let hits = hit_row(tally, account.hit_ns, &comms);
        let hit_ns = hits.as_ref().map_or(0, |h| h.cpu_ns);
        mechanisms.extend(hits);
        mechanisms.sort_by_key(|m| std::cmp::Reverse((m.cpu_ns + m.blocked_ns, m.mechanism)));
        let samples: u64 = sums.values().map(|s| s.samples).sum();
        let touched = |of: fn(&MechanismRow) -> u64| -> u64 {
            let touched = mechanisms.iter().filter(|m| m.mechanism.can_be_touched());
            touched.map(of).sum()
        };
        let share = |ns: u64, of: u64| match of {
            0 => 0.0,
            of => (ns as f64 / of as f64).min(1.0),
        };
        let cpu = touched(|m| m.cpu_ns);
        let ceiling = AccountCeiling {
            cpu: share(cpu, scale.cpu_ns),
            wall: share(cpu + touched(|m| m.blocked_ns), tally.duration_ns),
        };
        Some(Self {
            cpu_ns: scale.cpu_ns,
            memory_cpu_ns: scale.cpu_ns_of(samples) + hit_ns,
            memory_cpu_ci95: scale.cpu_interval_ns(samples).map(|ns| ns + hit_ns),
            blocked_ns: mechanisms.iter().map(|m| m.blocked_ns).sum(),
            samples: scale.samples,
            hit_ns: account.hit_ns.unwrap_or(0),
            on_cpu_ns: account.processes.iter().map(|p| p.on_cpu_ns).sum(),
            ready_ns: account.processes.iter().map(|p| p.ready_ns).sum(),
            sleep_ns: account.processes.iter().map(|p| p.sleep_ns).sum(),
            mechanisms,
            ceiling,
            sees_holders: account.sees_holders,
            with_stack: account.with_stack,
            early_ends: account.early_ends,
            lost: account.lost_samples + account.lost_waits + account.lost_threads,
            tlb_misses: account.tlb.as_ref().map(TlbMisses::from),
        })
    }
}

fn advice_shares<'a>(
    rows: impl Iterator<Item = &'a AccountRow>,
    scale: &SampleScale,
) -> Vec<AdviceShare> {
    let mut sums: BTreeMap<&Text, CostSum> = BTreeMap::new();
    for row in rows.filter(|r| !r.advice.is_empty()) {
        sums.entry(&row.advice).or_default().add(row);
    }
    let share = |(advice, sum): (&Text, CostSum)| AdviceShare {
        advice: advice.clone(),
        cpu_ns: scale.cpu_ns_of(sum.samples),
        blocked_ns: sum.blocked_ns,
    };
    let mut shares: Vec<_> = sums.into_iter().map(share).collect();
    shares.sort_by_key(|s| std::cmp::Reverse(s.cpu_ns + s.blocked_ns));
    shares
}

/// Returns the row of the time that the watched processes lost as victims. It is not in the samples: no timer interrupts the handler.
fn hit_row(
    tally: &Tally,
    hit_ns: Option<u64>,
    comms: &HashMap<u32, &Text>,
) -> Option<MechanismRow> {
    let of_watched = tally
        .victims
        .iter()
        .filter(|v| v.pid != 0 && comms.contains_key(&v.pid));
    let mut who: Vec<WhoRow> = Vec::new();
    let (mut count, mut cpu_ns) = (0, 0);
    for victim in of_watched {
        let ns = hit_ns.map_or(victim.stall_ns, |one| victim.hits * one);
        count += victim.hits;
        cpu_ns += ns;
        match who.iter_mut().find(|w| w.pid == victim.pid) {
            Some(row) => row.cpu_ns += ns,
            None => who.push(WhoRow {
                pid: victim.pid,
                processes: 1,
                comm: victim.comm.as_str().into(),
                cpu_ns: ns,
                ..WhoRow::default()
            }),
        }
    }
    who.sort_by_key(|w| (std::cmp::Reverse(w.cpu_ns), w.pid));
    who.truncate(MAX_WHO_ROWS);
    (count > 0).then_some(MechanismRow {
        mechanism: Mechanism::ShootdownHit,
        cpu_ns,
        ci95: [cpu_ns; 2],
        blocked_ns: 0,
        count,
        longest_ns: 0,
        who,
        parts: Vec::new(),
        advice: Vec::new(),
        holders: Vec::new(),
    })
}

fn who_rows<'a>(
    rows: impl Iterator<Item = &'a AccountRow>,
    comms: &HashMap<u32, &Text>,
    scale: &SampleScale,
) -> Vec<WhoRow> {
    let none = Text::default();
    // by name, function and file, and then by process
    let mut names: BTreeMap<[&Text; 4], BTreeMap<u32, CostSum>> = BTreeMap::new();
    for row in rows {
        let comm = comms.get(&row.pid).copied().unwrap_or(&none);
        let key = [comm, &row.function, &row.file, &row.allocator];
        let processes = names.entry(key).or_default();
        processes.entry(row.pid).or_default().add(row);
    }
    let mut who: Vec<WhoRow> = names
        .into_iter()
        .map(|([comm, function, file, allocator], processes)| {
            let cost = |sum: &CostSum| scale.cpu_ns_of(sum.samples) + sum.blocked_ns;
            let most = processes.iter().max_by_key(|(_, sum)| cost(sum));
            WhoRow {
                pid: most.map_or(0, |(pid, _)| *pid),
                processes: processes.len() as u64,
                comm: comm.clone(),
                function: function.clone(),
                file: file.clone(),
                allocator: allocator.clone(),
                cpu_ns: scale.cpu_ns_of(processes.values().map(|s| s.samples).sum()),
                blocked_ns: processes.values().map(|s| s.blocked_ns).sum(),
                forks: None,
                each_ns: None,
            }
        })
        .collect();
    who.sort_by_key(|w| std::cmp::Reverse(w.cpu_ns + w.blocked_ns));
    who.truncate(MAX_WHO_ROWS);
    who
}

fn part_shares<'a>(
    rows: impl Iterator<Item = &'a AccountRow>,
    scale: &SampleScale,
) -> Vec<PartShare> {
    let mut sums: BTreeMap<MechanismPart, u64> = BTreeMap::new();
    for row in rows {
        *sums.entry(row.part).or_default() += row.samples;
    }
    let mut parts: Vec<PartShare> = sums
        .into_iter()
        .filter(|(_, samples)| *samples > 0)
        .map(|(part, samples)| PartShare {
            part,
            cpu_ns: scale.cpu_ns_of(samples),
        })
        .collect();
    parts.sort_by_key(|p| (std::cmp::Reverse(p.cpu_ns), p.part));
    parts
}

fn holder_shares(account: &Account, mechanism: Mechanism) -> Vec<HolderShare> {
    let mut sums: BTreeMap<(u32, &Text, &Text, HolderRole), HolderShare> = BTreeMap::new();
    for row in account.holders.iter().filter(|h| h.mechanism == mechanism) {
        let key = (row.holder_pid, &row.holder_comm, &row.doing, row.role);
        let share = sums.entry(key).or_insert_with(|| HolderShare {
            pid: row.holder_pid,
            comm: row.holder_comm.clone(),
            doing: row.doing.clone(),
            blocked_ns: 0,
            waits: 0,
            longest_ns: 0,
            role: row.role,
        });
        share.blocked_ns += row.blocked_ns;
        share.waits += row.waits;
        share.longest_ns = share.longest_ns.max(row.longest_ns);
    }
    let mut shares: Vec<HolderShare> = sums.into_values().collect();
    shares.sort_by_key(|h| std::cmp::Reverse(h.blocked_ns));
    shares.truncate(MAX_WHO_ROWS);
    shares
}

impl AccountSummary {
    /// Returns the row of a mechanism.
    #[must_use]
    pub fn mechanism_row(&self, mechanism: Mechanism) -> Option<&MechanismRow> {
        self.mechanisms.iter().find(|m| m.mechanism == mechanism)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::{Account, ProcessTime};
    use crate::{HolderRow, VictimTally};

    fn row(
        mechanism: Mechanism,
        part: MechanismPart,
        function: &str,
        samples: u64,
        ns: u64,
    ) -> AccountRow {
        AccountRow {
            pid: 7,
            mechanism,
            part,
            advice: Text::default(),
            function: function.into(),
            file: "a".into(),
            allocator: Text::default(),
            samples,
            waits: u64::from(ns > 0),
            blocked_ns: ns,
            longest_ns: ns,
        }
    }

    fn tally(rows: Vec<AccountRow>) -> Tally {
        Tally {
            duration_ns: 1_000_000,
            account: Some(Account {
                rows,
                processes: vec![ProcessTime {
                    pid: 7,
                    comm: "p".into(),
                    run_ns: 1_000_000,
                    samples: 1000,
                    ..ProcessTime::default()
                }],
                ..Account::default()
            }),
            ..Tally::default()
        }
    }

    /// Check that samples become shares of the exact CPU time, by function and by part, the dearest first, and that
    /// memory management is their sum.
    #[test]
    fn samples_are_shares_of_the_time_on_cpus() {
        let tally = tally(vec![
            row(Mechanism::FaultAnon, MechanismPart::Alloc, "f", 100, 0),
            row(Mechanism::FaultAnon, MechanismPart::Lru, "f", 20, 0),
            row(Mechanism::FaultAnon, MechanismPart::Alloc, "g", 30, 0),
            row(Mechanism::Zeroing, MechanismPart::Other, "f", 300, 0),
            row(Mechanism::LockMmap, MechanismPart::Other, "f", 0, 500_000),
        ]);
        let s = AccountSummary::new(&tally).expect("an account");
        assert_eq!(
            (s.cpu_ns, s.memory_cpu_ns, s.blocked_ns),
            (1_000_000, 450_000, 500_000)
        );
        let order: Vec<_> = s.mechanisms.iter().map(|m| m.mechanism.name()).collect();
        assert_eq!(order, ["lock.mmap", "zeroing", "fault.anon"]);
        let faults = s.mechanism_row(Mechanism::FaultAnon).expect("faults");
        let who: Vec<_> = faults
            .who
            .iter()
            .map(|w| (w.function.as_str(), w.cpu_ns))
            .collect();
        assert_eq!(who, [("f", 120_000), ("g", 30_000)]);
        assert_eq!(faults.parts[0].part, MechanismPart::Alloc);
        assert!(
            faults.ci95[0] < 150_000 && faults.ci95[1] > 150_000,
            "{faults:?}"
        );
        assert!((s.ceiling.cpu - 0.45).abs() < 1e-9 && (s.ceiling.wall - 0.95).abs() < 1e-9);
    }

    /// Check that hits count for those that were watched alone, by what one takes here, or else by the handler's time.
    #[test]
    fn hits_are_of_the_watched() {
        let mut tally = tally(Vec::new());
        let victim = |pid, hits| VictimTally {
            pid,
            comm: "p".into(),
            cgroup: 0,
            bystander: false,
            hits,
            stall_ns: hits * 10,
        };
        tally.victims = vec![victim(7, 5), victim(8, 100), victim(0, 3)];
        let told = |tally: &Tally| AccountSummary::new(tally).map(|s| s.memory_cpu_ns);
        assert_eq!(told(&tally), Some(50));
        if let Some(account) = &mut tally.account {
            account.hit_ns = Some(6000);
        }
        assert_eq!(told(&tally), Some(30_000));
    }

    /// Check that who held a lock is listed with the lock, the dearest first, joined over those who waited.
    #[test]
    fn holders_are_joined() {
        let mut tally = tally(vec![row(
            Mechanism::LockMmap,
            MechanismPart::Other,
            "f",
            0,
            30,
        )]);
        let holder = |pid, doing: &str, ns| HolderRow {
            pid,
            mechanism: Mechanism::LockMmap,
            holder_pid: 9,
            holder_comm: "h".into(),
            doing: doing.into(),
            role: HolderRole::Alone,
            waits: 1,
            blocked_ns: ns,
            longest_ns: ns,
        };
        if let Some(account) = &mut tally.account {
            account.holders = vec![
                holder(7, "fork", 10),
                holder(7, "brk", 15),
                holder(8, "fork", 20),
            ];
        }
        let s = AccountSummary::new(&tally).expect("an account");
        let held: Vec<_> = s.mechanisms[0]
            .holders
            .iter()
            .map(|h| (h.doing.as_str(), h.blocked_ns))
            .collect();
        assert_eq!(held, [("fork", 30), ("brk", 15)]);
    }

    /// Check that intervals hold the share, lie within 0 and 1, and grow narrower with more samples.
    #[test]
    fn intervals_hold_the_share() {
        for (some, all) in [(0, 0), (0, 10), (10, 10), (1, 1000), (500, 1000)] {
            let [low, high] = share_interval(some, all);
            let share = if all == 0 {
                0.5
            } else {
                some as f64 / all as f64
            };
            assert!(
                0.0 <= low && low <= share && share <= high && high <= 1.0,
                "{some} of {all}"
            );
        }
        let wide = |[low, high]: [f64; 2]| high - low;
        assert!(wide(share_interval(500, 1000)) < wide(share_interval(50, 100)));
    }
}
