//! The choice of traces by the time at which they began.

use std::str::FromStr;

use chrono::{Datelike as _, Days, NaiveDate};

use crate::DAY_NS;

/// The value of `--since`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// This number of days before the newest trace.
    Days(u64),
    /// From the beginning of a day on, and to the end of another; days since 1970, UTC.
    Dates(u64, Option<u64>),
}

impl Since {
    /// The moments that it means, ns since 1970, where the newest trace began at `newest`: the first one that counts, and
    /// the first one after.
    #[must_use]
    pub fn moment_range(self, newest: u64) -> (u64, u64) {
        let after = newest.saturating_add(1);
        match self {
            Self::Days(days) => (after.saturating_sub(days.saturating_mul(DAY_NS)), after),
            Self::Dates(from, to) => {
                let end = to.map_or(after, |to| to.saturating_add(1).saturating_mul(DAY_NS));
                (from.saturating_mul(DAY_NS), end)
            }
        }
    }
}

impl FromStr for Since {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const DATES_HELP: &str =
            "write days, such as 7, or dates, such as 2026-11-19 or 2026-11-12..2026-11-18";
        if let Ok(days) = text.parse::<u64>() {
            return match days {
                1..=36_500 => Ok(Self::Days(days)),
                _ => Err(DATES_HELP.to_owned()),
            };
        }
        let (from, to) = match text.split_once("..") {
            Some((from, to)) => (from, Some(parse_day(to).ok_or(DATES_HELP)?)),
            None => (text, None),
        };
        let from = parse_day(from).ok_or(DATES_HELP)?;
        if to.is_some_and(|to| to < from) {
            return Err("the second date is before the first".to_owned());
        }
        Ok(Self::Dates(from, to))
    }
}

const DAY_FORMAT: &str = "%Y-%m-%d";

/// Days since 1970 of `YYYY-MM-DD`.
fn parse_day(text: &str) -> Option<u64> {
    let date = NaiveDate::parse_from_str(text, DAY_FORMAT).ok()?;
    // chrono also reads `2026-1-5`, which it writes as `2026-01-05`.
    let exact = date.format(DAY_FORMAT).to_string() == text;
    let days = (date - NaiveDate::default()).num_days();
    // Up to that year ns since 1970 fit into a signed number of 64 bits.
    (exact && (1970..=2200).contains(&date.year())).then_some(days.unsigned_abs())
}

/// The date of a moment, ns since 1970, UTC.
#[must_use]
pub fn day(wall_ns: u64) -> String {
    let date = NaiveDate::default() + Days::new(wall_ns / DAY_NS);
    date.format(DAY_FORMAT).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that days and dates are read, and other texts are refused.
    #[test]
    fn since() {
        assert_eq!("7".parse(), Ok(Since::Days(7)));
        assert_eq!("1970-01-02".parse(), Ok(Since::Dates(1, None)));
        assert_eq!(
            "2026-11-12..2026-11-18".parse(),
            Ok(Since::Dates(20_769, Some(20_775)))
        );
        assert_eq!("2024-02-29".parse(), Ok(Since::Dates(19_782, None)));
        for text in [
            "",
            "0",
            "-1",
            "7d",
            "2026-02-29",
            "2026-13-01",
            "2026-1-01",
            "2026-11-18..2026-11-12",
            "2026-11-12..",
            "99999999",
        ] {
            assert!(text.parse::<Since>().is_err(), "{text}");
        }
        for days in [0, 59, 19_782, 20_769, 47_540] {
            assert_eq!(parse_day(&day(days * DAY_NS)), Some(days));
        }
        assert_eq!(day(20_769 * DAY_NS + 5), "2026-11-12");
    }

    /// Check which moments are meant: days are counted back from the newest trace, and dates are whole days.
    #[test]
    fn ranges() {
        let newest = 100 * DAY_NS + 5;
        assert_eq!(
            Since::Days(7).moment_range(newest),
            (93 * DAY_NS + 6, newest + 1)
        );
        assert_eq!(
            Since::Dates(90, None).moment_range(newest),
            (90 * DAY_NS, newest + 1)
        );
        assert_eq!(
            Since::Dates(90, Some(91)).moment_range(newest),
            (90 * DAY_NS, 92 * DAY_NS)
        );
    }
}
