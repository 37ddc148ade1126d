//! Runs of `prove` that never happened: seven metrics that hang together, on machines that each
//! misbehave in their own way.
//!
//! Every run of a program gets a time, and the machine's state depends on the time alone, so the order of the runs in a pair
//! matters here as it does on a real machine.

use quell_stats::{MetricKind, PairOrder, Rng, Rules, RunPair, draw_orders};

/// Names, kinds, usual values and how far each metric scatters (log scale) on a busy machine.
pub const METRICS: [(&str, MetricKind, f64, f64); 7] = [
    ("shootdowns", MetricKind::Count, 2_000.0, 0.15),
    ("victims", MetricKind::Count, 2_100.0, 0.16),
    ("wait_ns", MetricKind::Measure, 4.0e7, 0.35),
    ("page_faults", MetricKind::Count, 190_000.0, 0.05),
    ("system_ns", MetricKind::Measure, 1.2e9, 0.12),
    ("wall_ns", MetricKind::Measure, 6.0e9, 0.08),
    ("max_rss", MetricKind::Measure, 6.5e8, 0.03),
];

/// How a machine misbehaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noise {
    /// Bell curves; metrics hang together.
    Gaussian,
    /// Bell curves; every metric on its own, the worst case for judging many.
    Independent,
    /// Student's t with two degrees of freedom: no variance at all.
    HeavyTails,
    /// Scatter on one side: most runs are quick, some are slow, few are very slow.
    Skewed,
    /// One run in ten takes twice of everything.
    Outliers,
    /// Every run is in one of two modes, 60 % apart, with little scatter in either.
    TwoModes,
    /// As before, and each metric has modes of its own.
    OwnModes,
    /// A neighbour comes and goes: two modes that last for a few runs.
    Neighbour,
    /// A job that comes by every other run.
    Alternating,
    /// The machine slows down by half over the runs, and wanders.
    Drift,
    /// Counts of a few events, most of them Poisson, in bursts.
    FewEvents,
    /// Drift, a neighbour, outliers and heavy tails together.
    Busy,
}

impl Noise {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Gaussian,
        Self::Independent,
        Self::HeavyTails,
        Self::Skewed,
        Self::Outliers,
        Self::TwoModes,
        Self::OwnModes,
        Self::Neighbour,
        Self::Alternating,
        Self::Drift,
        Self::FewEvents,
        Self::Busy,
    ];

    /// The log deviations of all metrics in `runs` runs, one after the other.
    fn series(self, runs: usize, rng: &mut Rng) -> Vec<[f64; 7]> {
        let mut mode = rng.next_unit() < 0.5;
        let mut walk = 0.0;
        let start = rng.below(2);
        let slope = (rng.next_unit() - 0.5) * 0.8;
        (0..runs)
            .map(|run| {
                let along = run as f64 / runs as f64;
                mode ^= rng.next_unit() < 0.3;
                walk += 0.05 * gaussian(rng);
                let outlier = if rng.next_unit() < 0.1 {
                    2f64.ln()
                } else {
                    0.0
                };
                let coin = f64::from(u8::from(rng.next_unit() < 0.5));
                let shared = gaussian(rng);
                let heavy = student2(rng);
                std::array::from_fn(|metric| {
                    let size = METRICS[metric].3;
                    let mixed = size * (0.8 * shared + 0.6 * gaussian(rng));
                    let heavy_mixed = size * (0.7 * heavy + 0.4 * student2(rng));
                    let stays = 0.47 * f64::from(u8::from(mode));
                    match self {
                        Self::Gaussian => mixed,
                        Self::Independent => size * gaussian(rng),
                        Self::HeavyTails => heavy_mixed,
                        Self::Skewed => size * ((1.2 * mixed / size).exp() - 1.0),
                        Self::Outliers => mixed * 0.3 + outlier,
                        Self::TwoModes => 0.47 * coin + 0.05 * mixed,
                        Self::OwnModes => {
                            0.47 * f64::from(u8::from(rng.next_unit() < 0.5)) + 0.05 * mixed
                        }
                        Self::Neighbour => stays + 0.2 * mixed,
                        Self::Alternating => 0.47 * ((run + start) % 2) as f64 + 0.2 * mixed,
                        Self::Drift => slope * along + walk + 0.3 * mixed,
                        Self::FewEvents => 0.2 * mixed,
                        Self::Busy => slope * along + walk + stays + outlier + 0.5 * heavy_mixed,
                    }
                })
            })
            .collect()
    }
}

/// One run of `prove` over a program: the pairs of every metric. `effects` are the true ratios.
pub fn prove(noise: Noise, pairs: usize, effects: &[f64; 7], rng: &mut Rng) -> Vec<Vec<RunPair>> {
    let order = draw_orders(pairs, rng.next_u64());
    prove_in(&order, noise, effects, rng)
}

/// The same in these orders.
pub fn prove_in(
    order: &[PairOrder],
    noise: Noise,
    effects: &[f64; 7],
    rng: &mut Rng,
) -> Vec<Vec<RunPair>> {
    let series = noise.series(2 * order.len(), rng);
    (0..7)
        .map(|metric| {
            let (_, kind, usual, _) = METRICS[metric];
            let effect = effects[metric];
            order
                .iter()
                .enumerate()
                .map(|(pair, order)| {
                    let (b, a) = match order {
                        PairOrder::BeforeFirst => (2 * pair, 2 * pair + 1),
                        PairOrder::AfterFirst => (2 * pair + 1, 2 * pair),
                    };
                    let mut value = |run: usize, effect: f64| {
                        let mean = usual * effect * series[run][metric].exp();
                        match kind {
                            MetricKind::Count if noise == Noise::FewEvents => {
                                burst(mean / 150.0, rng)
                            }
                            MetricKind::Count => mean.round(),
                            MetricKind::Measure => mean,
                        }
                    };
                    RunPair::new(value(b, 1.0), value(a, effect))
                })
                .collect()
        })
        .collect()
}

/// The rules that `prove` would use for one of the metrics.
pub fn rules(metric: usize, seed: u64) -> Rules {
    Rules {
        kind: METRICS[metric].1,
        seed,
        resamples: 400,
        ..Rules::default()
    }
}

/// A standard normal number (Box and Muller).
pub fn gaussian(rng: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.next_unit()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.next_unit()).cos()
}

/// Student's t with two degrees of freedom: a normal number over the root of an exponential one.
pub fn student2(rng: &mut Rng) -> f64 {
    gaussian(rng) / (-(1.0 - rng.next_unit()).ln()).sqrt().max(1e-3)
}

/// A Poisson number of bursts of one to three events each.
fn burst(mean: f64, rng: &mut Rng) -> f64 {
    let mut left = mean / 2.0;
    let mut events = 0.0;
    loop {
        left += (1.0 - rng.next_unit()).ln();
        if left < 0.0 {
            return events;
        }
        events += 1.0 + rng.below(3) as f64;
    }
}
