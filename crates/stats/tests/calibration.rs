//! How often `compare_pairs` is wrong, and how often it finds a real change, over thousands of runs of `prove` that never
//! happened. `examples/calibrate.rs` prints the whole tables.

#[allow(unreachable_pub, dead_code)]
mod sim;

use quell_stats::{Looks, MetricKind, Rng, Rules, RunPair, Verdict, compare_pairs, is_gain_open};
use sim::Noise;

/// Enough that 2.5 % and the 1 % that the rule aims at are six standard errors apart. An unoptimised
/// build takes part of it, so that plain `cargo test` stays quick.
const RUNS: usize = if cfg!(debug_assertions) { 300 } else { 3_000 };

/// How many runs in which nothing changed have any metric that `claims`.
fn claimed(noise: Noise, claims: impl Fn(&[RunPair], &Rules) -> bool) -> f64 {
    let mut rng = Rng::new(2_024);
    let wrong = (0..RUNS)
        .filter(|&run| {
            sim::prove(noise, 5, &[1.0; 7], &mut rng)
                .iter()
                .enumerate()
                .any(|(metric, pairs)| claims(pairs, &sim::rules(metric, run as u64)))
        })
        .count();
    wrong as f64 / RUNS as f64
}

fn assert_honest(noises: &[Noise]) {
    for &noise in noises {
        let rate = claimed(noise, |pairs, rules| {
            compare_pairs(pairs, rules).verdict != Verdict::NoEvidence
        });
        assert!(rate <= 0.025, "{noise:?}: {rate}");
    }
}

/// Check that A against A is called better or worse in at most 2.5 % of runs under quiet noise.
#[test]
fn honest_under_quiet_noise() {
    assert_honest(&[Noise::Gaussian, Noise::Independent, Noise::FewEvents]);
}

/// Check that A against A is called better or worse in at most 2.5 % of runs under wild noise.
#[test]
fn honest_under_wild_noise() {
    assert_honest(&[Noise::HeavyTails, Noise::Skewed, Noise::Outliers]);
}

/// Check that A against A is called better or worse in at most 2.5 % of runs on a machine in modes.
#[test]
fn honest_in_modes() {
    assert_honest(&[Noise::TwoModes, Noise::OwnModes, Noise::Neighbour]);
}

/// Check that A against A is called better or worse in at most 2.5 % of runs on a busy machine.
#[test]
fn honest_on_a_busy_machine() {
    assert_honest(&[Noise::Alternating, Noise::Drift, Noise::Busy]);
}

/// Check that this simulation can fail: the intervals alone claim far too much in it.
#[test]
fn intervals_alone_are_not_honest() {
    let rate = claimed(Noise::Independent, |pairs, rules| {
        let (low, high) = compare_pairs(pairs, rules).ci95;
        low > 1.0 || high < 1.0
    });
    assert!(rate > 0.10, "{rate}");
}

/// How often five pairs of Gaussian noise show a change by `ratio` to be better.
fn found(kind: MetricKind, usual: f64, ratio: f64, noise: f64) -> f64 {
    let mut rng = Rng::new(99);
    let rules = Rules {
        kind,
        ..Rules::default()
    };
    let hits = (0..RUNS)
        .filter(|_| {
            let mut value = |ratio: f64| usual * ratio * (noise * sim::gaussian(&mut rng)).exp();
            let pairs: Vec<RunPair> = (0..5)
                .map(|_| RunPair::new(value(1.0), value(ratio)))
                .collect();
            compare_pairs(&pairs, &rules).verdict == Verdict::Better
        })
        .count();
    hits as f64 / RUNS as f64
}

/// Check that five pairs find the changes that people make at least 95 times in 100.
#[test]
fn finds_real_changes() {
    for (kind, usual, ratio, noise) in [
        (MetricKind::Count, 2_000.0, 0.5, 0.10),
        (MetricKind::Count, 2_000.0, 0.15, 0.30),
        (MetricKind::Measure, 6e9, 0.9, 0.02),
    ] {
        let rate = found(kind, usual, ratio, noise);
        assert!(rate >= 0.95, "{ratio} under {noise}: {rate}");
    }
}

