//! What the trace format costs: `cargo run --release -p quell-event --example trace_speed`.
//!
//! Prints, for 1 and 3 million shootdowns like those of the worst case (two threads at each
//! other, one victim each), ns a push and a row, bytes a row, and the time to read it all.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "an example that prints figures")]

use std::time::{Duration, Instant};

use quell_event::trace::{Meta, Trace, Writer};
use quell_event::{Cause, Comm, Shootdown, Victim};

/// Somewhat random, and the same on every run.
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn events() -> Vec<Shootdown> {
    let mut random = 88_172_645_463_325_252;
    let mut t_ns = 1_000_000_000_000;
    let mut event = |_| {
        let r = next(&mut random);
        t_ns += 2_000 + r % 2_000;
        let (by, at) = if r & 1 == 0 { (0, 1) } else { (1, 0) };
        let start = 0x7f12_3400_0000 + (r >> 8) % 4096 * 0x1000;
        Shootdown {
            t_ns,
            wait_ns: 1_500 + (r >> 20) % 2_000,
            pid: 4000,
            tid: 4000 + by,
            comm: Comm::from("worst-case"),
            cpu: by as u16,
            cgroup: 4321,
            cause: if r % 10 == 0 { Cause::Munmap } else { Cause::MadviseDontneed },
            syscall: 28,
            start,
            end: start + 0x1000,
            own_mm: true,
            kernel_stack: (r >> 33) as i32 % 12,
            user_stack: 12 + (r >> 37) as i32 % 40,
            victims: vec![Victim {
                cpu: at as u16,
                pid: 4000,
                tid: 4000 + at,
                comm: Comm::from("worst-case"),
                bystander: false,
                delay_ns: 700 + (r >> 40) as u32 % 800,
                stall_ns: 300 + (r >> 50) as u32 % 400,
            }],
            unseen: 0,
        }
    };
    (0..100_000).map(&mut event).collect()
}

fn per(time: Duration, n: u64) -> f64 {
    time.as_nanos() as f64 / n as f64
}

fn main() -> anyhow::Result<()> {
    let events = events();
    println!("events      push     tick    total   finish  bytes   tail     read");
    println!("           ns/ev    ns/ev    ns/ev   ns/row   /row   /row   ns/row");
    for million in [1, 3] {
        let n = million * 1_000_000u64;
        let dir = std::env::temp_dir().join(format!("trace_speed.{}", std::process::id()));
        let mut writer = Writer::create(&dir, &Meta::default(), true)?;
        let (mut pushing, mut ticking) = (Duration::ZERO, Duration::ZERO);
        // As the worst case comes: 35,000 in a tenth of a second.
        let mut left = n;
        let mut at = events.iter().cycle();
        while left > 0 {
            let burst = left.min(35_000);
            let begun = Instant::now();
            for s in at.by_ref().take(burst as usize) {
                writer.push(s);
            }
            pushing += begun.elapsed();
            let begun = Instant::now();
            writer.tick()?;
            ticking += begun.elapsed();
            left -= burst;
        }
        let tail: u64 = std::fs::read_dir(&dir)?
            .filter_map(|e| e.ok())
            .filter(|e| e.path().extension().is_some_and(|x| x == "arrows"))
            .filter_map(|e| e.metadata().ok())
            .map(|m| m.len())
            .max()
            .unwrap_or(0);
        let begun = Instant::now();
        let summary = writer.finish(0, |_| ())?;
        let finishing = begun.elapsed();

        let begun = Instant::now();
        let trace = Trace::open(&dir)?;
        let (mut rows, mut wait) = (0, 0);
        let mut by_cause = vec![0u64; Cause::ALL.len()];
        trace.for_each(|row| {
            rows += 1;
            wait += row.wait_ns;
            by_cause[row.cause as usize] += 1;
        })?;
        let reading = begun.elapsed();
        println!(
            "{million} M     {:8.1} {:8.1} {:8.1} {:8.1} {:6.1} {:6.1} {:8.1}   ({} rows, {} ms waited)",
            per(pushing, n),
            per(ticking, n),
            per(pushing + ticking, n),
            per(finishing, summary.rows),
            summary.bytes as f64 / summary.rows as f64,
            tail as f64 / n.min(1 << 20) as f64,
            per(reading, rows),
            rows,
            wait / 1_000_000,
        );
        if std::env::var_os("TRACE_SPEED_KEEP").is_none() {
            std::fs::remove_dir_all(&dir)?;
        } else {
            println!("kept: {}", dir.display());
        }
    }
    Ok(())
}
