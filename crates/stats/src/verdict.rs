//! The three words, and why there is no evidence.

use std::fmt;

/// The result of the runs for one metric, or for all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It got better, and chance is not the reason.
    Better,
    /// It got worse, and chance is not the reason.
    Worse,
    /// The runs do not show either. That is no proof that nothing changed.
    NoEvidence,
}

impl Verdict {
    /// The word in JSON and in text.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::NoEvidence => "no evidence",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Why nothing is claimed, with the numbers. `Display` says it in one line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reason {
    /// Too few pairs to claim anything.
    TooFewPairs {
        /// How many there are.
        pairs: usize,
        /// How many it takes.
        needed: usize,
    },
    /// Some values are negative or no numbers.
    Unusable {
        /// How many of them.
        values: usize,
        /// Of how many runs.
        runs: usize,
    },
    /// Every run has 0 on both sides.
    AllZero {
        /// How many runs.
        runs: usize,
    },
    /// In every pair both sides are the same.
    NoDifference {
        /// How many pairs.
        pairs: usize,
    },
    /// So few events that chance explains the difference.
    TooFewCounts {
        /// All events before.
        before: f64,
        /// All events after.
        after: f64,
    },
    /// The whole interval lies nearer to 1 than the smallest change that is ever claimed.
    NoChange {
        /// Lower end of the interval.
        low: f64,
        /// Upper end of the interval.
        high: f64,
        /// The smallest change that is claimed.
        smallest: f64,
    },
    /// The interval has 1 in it.
    SpansOne {
        /// Lower end of the interval.
        low: f64,
        /// Upper end of the interval.
        high: f64,
        /// Confidence of the interval.
        confidence: f64,
    },
    /// There is a change, and it is smaller than any that is claimed.
    TooSmall {
        /// After over before.
        ratio: f64,
        /// The smallest change that is claimed.
        smallest: f64,
    },
    /// A measure is 0 in some runs, and a ratio with 0 cannot be trusted.
    ZeroRuns {
        /// Runs before with 0.
        before: usize,
        /// Runs after with 0.
        after: usize,
        /// How many pairs.
        pairs: usize,
    },
    /// Some pairs went against the rest.
    PairsDisagree {
        /// How many pairs went the other way or nowhere.
        against: usize,
        /// How many pairs.
        pairs: usize,
    },
    /// The interval leaves 1 out, but with this number of metrics chance alone brings that too often.
    Chance {
        /// Chance of it if nothing changed.
        p: f64,
        /// The level that this chance may not exceed.
        level: f64,
        /// How many metrics are judged together.
        family: usize,
        /// How many looks at them were planned.
        looks: usize,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::TooFewPairs { pairs, needed } => {
                write!(f, "too few pairs: {pairs}, and it takes {needed}")
            }
            Self::Unusable { values, runs } => {
                write!(
                    f,
                    "{values} of {runs} values cannot be used: negative or not a number"
                )
            }
            Self::AllZero { runs } => write!(f, "0 in all {runs} runs"),
            Self::NoDifference { pairs } => {
                write!(f, "the same on both sides in all {pairs} pairs")
            }
            Self::TooFewCounts { before, after } => write!(
                f,
                "too few to judge: {before} before and {after} after in all runs together, which chance explains"
            ),
            Self::NoChange {
                low,
                high,
                smallest,
            } => write!(
                f,
                "no change over {}: the interval is {} to {}",
                percent_text(smallest),
                change_text(low),
                change_text(high)
            ),
            Self::SpansOne {
                low,
                high,
                confidence,
            } => write!(
                f,
                "the {} interval runs from {} to {}",
                percent_text(confidence),
                change_text(low),
                change_text(high)
            ),
            Self::TooSmall { ratio, smallest } => write!(
                f,
                "{} is less than the {} that is ever claimed",
                change_text(ratio),
                percent_text(smallest)
            ),
            Self::ZeroRuns {
                before,
                after,
                pairs,
            } => write!(
                f,
                "0 in {before} of {pairs} runs before and {after} of {pairs} after: no ratio to trust"
            ),
            Self::PairsDisagree { against, pairs } => {
                write!(
                    f,
                    "the pairs disagree: {against} of {pairs} went the other way or nowhere"
                )
            }
            Self::Chance {
                p,
                level,
                family,
                looks,
            } => {
                let often = match looks {
                    1 => String::new(),
                    n => format!(", {n} times"),
                };
                write!(
                    f,
                    "chance does this too often with {family} metrics judged together{often}: p is {p:.4} and must be {level:.4}"
                )
            }
        }
    }
}

/// A share as a percentage with no digits that say nothing.
fn percent_text(share: f64) -> String {
    let text = format!("{:.1}", share * 100.0);
    format!("{} %", text.strip_suffix(".0").unwrap_or(&text))
}

/// A ratio as people say it: a percentage, or a factor from 10 on.
fn change_text(ratio: f64) -> String {
    if ratio.is_infinite() {
        "no end".to_owned()
    } else if ratio >= 1e6 {
        format!("×{ratio:.0e}")
    } else if ratio >= 10.0 {
        format!("×{ratio:.0}")
    } else {
        let text = format!("{:+.1} %", (ratio - 1.0) * 100.0);
        if text == "-0.0 %" {
            "+0.0 %".to_owned()
        } else {
            text
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that reasons read as one plain line with their numbers.
    #[test]
    fn plain_lines() {
        let lines = [
            (
                Reason::SpansOne {
                    low: 0.83,
                    high: 1.215,
                    confidence: 0.95,
                },
                "the 95 % interval runs from -17.0 % to +21.5 %",
            ),
            (
                Reason::TooSmall {
                    ratio: 0.992,
                    smallest: 0.02,
                },
                "-0.8 % is less than the 2 % that is ever claimed",
            ),
            (
                Reason::TooFewCounts {
                    before: 14.0,
                    after: 9.0,
                },
                "too few to judge: 14 before and 9 after in all runs together, which chance explains",
            ),
            (
                Reason::SpansOne {
                    low: 0.0,
                    high: f64::INFINITY,
                    confidence: 0.999,
                },
                "the 99.9 % interval runs from -100.0 % to no end",
            ),
            (
                Reason::PairsDisagree {
                    against: 2,
                    pairs: 5,
                },
                "the pairs disagree: 2 of 5 went the other way or nowhere",
            ),
        ];
        for (reason, line) in lines {
            assert_eq!(reason.to_string(), line);
        }
    }

    /// Check that a verdict can be padded into a column.
    #[test]
    fn padded() {
        assert_eq!(format!("{:>8}|", Verdict::Better), "  better|");
    }
}
