//! Which traces are asked of, by when they began.

use std::fmt;
use std::str::FromStr;

use crate::DAY_NS;

/// What `--since` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// So many days before the newest trace.
    Days(u64),
    /// From the beginning of a day on, and to the end of another; days since 1970, UTC.
    Dates(u64, Option<u64>),
}

impl Since {
    /// The moments that it means, ns since 1970, where the newest trace began at `newest`: the first one that counts, and
    /// the first one after.
    #[must_use]
    pub fn range(self, newest: u64) -> (u64, u64) {
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
        const WRITE: &str =
            "write days, such as 7, or dates, such as 2026-11-19 or 2026-11-12..2026-11-18";
        if let Ok(days) = text.parse::<u64>() {
            return match days {
                1..=36_500 => Ok(Self::Days(days)),
                _ => Err(WRITE.to_owned()),
            };
        }
        let (from, to) = match text.split_once("..") {
            Some((from, to)) => (from, Some(parse(to).ok_or(WRITE)?)),
            None => (text, None),
        };
        let from = parse(from).ok_or(WRITE)?;
        if to.is_some_and(|to| to < from) {
            return Err("the second date is before the first".to_owned());
        }
        Ok(Self::Dates(from, to))
    }
}

/// Days since 1970 of `YYYY-MM-DD`.
fn parse(text: &str) -> Option<u64> {
    let mut parts = text.split('-');
    let mut number = |len: usize| {
        let part = parts.next().filter(|p| p.len() == len)?;
        part.bytes()
            .all(|b| b.is_ascii_digit())
            .then(|| part.parse::<u64>().ok())?
    };
    let (year, month, date) = (number(4)?, number(2)?, number(2)?);
    if parts.next().is_some()
        || !(1970..=2200).contains(&year)
        || !(1..=12).contains(&month)
        || date == 0
    {
        return None;
    }
    // years that begin in March (Howard Hinnant's days_from_civil)
    let (y, m) = if month <= 2 {
        (year - 1, month + 9)
    } else {
        (year, month - 3)
    };
    let of_era = y % 400;
    let days =
        y / 400 * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + (153 * m + 2) / 5 + date - 1;
    let days = days.checked_sub(719_468)?;
    // 31 February is no day
    (Day(days).to_string() == text).then_some(days)
}

/// A day since 1970, shown as a date.
struct Day(u64);

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let days = self.0 + 719_468;
        let (era, of_era) = (days / 146_097, days % 146_097);
        let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let m = (5 * of_year + 2) / 153;
        let date = of_year - (153 * m + 2) / 5 + 1;
        let month = if m < 10 { m + 3 } else { m - 9 };
        let year = era * 400 + year + u64::from(month <= 2);
        write!(f, "{year:04}-{month:02}-{date:02}")
    }
}

/// The date of a moment, ns since 1970, UTC.
#[must_use]
pub fn day(wall_ns: u64) -> String {
    Day(wall_ns / DAY_NS).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that days and dates are read, and what is neither is refused.
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
            assert_eq!(parse(&Day(days).to_string()), Some(days));
        }
        assert_eq!(day(20_769 * DAY_NS + 5), "2026-11-12");
    }

    /// Check which moments are meant: days are counted back from the newest trace, and dates are whole days.
    #[test]
    fn ranges() {
        let newest = 100 * DAY_NS + 5;
        assert_eq!(Since::Days(7).range(newest), (93 * DAY_NS + 6, newest + 1));
        assert_eq!(
            Since::Dates(90, None).range(newest),
            (90 * DAY_NS, newest + 1)
        );
        assert_eq!(
            Since::Dates(90, Some(91)).range(newest),
            (90 * DAY_NS, 92 * DAY_NS)
        );
    }
}
