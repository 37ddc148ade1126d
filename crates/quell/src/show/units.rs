//! Numbers for people: 1,234,567; 12.3 µs; 650 MB; 12 %.

use indicatif::HumanCount;

/// A count or a time within a duration, as a rate per second; 0 where the duration is 0.
pub(crate) fn rate_per_second(n: u64, duration_ns: u64) -> f64 {
    if duration_ns == 0 {
        return 0.0;
    }
    n as f64 * 1e9 / duration_ns as f64
}

/// A part as a share of the whole; 0 where that is 0.
pub(crate) fn share_of(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        return 0.0;
    }
    part as f64 / whole as f64
}

/// A count with commas.
pub(crate) fn count(n: u64) -> String {
    HumanCount(n).to_string()
}

/// A count in at most five characters up to 999G: 999, 1.20k, 12.3M.
pub(crate) fn short(n: u64) -> String {
    if n < 1000 {
        return n.to_string();
    }
    three_digits(n as f64, &["", "k", "M", "G"], 1000.0).replace(' ', "")
}

/// A count within a duration as a rate per second, with a decimal where it is low.
pub(crate) fn rate(n: u64, duration_ns: u64) -> String {
    let rate = rate_per_second(n, duration_ns);
    if rate == 0.0 {
        return "0".to_owned();
    }
    // An interval lasts some µs longer than intended, so three events in a second are a little less than 3 a second.
    if rate >= 9.95 || (rate - rate.round()).abs() < rate * 0.02 && rate >= 0.5 {
        return count(rate.round() as u64);
    }
    if rate < 0.05 {
        return "<0.1".to_owned();
    }
    format!("{rate:.1}")
}

/// A time within a duration as a time per second.
pub(crate) fn time_rate(ns: u64, duration_ns: u64) -> String {
    time(rate_per_second(ns, duration_ns).round() as u64)
}

/// A value with three digits and a unit, each unit `step` times the one before. In the first unit an integer has no decimals,
/// and in the last one there may be more digits.
fn three_digits(value: f64, units: &[&str], step: f64) -> String {
    let mut value = value;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    let digits = match value {
        v if unit == 0 && v == v.trunc() => 0,
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {}", units[unit])
}

/// A time with its unit.
pub(crate) fn time(ns: u64) -> String {
    three_digits(ns as f64, &["ns", "µs", "ms", "s"], 1000.0)
}

/// A time with its unit, or a dash for none.
pub(crate) fn time_or_dash(ns: u64) -> String {
    match ns {
        0 => "-".to_owned(),
        ns => time(ns),
    }
}

/// An amount of memory, in decimal units as the contract has them.
pub(crate) fn bytes(n: u64) -> String {
    three_digits(n as f64, &["B", "kB", "MB", "GB", "TB"], 1000.0)
}

/// A share of 0 to 1 in per cent.
pub(crate) fn percent(share: f64) -> String {
    let p = share * 100.0;
    match p {
        0.0 => "0 %".to_owned(),
        p if p.abs() < 0.05 => "<0.1 %".to_owned(),
        // Nearly all is not shown as all.
        p if (99.5..100.0).contains(&p) => format!("{:.1} %", (p * 10.0).floor() / 10.0),
        p if p.abs() < 9.95 => format!("{p:.1} %"),
        p => format!("{p:.0} %"),
    }
}

/// "1 shootdown", "2 shootdowns".
pub(crate) fn plural(n: u64, word: &str) -> String {
    let end = match word {
        _ if n == 1 => "",
        word if word.ends_with('s') => "es",
        _ => "s",
    };
    format!("{} {word}{end}", count(n))
}

/// A ratio as a change: `-88 %`, `+6.9 %`, `×12`.
pub(crate) fn ratio_as_change(ratio: f64) -> String {
    if !ratio.is_finite() {
        return "?".to_owned();
    }
    if ratio >= 10.0 {
        return format!("×{ratio:.0}");
    }
    let percent = (ratio - 1.0) * 100.0;
    // There are enough digits to distinguish 99.9 % from all of it.
    let digits = match percent.abs() {
        _ if ratio == 0.0 => 0,
        p if p < 9.95 => 1,
        p if p < 99.0 || percent > 0.0 => 0,
        p if p < 99.9 => 1,
        _ => 2,
    };
    let text = format!("{percent:+.digits$} %");
    if text.trim_start_matches(['+', '-']) == "0.0 %" {
        "0.0 %".to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that words have their plurals.
    #[test]
    fn words_have_plurals() {
        let said = [(1, "process"), (2, "process"), (0, "page"), (1, "page")];
        let said = said.map(|(n, word)| plural(n, word));
        assert_eq!(said, ["1 process", "2 processes", "0 pages", "1 page"]);
    }

    /// Check that numbers read as people write them.
    #[test]
    fn numbers_read_well() {
        assert_eq!(
            [0, 999, 1000, 1_234_567].map(count),
            ["0", "999", "1,000", "1,234,567"]
        );
        assert_eq!(
            [0, 999, 1234, 106_123, 1_200_000].map(short),
            ["0", "999", "1.23k", "106k", "1.20M"]
        );
        let second = 1_000_100_000;
        assert_eq!(
            [0, 1, 3, 1234].map(|n| rate(n, second)),
            ["0", "1", "3", "1,234"]
        );
        assert_eq!(rate(1, 2 * second), "0.5");
        assert_eq!(rate(1, 100 * second), "<0.1");
        assert_eq!(rate(5, 0), "0");
        assert_eq!(time_rate(3_000_000, 2_000_000_000), "1.50 ms");
        assert_eq!(time(0), "0 ns");
        assert_eq!(time(999), "999 ns");
        assert_eq!(time(1000), "1.00 µs");
        assert_eq!(time(2_848), "2.85 µs");
        assert_eq!(time(12_345_678), "12.3 ms");
        assert_eq!(time(7_205_000_000_000), "7205 s");
        assert_eq!(bytes(650_000_000), "650 MB");
        assert_eq!(percent(0.0), "0 %");
        assert_eq!(percent(0.0001), "<0.1 %");
        assert_eq!(percent(0.0512), "5.1 %");
        assert_eq!(percent(0.876), "88 %");
        assert_eq!(percent(0.9957), "99.5 %");
        assert_eq!(percent(0.99999), "99.9 %");
        assert_eq!(percent(1.0), "100 %");
        assert_eq!(plural(1, "victim"), "1 victim");
        assert_eq!(plural(2000, "victim"), "2,000 victims");
    }
}
