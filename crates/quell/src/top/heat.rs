//! The matrix of culprit CPU by victim CPU, cut to the room that there is.

use super::sample::Sample;
use crate::show::units::short;

/// Of a number: five characters and a space.
const WIDE: usize = 6;
/// The culprits' CPUs, left of the cells.
pub(crate) const LABEL: usize = 5;
/// Shades of a cell of one character.
const SHADES: [char; 6] = ['·', '░', '▒', '▓', '█', '█'];

/// One pair of CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) text: String,
    /// 0 nothing to 5 the most.
    pub(crate) heat: usize,
    /// A hit at a CPU that nobody should disturb.
    pub(crate) alarm: bool,
}

/// The matrix as it is to be drawn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Heat {
    /// Characters of a cell, with the space before it.
    pub(crate) width: usize,
    /// The victims' CPUs, and whether nobody should disturb them.
    pub(crate) victims: Vec<(u32, bool)>,
    /// The culprits' CPUs, each with a cell for each victim's.
    pub(crate) rows: Vec<(u32, Vec<Cell>)>,
    /// What is left out.
    pub(crate) note: String,
}

/// The matrix in a room of so many characters and rows of cells. Where not all CPUs fit, the busiest
/// are shown; where numbers don't fit, shades.
pub(crate) fn heat(sample: &Sample, width: usize, height: usize) -> Heat {
    let all = &sample.online;
    let room = width.saturating_sub(LABEL);
    let cell = if all.len() * WIDE <= room || room < 2 * WIDE {
        WIDE
    } else {
        1
    };
    let guarded = |cpu: u32| sample.alarm.as_ref().is_some_and(|a| a.guards(cpu));
    let victims = busiest(all, room / cell, |c| {
        (guarded(c), sample.matrix.hits_taken_by(c as usize))
    });
    let culprits = busiest(all, height, |c| {
        (false, sample.matrix.hits_asked_by(c as usize))
    });
    let most = culprits
        .iter()
        .flat_map(|&c| victims.iter().map(move |&v| (c, v)))
        .map(|(c, v)| sample.matrix.hits_between(c as usize, v as usize))
        .max()
        .unwrap_or(0);
    let rows = culprits.iter().map(|&c| {
        let cells = victims.iter().map(|&v| {
            let hits = sample.matrix.hits_between(c as usize, v as usize);
            let heat = level(hits, most);
            Cell {
                text: match (cell, hits) {
                    (1, _) => SHADES[heat].to_string(),
                    (_, 0) => "·".to_owned(),
                    _ => short(per_second(hits, sample.duration_ns())),
                },
                heat,
                alarm: hits > 0 && guarded(v),
            }
        });
        (c, cells.collect())
    });
    let left_out = all.len() > victims.len() || all.len() > culprits.len();
    Heat {
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

fn per_second(hits: u32, duration_ns: u64) -> u64 {
    if duration_ns == 0 {
        return 0;
    }
    // one that came is not none
    ((f64::from(hits) * 1e9 / duration_ns as f64).round() as u64).max(1)
}

/// By the logarithm: a CPU that is hit ten times less is still to be seen.
fn level(hits: u32, most: u32) -> usize {
    if hits == 0 || most == 0 {
        return 0;
    }
    let share = f64::from(hits).ln_1p() / f64::from(most).ln_1p();
    1 + (share * 4.0).round().min(4.0) as usize
}

/// At most so many CPUs, those with the highest keys, in their own order.
fn busiest<K: Ord>(all: &[u32], most: usize, key: impl Fn(u32) -> K) -> Vec<u32> {
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

    fn sample(cpus: u32) -> Sample {
        let mut matrix = InterruptMatrix::new(cpus as usize);
        for c in 0..cpus as usize {
            for v in 0..cpus as usize {
                if c != v {
                    matrix.set_hits(c, v, ((c * 7 + v) * 100) as u32);
                }
            }
        }
        let mut sample = Sample {
            online: (0..cpus).collect(),
            matrix,
            ..Sample::default()
        };
        sample.summary.duration_ns = 1_000_000_000;
        sample
    }

    /// Check that numbers are shown where they fit, shades where they don't, and the busiest CPUs where not even those do, and that it says so.
    #[test]
    fn it_is_cut_to_the_room() {
        let small = heat(&sample(4), 40, 10);
        assert_eq!(
            (small.width, small.rows.len(), small.note.as_str()),
            (WIDE, 4, "")
        );
        assert_eq!(small.rows[1].1[0].text, "700");
        let shades = heat(&sample(32), 60, 40);
        assert_eq!((shades.width, shades.victims.len()), (1, 32));
        assert_eq!(shades.note, "");
        let cut = heat(&sample(128), 60, 10);
        assert_eq!((cut.victims.len(), cut.rows.len()), (55, 10));
        assert_eq!(cut.note, "the busiest 10 × 55 of 128 CPUs");
        assert!(cut.rows.iter().any(|(c, _)| *c == 127));
        assert_eq!(heat(&sample(3), 0, 0).rows.len(), 0);
    }
}