/// Check that 85 % fewer shootdowns are found nine times in ten on a busy machine as well.
#[test]
fn finds_large_changes_on_a_busy_machine() {
    let mut rng = Rng::new(77);
    let runs = RUNS / 3;
    let hits = (0..runs)
        .filter(|&run| {
            let all = sim::prove(Noise::Busy, 5, &[0.15; 7], &mut rng);
            compare_pairs(&all[0], &sim::rules(0, run as u64)).verdict == Verdict::Better
        })
        .count();
    assert!(hits as f64 >= 0.9 * runs as f64, "{hits} of {runs}");
}

/// What a proof that goes on while a gain is open says of one metric, and after how many pairs; `all` has the pairs of every look.
fn open_proof(all: &[RunPair], rules: &Rules) -> (Verdict, usize) {
    let looks = Looks::while_open();
    let rules = Rules {
        looks: looks.planned(),
        ..*rules
    };
    let mut made = looks.first();
    loop {
        let seen = compare_pairs(&all[..made], &rules);
        let is_open = is_gain_open(&[(&seen, rules.higher_is_better)], rules.smallest_effect);
        match looks.next_after(made).filter(|_| is_open) {
            Some(next) => made = next,
            None => return (seen.verdict, made),
        }
    }
}

/// Check that A against A is called better or worse in at most 2.5 % of proofs that go on while they promise a gain, for the two
/// metrics that a verdict rests on, on every machine.
#[test]
fn going_on_is_honest() {
    let runs = RUNS / 3;
    for noise in Noise::ALL {
        let mut rng = Rng::new(41);
        let wrong = (0..runs).filter(|&run| {
            let orders = Looks::while_open().orders(rng.next_u64());
            let all = sim::prove_in(&orders, noise, &[1.0; 7], &mut rng);
            [4, 5].iter().any(|&metric| {
                let rules = Rules {
                    family: 2,
                    ..sim::rules(metric, run as u64)
                };
                open_proof(&all[metric], &rules).0 != Verdict::NoEvidence
            })
        });
        let rate = wrong.count() as f64 / runs as f64;
        println!("{noise:?}: {rate}");
        assert!(rate <= 0.025, "{noise:?}: {rate}");
    }
}

/// Check that going on finds gains that five pairs leave open, and takes no more pairs where there is nothing to find.
#[test]
fn going_on_finds_small_gains() {
    let runs = RUNS / 3;
    let tally = |gain: f64, noise: f64| {
        let mut rng = Rng::new(17);
        let (mut fixed, mut open, mut made) = (0, 0, 0);
        for run in 0..runs {
            let mut value = |ratio: f64| 1e9 * ratio * (noise * sim::gaussian(&mut rng)).exp();
            let all: Vec<RunPair> = (0..20)
                .map(|_| RunPair::new(value(1.0), value(1.0 - gain)))
                .collect();
            let rules = Rules {
                family: 2,
                seed: run as u64,
                ..Rules::default()
            };
            let five = compare_pairs(&all[..5], &rules).verdict;
            let (verdict, pairs) = open_proof(&all, &rules);
            fixed += usize::from(five == Verdict::Better);
            open += usize::from(verdict == Verdict::Better);
            made += pairs;
        }
        let share = |n: usize| n as f64 / runs as f64;
        (share(fixed), share(open), share(made))
    };
    let (fixed, open, pairs) = tally(0.1, 0.05);
    println!("-10 % in noise of 5 %: {fixed} by five pairs, {open} by {pairs} on average");
    assert!(open >= 0.9 && fixed <= 0.7, "{fixed} {open}");
    let (fixed, open, pairs) = tally(0.2, 0.02);
    println!("-20 % in noise of 2 %: {fixed} by five pairs, {open} by {pairs} on average");
    assert!(open >= 0.99 && pairs <= 6.0, "{fixed} {open} {pairs}");
    let (_, open, pairs) = tally(0.0, 0.01);
    println!("nothing in noise of 1 %: {open} by {pairs} on average");
    assert!(open <= 0.01 && pairs <= 6.0, "{open} {pairs}");
}
