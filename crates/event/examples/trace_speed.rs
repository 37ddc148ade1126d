//! What the trace format costs: `cargo run --release -p quell-event --example trace_speed`.
//!
//! Prints, for 1 and 3 million shootdowns like those of the worst case (two threads at each
//! other, one victim each), ns a push, ns to append to the tail, to seal and to read a row, and
//! bytes a row. On a machine that does other things the medians and the CPU times are what counts.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "an example that prints figures"
)]

use std::time::{Duration, Instant};

use quell_event::trace::{Trace, TraceMeta, TraceWriter};
use quell_event::{Cause, Comm, Shootdown, ShootdownVictim};

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
            cause: if r.is_multiple_of(10) {
                Cause::Munmap
            } else {
                Cause::MadviseDontneed
            },
            syscall: 28,
            start,
            end: start + 0x1000,
            own_mm: true,
            kernel_stack: (r >> 33) as i32 % 12,
            user_stack: 12 + (r >> 37) as i32 % 40,
            victims: vec![ShootdownVictim {
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

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

/// CPU time of this process so far, to 10 ms.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields = stat.rsplit_once(')').unwrap().1.split_whitespace();
    let ticks: u64 = fields
        .skip(11)
        .take(2)
        .map(|t| t.parse::<u64>().unwrap())
        .sum();
    Duration::from_millis(ticks * 10)
}

fn main() -> anyhow::Result<()> {
    let events = events();
    println!("            push    tick      seal, ns/row      read, ns/row     bytes/row");
    println!("           ns/ev   ns/ev      CPU     wall      CPU     wall   sealed   tail");
    for million in [1, 3] {
        let n = million * 1_000_000u64;
        let dir = std::env::temp_dir().join(format!("trace_speed.{}", std::process::id()));
        let begun_cpu = cpu();
        let mut writer = TraceWriter::create(&dir, &TraceMeta::default(), true)
            .or_else(|_| TraceWriter::create(&dir, &TraceMeta::default(), false))?;
        let (mut pushing, mut ticking) = (Vec::new(), Vec::new());
        // As the worst case comes: 35,000 in a tenth of a second.
        let mut left = n;
        let mut at = events.iter().cycle();
        while left > 0 {
            let burst = left.min(35_000);
            let begun = Instant::now();
            for s in at.by_ref().take(burst as usize) {
                writer.push_shootdown(s);
            }
            let pushed = begun.elapsed();
            writer.write_due()?;
            let ticked = begun.elapsed();
            pushing.push(per(pushed, burst));
            ticking.push(per(ticked - pushed, burst));
            left -= burst;
        }
        let tail = std::fs::metadata(dir.join("tail-00001.arrows")).map_or(0, |m| m.len());
        let begun = Instant::now();
        let summary = writer.finish(0, |_| ())?;
        let sealing = begun.elapsed();
        // What the process took less what pushing took is the sealing, in background or not.
        let sealing_cpu = (cpu() - begun_cpu)
            .saturating_sub(Duration::from_nanos(
                (median(pushing.clone()) * n as f64) as u64,
            ))
            .saturating_sub(Duration::from_nanos(
                (median(ticking.clone()) * n as f64) as u64,
            ));

        let (begun, begun_cpu) = (Instant::now(), cpu());
        let trace = Trace::open(&dir)?;
        let (mut rows, mut wait) = (0, 0);
        let mut by_cause = vec![0u64; Cause::ALL.len()];
        trace.for_each_row(|row| {
            rows += 1;
            wait += row.wait_ns;
            by_cause[row.cause as usize] += 1;
        })?;
        let (reading, reading_cpu) = (begun.elapsed(), cpu() - begun_cpu);
        println!(
            "{million} M     {:7.1} {:7.1} {:8.0} {:8.0} {:8.0} {:8.0} {:8.1} {:6.1}   {rows} rows, {wait} ns waited",
            median(pushing),
            median(ticking),
            per(sealing_cpu, summary.rows),
            per(sealing, summary.rows),
            per(reading_cpu, rows),
            per(reading, rows),
            summary.bytes as f64 / summary.rows as f64,
            tail as f64 / n.min(1_050_000) as f64,
        );
        if std::env::var_os("TRACE_SPEED_KEEP").is_none() {
            std::fs::remove_dir_all(&dir)?;
        } else {
            println!("kept: {}", dir.display());
        }
    }
    Ok(())
}
