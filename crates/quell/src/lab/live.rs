//! Measurements, sent on as they are made: InfluxDB's line protocol, a point for each block as it ends.

use std::cell::RefCell;
use std::collections::BTreeMap;

use quell_export::influx::{Sink, SinkTarget};
use quell_lab::arm::Arm;
use quell_lab::attribute::GapClass;
use quell_lab::mechanism::{OperationTiming, StallMechanism};
use quell_lab::round::MeasuredBlock;

use super::export::{influx_line, whole};
use crate::clock::{monotonic_ns, wall_ns};
use crate::usage::usage;

/// The measurements of points: blocks; moments with a meaning; gaps of experiments that do one thing once.
const BLOCK: &str = "quell_lab_block";
const MARK: &str = "quell_lab_mark";
const GAP: &str = "quell_lab_gap";

/// The class of figures that are not of one class.
const ALL: &str = "all";

/// Gaps of a block that are sent.
const GAPS: usize = 4000;

/// The variable from which InfluxDB's own tools take a token, too.
const TOKEN: &str = "INFLUX_TOKEN";

/// Where it goes, for as long as the lab runs.
#[derive(Debug)]
pub(crate) struct Live {
    sink: RefCell<Sink>,
    shown: String,
}

/// One experiment of it.
#[derive(Debug)]
pub(crate) struct Running<'a> {
    live: &'a Live,
    mechanism: &'static StallMechanism,
}

impl Live {
    /// Opens it, and sends a first mark: who measures for an hour wants to know before that nobody listens.
    pub(crate) fn open(target: &SinkTarget) -> anyhow::Result<Self> {
        let shown = target.shown_text();
        let cant = |why: String| usage(format!("can't write to {shown}: {why}"));
        let token = std::env::var(TOKEN).ok().filter(|t| !t.is_empty());
        if token
            .as_ref()
            .is_some_and(|t| t.chars().any(char::is_control))
        {
            return Err(usage(format!("{TOKEN} holds control characters")));
        }
        let mut sink = Sink::open(target, token).map_err(|err| cant(err.to_string()))?;
        if let Some(why) = sink.send_lines(&mark("lab", "", "begin", wall_ns())) {
            return Err(cant(why));
        }
        let sink = RefCell::new(sink);
        Ok(Self { sink, shown })
    }

