//! How much the page may tell apart.

/// Bounds, so that a page opens at once and stays below 5 MB, whatever the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLimits {
    /// Bins of the timeline: as many as a screen has columns to draw them in.
    pub bins: u64,
    /// Steps are made longer until so few are left, before anything is folded.
    pub steps: u64,
    /// Stacks with their cause, culprit and region; pairs of culprit and victim.
    pub entries: usize,
    /// Amounts kept in memory while reading, of sites and of pairs each.
    pub cells: usize,
    /// Bytes of all amounts in the page, before base64 adds a third.
    pub cell_bytes: usize,
    /// Bytes of the names of frames and regions.
    pub name_bytes: usize,
    /// Shootdowns that are drawn one by one; with more, bins are.
    pub shots: usize,
}

impl Default for PageLimits {
    fn default() -> Self {
        Self {
            bins: 512,
            steps: 64,
            entries: 8_000,
            cells: 400_000,
            cell_bytes: 2_400_000,
            name_bytes: 1_200_000,
            shots: 2_000,
        }
    }
}
