//! The result of one entry of the catalogue: the time that its advice can touch, and where it was spent.

use std::collections::BTreeMap;

use quell_event::HolderRow;

use super::scene::{SeenCost, SeenFrame};

/// The result of an entry: a sum over stacks, or over holders of a lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sight {
    /// CPU time.
    pub cpu_ns: u64,
    /// Time asleep.
    pub blocked_ns: u64,
    /// The process and the function that cost most.
    pub place: String,
    /// Evidence beside the time.
    pub because: String,
}

/// A time in a sentence, with three digits. Each bound lies where rounding would make one digit more: of 999.5 µs it would make
/// 1000 µs.
pub(super) fn time_text(ns: u64) -> String {
    let (value, unit) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..999_500 => (ns as f64 / 1e3, "µs"),
        999_500..999_500_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    let digits = match value {
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {unit}")
}

fn place_text(comm: &str, asker: Option<&SeenFrame>) -> String {
    match asker {
        // Code without symbols is known by its file only.
        Some(frame) if frame.function.is_empty() => format!("{comm}: {}", frame.file),
        Some(frame) => format!("{comm}: {}", String::from(frame.clone())),
        None => comm.to_owned(),
    }
}

impl Sight {
    /// The sum of these costs; none where there are none.
    pub(super) fn of_costs<'a>(costs: impl Iterator<Item = &'a SeenCost>) -> Option<Self> {
        let mut sight = Self::default();
        let mut places: BTreeMap<String, u64> = BTreeMap::new();
        for cost in costs {
            sight.cpu_ns += cost.cpu_ns;
            sight.blocked_ns += cost.blocked_ns;
            let place = place_text(&cost.comm, cost.asking_frame());
            *places.entry(place).or_default() += cost.cpu_ns + cost.blocked_ns;
        }
        let dearest = places.into_iter().max_by_key(|(_, ns)| *ns)?;
        sight.place = dearest.0;
        Some(sight)
    }

    /// The time that others waited for these holders; none where there are none. It names the holder and its call, counts the
    /// waits and gives the longest.
    pub(super) fn of_holders<'a>(holders: impl Iterator<Item = &'a HolderRow>) -> Option<Self> {
        let holders: Vec<&HolderRow> = holders.collect();
        let dearest = holders.iter().max_by_key(|h| h.blocked_ns)?;
        let longest = holders.iter().map(|h| h.longest_ns).max().unwrap_or(0);
        Some(Self {
            cpu_ns: 0,
            blocked_ns: holders.iter().map(|h| h.blocked_ns).sum(),
            place: format!("{}: {}", dearest.holder_comm, dearest.doing),
            because: format!(
                "{} waits for the lock, the longest {}",
                holders.iter().map(|h| h.waits).sum::<u64>(),
                time_text(longest)
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that times have three digits and the unit that suits them.
    #[test]
    fn times() {
        let shown = [
            0,
            999,
            1_500,
            999_499,
            31_040_000,
            999_600_000,
            12_340_000_000,
        ]
        .map(time_text);
        let expected = [
            "0 ns", "999 ns", "1.50 µs", "999 µs", "31.0 ms", "1.00 s", "12.3 s",
        ];
        assert_eq!(shown, expected);
    }
}
