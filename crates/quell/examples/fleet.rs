//! Writes a tree of made-up traces, of many hosts over two weeks, and the answers that `quell fleet` must give.
//!
//!     cargo run --release -p quell --example fleet -- DIR HOSTS SHOOTDOWNS [SEED]
//!
//! SHOOTDOWNS is of each host, in five traces: two of the first week, three of the second. Seeded: the same arguments
//! make the same traces, however many threads write them. `planted.json` beside them has the rows of each answer, counted
//! while writing. In the second week a release of `ingest` shoots three times as often, `shard` is new, `render` has gone,
//! and `store` does a third of what it did; `edge-000` is four times as busy as the others; and a real-time loop on CPU 7
//! is hit by what does not concern it.

#[path = "fleet/planted.rs"]
mod planted;
#[path = "fleet/programs.rs"]
mod programs;
#[path = "fleet/spent.rs"]
mod spent;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context as _;
use quell_event::trace::{TraceMeta, TraceWriter};
use quell_event::{
    Account, AccountRow, Comm, MechanismPart, ProcessTime, Shootdown, ShootdownVictim, Tally, Text,
};
use quell_fleet::{DAY_NS, day};

use planted::{Answers, Where};
use programs::{ASKS, Ask, PROGRAMS, RT_PID, VARIANTS, base, pid, processes, stack_id, stacks};
use spent::{Spent, WAIT_NS, spent};

/// 2025-03-03, a Monday.
const BEGIN: u64 = 20_150 * DAY_NS;
const MONOTONIC: u64 = 1_000_000_000_000;
const MINUTE: u64 = 60_000_000_000;
/// The days of a host's traces: two in the first week, three in the second.
const DAYS: [u64; 5] = [1, 4, 8, 10, 13];
const CPUS: u16 = 8;
/// What the busiest host does more.
const BUSY: u64 = 4;

/// SplitMix64: small, and good enough to make traces.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Half of it to one and a half times as much.
    fn about(&mut self, middle: u64) -> u64 {
        middle / 2 + self.next() % middle.max(1)
    }
}

/// Picks in exact proportion, so that what does not change changes by nothing, however few there are.
struct Turns {
    credit: Vec<i64>,
    rates: Vec<i64>,
}

impl Turns {
    fn new(week: usize) -> Self {
        let rates: Vec<i64> = ASKS.iter().map(|a| a.rates[week] as i64).collect();
        Self {
            credit: vec![0; rates.len()],
            rates,
        }
    }

    fn sum(&self) -> i64 {
        self.rates.iter().sum()
    }

    fn next(&mut self) -> usize {
        let mut most = 0;
        for (n, rate) in self.rates.iter().enumerate() {
            self.credit[n] += rate;
            if self.credit[n] > self.credit[most] {
                most = n;
            }
        }
        self.credit[most] -= self.sum();
        most
    }
}

/// The time that a trace takes in which so many shootdowns come at these rates.
fn duration(shootdowns: u64, rate: u64) -> u64 {
    shootdowns * 1_000_000_000 / rate.max(1)
}

fn victims(random: &mut Random, ask: &Ask, n: u64) -> (Vec<ShootdownVictim>, u16) {
    let mut victim = |cpu, pid, comm: &str, bystander, stall| ShootdownVictim {
        cpu,
        pid,
        tid: pid,
        comm: Comm::from(comm),
        bystander,
        delay_ns: random.about(900) as u32,
        stall_ns: random.about(stall) as u32,
    };
    let program = &PROGRAMS[ask.program];
    // what the kernel does by itself hits lookup
    let hit = if program.exe.is_empty() {
        1
    } else {
        ask.program
    };
    let own = (1 + n % 5) as u16;
    let mut all = vec![victim(own, pid(hit), PROGRAMS[hit].comm, false, 400)];
    if n.is_multiple_of(4) {
        all.push(victim(7, RT_PID, "rt-loop", true, 4_000));
    }
    if n.is_multiple_of(10) {
        all.push(victim(6, 0, "swapper/6", false, 200));
    }
    (all, u16::from(n.is_multiple_of(50)))
}

