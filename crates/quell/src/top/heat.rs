//! The matrix of culprit CPU by victim CPU, cut to the room that there is.

use super::interval::LiveInterval;
use crate::show::units::{rate_per_second, short};

/// A cell with a number has five characters and a space.
const NUMBER_CELL_CHARS: usize = 6;
/// The numbers of the culprits' CPUs stand left of the cells.
pub(crate) const LABEL_CHARS: usize = 5;
/// The shades that stand for numbers where a cell has only one character.
const CELL_SHADES: [char; 6] = ['·', '░', '▒', '▓', '█', '█'];

/// The hits between one pair of CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeatCell {
    pub(crate) text: String,
    /// From 0 for no hit to 5 for the most.
    pub(crate) heat: usize,
    /// Whether it is a hit at a CPU that nobody should disturb.
    pub(crate) alarm: bool,
}

/// The matrix as it is to be drawn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeatMap {
    /// Characters of a cell, with the space before it.
    pub(crate) width: usize,
    /// The victims' CPUs, and whether nobody should disturb them.
    pub(crate) victims: Vec<(u32, bool)>,
    /// The culprits' CPUs, each with a cell for every victim's CPU.
    pub(crate) rows: Vec<(u32, Vec<HeatCell>)>,
    /// Says how many CPUs are left out; empty where none is.
    pub(crate) note: String,
}

impl HeatMap {
    /// How many characters the text of a cell has, and the gap before it.
    pub(crate) fn cell_layout(&self) -> (usize, &'static str) {
        let gap = if self.width > 1 { " " } else { "" };
        (self.width.saturating_sub(1).max(1), gap)
    }

    /// The text over the cells of a victim's CPU.
    pub(crate) fn victim_name(&self, cpu: u32, guarded: bool) -> String {
        let (chars, _) = self.cell_layout();
        let name = match (chars, guarded) {
            // a cell of one character shows the last digit, like the ruler of a text editor
            (1, true) => "!".to_owned(),
            (1, false) => (cpu % 10).to_string(),
            (_, true) => format!("!{cpu}"),
            (_, false) => cpu.to_string(),
        };
        format!("{name:>chars$}")
    }
}

/// Fits the matrix into a room of so many characters and rows of cells. Where not all CPUs fit, the busiest are shown; where
/// numbers don't fit, shades stand for them.
pub(crate) fn heat_map(interval: &LiveInterval, width: usize, height: usize) -> HeatMap {
    let all = &interval.online;
    let ns = interval.duration_ns();
    let room = width.saturating_sub(LABEL_CHARS);
    let cell = if all.len() * NUMBER_CELL_CHARS <= room || room < 2 * NUMBER_CELL_CHARS {
        NUMBER_CELL_CHARS
    } else {
        1
    };
    let guarded = |cpu: u32| interval.alarm.as_ref().is_some_and(|a| a.is_guarded(cpu));
    let victims = busiest_cpus(all, room / cell, |c| {
        (guarded(c), interval.matrix.hits_taken_by(c as usize))
    });
    let culprits = busiest_cpus(all, height, |c| {
        (false, interval.matrix.hits_asked_by(c as usize))
    });
    let most = culprits
        .iter()
        .flat_map(|&c| victims.iter().map(move |&v| (c, v)))
        .map(|(c, v)| interval.matrix.hits_between(c as usize, v as usize))
        .max()
        .unwrap_or(0);
    let rows = culprits.iter().map(|&c| {
        let cells = victims.iter().map(|&v| {
            let hits = interval.matrix.hits_between(c as usize, v as usize);
            let heat = heat_level(hits, most);
            HeatCell {
                text: match (cell, hits) {
                    (1, _) => CELL_SHADES[heat].to_string(),
                    (_, 0) => "·".to_owned(),
                    // a hit that came is never shown as none
                    _ => short(rate_per_second(hits.into(), ns).round().max(1.0) as u64),
                },
                heat,
                alarm: hits > 0 && guarded(v),
            }
        });
        (c, cells.collect())
    });
    let left_out = all.len() > victims.len() || all.len() > culprits.len();
    HeatMap {
        width: cell,
        rows: rows.collect(),
        note: if left_out {
            format!(
                "the busiest {} × {} of {} CPUs",
                culprits.len(),
                victims.len(),
                all.len()
            )
        } else {
            String::new()
        },
        victims: victims.iter().map(|&v| (v, guarded(v))).collect(),
    }
}

/// The level grows with the logarithm, so that a CPU with a tenth of the hits is still visible.
fn heat_level(hits: u32, most: u32) -> usize {
    if hits == 0 || most == 0 {
        return 0;
    }
    let share = f64::from(hits).ln_1p() / f64::from(most).ln_1p();
    1 + (share * 4.0).round().min(4.0) as usize
}

/// Selects at most `most` CPUs with the highest keys, and keeps their own order.
fn busiest_cpus<K: Ord>(all: &[u32], most: usize, key: impl Fn(u32) -> K) -> Vec<u32> {
    if all.len() <= most {
        return all.to_vec();
    }
    let mut by: Vec<(K, std::cmp::Reverse<u32>)> = all
        .iter()
        .map(|&c| (key(c), std::cmp::Reverse(c)))
        .collect();
    by.sort_unstable_by(|a, b| b.cmp(a));
    let mut kept: Vec<u32> = by.iter().take(most).map(|(_, c)| c.0).collect();
    kept.sort_unstable();
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_event::InterruptMatrix;

    fn interval_of_cpus(cpus: u32) -> LiveInterval {
        let mut matrix = InterruptMatrix::new(cpus as usize);
        for c in 0..cpus as usize {
            for v in 0..cpus as usize {
                if c != v {
                    matrix.set_hits(c, v, ((c * 7 + v) * 100) as u32);
                }
            }
        }
        let mut interval = LiveInterval {
            online: (0..cpus).collect(),
            matrix,
            ..LiveInterval::default()
        };
        interval.summary.duration_ns = 1_000_000_000;
        interval
    }

    /// Check that numbers are shown where they fit, shades where they don't, and the busiest CPUs where not even those do, and that it says so.
    #[test]
    fn it_is_cut_to_the_room() {
        let small = heat_map(&interval_of_cpus(4), 40, 10);
        assert_eq!(
            (small.width, small.rows.len(), small.note.as_str()),
            (NUMBER_CELL_CHARS, 4, "")
        );
        assert_eq!(small.rows[1].1[0].text, "700");
        let shades = heat_map(&interval_of_cpus(32), 60, 40);
        assert_eq!((shades.width, shades.victims.len()), (1, 32));
        assert_eq!(shades.note, "");
        let cut = heat_map(&interval_of_cpus(128), 60, 10);
        assert_eq!((cut.victims.len(), cut.rows.len()), (55, 10));
        assert_eq!(cut.note, "the busiest 10 × 55 of 128 CPUs");
        assert!(cut.rows.iter().any(|(c, _)| *c == 127));
        assert_eq!(heat_map(&interval_of_cpus(3), 0, 0).rows.len(), 0);
    }
}
