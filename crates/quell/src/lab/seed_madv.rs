//! `quell lab seed-madv`: jabperf's madv with its figures beside those of this machine.

use std::fmt::Write as _;
use std::process::ExitCode;

use quell_event::Histogram;
use quell_lab::{madv, pin};
use serde::Serialize;

use super::probed_run::run_under_probe;
use super::{LabSharing, lock_lab, say_interrupted};
use crate::cli::SeedMadvArgs;
use crate::launch::signals;
use crate::show::style::heading;
use crate::show::table::Table;
use crate::show::units::{count, time};
use crate::show::{emit, emit_result};
use crate::usage::usage;

/// The figures of the document ("How to deter or disarm TLB shootdowns", perf stat and funclatency): flushes asked for,
/// flushes done, and of the time of one in ns: the mean, and how many in each power of two from 512.
#[derive(Serialize)]
struct MadvFigures {
    threads: usize,
    asked: u64,
    flushed: u64,
    mean_ns: u64,
    /// The number of flushes in each power of two from 512 ns on.
    octaves: [u64; 14],
}

const PUBLISHED_MADV: [MadvFigures; 3] = [
    MadvFigures {
        threads: 2,
        asked: 3_958_266,
        flushed: 7_928_801,
        mean_ns: 1398,
        octaves: [
            87926, 3_861_380, 32924, 3628, 543, 526, 7, 0, 0, 0, 0, 0, 11, 0,
        ],
    },
    MadvFigures {
        threads: 8,
        asked: 15_946_430,
        flushed: 123_288_313,
        mean_ns: 3891,
        octaves: [
            24, 224_605, 9_608_508, 6_012_919, 18881, 2468, 66, 41, 39, 16, 72, 0, 86, 3,
        ],
    },
    MadvFigures {
        threads: 14,
        asked: 27_986_605,
        flushed: 376_502_522,
        mean_ns: 6610,
        octaves: [
            23, 158_263, 990_737, 22_814_615, 3_699_448, 15401, 676, 53, 83, 28, 169, 179, 131, 0,
        ],
    },
];

/// The lowest of the document's octaves, ns.
const LOWEST_OCTAVE_NS: u64 = 512;

#[derive(Serialize)]
struct MadvObject<'a> {
    schema: &'static str,
    /// The document's figures, of a million calls a thread.
    document: [MadvFigures; 3],
    calls: u64,
    interrupted: bool,
    runs: &'a [MadvRow],
}

#[derive(Serialize)]
struct MadvRow {
    threads: usize,
    touched: bool,
    calls: u64,
    shootdowns: u64,
    victims: u64,
    empty_sends: u64,
    wait_ns_mean: Option<u64>,
    /// The number of waits in each power of two from 512 ns on.
    wait_octaves: Vec<u64>,
    lost: u64,
}

pub(crate) fn run_seed_madv(args: &SeedMadvArgs) -> anyhow::Result<ExitCode> {
    let cpus = pin::allowed_cpus()?.len();
    let threads = match &args.threads[..] {
        [] => {
            let fit: Vec<usize> = [2, 8, 14].into_iter().filter(|n| *n <= cpus).collect();
            if fit.is_empty() {
                return Err(usage("it takes two CPUs, and quell may use one"));
            }
            fit
        }
        asked => asked.to_vec(),
    };
    if let Some(n) = threads.iter().find(|n| **n == 0 || **n > cpus) {
        return Err(usage(format!(
            "--threads {n}: each has a CPU of its own, and quell may use {cpus}"
        )));
    }
    lock_lab(LabSharing::Alone)?;
    signals::install_handlers()?;
    let mut rows = Vec::new();
    'all: for &n in &threads {
        for touch in [false, true] {
            say!(
                "quell: {n} threads, {} calls each{}",
                count(args.calls),
                if touch {
                    ", of a page that is written before"
                } else {
                    ""
                }
            );
            match measure_madv(n, args.calls, touch) {
                Ok(row) => rows.push(row),
                Err(_) if signals::first_signal().is_some() && !rows.is_empty() => {
                    say_interrupted();
                    break 'all;
                }
                Err(err) => return Err(err),
            }
        }
    }
    let object = || MadvObject {
        schema: "quell/lab-madv/1",
        document: PUBLISHED_MADV,
        calls: args.calls,
        interrupted: rows.len() < 2 * threads.len(),
        runs: &rows,
    };
    emit_result(args.json, object, || madv_text(&rows, args.calls))?;
    Ok(ExitCode::SUCCESS)
}

/// Runs the document's program for the hidden verb, which prints the number of its calls.
pub(crate) fn run_madv_program(threads: usize, calls: u64, touch: bool) -> anyhow::Result<()> {
    let made = madv::run_madv(threads, calls, touch)?;
    emit(&mut anstream::stdout(), &format!("{made}\n"))
}

