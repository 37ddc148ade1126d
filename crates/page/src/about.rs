//! Facts that the caller knows and the rows don't hold.

use quell_event::TallySummary;
use quell_event::trace::StackCost;

/// The description of a trace.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// The subject of the recording, in words.
    pub title: &'a str,
    /// Of quell.
    pub version: &'a str,
    /// The machine's name and its kernel's release.
    pub host: &'a str,
    /// The kernel's release.
    pub kernel: &'a str,
    /// When the recording began, ns since 1970.
    pub start_wall_ns: u64,
    /// The same moment, ns of CLOCK_MONOTONIC, to which times on the page are relative.
    pub start_monotonic_ns: u64,
    /// The exact counts, which may be more than the rows.
    pub summary: &'a TallySummary,
    /// The cost of each stack by each mechanism.
    pub costs: &'a [StackCost],
    /// Remarks for the reader, a sentence each.
    pub notes: &'a [String],
}

/// The names behind the numbers in rows.
pub trait NameSource {
    /// The functions of a stack, from the outermost inwards; `None` where they are not known.
    fn stack(&self, stack: i32) -> Option<Vec<String>>;
    /// The name of a region, by the number that came with [`crate::Binner::take`].
    fn region(&self, region: u32) -> String;
    /// A process's name, where it is better known than by its threads.
    fn process(&self, pid: u32) -> Option<String>;
}
