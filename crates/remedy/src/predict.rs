//! Predicts the change of CPU time by a remedy, as an interval, from measured changes with about the same ceiling.
//!
//! A table in this tree has measured rows: the ceiling of a change in a program's observed run, and the change of CPU time that
//! it made. The prediction assumes that the share of the ceiling which a change wins comes by chance from the shares of the rows:
//! the least and the most of [`NEAREST_ROWS`] of them are an interval that holds the next one in 90 of 100 cases, whatever its
//! distribution (Wilks, "Determination of sample sizes for setting tolerance limits", 1941: of n in any order the next is between
//! the least and the most with n - 1 of n + 1). Rows of the same remedy come first, and then those with the nearest ceiling: with
//! a small ceiling noise is a larger share.

use std::sync::LazyLock;

/// With this many rows the next one lies between the least and the most with a chance of 18 in 20.
pub const NEAREST_ROWS: usize = 19;

/// A measured change.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredGain {
    /// The remedy.
    pub remedy: String,
    /// The program that ran.
    pub program: String,
    /// The ceiling in the observed run, as a share of CPU time.
    pub ceiling: f64,
    /// CPU time with the change over that without, less 1.
    pub change: f64,
}

impl MeasuredGain {
    /// The share of the ceiling that was won; below 0 where time was lost.
    fn won_share(&self) -> f64 {
        -self.change / self.ceiling
    }
}

static MEASURED_GAINS: LazyLock<Vec<MeasuredGain>> =
    LazyLock::new(|| read_gains(include_str!("../data/gains.csv")));

/// The rows of a table: lines with `#` are remarks, the first other one names the columns. A line that is no row, or has no
/// ceiling, is left out; a test sees to it that there is none.
fn read_gains(text: &str) -> Vec<MeasuredGain> {
    let lines = text.lines().filter(|l| !l.starts_with('#'));
    let row = |line: &str| {
        let mut cells = line.split(',').map(str::trim);
        let mut next = || cells.next();
        Some(MeasuredGain {
            remedy: next()?.to_owned(),
            program: next()?.to_owned(),
            ceiling: next()?.parse().ok().filter(|c: &f64| *c > 0.0)?,
            change: next()?.parse().ok()?,
        })
    };
    lines.skip(1).filter_map(row).collect()
}

/// Predicts the change of CPU time for a remedy with this ceiling, a share of CPU time that lies between the two others, from the
/// least to the most: -0.2 is a fifth less. None where too few rows were measured, or where there is no ceiling.
#[must_use]
pub fn predict_change(remedy: &str, ceiling: f64, between: [f64; 2]) -> Option<[f64; 2]> {
    predict_from(MEASURED_GAINS.iter(), remedy, ceiling, between)
}

/// [`predict_change`] from these rows.
fn predict_from<'r>(
    rows: impl Iterator<Item = &'r MeasuredGain>,
    remedy: &str,
    ceiling: f64,
    between: [f64; 2],
) -> Option<[f64; 2]> {
    if ceiling <= 0.0 {
        return None;
    }
    let mut rows: Vec<&MeasuredGain> = rows.collect();
    // By ratio: 0.1 is as far from 0.2 as 0.4 is.
    let away = |r: &MeasuredGain| (r.ceiling / ceiling).ln().abs();
    rows.sort_by(|a, b| {
        let other = |r: &MeasuredGain| r.remedy != remedy;
        (other(a).cmp(&other(b))).then(away(a).total_cmp(&away(b)))
    });
    let nearest = rows.get(..NEAREST_ROWS)?;
    let won = || nearest.iter().map(|r| r.won_share());
    let least = won().fold(f64::INFINITY, f64::min);
    let most = won().fold(f64::NEG_INFINITY, f64::max);
    // At whichever end of the ceiling more is won or lost; and CPU time can't fall by more than all of it.
    let [low, high] = between;
    Some([
        (-most * low).min(-most * high).max(-1.0),
        (-least * low).max(-least * high),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that every line of the table is a row, of a remedy that there is, and that no figure is impossible.
    #[test]
    fn the_table_is_whole() {
        let text = include_str!("../data/gains.csv");
        let lines = text.lines().filter(|l| !l.starts_with('#')).count() - 1;
        assert_eq!(MEASURED_GAINS.len(), lines);
        assert!(
            lines > NEAREST_ROWS,
            "{lines} rows are too few to leave one out"
        );
        for row in MEASURED_GAINS.iter() {
            let known = crate::ALL_REMEDIES.iter().any(|r| r.id == row.remedy);
            assert!(known, "{row:?}");
            assert!(row.ceiling <= 1.0 && row.change > -1.0, "{row:?}");
        }
    }

    /// Check that of the measured rows, each predicted by those of other programs alone, the interval holds at least 85 of 100.
    #[test]
    fn intervals_hold_what_was_left_out() {
        let holds = |left: &MeasuredGain| {
            let others = MEASURED_GAINS.iter().filter(|r| r.program != left.program);
            let between = [left.ceiling; 2];
            let predicted = predict_from(others, &left.remedy, left.ceiling, between);
            let [low, high] = predicted.unwrap();
            (low..=high).contains(&left.change)
        };
        let missed: Vec<_> = MEASURED_GAINS.iter().filter(|r| !holds(r)).collect();
        let held = 1.0 - missed.len() as f64 / MEASURED_GAINS.len() as f64;
        println!(
            "{:.1} % of {} rows; missed: {missed:#?}",
            held * 100.0,
            MEASURED_GAINS.len()
        );
        assert!(
            held >= 0.85,
            "{held} of {}: missed {missed:#?}",
            MEASURED_GAINS.len()
        );
    }

    /// Check that a change of which losses were measured is predicted to lose too, that rows of the same remedy come first, that a
    /// ceiling which is less certain makes the interval wider, and that without enough rows nothing is predicted.
    #[test]
    fn losses_are_allowed() {
        let row = |remedy: &str, ceiling: f64, change: f64| MeasuredGain {
            remedy: remedy.to_owned(),
            program: "p".to_owned(),
            ceiling,
            change,
        };
        let mut table: Vec<_> = (0..NEAREST_ROWS)
            .map(|i| row("other", 0.2, -0.01 * i as f64))
            .collect();
        let between = |table: &[MeasuredGain], ends| predict_from(table.iter(), "one", 0.4, ends);
        let of = |table: &[MeasuredGain]| between(table, [0.4; 2]);
        let [low, high] = of(&table).unwrap();
        assert!((low - -0.36).abs() < 1e-9 && high.abs() < 1e-9);
        table.push(row("one", 0.01, 0.01));
        let [_, high] = of(&table).unwrap();
        assert!((high - 0.4).abs() < 1e-9, "{high}");
        assert_eq!(of(&table[..NEAREST_ROWS - 1]), None);
        let [low, high] = between(&table, [0.2, 0.5]).unwrap();
        assert!(
            (low - -0.425).abs() < 1e-9 && (high - 0.5).abs() < 1e-9,
            "{low} {high}"
        );
        assert_eq!(predict_from(table.iter(), "one", 0.0, [0.0; 2]), None);
    }
}
