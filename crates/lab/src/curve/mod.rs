//! The lab's second kind of experiment: a curve, the cost of an operation for its caller as one parameter changes; no
//! victim, no verdict.
//!
//! A curve has parts, and every part has a worker, a process of its own: the traces of one part in its address
//! space (the CPUs that it has run on, huge pages, a fragmented heap) change nothing for the others. The points of
//! all parts are measured in rounds, each point once a round and in an order that chance decides, so that a machine
//! that gets slower or faster meanwhile moves no point against another.
//!
//! ```text
//! families ─> part ─> worker (a process) ─> batch of times ─> run ─> document (JSON)
//! ```

pub mod batch;
mod context_switch;
mod faults;
mod flush_threshold;
mod forked_child;
mod free_chunk;
mod huge_pages;
mod line_chain;
mod peers;
mod prefault;
mod run;
mod summary;
mod targets;
mod tlb;
mod turn_wire;
mod worker;
mod worker_handle;

use std::io;

use serde::{Deserialize, Serialize};

use batch::TimeBatch;
pub use run::{CurveOptions, MeasuredCurve, MeasuredPart, PointTimes, run_curve};
pub use summary::{CURVE_SCHEMA, CurvePoint, CurveSeries, CurveSummary};
pub use worker::serve_orders;

use crate::mechanism::SystemNeed;
pub use crate::worker_answers::StopRequested;

/// A curve: an operation whose cost is measured at several points.
#[derive(Debug)]
pub struct Curve {
    /// The name on the command line.
    pub name: &'static str,
    /// The quantity that is measured, in one sentence.
    pub about: &'static str,
    /// The unit of x.
    pub x: &'static str,
    /// System settings that the lab turns on for it, though most of the curve goes without.
    pub wants: &'static [SystemNeed],
    /// Its parts on this machine. The lab and its workers both ask, so the same place gives the same parts.
    pub parts: fn(&CurvePlace) -> Vec<CurvePart>,
    /// Remarks that a reader of the result needs.
    pub notes: &'static [&'static str],
    /// The remark that depends on the machine.
    pub place_note: Option<fn(&CurvePlace) -> String>,
}

/// The CPUs and the memory that a curve may use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CurvePlace {
    /// The CPU on which the operation runs that is measured.
    pub cpu: u32,
    /// The other CPUs that the lab may use, in the order in which they are taken.
    pub others: Vec<u32>,
    /// Memory that is free, bytes.
    pub memory: u64,
}

/// The meaning of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleKind {
    /// A sample is one operation, so that percentiles are those of operations.
    Operation,
    /// A sample is the mean of many, which has no percentiles of operations.
    Mean,
}

/// Makes a bench, in the worker.
pub type PrepareBench = dyn Fn(&CurvePlace) -> io::Result<Box<dyn CurveBench>>;

/// Points of one series that share a worker.
pub struct CurvePart {
    /// The series. Parts of the same name are published as one.
    pub series: &'static str,
    /// The unit whose cost a figure is.
    pub per: &'static str,
    /// The meaning of a sample.
    pub sample: SampleKind,
    /// The points.
    pub xs: Vec<u64>,
    /// Makes the bench of this part.
    pub prepare: Box<PrepareBench>,
}

impl std::fmt::Debug for CurvePart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:?}", self.series, self.xs)
    }
}

/// The operation that a part measures.
pub trait CurveBench {
    /// Times the operation at this point for as long as the batch goes on.
    ///
    /// # Errors
    ///
    /// The kernel's.
    fn measure_batch(&mut self, x: u64, batch: &mut TimeBatch) -> io::Result<()>;
}

/// All curves, in the order in which they are listed.
pub static ALL_CURVES: &[Curve] = &[
    flush_threshold::FLUSH_THRESHOLD_CURVE,
    targets::TARGETS_CURVE,
    faults::FAULTS_CURVE,
    tlb::TLB_CURVE,
    context_switch::CONTEXT_SWITCH_CURVE,
    free_chunk::FREE_CHUNK_CURVE,
];

/// The curve of that name.
#[must_use]
pub fn curve_by_name(name: &str) -> Option<&'static Curve> {
    ALL_CURVES.iter().find(|c| c.name == name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::mechanism;

    /// Check that a name is one experiment's only, and that each curve says in one sentence what it measures.
    #[test]
    fn names_are_their_own() {
        for c in ALL_CURVES {
            assert!(
                std::ptr::eq(curve_by_name(c.name).unwrap(), c),
                "{} twice",
                c.name
            );
            assert!(mechanism::mechanism_by_name(c.name).is_none(), "{}", c.name);
            assert!(c.about.len() > 10 && !c.about.contains('\n'), "{}", c.name);
        }
    }

    proptest! {
        /// Check that wherever it is, a curve has the same parts when asked again, that each has points in order, and that
        /// no series has the same point twice, whatever the CPUs and the memory.
        #[test]
        fn parts_are_whole(others in 1_u32..300, memory in 0_u64..1 << 40) {
            let place = CurvePlace { cpu: 0, others: (1..=others).collect(), memory };
            for c in ALL_CURVES {
                let (parts, again) = ((c.parts)(&place), (c.parts)(&place));
                let told: Vec<_> = parts.iter().map(|p| format!("{p:?}")).collect();
                prop_assert_eq!(&told, &again.iter().map(|p| format!("{p:?}")).collect::<Vec<_>>());
                prop_assert!(!parts.is_empty(), "{}", c.name);
                let mut seen = BTreeSet::new();
                for part in &parts {
                    prop_assert!(!part.xs.is_empty(), "{} {}", c.name, part.series);
                    prop_assert!(part.xs.is_sorted(), "{} {}", c.name, part.series);
                    for x in &part.xs {
                        prop_assert!(seen.insert((part.series, *x)), "{} {} {x}", c.name, part.series);
                    }
                }
            }
        }
    }
}
