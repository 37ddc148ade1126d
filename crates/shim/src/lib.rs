//! `libquell.so`: stops shootdowns from within the program, where no knob does.
//!
//! ```text
//! the program ──mmap, munmap, madvise, mprotect, mremap──> preload ──> Shim ──> kernel
//!                                                                       │
//!                                                   Table: what is known and what is kept
//! ```
//!
//! * [`Shim`] answers the calls: memory that is unmapped is kept for the next mapping, memory that is
//!   not needed is zeroed, and what is kept is given back in batches.
//! * [`Kernel`] is what it asks of the kernel; tests put a model there.
//! * `preload` takes the place of libc's functions, in the library only.
//!
//! It allocates nothing, calls nothing of libc but the address of errno, functions on memory, at its start
//! `environ` and what registers for fork(2), and where the program calls malloc_trim(3) the list of what is loaded; and
//! waits for nobody without an end: it may run in any thread, before constructors, and in signal
//! handlers.

#![cfg_attr(not(any(test, loom)), no_std)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod allowance;
mod anchors;
mod busy;
mod call;
mod check;
mod counters;
mod crowd;
mod fork;
mod going;
mod habit;
mod keep;
mod kernel;
mod late;
pub mod linux;
mod lock;
#[cfg(all(test, loom))]
mod loomed;
mod measure;
mod nodes;
mod offer;
mod once;
#[cfg(all(target_os = "linux", target_arch = "x86_64", not(loom)))]
pub mod os;
mod others;
#[cfg(quell_preload)]
mod preload;
mod proof;
mod range;
mod region;
mod rest;
mod scratch;
mod settings;
mod shelf;
mod shim;
pub mod sync;
mod table;
mod trim;
mod waits;
mod wipe;

pub use check::Held;
pub use counters::{Count, Counters};
pub use kernel::{Errno, Kernel, Map, Mapping, Pins, Pressure, Threads};
pub use nodes::Node;
pub use range::{PAGE, Part, Range};
pub use scratch::Scratch;
pub use settings::{Bad, Settings, Zero};
pub use shim::Shim;
