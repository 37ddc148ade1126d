//! Measurements, sent on as they are made: InfluxDB's line protocol, a point for each block as it ends.

use std::cell::RefCell;
use std::collections::BTreeMap;

use quell_export::influx::{Sink, SinkTarget};
use quell_lab::arm::Arm;
use quell_lab::attribute::GapClass;
use quell_lab::mechanism::{OperationTiming, StallMechanism};
use quell_lab::round::MeasuredBlock;

use super::export::{ALL_CLASSES, influx_line, to_i64};
use crate::clock::{monotonic_ns, wall_ns};
use crate::usage::usage;

/// The measurements of points: blocks; moments with a meaning; gaps of experiments that do one thing once.
const BLOCK_MEASUREMENT: &str = "quell_lab_block";
const MARK_MEASUREMENT: &str = "quell_lab_mark";
const GAP_MEASUREMENT: &str = "quell_lab_gap";

/// The most gaps of a block that are sent.
const MAX_SENT_GAPS: usize = 4000;

/// The variable from which InfluxDB's own tools take a token, too.
const TOKEN_VARIABLE: &str = "INFLUX_TOKEN";

/// The place where lines go, for as long as the lab runs.
#[derive(Debug)]
pub(crate) struct InfluxStream {
    sink: RefCell<Sink>,
    shown: String,
}

/// The lines of one experiment.
#[derive(Debug)]
pub(crate) struct ExperimentStream<'a> {
    live: &'a InfluxStream,
    mechanism: &'static StallMechanism,
}

impl InfluxStream {
    /// Opens it, and sends a first mark: who measures for an hour wants to know before that nobody listens.
    pub(crate) fn open(target: &SinkTarget) -> anyhow::Result<Self> {
        let shown = target.shown_text();
        let cant = |why: String| usage(format!("can't write to {shown}: {why}"));
        let token = std::env::var(TOKEN_VARIABLE).ok().filter(|t| !t.is_empty());
        if token
            .as_ref()
            .is_some_and(|t| t.chars().any(char::is_control))
        {
            return Err(usage(format!("{TOKEN_VARIABLE} holds control characters")));
        }
        let mut sink = Sink::open(target, token).map_err(|err| cant(err.to_string()))?;
        if let Some(why) = sink.send_lines(&mark_line("lab", "", "begin", wall_ns())) {
            return Err(cant(why));
        }
        let sink = RefCell::new(sink);
        Ok(Self { sink, shown })
    }

    /// Marks the begin of an experiment; its end is marked when this is dropped.
    pub(crate) fn begin_experiment(
        &self,
        mechanism: &'static StallMechanism,
    ) -> ExperimentStream<'_> {
        self.send_lines(&mark_line(mechanism.name, "", "begin", wall_ns()));
        ExperimentStream {
            live: self,
            mechanism,
        }
    }

    fn send_lines(&self, lines: &str) {
        if let Some(why) = self.sink.borrow_mut().send_lines(lines) {
            say!(
                "quell: {} takes no lines: {why}; it is measured all the same",
                self.shown
            );
        }
    }
}

impl Drop for InfluxStream {
    fn drop(&mut self) {
        self.send_lines(&mark_line("lab", "", "end", wall_ns()));
        let lost = self.sink.borrow().lost_lines();
        if lost > 0 {
            say!("quell: {lost} lines for {} were lost", self.shown);
        }
    }
}

impl ExperimentStream<'_> {
    pub(crate) fn send_block(&self, measured: &MeasuredBlock) {
        // The offset is asked for each time, for somebody may set the clock.
        let offset = wall_ns().saturating_sub(monotonic_ns());
        let once = matches!(self.mechanism.timing, OperationTiming::Once { .. });
        self.live
            .send_lines(&block_lines(self.mechanism.name, measured, once, offset));
    }
}

impl Drop for ExperimentStream<'_> {
    fn drop(&mut self) {
        self.live
            .send_lines(&mark_line(self.mechanism.name, "", "end", wall_ns()));
    }
}

fn mark_line(experiment: &str, arm: &str, mark: &str, t_ns: u64) -> String {
    let tags = [("experiment", experiment), ("arm", arm), ("mark", mark)];
    influx_line(MARK_MEASUREMENT, tags, vec![("n", 1)], t_ns)
}

/// The lines of a block: a point for all of it, one for each class that occurred, both at its begin; and where one thing is done
/// once, a mark there and the gaps around it. Times are those of the block and so many ns later, which are the wall's.
fn block_lines(experiment: &str, measured: &MeasuredBlock, once: bool, offset: u64) -> String {
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
        ("ran_ns", to_i64(block.ran_ns())),
        ("away_ns", to_i64(block.away_ns)),
        ("ops", to_i64(block.ops.len() as u64)),
        ("gaps", to_i64(block.gaps.len() as u64)),
    ];
    if traced {
        fields.extend([
            ("shootdowns", to_i64(block.hits)),
            ("caused", to_i64(block.caused_hits)),
            ("faults", to_i64(block.faults)),
            ("stall_ppm", block.caused_ppm().round() as i64),
        ]);
    }
    put(BLOCK_MEASUREMENT, ALL_CLASSES, fields, block.begin_ns);
    let mut classes: BTreeMap<GapClass, (u64, u64)> = BTreeMap::new();
    // Without the probe nobody knows the class.
    for told in block.gaps.iter().filter(|_| traced) {
        let (n, ns) = classes.entry(told.class).or_default();
        *n += 1;
        *ns = ns.saturating_add(told.gap.ns);
    }
    for (class, (n, ns)) in classes {
        let fields = vec![
            ("valid", valid),
            ("gaps", to_i64(n)),
            ("gaps_ns", to_i64(ns)),
        ];
        put(BLOCK_MEASUREMENT, class.name(), fields, block.begin_ns);
    }
    if !once {
        return out;
    }
    for told in block.gaps.iter().take(MAX_SENT_GAPS) {
        let class = if traced { told.class.name() } else { "" };
        let mut fields = vec![("ns", to_i64(told.gap.ns))];
        fields.extend(traced.then_some(("caused", i64::from(told.caused))));
        put(GAP_MEASUREMENT, class, fields, told.gap.begin_ns);
    }
    for op in &block.ops {
        for (what, at) in [("operation", op.begin_ns), ("operation-end", op.end_ns)] {
            out += &mark_line(experiment, arm.name(), what, at.saturating_add(offset));
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
        let block = block_lines("dontneed", &measured(Arm::Real, None), false, 1_000_000);
        insta::assert_snapshot!(block, @r"
        quell_lab_block,experiment=dontneed,arm=real,class=all valid=1i,ran_ns=1000000i,away_ns=1000000i,ops=1i,gaps=3i,shootdowns=3i,caused=2i,faults=0i,stall_ppm=5000i 1001000
        quell_lab_block,experiment=dontneed,arm=real,class=tlb valid=1i,gaps=2i,gaps_ns=5000i 1001000
        quell_lab_block,experiment=dontneed,arm=real,class=none valid=1i,gaps=1i,gaps_ns=700i 1001000
        ");
        let once = block_lines("seed-free", &measured(Arm::Real, None), true, 0);
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
        let untraced = block_lines(
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
