//! Rules about one process and its allocator.

mod blast;
mod common;
mod glibc;
mod hsperf;
mod jemalloc;
mod jemalloc_conf;
mod jvm;
mod ksm;
mod lazyfree;
mod major_faults;
mod mimalloc;
mod minor_faults;
mod mlock;
mod numa;
mod tcmalloc;
mod thp;
mod userfaultfd;
mod wbmap;

use crate::rule::Rule;

/// In the order of the documentation.
pub(super) const ALL: &[Rule] = &[
    major_faults::RULE,
    minor_faults::RULE,
    mlock::RULE,
    wbmap::RULE,
    hsperf::RULE,
    ksm::RULE,
    thp::RULE,
    lazyfree::RULE,
    userfaultfd::RULE,
    numa::RULE,
    blast::RULE,
    glibc::RULE,
    jemalloc::RULE,
    jemalloc_conf::RULE,
    tcmalloc::RULE,
    mimalloc::RULE,
    jvm::RULE,
];
