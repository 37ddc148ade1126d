//! The statistics of `quell prove`, and of the lab ([`difference`], [`runs_apart`]).
//!
//! A program runs N times without a plan and N times with it, in pairs, in an order that chance
//! decides ([`orders`]). For every metric, [`compare`] gives the ratio, a bootstrap interval over
//! the pairs, and one of three words: better, worse, no evidence. [`overall`] gives the word for
//! the run.
//!
//! Better and worse are claimed only where the whole interval is on that side of 1, the change is
//! not below [`Rules::smallest_effect`], counts are not explained by chance, and a guard over all
//! metrics of the run passes, which lets a mistake through in about 1 of 100 runs
//! ([`FAMILY_ERROR`]). `compare.rs` has the steps, `interval.rs` the measured coverage, and
//! `guard.rs` what was measured of false claims and of changes found.
//!
//! ```
//! use quell_stats::{Kind, Pair, Rules, Verdict, compare};
//!
//! let runs = [(1900.0, 220.0), (2010.0, 231.0), (1950.0, 214.0), (1880.0, 240.0), (2050.0, 219.0)];
//! let pairs: Vec<Pair> = runs.iter().map(|&(b, a)| Pair::new(b, a)).collect();
//! let rules = Rules { kind: Kind::Count, ..Rules::default() };
//! let shootdowns = compare(&pairs, &rules);
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
mod summary;
mod verdict;

pub use anytime::{anytime_interval, evidence_above, evidence_below};
pub use compare::{Comparison, FEWEST_PAIRS, Rules, compare};
pub use counts::FEWEST_COUNTS;
pub use difference::{Difference, difference};
pub use guard::FAMILY_ERROR;
pub use looks::{Looks, is_gain_open};
pub use order::{Order, orders};
pub use overall::{Named, Overall, Role, overall};
pub use pair::{Kind, Pair};
pub use race::{FEWEST_ROUNDS, Fate, GROUP, Out, Race, RaceRules, Runner, Standing};
pub use rng::Rng;
pub use runs::{FEWEST_RUNS, runs_apart};
pub use summary::{mad, median, quantile, spread};
pub use verdict::{Reason, Verdict};
