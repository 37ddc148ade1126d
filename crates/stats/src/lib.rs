//! The statistics of `quell prove`, and of the lab ([`paired_difference`], [`runs_apart`]).
//!
//! A program runs N times without a plan and N times with it, in pairs, in an order that chance
//! decides ([`draw_orders`]). For every metric, [`compare_pairs`] gives the ratio, a bootstrap interval over
//! the pairs, and one of three words: better, worse, no evidence. [`judge_overall`] gives the word for
//! the run.
//!
//! Better and worse are claimed only where the whole interval is on that side of 1, the change is
//! not below [`Rules::smallest_effect`], counts are not explained by chance, and a guard over all
//! metrics of the run passes, which lets a mistake through in about 1 of 100 runs
//! ([`FAMILY_ERROR`]). `compare.rs` has the steps, `interval.rs` the measured coverage, and
//! `guard.rs` how many false claims and real changes were measured.
//!
//! ```
//! use quell_stats::{MetricKind, Rules, RunPair, Verdict, compare_pairs};
//!
//! let runs = [(1900.0, 220.0), (2010.0, 231.0), (1950.0, 214.0), (1880.0, 240.0), (2050.0, 219.0)];
//! let pairs: Vec<RunPair> = runs.iter().map(|&(b, a)| RunPair::new(b, a)).collect();
//! let rules = Rules { kind: MetricKind::Count, ..Rules::default() };
//! let shootdowns = compare_pairs(&pairs, &rules);
//! assert_eq!(shootdowns.verdict, Verdict::Better);
//! assert!(shootdowns.ci95.1 < 0.15);
//! ```

mod anytime;
mod compare;
mod counts;
mod difference;
mod dist;
mod guard;
mod interval;
mod location;
mod logs;
mod looks;
mod order;
mod overall;
mod pair;
mod race;
mod rank;
mod rng;
mod runs;
mod separation;
mod summary;
mod verdict;

pub use anytime::{anytime_interval, evidence_above, evidence_below};
pub use compare::{Comparison, MIN_PAIRS, Rules, compare_pairs};
pub use counts::MIN_COUNTS;
pub use difference::{Difference, paired_difference};
pub use guard::FAMILY_ERROR;
pub use looks::{Looks, is_gain_open};
pub use order::{PairOrder, draw_orders};
pub use overall::{MetricRole, NamedComparison, Overall, judge_overall};
pub use pair::{MetricKind, RunPair};
pub use race::{
    Elimination, Fate, MAX_GROUP_CANDIDATES, MIN_ROUNDS, Race, RaceRules, Runner, Standing,
};
pub use rng::Rng;
pub use runs::{MIN_RUNS, runs_apart};
pub use summary::{median, quantile};
pub use verdict::{Reason, Verdict};
