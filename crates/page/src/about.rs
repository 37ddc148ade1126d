//! What the caller knows and the rows don't say.

use quell_event::Summary;
use quell_event::trace::StackCost;

/// What the trace is.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// What was watched, in words.
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
    pub summary: &'a Summary,
    /// What each stack cost by each mechanism.
    pub costs: &'a [StackCost],
    /// What the reader should know, a sentence each.
    pub notes: &'a [String],
}

/// What the numbers in rows stand for.
pub trait NameSource {
    /// The functions of a stack, from the outermost inwards; `None` where nothing is known of it.
    fn stack(&self, stack: i32) -> Option<Vec<String>>;
    /// What the number that came with [`crate::Binner::take`] stands for.
    fn region(&self, region: u32) -> String;
    /// A process's name, where it is better known than by its threads.
    fn process(&self, pid: u32) -> Option<String>;
}
