//! Prints the tables in this crate's documentation: coverage of the interval, how often a run that
//! changed nothing is called better or worse, and how often a real change is found.
//!
//! `cargo run --release -p quell-stats --example calibrate [RUNS]`
#![allow(clippy::print_stdout)]

#[path = "../tests/sim/mod.rs"]
#[allow(unreachable_pub, dead_code)]
mod sim;

use quell_stats::{
    MetricKind, Rng, Rules, RunPair, Verdict, compare_pairs, draw_orders, evidence_below,
};
use sim::{METRICS, Noise};

fn main() {
    let runs = std::env::args()
        .nth(1)
        .and_then(|a| a.parse().ok())
        .unwrap_or(4_000);
    coverage(runs);
    false_claims(runs);
    power(runs);
    anytime(runs / 10);
    println!("orders for 5 pairs: {:?}", draw_orders(5, 0));
}

/// How often the interval of wall time holds the true ratio.
fn coverage(runs: usize) {
    println!("coverage of the 95 % interval (wall_ns, true ratio 0.9)");
    for noise in Noise::ALL {
        print!("{:12}", format!("{noise:?}"));
        for pairs in [3, 5, 7, 10, 20] {
            let mut rng = Rng::new(11);
            let runs = if pairs > 7 { runs / 4 } else { runs };
            let held = (0..runs)
                .filter(|&run| {
                    let all = sim::prove(noise, pairs, &[0.9; 7], &mut rng);
                    let got = compare_pairs(&all[5], &sim::rules(5, run as u64));
                    got.ci95.0 <= 0.9 && 0.9 <= got.ci95.1
                })
                .count();
            print!(" {:6.1}", 100.0 * held as f64 / runs as f64);
        }
        println!();
    }
}

/// How often anything is claimed though nothing changed.
fn false_claims(runs: usize) {
    println!("runs of 7 metrics with a false claim, per cent");
    for noise in Noise::ALL {
        print!("{:12}", format!("{noise:?}"));
        for pairs in [4, 5, 6, 7, 10, 20] {
            let mut rng = Rng::new(12);
            let runs = if pairs > 7 { runs / 4 } else { runs };
            let wrong = (0..runs)
                .filter(|&run| {
                    let all = sim::prove(noise, pairs, &[1.0; 7], &mut rng);
                    all.iter().enumerate().any(|(metric, pairs)| {
                        compare_pairs(pairs, &sim::rules(metric, run as u64)).verdict
                            != Verdict::NoEvidence
                    })
                })
                .count();
            print!(" {:6.2}", 100.0 * wrong as f64 / runs as f64);
        }
        println!();
    }
}

/// How often a real change is found.
fn power(runs: usize) {
    println!("real changes found, per cent");
    let effects = [
        (
            "shootdowns x0.5, noise 10 %",
            MetricKind::Count,
            2_000.0,
            0.5,
            0.10,
        ),
        (
            "shootdowns x0.15, noise 30 %",
            MetricKind::Count,
            2_000.0,
            0.15,
            0.30,
        ),
        ("wall x0.9, noise 2 %", MetricKind::Measure, 6e9, 0.9, 0.02),
        (
            "wall x0.95, noise 2 %",
            MetricKind::Measure,
            6e9,
            0.95,
            0.02,
        ),
        ("wall x0.9, noise 5 %", MetricKind::Measure, 6e9, 0.9, 0.05),
    ];
    for (name, kind, usual, ratio, noise) in effects {
        print!("{name:30}");
        for pairs in [4, 5, 6, 7, 10, 20] {
            let mut rng = Rng::new(13);
            let runs = if pairs > 7 { runs / 4 } else { runs };
            let found = (0..runs)
                .filter(|&run| {
                    let mut value =
                        |ratio: f64| usual * ratio * (noise * sim::gaussian(&mut rng)).exp();
                    let all: Vec<RunPair> = (0..pairs)
                        .map(|_| RunPair::new(value(1.0), value(ratio)))
                        .collect();
                    let rules = Rules {
                        kind,
                        seed: run as u64,
                        resamples: 400,
                        ..Rules::default()
                    };
                    compare_pairs(&all, &rules).verdict == Verdict::Better
                })
                .count();
            print!(" {:6.1}", 100.0 * found as f64 / runs as f64);
        }
        println!();
    }
    println!(
        "shootdowns halved on each machine ({} others unchanged)",
        METRICS.len() - 1
    );
    for noise in Noise::ALL {
        print!("{:12}", format!("{noise:?}"));
        for pairs in [4, 5, 6, 7, 10, 20] {
            let mut rng = Rng::new(14);
            let runs = if pairs > 7 { runs / 4 } else { runs };
            let found = |effect: f64, rng: &mut Rng| {
                (0..runs)
                    .filter(|&run| {
                        let all = sim::prove(noise, pairs, &[effect; 7], rng);
                        compare_pairs(&all[0], &sim::rules(0, run as u64)).verdict
                            == Verdict::Better
                    })
                    .count() as f64
                    * 100.0
                    / runs as f64
            };
            print!(
                " {:5.1}/{:5.1}",
                found(0.5, &mut rng),
                found(0.15, &mut rng)
            );
        }
        println!();
    }
}

/// How soon a gain is found with a look after every pair, and by a test of a fixed length.
fn anytime(runs: usize) {
    const PAIRS: [usize; 5] = [5, 7, 10, 20, 40];
    println!(
        "gains found after so many pairs, per cent: looked at after every pair, and of fixed length"
    );
    for (gain, noise) in [
        (0.0, 0.03),
        (0.02, 0.01),
        (0.02, 0.03),
        (0.05, 0.01),
        (0.05, 0.03),
        (0.2, 0.03),
        (0.2, 0.1),
    ] {
        let mut rng = Rng::new(13);
        let mut found = [[0_usize; PAIRS.len()]; 2];
        for run in 0..runs {
            let mut draw = |middle: f64| {
                // the sum of twelve is close to a bell curve
                let bell = (0..12).map(|_| rng.next_unit()).sum::<f64>() - 6.0;
                middle * (noise * bell).exp()
            };
            let pairs: Vec<RunPair> = (0..PAIRS[PAIRS.len() - 1])
                .map(|_| RunPair::new(draw(1.0), draw(1.0 - gain)))
                .collect();
            let logs: Vec<f64> = pairs.iter().map(|p| (p.after / p.before).ln()).collect();
            let rules = Rules {
                family: 1,
                seed: run as u64,
                smallest_effect: 0.0,
                ..Rules::default()
            };
            for (place, &n) in PAIRS.iter().enumerate() {
                found[0][place] += usize::from(evidence_below(&logs[..n], 0.0) >= 40.0);
                let fixed = compare_pairs(&pairs[..n], &rules).verdict;
                found[1][place] += usize::from(fixed == Verdict::Better);
            }
        }
        print!("{:4.0} % in noise of {:3.0} %", 100.0 * gain, 100.0 * noise);
        for row in found {
            let shares = row.map(|n| format!("{:5.0}", 100.0 * n as f64 / runs as f64));
            print!("   {}", shares.join(" "));
        }
        println!();
    }
}
