//! `libquell.so`: stops shootdowns from within the program, where no knob does.
//!
//! ```text
//! the program ──mmap, munmap, madvise, mprotect, mremap──> preload ──> Shim ──> kernel
//!                                                                       │
//!                                                   Table: what is known and what is kept
//! ```
//!
//! * [`Shim`] answers the calls: memory that is unmapped is kept for the next mapping, memory that is not needed is
//!   zeroed, and kept memory is given back in batches.
//! * [`Kernel`] is the set of calls that it makes to the kernel; tests put a model there.
//! * `preload` takes the place of libc's functions, in the library only.
//!
//! It allocates nothing, calls nothing of libc but the address of errno, functions on memory, at its start `environ`
//! and the registration for fork(2), and where the program calls malloc_trim(3) the list of loaded files; and waits for
//! nobody without an end: it may run in any thread, before constructors, and in signal handlers.
//!
//! # What is taken, and why nobody waits for ever
//!
//! Who has one of these is an atomic number of his thread (`Threads::thread_id`), so that a signal handler sees where that is
//! the thread below it, which does not go on before the handler returns.
//!
//! * `Lock`: to look at the table or change it; held over no system call but fork(2). Who finds it taken leaves his work undone,
//!   or waits as `Lock::take` says, and where that was in vain the library is turned off. A handler of its holder leaves a note
//!   for that one (`Deferred`).
//! * `InFlight`: to unmap a range that the table does not have any more. Who wants its addresses waits as long as `Patience`
//!   lasts; a handler of that thread fails at once.
//! * `Leavers`: to give back or offer one batch of kept memory. Who finds it taken leaves that to its holder; who wants the
//!   addresses waits or fails as above.
//! * `Shim::marking`: to mark kept memory, so that it may serve. The same.
//! * `RangeClaims`: to zero, protect or replace a range. Who finds a claim there leaves the range alone, or waits so, also a
//!   handler whose own thread uses it, in vain. A claim to replace is waited for by nobody.
//!
//! A thread that has one of them waits for those above it in this list only, and one with a claim to replace also for other
//! claims. Handlers can break that order, and so can the turning off, which waits for claims: so each wait has an end.
//! `Once` and `PressureGauge` are waited for by nobody: who finds them taken does without. A fork waits for `OpenFiles`, for
//! some ten milliseconds.

#![cfg_attr(not(any(test, loom)), no_std)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod allowance;
mod anchors;
mod backoff;
mod call;
mod claim_ranges;
mod counters;
mod deferred;
mod fork;
mod habit;
mod in_flight;
mod kernel;
mod leavers;
pub mod linux;
mod lock;
mod lock_crowd;
#[cfg(all(test, loom))]
mod loom_tests;
mod nodes;
mod offer;
mod offer_state;
mod once;
#[cfg(all(target_os = "linux", target_arch = "x86_64", not(loom)))]
pub mod os;
mod other_threads;
#[cfg(quell_preload)]
mod preload;
mod proof;
mod range;
mod range_claims;
mod region;
mod retained;
mod scratch;
mod settings;
mod shelf;
mod shim;
pub mod sync;
mod table;
mod table_check;
mod trim;
mod waiting;
mod wipe;
mod zero_cost;

pub use counters::{Count, Counters};
pub use kernel::{Errno, Kernel, Map, Mapping, Pins, Pressure, Threads};
pub use nodes::Node;
pub use range::{PAGE, Part, Range};
pub use scratch::Scratch;
pub use settings::{BadSetting, Settings, ZeroLimit};
pub use shim::Shim;
pub use table_check::RangeUse;
