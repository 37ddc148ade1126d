//! Writes a trace of made-up shootdowns, for measuring what reads traces.
//!
//!     cargo run --release -p quell-event --example synthetic -- DIR [SHOOTDOWNS]
//!
//! Seeded: the same arguments make the same trace. Twelve causes, 40 culprits, 2,000 stacks of 5 to 40
//! frames, 16 CPUs, one to three victims; bursts, a quiet spell, and heavy tails, as real traces have.

use std::path::Path;

use quell_event::trace::{
    MappedModule, SampleRow, StackCost, StackFrame, StackKind, TraceMeta, TraceWriter,
    TracedProcess, TracedStack, WaitRow,
};
use quell_event::{Cause, Comm, HolderRole, Mechanism, MechanismPart, Shootdown, ShootdownVictim};

const CAUSES: [Cause; 12] = [
    Cause::MadviseDontneed,
    Cause::Munmap,
    Cause::MadviseFree,
    Cause::Mprotect,
    Cause::Cow,
    Cause::Reclaim,
    Cause::MigrateNuma,
    Cause::ThpCollapse,
    Cause::Writeback,
    Cause::Mremap,
    Cause::Compaction,
    Cause::Fork,
];
const NAMES: [&str; 10] = [
    "python3",
    "redis-server",
    "java",
    "postgres",
    "node",
    "rustc",
    "chromium",
    "kworker/u32:1",
    "mongod",
    "nginx",
];
const CULPRITS: u64 = 40;
const STACKS_FILE: u64 = 2_000;
const CPUS: u64 = 16;
const BEGIN: u64 = 1_000_000_000_000;

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

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// One of `n`, the first much oftener than the last.
    fn skewed(&mut self, n: u64) -> u64 {
        ((self.share().powi(3) * n as f64) as u64).min(n - 1)
    }

    /// A time about `middle`, ns, now and then many times as long.
    fn heavy(&mut self, middle: f64) -> u64 {
        let tail = 1.0 / (1.0 - self.share()).max(1e-6);
        (middle * (0.5 + self.share()) * tail.powf(0.45)) as u64
    }
}

fn pid(culprit: u64) -> u32 {
    4_000 + 37 * culprit as u32
}

fn comm(culprit: u64) -> &'static str {
    NAMES[(culprit % NAMES.len() as u64) as usize]
}

fn stacks(writer: &mut TraceWriter, random: &mut Random) {
    for id in 0..STACKS_FILE {
        let depth = 5 + random.below(36);
        let culprit = id % CULPRITS;
        // the outer half is shared by all stacks of a program, as main and its loops are
        let frames = (0..depth).map(|i| {
            let outer = i >= depth / 2;
            let number = if outer {
                100 * culprit + (depth - i).min(30)
            } else {
                10_000 + random.below(3_000)
            };
            let (symbol, module) = match i {
                0 => (
                    "__madvise".to_owned(),
                    "/usr/lib/x86_64-linux-gnu/libc.so.6".to_owned(),
                ),
                1 => (
                    "_rjem_je_pages_purge_forced".to_owned(),
                    format!("/usr/lib/lib{}.so", comm(culprit)),
                ),
                _ => (
                    format!(
                        "engine::stage_{}::Operator<u64, {number}>::execute",
                        number % 97
                    ),
                    format!("/usr/lib/lib{}.so", comm(culprit)),
                ),
            };
            StackFrame {
                addr: 0x7f00_0000_0000 + number * 64,
                symbol: Some(symbol),
                module: Some(module),
                offset: Some(4),
                ..StackFrame::default()
            }
        });
        writer.push_stack(&TracedStack {
            id: id as u32,
            kind: StackKind::User,
            pid: Some(pid(culprit)),
            frames: frames.collect(),
            ..TracedStack::default()
        });
    }
}

fn processes(writer: &mut TraceWriter) {
    for culprit in 0..CULPRITS {
        writer.push_process(&TracedProcess {
            pid: pid(culprit),
            comm: comm(culprit).to_owned(),
            modules: vec![MappedModule {
                path: format!("/var/lib/{}/data.{culprit}", comm(culprit)),
                start: 0x5000_0000_0000,
                end: 0x5000_1000_0000,
                perms: "rw-s".to_owned(),
                ..MappedModule::default()
            }],
            ..TracedProcess::default()
        });
    }
}

/// The time of memory management, by the same stacks.
fn costs(random: &mut Random) -> Vec<StackCost> {
    const MECHANISMS: &[(Mechanism, MechanismPart)] = &[
        (Mechanism::FaultAnon, MechanismPart::Other),
        (Mechanism::FaultAnon, MechanismPart::Alloc),
        (Mechanism::FaultAnon, MechanismPart::Memcg),
        (Mechanism::Zeroing, MechanismPart::Other),
        (Mechanism::Unmap, MechanismPart::Free),
        (Mechanism::LockMmap, MechanismPart::Other),
    ];
    let cost = |stack: u64| {
        let culprit = stack % CULPRITS;
        let (mechanism, part) = MECHANISMS[random.below(MECHANISMS.len() as u64) as usize];
        let waits = u64::from(mechanism == Mechanism::LockMmap);
        let samples = 1 + random.skewed(400);
        StackCost {
            pid: pid(culprit),
            comm: comm(culprit).into(),
            mechanism,
            part,
            stack: Some(stack as u32),
            samples,
            cpu_ns: samples * 1_003_009,
            waits,
            blocked_ns: waits * random.heavy(90_000.0),
            longest_ns: 0,
        }
    };
    (0..STACKS_FILE).map(cost).collect()
}