fn trace(
    path: &Path,
    host: u64,
    number: usize,
    shootdowns: u64,
    seed: u64,
) -> anyhow::Result<Answers> {
    let week = usize::from(DAYS[number] > 6);
    let mut turns = Turns::new(week);
    let busy = if host == 0 { BUSY } else { 1 };
    let traced_ns = duration(shootdowns, turns.sum() as u64 * busy);
    let start_wall_ns = BEGIN + DAYS[number] * DAY_NS + host * MINUTE;
    let name = format!("edge-{host:03}");
    let folder = path.join(&name);
    std::fs::create_dir_all(&folder)?;
    let minutes = host % (24 * 60);
    let trace = folder.join(format!(
        "{}T{:02}-{:02}-00Z-storm.quell",
        day(start_wall_ns),
        minutes / 60,
        minutes % 60
    ));
    let meta = TraceMeta {
        quell: env!("CARGO_PKG_VERSION").into(),
        kernel: "6.12.0-made-up".into(),
        host: (&name).into(),
        start_wall_ns,
        start_monotonic_ns: MONOTONIC,
        scope: "of everything".into(),
        cpus: u32::from(CPUS),
        stacks: "all".into(),
        backend: "raw_tp".into(),
        ..TraceMeta::default()
    };
    let mut writer = TraceWriter::create(&trace, &meta, true)?;
    let exec_ns = MONOTONIC + traced_ns / 10;
    for process in processes(week, MONOTONIC, exec_ns) {
        writer.push_process(&process);
    }
    for stack in stacks() {
        writer.push_stack(&stack);
    }
    let mut random = Random(seed ^ (host << 16) ^ number as u64);
    let mut answers = Answers::default();
    answers.trace(&name, week, traced_ns);
    for n in 0..shootdowns {
        let at = turns.next();
        let ask = &ASKS[at];
        let program = &PROGRAMS[ask.program];
        let t_ns = MONOTONIC + traced_ns * n / shootdowns;
        let (victims, unseen) = victims(&mut random, ask, n);
        let variant = (n % VARIANTS * n) % VARIANTS;
        let id = stack_id(at, variant);
        let is_kernel = program.exe.is_empty();
        let shootdown = Shootdown {
            t_ns,
            wait_ns: random.about(ask.wait_ns),
            pid: pid(ask.program),
            tid: pid(ask.program) + 1,
            comm: Comm::from(program.comm),
            cpu: 0,
            cgroup: 1,
            cause: ask.cause,
            syscall: if is_kernel { -2 } else { 28 },
            start: 0x7f00_0000_0000,
            end: 0x7f00_0000_0000 + 4096 * (1 + n % 30),
            own_mm: !is_kernel,
            kernel_stack: if is_kernel { id } else { -1 },
            user_stack: if is_kernel { -1 } else { id },
            victims,
            unseen,
        };
        answers.add(
            &shootdown,
            &Where {
                host: &name,
                week,
                ask: at,
                variant,
                before_exec: t_ns < exec_ns,
            },
        );
        writer.push_shootdown(&shootdown);
        if n.is_multiple_of(4_096) {
            writer.write_due()?;
        }
    }
    let spent = spent(week, shootdowns);
    for one in &spent {
        answers.spent(&name, one);
    }
    answers.accounted(&name, traced_ns);
    writer.set_tally(&tally(&spent, traced_ns));
    writer.finish(MONOTONIC + traced_ns, |_| {})?;
    Ok(answers)
}

/// What a sample stands for.
const SAMPLE_NS: u64 = 1_000_000;

/// The counts of the account alone: each program has as many samples as it spends in memory management.
fn tally(spent: &[Spent], traced_ns: u64) -> Tally {
    let row = |s: &Spent| AccountRow {
        pid: pid(s.program),
        mechanism: s.mechanism,
        part: MechanismPart::Other,
        advice: Text::default(),
        function: s.function.into(),
        file: base(PROGRAMS[s.program].exe).into(),
        allocator: Text::default(),
        samples: s.samples,
        waits: s.waits,
        blocked_ns: s.waits * WAIT_NS,
        longest_ns: WAIT_NS,
    };
    let process = |n: usize| {
        let samples = spent.iter().filter(|s| s.program == n).map(|s| s.samples);
        let samples: u64 = samples.sum();
        ProcessTime {
            pid: pid(n),
            comm: PROGRAMS[n].comm.into(),
            run_ns: samples * SAMPLE_NS,
            samples,
            ..ProcessTime::default()
        }
    };
    Tally {
        duration_ns: traced_ns,
        account: Some(Account {
            period_ns: SAMPLE_NS,
            rows: spent.iter().map(row).collect(),
            processes: (0..PROGRAMS.len()).map(process).collect(),
            ..Account::default()
        }),
        ..Tally::default()
    }
}

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [dir, hosts, shootdowns, rest @ ..] = &*args else {
        anyhow::bail!("usage: fleet DIR HOSTS SHOOTDOWNS [SEED]");
    };
    let (dir, hosts, shootdowns): (PathBuf, u64, u64) =
        (dir.into(), hosts.parse()?, shootdowns.parse()?);
    let seed = rest.first().map_or(Ok(0x5eed), |s| s.parse::<u64>())?;
    anyhow::ensure!(
        hosts > 0 && shootdowns >= 5,
        "at least a host, and five shootdowns of each"
    );
    std::fs::create_dir_all(&dir).with_context(|| format!("can't make {}", dir.display()))?;
    let traces = DAYS.len() as u64;
    let next = AtomicU64::new(0);
    let all = Mutex::new(Answers::default());
    let work = || -> anyhow::Result<()> {
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            if n >= hosts * traces {
                return Ok(());
            }
            let (host, number) = (n / traces, (n % traces) as usize);
            let answers = trace(&dir, host, number, shootdowns / traces, seed)?;
            all.lock()
                .map_err(|_| anyhow::anyhow!("a thread failed"))?
                .merge(answers);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for thread in running {
            thread
                .join()
                .map_err(|_| anyhow::anyhow!("a thread failed"))??;
        }
        anyhow::Ok(())
    })?;
    let answers = all
        .into_inner()
        .map_err(|_| anyhow::anyhow!("a thread failed"))?;
    let text = serde_json::to_string_pretty(&answers.rows())?;
    std::fs::write(dir.join("planted.json"), text + "\n")?;
    Ok(())
}
