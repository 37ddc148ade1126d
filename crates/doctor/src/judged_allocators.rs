//! The allocators that one rule judges.

use quell_remedy::{FoundSoftware, SoftwareKind};

/// Allocators of some kinds, among all in a process: only the shootdowns that they called for are their harm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JudgedAllocators {
    pub(crate) all_in_process: Vec<FoundSoftware>,
    pub(crate) kinds: Vec<SoftwareKind>,
}
