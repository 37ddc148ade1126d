//! Results of the lab in the forms that other tools read. The inputs are plain values, so that this crate knows nothing of the
//! lab.

pub mod hist;
pub mod perfetto;
#[cfg(test)]
mod tests;

/// The length of a turn of the victim's loop in one arm.
#[derive(Clone, Copy, Debug)]
pub struct Turns<'a> {
    /// The experiment's name.
    pub experiment: &'a str,
    /// The arm's.
    pub arm: &'a str,
    /// For how long the victim had its CPU, ns.
    pub ran_ns: u64,
    /// Lengths, ns, and how many.
    pub turns: &'a [(u64, u64)],
}

/// One block of one arm.
#[derive(Clone, Debug)]
pub struct Timeline<'a> {
    /// Of which result, by number: there may be several of one experiment.
    pub result: usize,
    /// The experiment's name.
    pub experiment: &'a str,
    /// The arm's.
    pub arm: &'a str,
    /// The victim's gaps.
    pub gaps: Vec<Gap<'a>>,
    /// The culprit's operations: begin and end, ns from the block's begin.
    pub ops: &'a [(u64, u64)],
}

/// One gap.
#[derive(Clone, Copy, Debug)]
pub struct Gap<'a> {
    /// From the block's begin, ns.
    pub begin_ns: u64,
    /// How long, ns.
    pub ns: u64,
    /// Why.
    pub class: &'a str,
    /// Whether the culprit had a part in it.
    pub caused: bool,
}