fn measure_madv(threads: usize, calls: u64, touch: bool) -> anyhow::Result<MadvRow> {
    let words = [
        "madv-run".to_owned(),
        threads.to_string(),
        calls.to_string(),
        u8::from(touch).to_string(),
    ];
    let run = run_under_probe(&[], &words)?;
    let totals = run.tally.total_counts();
    let wait = &run.tally.wait;
    Ok(MadvRow {
        threads,
        touched: touch,
        calls: run.output.trim().parse().unwrap_or(0),
        shootdowns: totals.shootdowns,
        victims: totals.victims,
        empty_sends: run.tally.empty_sends,
        wait_ns_mean: (wait.count() > 0).then(|| wait.sum() / wait.count()),
        wait_octaves: count_octaves(wait),
        lost: run.tally.lost.missing_total(),
    })
}

/// Counts waits by powers of two, from the document's lowest on; shorter ones are in the first, longer ones in the last.
fn count_octaves(wait: &Histogram) -> Vec<u64> {
    let mut out = vec![0; PUBLISHED_MADV[0].octaves.len()];
    for (lowest, n) in wait.used_buckets() {
        let octave = (lowest / LOWEST_OCTAVE_NS).checked_ilog2().unwrap_or(0);
        let last = out.len() - 1;
        out[usize::try_from(octave).unwrap_or(last).min(last)] += n;
    }
    out
}

fn madv_text(rows: &[MadvRow], calls: u64) -> String {
    let mut out = String::from(
        "jabperf, \"How to deter or disarm TLB shootdowns\": N threads, each on a CPU of its own, advise one page away again and \
         again\n",
    );
    heading(&mut out, "For each call of each thread");
    let mut table = Table::new(&[
        "",
        ">threads",
        ">flushes asked for",
        ">flushes done",
        ">mean wait",
    ]);
    // Each thread of the document makes a million calls.
    let per = |n: u64, of: u64| format!("{:.3}", n as f64 / of.max(1) as f64);
    for d in &PUBLISHED_MADV {
        let of = d.threads as u64 * 1_000_000;
        table.row(vec![
            "document".to_owned(),
            d.threads.to_string(),
            per(d.asked, of),
            per(d.flushed, of),
            time(d.mean_ns),
        ]);
    }
    for row in rows {
        let asked = row.shootdowns + row.empty_sends;
        table.row(vec![
            if row.touched {
                "here, page written"
            } else {
                "here, as there"
            }
            .to_owned(),
            row.threads.to_string(),
            per(asked, row.calls),
            // Each thread flushes its own CPU too, which is no shootdown.
            per(row.victims + asked, row.calls),
            row.wait_ns_mean.map_or_else(|| "-".to_owned(), time),
        ]);
    }
    out.push_str(&table.text());
    for row in rows.iter().filter(|r| r.shootdowns > 0) {
        let beside = PUBLISHED_MADV.iter().find(|d| d.threads == row.threads);
        let what = if row.touched { ", page written" } else { "" };
        heading(
            &mut out,
            &format!("Time of a flush, {} threads{what}", row.threads),
        );
        out.push_str(&octaves_text(&row.wait_octaves, beside));
    }
    let _ = write!(
        out,
        "\nA flush asked for is one request to all other CPUs; a flush done is one CPU's, its own included. The document's kernel \
         flushed for every call; since Linux 4.20 or so a call that takes no page away flushes only while another thread is about \
         to (mm/mmu_gather.c: tlb_finish_mmu()), hence the second line, in which each page is written before. {} calls a thread.\n",
        count(calls)
    );
    out
}

/// Draws a bar for each power of two, as funclatency does.
fn octaves_text(octaves: &[u64], document: Option<&MadvFigures>) -> String {
    const MAX_BAR_WIDTH: u64 = 30;
    let most = octaves.iter().copied().max().unwrap_or(0).max(1);
    let mut table = Table::new(&[">ns", ">count", "", ">document"]);
    for (i, n) in octaves.iter().enumerate() {
        let from = LOWEST_OCTAVE_NS << i;
        let there = document.map_or_else(String::new, |d| count(d.octaves[i]));
        table.row(vec![
            format!("{from} to {}", 2 * from - 1),
            count(*n),
            "*".repeat(usize::try_from(n * MAX_BAR_WIDTH / most).unwrap_or(0)),
            there,
        ]);
    }
    table.text()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that waits fall into the document's powers of two, with what is beyond at the ends.
    #[test]
    fn octaves_are_the_documents() {
        let mut wait = Histogram::default();
        [3, 511, 512, 1000, 1024, 1500, 4096, 1 << 40]
            .into_iter()
            .for_each(|ns| wait.record(ns));
        let octaves = count_octaves(&wait);
        assert_eq!(octaves[..4], [4, 2, 0, 1]);
        assert_eq!(octaves[13], 1);
        assert_eq!(octaves.iter().sum::<u64>(), 8);
    }

    /// Check that the document's counts and its mean fit each other: its own sum is within its octaves.
    #[test]
    fn document_is_consistent() {
        for d in &PUBLISHED_MADV {
            let n: u64 = d.octaves.iter().sum();
            let low: u64 = d
                .octaves
                .iter()
                .enumerate()
                .map(|(i, n)| n * (LOWEST_OCTAVE_NS << i))
                .sum();
            assert!(
                low / n <= d.mean_ns && d.mean_ns <= 2 * low / n,
                "{} threads",
                d.threads
            );
        }
    }
}
