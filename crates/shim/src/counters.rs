//! Counts of the library's work, readable from outside while the program runs.
//!
//! quell finds the symbol `quell_shim_counters` in the file and reads the process's memory from /proc/PID/mem: no file, no
//! descriptor, no thread in the program.

use core::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counts since the program was started. A child of fork(2) goes on from its parent's.
        #[repr(C)]
        pub struct Counters {
            /// `QUELLSH1`, in the order of memory.
            pub magic: AtomicU64,
            /// How many counts follow.
            pub count: AtomicU64,
            $($(#[$doc])* pub $name: Count,)*
        }

        impl Counters {
            /// All zero.
            #[must_use]
            #[allow(clippy::new_without_default, reason = "for a static")]
            pub const fn new() -> Counters {
                Counters {
                    magic: AtomicU64::new(u64::from_ne_bytes(*b"QUELLSH1")),
                    count: AtomicU64::new(Self::NAMES.len() as u64),
                    $($name: Count(AtomicU64::new(0)),)*
                }
            }

            /// The names of the counts, in order.
            pub const NAMES: &[&str] = &[$(stringify!($name)),*];
        }
    };
}

/// One count.
#[repr(transparent)]
pub struct Count(AtomicU64);

impl Count {
    pub(crate) fn count_one(&self) {
        self.add(1);
    }

    pub(crate) fn add(&self, more: usize) {
        self.0.fetch_add(more as u64, Ordering::Relaxed);
    }

    /// A value that is there already is not written: another CPU may have it in its cache.
    pub(crate) fn set(&self, now: usize) {
        if self.get() != now as u64 {
            self.0.store(now as u64, Ordering::Relaxed);
        }
    }

    /// The count now.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

counters! {
    /// Mappings that the program asked for.
    mmap,
    /// Mappings that were served from kept memory.
    mmap_served,
    /// Unmappings that the program asked for.
    munmap,
    /// Of these, kept and not done.
    munmap_kept,
    /// MADV_DONTNEED that the program asked for.
    dontneed,
    /// Of these, answered by zeroing.
    dontneed_zeroed,
    /// MADV_FREE that the program asked for.
    free,
    /// Of these, dropped.
    free_dropped,
    /// Times that memory was given back, with one shootdown each at best.
    trims,
    /// Regions that were given back in them.
    trimmed,
    /// Kept regions that were unmapped after all, because the program maps something there.
    evicted,
    /// Bytes that are kept and in memory now, at most. Without the lock the library itself goes by this one.
    dirty_bytes,
    /// Bytes of addresses without memory that stay mapped, as they could not be unmapped at once.
    clean_bytes,
    /// Bytes that were zeroed or not freed and may be unused now.
    keep_bytes,
    /// Calls that went to the kernel because the lock was not to be had.
    passed_busy,
    /// Calls that went to the kernel because the mapping is not known, or not one to touch.
    passed_unknown,
    /// Calls that went to the kernel because the budget was used up.
    passed_budget,
    /// Times that memory was short, and all kept memory was given back.
    pressure,
    /// 1 where the library has turned itself off.
    off,
    /// Calls that went to the kernel because memory of that size is not expected to be used again.
    passed_unused,
    /// Times that memory was made ready for its next owner, who did not use it.
    mistaken,
    /// Times that kept memory was found to be somebody else's, and left alone.
    foreign,
    /// 1 where a page was pinned, or might have been, and nothing is kept any more.
    pinned,
    /// Times that kept memory was offered to the kernel, with one shootdown each at best.
    offers,
    /// Regions that were offered in them.
    offered,
    /// Calls of malloc_trim(3) by the program.
    heap_trims,
    /// Of these, answered without giving anything back.
    heap_trims_dropped,
}
