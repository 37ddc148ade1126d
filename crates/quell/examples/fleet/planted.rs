//! The answers, counted while the traces are written: by plain sums, and by nothing that `quell fleet` uses but the table of
//! remedies' shares.

use std::collections::{BTreeMap, BTreeSet};

use quell_event::{Cause, Shootdown};
use serde_json::{Value, json};

use crate::SAMPLE_NS;
use crate::programs::{ASKS, RT_PID, binary, build_id, caller, distinct, shown};
use crate::spent::{Spent, WAIT_NS};

/// Where a shootdown belongs.
pub(crate) struct Where<'a> {
    pub(crate) host: &'a str,
    pub(crate) week: usize,
    pub(crate) ask: usize,
    pub(crate) variant: u64,
    pub(crate) before_exec: bool,
}

#[derive(Default)]
struct Sum {
    shootdowns: u64,
    victims: u64,
    wait_ns: u64,
    stall_ns: u64,
    hosts: BTreeSet<String>,
}

#[derive(Default)]
struct Hits {
    hits: u64,
    stall_ns: u64,
    delay_ns: u64,
    bystanders: u64,
    hosts: BTreeSet<String>,
    cpus: BTreeMap<u16, u64>,
}

#[derive(Default)]
struct Change {
    /// By week.
    shootdowns: [u64; 2],
    builds: [BTreeMap<&'static str, u64>; 2],
}

#[derive(Default)]
struct Stopped {
    shootdowns: u64,
    thousandths: u64,
    wait_ns: u64,
    binaries: BTreeSet<String>,
    hosts: BTreeSet<String>,
}

/// All of it.
#[derive(Default)]
pub(crate) struct Answers {
    causes: BTreeMap<&'static str, Sum>,
    binaries: BTreeMap<(String, &'static str), Sum>,
    stacks: BTreeMap<(usize, u64), Sum>,
    hosts: BTreeMap<String, Sum>,
    /// Traces and ns of each host.
    traced: BTreeMap<String, (u64, u64)>,
    week_ns: [u64; 2],
    changes: BTreeMap<(String, &'static str), Change>,
    remedies: BTreeMap<(&'static str, &'static str), Stopped>,
    victims: BTreeMap<String, Hits>,
    shares: BTreeMap<(&'static str, Cause, String), u32>,
    /// By mechanism, program and code, then by host: CPU time and time asleep.
    times: BTreeMap<(&'static str, &'static str, String), BTreeMap<String, [u64; 2]>>,
    /// Traces and ns of each host that have an account.
    accounted: BTreeMap<String, (u64, u64)>,
}

impl Sum {
    fn add(&mut self, s: &Shootdown, host: &str) {
        self.shootdowns += 1;
        self.victims += s.victims.len() as u64 + u64::from(s.unseen);
        self.wait_ns += s.wait_ns;
        self.stall_ns += s.victims.iter().map(|v| u64::from(v.stall_ns)).sum::<u64>();
        if !self.hosts.contains(host) {
            self.hosts.insert(host.to_owned());
        }
    }

    fn merge(&mut self, other: Self) {
        self.shootdowns += other.shootdowns;
        self.victims += other.victims;
        self.wait_ns += other.wait_ns;
        self.stall_ns += other.stall_ns;
        self.hosts.extend(other.hosts);
    }

    fn cost(&self) -> u64 {
        self.wait_ns + self.stall_ns
    }
}

impl Hits {
    fn merge(&mut self, other: Self) {
        self.hits += other.hits;
        self.stall_ns += other.stall_ns;
        self.delay_ns += other.delay_ns;
        self.bystanders += other.bystanders;
        self.hosts.extend(other.hosts);
        for (cpu, n) in other.cpus {
            *self.cpus.entry(cpu).or_default() += n;
        }
    }
}

fn all<K: Ord>(to: &mut BTreeMap<K, Sum>, from: BTreeMap<K, Sum>) {
    for (key, sum) in from {
        to.entry(key).or_default().merge(sum);
    }
}

impl Answers {
    pub(crate) fn trace(&mut self, host: &str, week: usize, traced_ns: u64) {
        let of = self.traced.entry(host.to_owned()).or_default();
        *of = (of.0 + 1, of.1 + traced_ns);
        self.week_ns[week] += traced_ns;
        for row in quell_remedy::table::table() {
            self.shares
                .insert((row.asker, row.cause, row.remedy), row.permille);
        }
    }

    pub(crate) fn add(&mut self, s: &Shootdown, at: &Where<'_>) {
        let binary = binary(at.ask, at.before_exec);
        let build = build_id(at.ask, at.week, at.before_exec);
        let cause = s.cause.name();
        let host = at.host;
        self.causes.entry(cause).or_default().add(s, host);
        self.binaries
            .entry((binary.clone(), build))
            .or_default()
            .add(s, host);
        self.stacks
            .entry((at.ask, distinct(at.ask, at.variant)))
            .or_default()
            .add(s, host);
        self.hosts.entry(host.to_owned()).or_default().add(s, host);
        let change = self.changes.entry((binary.clone(), cause)).or_default();
        change.shootdowns[at.week] += 1;
        *change.builds[at.week].entry(build).or_default() += 1;
        let ask = &ASKS[at.ask];
        let share = self
            .shares
            .get(&(ask.asker, s.cause, ask.remedy.to_owned()));
        let stopped = self.remedies.entry((ask.remedy, ask.asker)).or_default();
        stopped.shootdowns += 1;
        stopped.thousandths += share.map_or(0, |n| u64::from(*n));
        stopped.wait_ns += s.wait_ns;
        stopped.binaries.insert(binary);
        stopped.hosts.insert(host.to_owned());
        self.hit(s, at);
    }

    pub(crate) fn spent(&mut self, host: &str, spent: &Spent) {
        let key = (spent.mechanism.name(), spent.binary(), spent.code());
        let of = self.times.entry(key).or_default();
        let of = of.entry(host.to_owned()).or_default();
        of[0] += spent.samples * SAMPLE_NS;
        of[1] += spent.waits * WAIT_NS;
    }

    pub(crate) fn accounted(&mut self, host: &str, traced_ns: u64) {
        let of = self.accounted.entry(host.to_owned()).or_default();
        *of = (of.0 + 1, of.1 + traced_ns);
    }

    fn hit(&mut self, s: &Shootdown, at: &Where<'_>) {
        for v in &s.victims {
            let name = match v.pid {
                0 => "[idle]".to_owned(),
                RT_PID => "[rt-loop]".to_owned(),
                pid => {
                    let ask = ASKS
                        .iter()
                        .position(|a| crate::programs::pid(a.program) == pid);
                    binary(ask.unwrap_or(0), at.before_exec)
                }
            };
            let hits = self.victims.entry(name).or_default();
            hits.hits += 1;
            hits.stall_ns += u64::from(v.stall_ns);
            hits.delay_ns += u64::from(v.delay_ns);
            hits.bystanders += u64::from(v.bystander);
            hits.hosts.insert(at.host.to_owned());
            *hits.cpus.entry(v.cpu).or_default() += 1;
        }
        if s.unseen > 0 {
            let hits = self.victims.entry("[unseen]".to_owned()).or_default();
            hits.hits += u64::from(s.unseen);
            hits.hosts.insert(at.host.to_owned());
            *hits.cpus.entry(u16::MAX).or_default() += u64::from(s.unseen);
        }
    }

    pub(crate) fn merge(&mut self, other: Self) {
        all(&mut self.causes, other.causes);
        all(&mut self.binaries, other.binaries);
        all(&mut self.stacks, other.stacks);
        all(&mut self.hosts, other.hosts);
        for (host, (n, ns)) in other.traced {
            let of = self.traced.entry(host).or_default();
            *of = (of.0 + n, of.1 + ns);
        }
        for (key, change) in other.changes {
            let of = self.changes.entry(key).or_default();
            for week in 0..2 {
                of.shootdowns[week] += change.shootdowns[week];
                for (build, n) in &change.builds[week] {
                    *of.builds[week].entry(build).or_default() += n;
                }
            }
        }
        for (key, stopped) in other.remedies {
            let of = self.remedies.entry(key).or_default();
            of.shootdowns += stopped.shootdowns;
            of.thousandths += stopped.thousandths;
            of.wait_ns += stopped.wait_ns;
            of.binaries.extend(stopped.binaries);
            of.hosts.extend(stopped.hosts);
        }
        for (name, hits) in other.victims {
            self.victims.entry(name).or_default().merge(hits);
        }
        for week in 0..2 {
            self.week_ns[week] += other.week_ns[week];
        }
        self.shares.extend(other.shares);
        for (key, hosts) in other.times {
            let of = self.times.entry(key).or_default();
            for (host, [cpu, blocked]) in hosts {
                let of = of.entry(host).or_default();
                *of = [of[0] + cpu, of[1] + blocked];
            }
        }
        for (host, (n, ns)) in other.accounted {
            let of = self.accounted.entry(host).or_default();
            *of = (of.0 + n, of.1 + ns);
        }
    }

    /// The rows of each answer, in their order.
    pub(crate) fn rows(&self) -> Value {
        json!({
            "causes": by_cost(&self.causes, |cause| vec![("cause", json!(cause))]),
            "binaries": by_cost(&self.binaries, |(binary, id)| vec![("program", json!(binary)), ("build_id", json!(id))]),
            "stacks": by_cost(&self.stacks, |(ask, v)| vec![
                ("stack", json!(shown(*ask, *v).join("\n"))),
                ("caller", json!(caller(*ask, *v))),
            ]),
            "hosts": self.hosts(),
            "changes": self.changes(),
            "remedies": self.remedies(),
            "victims": self.victims(),
            "time": self.time(),
            "time-hosts": self.time_hosts(),
        })
    }

    fn time(&self) -> Vec<Value> {
        let mut rows: Vec<([u64; 2], Value)> = Vec::new();
        for ((mechanism, program, code), hosts) in &self.times {
            let sum = |n: usize| hosts.values().map(|of| of[n]).sum::<u64>();
            // of several the first by name
            let most = hosts.iter().rev().max_by_key(|(_, of)| **of);
            rows.push((
                [sum(0), sum(1)],
                json!({
                    "mechanism": mechanism, "program": program, "code": code, "cpu_ns": sum(0), "blocked_ns": sum(1),
                    "hosts": hosts.len(), "host": most.map(|(host, _)| host), "host_cpu_ns": most.map(|(_, of)| of[0]),
                }),
            ));
        }
        rows.sort_by_key(|(cost, _)| std::cmp::Reverse(*cost));
        rows.into_iter().map(|r| r.1).collect()
    }

    fn time_hosts(&self) -> Vec<Value> {
        let mut rows: Vec<(f64, Value)> = Vec::new();
        for (host, (traces, ns)) in &self.accounted {
            let mut mechanisms: BTreeMap<&str, [u64; 2]> = BTreeMap::new();
            for ((mechanism, ..), hosts) in &self.times {
                let [cpu, blocked] = hosts.get(host).copied().unwrap_or_default();
                let of = mechanisms.entry(mechanism).or_default();
                *of = [of[0] + cpu, of[1] + blocked];
            }
            let sum = |n: usize| mechanisms.values().map(|of| of[n]).sum::<u64>();
            let most = mechanisms.iter().rev().max_by_key(|(_, of)| **of);
            let share = sum(0) as f64 / *ns as f64;
            rows.push((
                share,
                json!({
                    "host": host, "traces": traces, "traced_ns": ns, "cpu_ns": sum(0), "blocked_ns": sum(1),
                    "of_a_cpu": share, "mechanism": most.map(|(name, _)| name), "mechanism_cpu_ns": most.map(|(_, of)| of[0]),
                }),
            ));
        }
        rows.sort_by(|a, b| b.0.total_cmp(&a.0));
        rows.into_iter().map(|r| r.1).collect()
    }

    fn hosts(&self) -> Vec<Value> {
        let mut rows: Vec<(f64, Value)> = self
            .traced
            .iter()
            .map(|(host, (traces, ns))| {
                let sum = &self.hosts[host];
                let rate = sum.shootdowns as f64 / *ns as f64 * 1e9;
                let row = json!({
                    "host": host, "traces": traces, "traced_ns": ns, "shootdowns": sum.shootdowns, "victims": sum.victims,
                    "wait_ns": sum.wait_ns, "stall_ns": sum.stall_ns, "per_s": rate,
                });
                (rate, row)
            })
            .collect();
        // stable: of the same rate by name
        rows.sort_by(|a, b| b.0.total_cmp(&a.0));
        rows.into_iter().map(|r| r.1).collect()
    }

    fn changes(&self) -> Vec<Value> {
        let mut rows: Vec<(f64, Value)> = Vec::new();
        for ((binary, cause), change) in &self.changes {
            let [before, now] =
                [0, 1].map(|w| change.shootdowns[w] as f64 / self.week_ns[w] as f64 * 1e9);
            let what = match change.shootdowns {
                [b, n] if b < 50 && n < 50 => continue,
                [0, _] => "new",
                [_, 0] => "gone",
                _ if now >= before * 1.25 => "more",
                _ if before >= now * 1.25 => "less",
                _ => continue,
            };
            let build = |week: usize| {
                let most = change.builds[week].iter().rev().max_by_key(|(_, n)| **n);
                most.map(|(build, _)| *build)
            };
            rows.push((
                (now - before).abs(),
                json!({
                    "change": what, "program": binary, "cause": cause, "before_per_s": before, "now_per_s": now,
                    "shootdowns_before": change.shootdowns[0], "shootdowns_now": change.shootdowns[1],
                    "build_before": build(0), "build_now": build(1),
                }),
            ));
        }
        rows.sort_by(|a, b| b.0.total_cmp(&a.0));
        rows.into_iter().map(|r| r.1).collect()
    }

    fn remedies(&self) -> Vec<Value> {
        let mut rows: Vec<_> = self.remedies.iter().collect();
        let stops = |s: &Stopped| s.thousandths / 1000;
        rows.sort_by_key(|(key, s)| (std::cmp::Reverse((stops(s), s.shootdowns)), **key));
        let row = |((remedy, asker), s): &(&(&str, &str), &Stopped)| {
            json!({
                "remedy": remedy, "asker": asker, "shootdowns": s.shootdowns, "stops": stops(s), "wait_ns": s.wait_ns,
                "binaries": s.binaries.len(), "hosts": s.hosts.len(),
            })
        };
        rows.iter().map(row).collect()
    }

    fn victims(&self) -> Vec<Value> {
        let mut rows: Vec<_> = self.victims.iter().collect();
        rows.sort_by_key(|(name, h)| (std::cmp::Reverse(h.stall_ns), (*name).clone()));
        let row = |(name, h): &(&String, &Hits)| {
            let most = h.cpus.iter().rev().max_by_key(|(_, n)| **n);
            let (cpu, n) = most.unwrap_or((&0, &0));
            json!({
                "program": name, "hits": h.hits, "stall_ns": h.stall_ns, "delay_ns": h.delay_ns,
                "bystanders": h.bystanders, "hosts": h.hosts.len(), "cpus": h.cpus.len(), "cpu": cpu, "cpu_hits": n,
            })
        };
        rows.iter().map(row).collect()
    }
}

fn by_cost<K: Ord>(
    sums: &BTreeMap<K, Sum>,
    names: impl Fn(&K) -> Vec<(&'static str, Value)>,
) -> Vec<Value> {
    let mut rows: Vec<(u64, Vec<String>, Value)> = sums
        .iter()
        .map(|(key, sum)| {
            let mut row = json!({
                "shootdowns": sum.shootdowns, "victims": sum.victims, "wait_ns": sum.wait_ns, "stall_ns": sum.stall_ns,
                "cost_ns": sum.cost(), "hosts": sum.hosts.len(),
            });
            let names = names(key);
            let order = names.iter().map(|(_, name)| name.to_string()).collect();
            for (column, name) in names {
                row[column] = name;
            }
            (sum.cost(), order, row)
        })
        .collect();
    rows.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    rows.into_iter().map(|r| r.2).collect()
}