/// One thread waits for another one again and again, for some of the time until `end`; and each CPU is sampled.
fn waits_and_samples(writer: &mut TraceWriter, random: &mut Random, end: u64) {
    const EACH: u64 = 2_000;
    let step = (end - BEGIN) / EACH;
    for i in 0..EACH {
        let (culprit, t_ns) = (i % CULPRITS, BEGIN + i * step);
        let is_lock = i % 4 != 0;
        writer.push_wait(&WaitRow {
            t_ns,
            wait_ns: 1 + random.below(step.max(2) - 1),
            pid: pid(culprit),
            tid: pid(culprit),
            comm: Comm::from(comm(culprit)),
            mechanism: Some(if is_lock {
                Mechanism::LockMmap
            } else {
                Mechanism::FaultMajor
            }),
            syscall: if is_lock { 9 } else { -1 },
            user_stack: random.skewed(STACKS_FILE) as i32,
            role: is_lock.then_some(HolderRole::Alone),
            holder_pid: if is_lock { pid(culprit) } else { 0 },
            holder_tid: if is_lock { pid(culprit) + 1 } else { 0 },
            holder_comm: Comm::from(if is_lock { comm(culprit) } else { "" }),
            holder_doing: if is_lock { "munmap of 64 pages" } else { "" }.into(),
            ..WaitRow::default()
        });
        let of_memory = i % 3 == 0;
        writer.push_sample(&SampleRow {
            t_ns,
            samples: if of_memory { 1 } else { 5 },
            cpu: (i % CPUS) as u16,
            pid: pid(culprit),
            tid: pid(culprit),
            comm: Comm::from(comm(culprit)),
            mechanism: of_memory.then_some(Mechanism::FaultAnon),
            user_stack: if of_memory {
                random.skewed(STACKS_FILE) as i32
            } else {
                -1
            },
            ..SampleRow::default()
        });
    }
}

fn shootdown(random: &mut Random, t_ns: u64) -> Shootdown {
    let stack = random.skewed(STACKS_FILE);
    let culprit = stack % CULPRITS;
    let cause = CAUSES[((stack / CULPRITS + random.below(2)) % 12) as usize];
    let cpu = random.skewed(CPUS);
    let victims: Vec<ShootdownVictim> = (0..1 + random.skewed(3))
        .map(|i| {
            let bystander = random.below(8) == 0;
            let whose = if bystander {
                random.below(CULPRITS)
            } else {
                culprit
            };
            ShootdownVictim {
                cpu: ((cpu + 1 + 5 * i + random.below(5)) % CPUS) as u16,
                pid: pid(whose),
                tid: pid(whose) + 1,
                comm: Comm::from(comm(whose)),
                bystander,
                delay_ns: random.heavy(900.0) as u32,
                stall_ns: random.heavy(400.0) as u32,
            }
        })
        .collect();
    let longest = victims
        .iter()
        .map(|v| v.delay_ns + v.stall_ns)
        .max()
        .unwrap_or(0);
    let start = if random.below(20) == 0 {
        0x5000_0000_0000 + random.below(0x1000_0000)
    } else {
        0x7f80_0000_0000 + (culprit << 32) + random.below(1 << 26)
    };
    Shootdown {
        t_ns,
        wait_ns: u64::from(longest) + 300,
        pid: pid(culprit),
        tid: pid(culprit) + random.below(8) as u32,
        comm: Comm::from(comm(culprit)),
        cpu: cpu as u16,
        cgroup: 1,
        cause,
        syscall: 28,
        start,
        end: if random.below(30) == 0 {
            u64::MAX
        } else {
            start + 4096 * (1 + random.below(64))
        },
        own_mm: true,
        kernel_stack: -1,
        user_stack: stack as i32,
        victims,
        unseen: 0,
    }
}

fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let dir = args
        .next()
        .ok_or_else(|| anyhow::anyhow!("say where: synthetic DIR [SHOOTDOWNS]"))?;
    let many: u64 = args.next().map_or(Ok(10_000_000), |n| n.parse())?;
    let meta = TraceMeta {
        quell: env!("CARGO_PKG_VERSION").into(),
        kernel: "6.18.0-synthetic".into(),
        host: "synthetic".into(),
        start_wall_ns: 1_760_000_000_000_000_000,
        start_monotonic_ns: BEGIN,
        command: vec!["made-up".into(), many.to_string().into()],
        cpus: CPUS as u32,
        stacks: "all".into(),
        backend: "raw_tp".into(),
        ..TraceMeta::default()
    };
    let mut writer = TraceWriter::create(Path::new(&dir), &meta, true)?;
    let mut random = Random(0x5eed);
    processes(&mut writer);
    stacks(&mut writer, &mut random);
    let mut t = BEGIN + 1_000_000;
    for i in 0..many {
        // three bursts, and a quiet spell between the second and the third
        let phase = i * 30 / many.max(1);
        t += random.heavy(if phase % 10 < 3 { 1_500.0 } else { 6_000.0 });
        if i == many * 2 / 3 {
            t += many * 700;
        }
        writer.push_shootdown(&shootdown(&mut random, t));
        if i % 4_096 == 0 {
            writer.write_due()?;
        }
    }
    writer.set_account(&costs(&mut random));
    waits_and_samples(&mut writer, &mut random, t);
    writer.finish(t + 1_000_000, |_| {})?;
    Ok(())
}
