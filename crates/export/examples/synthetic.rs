//! Writes a made-up trace of any length, for the tests of exports and for measuring them:
//! `synthetic SHOOTDOWNS DIR`.
//!
//! Eight CPUs, two programs of several threads, all causes, stacks of both kinds, and what readers
//! stumble over: quotes, commas and semicolons in names, unseen victims, bystanders, full flushes,
//! an idle victim. CPUs shoot at the same time, but waits on one CPU don't overlap, nor do stalls.

use std::path::Path;

use anyhow::Context as _;
use quell_event::trace::{Frame, Meta, Module, Process, Stack, StackKind, Writer};
use quell_event::{Cause, Comm, NO_STACK, Shootdown, Victim};

const CPUS: u64 = 8;
const USER_STACKS: u32 = 40;
const KERNEL_STACKS: u32 = 6;
const COMMS: [&str; 6] = [
    "worker-1",
    "say \"hi\"",
    "a,b",
    "semi;colon",
    "Ünïcode",
    "io thread",
];
const SYMBOLS: [&str; 6] = [
    "main",
    "core::slice::sort<[u8; 16]>",
    "je_arena_purge",
    "madvise",
    "std::vector<int, std::allocator<int> >::~vector()",
    "runtime.sysUnused",
];

/// Somewhat random, and the same on every run.
fn mix(n: u64) -> u64 {
    let n = (n ^ (n >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (n ^ (n >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 16
}

/// Each CPU in turn; a round of all takes 40 µs, in which each waits and stalls within its slot.
fn shootdown(n: u64) -> Shootdown {
    let h = mix(n);
    let cpu = n % CPUS;
    let full = h.is_multiple_of(17);
    let start = 0x7f12_3400_0000 + (h >> 8) % 4096 * 0x1000;
    let pid = 4000 + (h >> 3) as u32 % 2;
    let victim = |v: u64| {
        let idle = (h >> 5).is_multiple_of(23);
        let bystander = !idle && (h >> 6).is_multiple_of(5);
        let victim_pid = if idle {
            0
        } else {
            pid + u32::from(bystander) * 100
        };
        Victim {
            cpu: ((cpu + 1 + v) % CPUS) as u16,
            pid: victim_pid,
            tid: victim_pid + v as u32,
            comm: Comm::from(if idle {
                "swapper"
            } else {
                COMMS[(h >> 9) as usize % COMMS.len()]
            }),
            bystander,
            delay_ns: 700 + (h >> 12) as u32 % 300,
            stall_ns: 300 + (h >> 16) as u32 % 700,
        }
    };
    let unseen = u16::from(h.is_multiple_of(31));
    Shootdown {
        t_ns: START_NS + n * 5_000,
        wait_ns: 2_100 + (h >> 20) % 2_500,
        pid,
        tid: pid + (h >> 7) as u32 % 4,
        comm: Comm::from(COMMS[(h >> 7) as usize % 4]),
        cpu: cpu as u16,
        cgroup: 4321,
        cause: Cause::ALL[(h >> 10) as usize % Cause::ALL.len()],
        syscall: 28,
        start: if full { 0 } else { start },
        end: if full {
            u64::MAX
        } else {
            start + (1 + h % 8) * 0x1000
        },
        own_mm: true,
        kernel_stack: ((h >> 24) as u32 % KERNEL_STACKS) as i32,
        user_stack: match (h >> 28) as u32 % (USER_STACKS + 1) {
            USER_STACKS => NO_STACK,
            n => (KERNEL_STACKS + n) as i32,
        },
        victims: (0..1 + h % 3 - u64::from(unseen).min(h % 3))
            .map(victim)
            .collect(),
        unseen,
    }
}

const START_NS: u64 = 1_000_000_000_000;

fn stack(id: u32) -> Stack {
    let kernel = id < KERNEL_STACKS;
    let depth = 3 + id as usize % 4;
    let frame = |at: usize| {
        let n = (id as usize * 7 + at * 3) % SYMBOLS.len();
        let addr = 0x5500_0000_1000 + (id as u64 * 16 + at as u64) * 64;
        if kernel {
            Frame {
                addr: 0xffff_ffff_8100_0000 + at as u64 * 64,
                symbol: Some(
                    [
                        "smp_call_function_many_cond",
                        "flush_tlb_mm_range",
                        "do_madvise",
                    ][at % 3]
                        .into(),
                ),
                offset: Some(16),
                ..Frame::default()
            }
        } else {
            Frame {
                addr,
                symbol: (n != 5).then(|| SYMBOLS[n].to_owned()),
                module: Some("/usr/bin/program".into()),
                offset: Some(addr - 0x5500_0000_0000),
                caller: false,
            }
        }
    };
    Stack {
        id,
        kind: if kernel {
            StackKind::Kernel
        } else {
            StackKind::User
        },
        pid: (!kernel).then_some(4000),
        frames: (0..depth).map(frame).collect(),
        ..Stack::default()
    }
}

fn process(pid: u32) -> Process {
    Process {
        pid,
        t_ns: START_NS,
        comm: "program".into(),
        exe: "/usr/bin/program".into(),
        cmdline: vec!["program".into()],
        modules: vec![Module {
            path: "/usr/bin/program".into(),
            start: 0x5500_0000_0000,
            end: 0x5500_0100_0000,
            perms: "r-xp".into(),
            build_id: Some("00ff00ff".into()),
            ..Module::default()
        }],
    }
}

fn main() -> anyhow::Result<()> {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let [shootdowns, dir] = &args[..] else {
        anyhow::bail!("say: synthetic SHOOTDOWNS DIR");
    };
    let shootdowns: u64 = shootdowns.parse().context("SHOOTDOWNS is a number")?;
    let meta = Meta {
        kernel: "6.18.0".into(),
        start_wall_ns: 1_700_000_000_000_000_000,
        start_monotonic_ns: START_NS,
        command: vec!["program".into()],
        cpus: CPUS as u32,
        stacks: "all".into(),
        backend: "raw_tp".into(),
        ..Meta::default()
    };
    let mut writer = Writer::create(Path::new(dir), &meta, true)?;
    for id in 0..KERNEL_STACKS + USER_STACKS {
        writer.stack(&stack(id));
    }
    for pid in [4000, 4001] {
        writer.process(&process(pid));
    }
    for n in 0..shootdowns {
        writer.push(&shootdown(n));
        if n % 10_000 == 9_999 {
            writer.tick()?;
        }
    }
    writer.finish(START_NS + shootdowns * 5_000 + 1_000_000, |_| ())?;
    Ok(())
}
