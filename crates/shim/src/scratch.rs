//! Where the library keeps its notes, besides the regions.
//!
//! In memory that is there from the start and all zeros: a page of it costs nothing until something is noted there, and
//! most programs start, run and end before that.

use crate::keep::BLOCKS;
use crate::trim::Batch;

/// Empty, it is all zeros.
pub struct Scratch {
    pub(crate) blocks: [usize; BLOCKS],
    pub(crate) batch: Batch,
}

impl Scratch {
    /// With nothing noted.
    pub const EMPTY: Scratch = Scratch {
        blocks: [0; BLOCKS],
        batch: Batch::EMPTY,
    };
}
