//! The end of a thread. glibc gives the unused part of the stack back before the thread ends, and the stack itself
//! when all stacks that it keeps are more than 40 MB (nptl/allocatestack.c: advise_stack_range() and
//! __nptl_free_stacks()). A thread that has used its stack is two shootdowns then: one of its own, and one of who
//! has joined it.

use std::hint::black_box;
use std::io;
use std::thread;

use super::{Culprit, DEFAULT_MECHANISM, StallMechanism, pages_param};
use crate::memory::PAGE_BYTES;
use crate::params::Param;

/// The stacks that glibc keeps, bytes: stack_cache_maxsize.
const GLIBC_KEPT_STACK_BYTES: u64 = 40 << 20;

/// Pages at the top of a stack that glibc does not give back: PTHREAD_STACK_MIN, and the pages that it uses itself. With fewer
/// used there is nothing to give back.
const STACK_TOP_PAGES: u64 = 8;

pub(super) const THREAD_EXIT_MECHANISM: StallMechanism = StallMechanism {
    name: "thread-exit",
    about: "a thread that uses its stack and ends, and is joined",
    params: &[
        pages_param(64, 1024),
        Param::new(
            "stack",
            "bytes of its stack; up to 40M glibc keeps it for the next",
            64 << 20,
            (16 << 20, 1 << 30),
        ),
    ],
    expects: |params| {
        let gnu = cfg!(target_env = "gnu");
        match (
            params.get("pages") > STACK_TOP_PAGES,
            params.get("stack") > GLIBC_KEPT_STACK_BYTES,
        ) {
            (true, true) if gnu => Some(2.0),
            (true, false) if gnu => Some(1.0),
            _ => None,
        }
    },
    prepare: |params| {
        Ok(Box::new(ThreadExit {
            pages: params.size("pages"),
            stack: params.size("stack"),
        }))
    },
    ..DEFAULT_MECHANISM
};

struct ThreadExit {
    pages: usize,
    stack: usize,
}

/// Uses so many pages of the stack: each frame takes a page and a little more.
#[inline(never)]
fn use_stack(pages: usize) {
    let mut frame = [0_u8; PAGE_BYTES];
    black_box(&mut frame);
    if pages > 1 {
        use_stack(pages - 1);
    }
    // The frame is used after the call, so that it stays.
    black_box(&mut frame);
}

impl Culprit for ThreadExit {
    fn run_operation(&mut self) -> io::Result<()> {
        let pages = self.pages;
        // The thread runs where its creator does: affinity is inherited.
        let thread = thread::Builder::new()
            .stack_size(self.stack)
            .spawn(move || use_stack(pages))?;
        thread
            .join()
            .map_err(|_| io::Error::other("the thread has panicked"))
    }
}