    /// An experiment begins.
    pub(crate) fn of(&self, mechanism: &'static StallMechanism) -> Running<'_> {
        self.send(&mark(mechanism.name, "", "begin", wall_ns()));
        Running {
            live: self,
            mechanism,
        }
    }

    fn send(&self, lines: &str) {
        if let Some(why) = self.sink.borrow_mut().send_lines(lines) {
            say!(
                "quell: {} takes no lines: {why}; it is measured all the same",
                self.shown
            );
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.send(&mark("lab", "", "end", wall_ns()));
        let lost = self.sink.borrow().lost_lines();
        if lost > 0 {
            say!("quell: {lost} lines for {} were lost", self.shown);
        }
    }
}

impl Running<'_> {
    pub(crate) fn block(&self, measured: &MeasuredBlock) {
        // the offset anew each time: somebody may set the clock
        let offset = wall_ns().saturating_sub(monotonic_ns());
        let once = matches!(self.mechanism.timing, OperationTiming::Once { .. });
        self.live
            .send(&lines(self.mechanism.name, measured, once, offset));
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.live
            .send(&mark(self.mechanism.name, "", "end", wall_ns()));
    }
}

fn mark(experiment: &str, arm: &str, mark: &str, t_ns: u64) -> String {
    let tags = [("experiment", experiment), ("arm", arm), ("mark", mark)];
    influx_line(MARK, tags, vec![("n", 1)], t_ns)
}

/// A block: a point for all of it, one for each class that occurred, both at its begin; and where one thing is done once,
/// a mark there and the gaps around it. Times are those of the block and so many ns later: the wall's.
fn lines(experiment: &str, measured: &MeasuredBlock, once: bool, offset: u64) -> String {
    let (arm, block) = (measured.arm, &measured.block);
    let traced = arm != Arm::Untraced;
    let mut out = String::new();
    let mut put = |measurement, class, fields, t_ns: u64| {
        let tags = [
            ("experiment", experiment),
            ("arm", arm.name()),
            ("class", class),
        ];
        out += &influx_line(measurement, tags, fields, t_ns.saturating_add(offset));
    };
    let valid = i64::from(measured.invalid.is_none());
    let mut fields = vec![
        ("valid", valid),
        ("ran_ns", whole(block.ran_ns())),
        ("away_ns", whole(block.away_ns)),
        ("ops", whole(block.ops.len() as u64)),
        ("gaps", whole(block.gaps.len() as u64)),
    ];
    if traced {
        fields.extend([
            ("shootdowns", whole(block.hits)),
            ("caused", whole(block.caused_hits)),
            ("faults", whole(block.faults)),
            ("stall_ppm", block.caused_ppm().round() as i64),
        ]);
    }
    put(BLOCK, ALL, fields, block.begin_ns);
    let mut classes: BTreeMap<GapClass, (u64, u64)> = BTreeMap::new();
    // without the probe nobody knows the class
    for told in block.gaps.iter().filter(|_| traced) {
        let (n, ns) = classes.entry(told.class).or_default();
        *n += 1;
        *ns = ns.saturating_add(told.gap.ns);
    }
    for (class, (n, ns)) in classes {
        let fields = vec![("valid", valid), ("gaps", whole(n)), ("gaps_ns", whole(ns))];
        put(BLOCK, class.name(), fields, block.begin_ns);
    }
    if !once {
        return out;
    }
    for told in block.gaps.iter().take(GAPS) {
        let class = if traced { told.class.name() } else { "" };
        let mut fields = vec![("ns", whole(told.gap.ns))];
        fields.extend(traced.then_some(("caused", i64::from(told.caused))));
        put(GAP, class, fields, told.gap.begin_ns);
    }
    for op in &block.ops {
        for (what, at) in [("operation", op.begin_ns), ("operation-end", op.end_ns)] {
            out += &mark(experiment, arm.name(), what, at.saturating_add(offset));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use quell_lab::attribute::{ClassifiedBlock, ClassifiedGap};
    use quell_lab::block::{CulpritOp, VictimGap};
    use quell_lab::round::InvalidReason;

    use super::*;

    fn measured(arm: Arm, invalid: Option<InvalidReason>) -> MeasuredBlock {
        let told = |begin_ns, ns, class, caused| ClassifiedGap {
            gap: VictimGap { begin_ns, ns },
            class,
            caused,
            by: 0,
        };
        MeasuredBlock {
            arm,
            invalid,
            block: ClassifiedBlock {
                begin_ns: 1_000,
                end_ns: 2_001_000,
                gaps: vec![
                    told(2_000, 3_000, GapClass::Tlb, true),
                    told(9_000, 700, GapClass::None, false),
                    told(20_000, 2_000, GapClass::Tlb, true),
                ],
                ops: vec![CulpritOp {
                    begin_ns: 1_500,
                    end_ns: 5_500,
                }],
                away_ns: 1_000_000,
                hits: 3,
                caused_hits: 2,
                ..ClassifiedBlock::default()
            },
        }
    }

    /// Check the lines of a block: all of it, each class, on the wall's clock; and gaps and marks where one thing is done
    /// once.
    #[test]
    fn lines_of_a_block() {
        let block = lines("dontneed", &measured(Arm::Real, None), false, 1_000_000);
        insta::assert_snapshot!(block, @r"
        quell_lab_block,experiment=dontneed,arm=real,class=all valid=1i,ran_ns=1000000i,away_ns=1000000i,ops=1i,gaps=3i,shootdowns=3i,caused=2i,faults=0i,stall_ppm=5000i 1001000
        quell_lab_block,experiment=dontneed,arm=real,class=tlb valid=1i,gaps=2i,gaps_ns=5000i 1001000
        quell_lab_block,experiment=dontneed,arm=real,class=none valid=1i,gaps=1i,gaps_ns=700i 1001000
        ");
        let once = lines("seed-free", &measured(Arm::Real, None), true, 0);
        assert_eq!(once.lines().count(), 3 + 3 + 2);
        assert!(once.contains(
            "quell_lab_gap,experiment=seed-free,arm=real,class=tlb ns=3000i,caused=1i 2000\n"
        ));
        assert!(once.ends_with(
            "quell_lab_mark,experiment=seed-free,arm=real,mark=operation-end n=1i 5500\n"
        ));
    }

    /// Check that what the probe did not see is not told, and that a block that does not count says so.
    #[test]
    fn nothing_is_made_up() {
        let untraced = lines(
            "dontneed",
            &measured(Arm::Untraced, Some(InvalidReason::Away)),
            true,
            0,
        );
        assert!(
            untraced.starts_with(
                "quell_lab_block,experiment=dontneed,arm=untraced,class=all valid=0i,"
            )
        );
        for unknown in ["class=tlb", "caused", "stall_ppm", "shootdowns"] {
            assert!(!untraced.contains(unknown), "{unknown}");
        }
    }
}
