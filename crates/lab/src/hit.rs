//! The time that a victim loses by one shootdown, measured in a second or less: the entry into the handler, the handler, the way
//! back, and the share of a hypervisor.
//!
//! One thread spins on a CPU and reads the time stamp counter; another one on another CPU frees pages of the same address space,
//! and rests. In half of the blocks it does so, in the other half it only rests, so that other interrupts of the CPU are
//! subtracted. The kernel's own count says how many hits there were.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use quell_host::cpus::Isolation;

use crate::memory::{LabMapping, PAGE_BYTES};
use crate::{pin, tsc};

/// The length of a block, and the number of each kind: half a second in all.
const BLOCK_TIME: Duration = Duration::from_millis(20);
const BLOCKS_PER_KIND: usize = 12;

/// The time from one shootdown to the next: the victim is back at its work long before.
const REST_TIME: Duration = Duration::from_micros(50);

/// A turn of the victim's loop that takes so many times the shortest is a gap. The shortest interrupt takes more.
const GAP_PER_SHORTEST: u64 = 8;

/// A gap that takes so long is another thread's turn on the CPU, and no interrupt.
const MAX_INTERRUPT_NS: u64 = 100_000;

/// The whole is given up after so long: where a real-time thread has a CPU, nobody else gets it.
const MAX_MEASURING_TIME: Duration = Duration::from_secs(3);

/// A block with fewer hits says nothing.
const MIN_HITS: u64 = 20;

/// The state that the spinning victim shares with the culprit.
#[derive(Default)]
struct SpinState {
    /// Ticks that it lost so far.
    lost: AtomicU64,
    /// Set once it knows its shortest turn.
    spins: AtomicBool,
    over: AtomicBool,
}

fn spin_victim(told: &SpinState, most: u64) {
    let mut shortest = u64::MAX;
    for _ in 0..10_000 {
        let before = tsc::read_tsc();
        shortest = shortest.min(tsc::read_tsc() - before);
    }
    let limit = shortest * GAP_PER_SHORTEST;
    told.spins.store(true, Ordering::Release);
    let mut last = tsc::read_tsc();
    while !told.over.load(Ordering::Relaxed) {
        let now = tsc::read_tsc();
        let ticks = now.saturating_sub(last);
        if ticks > limit && ticks < most {
            // This thread alone writes it.
            let lost = told.lost.load(Ordering::Relaxed);
            told.lost.store(lost + ticks - shortest, Ordering::Relaxed);
        }
        last = now;
    }
}

fn hits_of_cpu(cpu: u32) -> Option<u64> {
    let cpus = quell_host::interrupts::read_flush_interrupts_by_cpu(Path::new("/")).ok()??;
    cpus.into_iter().find(|(c, _)| *c == cpu).map(|(_, n)| n)
}

/// Runs one block, and returns the ticks that the victim on this CPU lost, and the hits.
fn run_hit_block(told: &SpinState, cpu: u32, page: Option<&LabMapping>) -> Option<(u64, u64)> {
    let (hits_before, lost_before) = (hits_of_cpu(cpu)?, told.lost.load(Ordering::Relaxed));
    let until = Instant::now() + BLOCK_TIME;
    while Instant::now() < until {
        if let Some(page) = page {
            page.touch_pages();
            page.advise(PAGE_BYTES, libc::MADV_DONTNEED).ok()?;
        }
        // A sleep would let the CPU go idle, and its timer would be one more interrupt.
        let rest = Instant::now() + REST_TIME;
        while Instant::now() < rest {
            std::hint::spin_loop();
        }
    }
    let lost = told.lost.load(Ordering::Relaxed) - lost_before;
    Some((lost, hits_of_cpu(cpu)?.saturating_sub(hits_before)))
}

/// The cost of one hit, ticks: the median over the blocks, each less the loss of its neighbour without hits.
fn ticks_per_hit(told: &SpinState, cpu: u32) -> Option<u64> {
    let page = LabMapping::anonymous(PAGE_BYTES).ok()?;
    let mut each = Vec::new();
    for _ in 0..BLOCKS_PER_KIND {
        let (idle, _) = run_hit_block(told, cpu, None)?;
        let (lost, hits) = run_hit_block(told, cpu, Some(&page))?;
        if hits >= MIN_HITS {
            each.push(lost.saturating_sub(idle) / hits);
        }
    }
    each.sort_unstable();
    // With less than half of the blocks others have had the CPUs.
    (each.len() * 2 > BLOCKS_PER_KIND).then(|| each[each.len() / 2])
}

/// Waits until the victim spins; None where it never does, as on a CPU that a real-time thread has.
fn wait_for_victim(told: &SpinState) -> Option<()> {
    for _ in 0..MAX_MEASURING_TIME.as_millis() {
        if told.spins.load(Ordering::Acquire) {
            return Some(());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    None
}

fn measure_pair_ns(culprit: u32, victim: u32) -> Option<u64> {
    let line = tsc::TscLine::measure(Duration::from_millis(5));
    let most = line.ticks_of_ns(MAX_INTERRUPT_NS);
    let told = Arc::new(SpinState::default());
    let theirs = Arc::clone(&told);
    let spinner = std::thread::spawn(move || {
        if pin::pin_self(&[victim]).is_ok() {
            spin_victim(&theirs, most);
        }
    });
    let theirs = Arc::clone(&told);
    let (say, hear) = mpsc::channel();
    // The culprit is a thread of its own, so that this one stays on its CPU.
    let shooter = std::thread::spawn(move || {
        let pinned = pin::pin_self(&[culprit])
            .ok()
            .and_then(|()| wait_for_victim(&theirs));
        let _ = say.send(pinned.and_then(|()| ticks_per_hit(&theirs, victim)));
    });
    let measured = hear.recv_timeout(MAX_MEASURING_TIME);
    told.over.store(true, Ordering::Relaxed);
    // One that gets no CPU is left behind: it ends as soon as it gets one, or with this process.
    if measured.is_ok() {
        let _ = shooter.join();
        let _ = spinner.join();
    }
    measured.ok().flatten().map(|ticks| line.ns_of_ticks(ticks))
}

/// The time that a victim loses by one hit, ns, on two of the CPUs that this process may use and that the kernel does not
/// isolate; takes half a second of both. `None` where there is only one, or no usable counter, or where others have the CPUs.
#[must_use]
pub fn measure_ns() -> Option<u64> {
    tsc::tsc_quality().ok()?;
    let isolated = Isolation::read(Path::new("/")).all_cpus();
    let mut cpus = pin::allowed_cpus().ok()?;
    cpus.retain(|cpu| !isolated.contains(cpu));
    match cpus.as_slice() {
        [culprit, .., victim] => measure_pair_ns(*culprit, *victim).filter(|ns| *ns > 0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that a hit is found to take longer than a turn of the loop and shorter than a time slice, where it can be
    /// measured at all.
    #[test]
    fn a_hit_takes_some_time() {
        match measure_ns() {
            Some(ns) => assert!((50..MAX_INTERRUPT_NS).contains(&ns), "{ns} ns"),
            None => println!(
                "SKIPPED a_hit_takes_some_time: one CPU, no counter, or others have the CPUs"
            ),
        }
    }
}
