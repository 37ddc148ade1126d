//! Where the library keeps its notes, besides the regions.
//!
//! In memory that is there from the start and all zeros: a page of it costs nothing until something is noted there, and
//! most programs start, run and end before that.

#[cfg(not(loom))]
use crate::deferred::{DeferredRanges, NO_DEFERRED_RANGES};
use crate::leavers::Batch;
use crate::retained::BLOCK_PLACES;

/// Empty, it is all zeros.
pub struct Scratch {
    /// Of four lists ([`Deferred`](crate::deferred::Deferred)). Not where loom runs, whose atomics are no constants.
    #[cfg(not(loom))]
    pub(crate) late: [DeferredRanges; 4],
    pub(crate) blocks: [usize; BLOCK_PLACES],
    pub(crate) batch: Batch,
}

impl Scratch {
    /// A scratch in which nothing is noted.
    #[allow(
        clippy::declare_interior_mutable_const,
        reason = "each that is made of it is one of its own"
    )]
    pub const EMPTY: Scratch = Scratch {
        #[cfg(not(loom))]
        late: [NO_DEFERRED_RANGES; 4],
        blocks: [0; BLOCK_PLACES],
        batch: Batch::EMPTY,
    };
}
