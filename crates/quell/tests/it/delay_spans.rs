//! What the kernel's delays span, in functions of Linux 6.1 to 6.18, as perf saw them: so that the account's figures are compared
//! with the same.

use crate::perf_sleeps::{Seen, calls, has};

/// What makes the account's figure and the kernel's alike.
pub(crate) struct Like {
    /// Of the mechanism's samples so many are within the delay, of so many.
    pub(crate) inside: f64,
    pub(crate) of: f64,
    /// The account has this on top, for it ends later, or has it elsewhere, ns.
    pub(crate) more: u64,
    /// The kernel has this on top, for it is another mechanism's, ns.
    pub(crate) less: u64,
}

/// It ends as the thread is woken, whatever it slept for. Until it runs again is the account's, and in no figure of the kernel's but
/// its CPU time: its run queue's clock is not read anew, where the wake-up has just done so.
fn block(seen: &Seen, fault: &str) -> Like {
    let (mut woken, mut of_others) = (0, 0);
    let for_a_disk = seen
        .offs
        .iter()
        .filter(|o| o.slept && o.is_in("io_schedule"));
    for off in for_a_disk {
        if off.is_in(fault) && !off.is_in("do_try_to_free_pages") {
            woken += off.woken;
        } else {
            of_others += off.asleep;
        }
    }
    Like {
        inside: 1.0,
        of: 1.0,
        more: woken,
        less: of_others,
    }
}

pub(crate) fn block_of_files(seen: &Seen) -> Like {
    block(seen, "filemap_fault")
}

pub(crate) fn block_of_swap(seen: &Seen) -> Like {
    block(seen, "do_swap_page")
}

fn frees(stack: &[String]) -> bool {
    has(stack, "do_try_to_free_pages") || has(stack, "try_to_free_mem_cgroup_pages")
}

pub(crate) fn freepages(seen: &Seen) -> Like {
    Like {
        inside: seen.count(|s| has(s, "do_try_to_free_pages")) as f64,
        of: seen.count(frees) as f64,
        more: 0,
        // there the kernel itself looks whether another wants the CPU
        less: seen.off_in("do_try_to_free_pages"),
    }
}

pub(crate) fn swapin(seen: &Seen) -> Like {
    Like {
        inside: seen.count(|s| has(s, "swap_read_folio")) as f64,
        of: seen.count(|s| has(s, "do_swap_page") && !frees(s)) as f64,
        more: 0,
        less: seen.off_in("swap_read_folio"),
    }
}

/// It begins when a page for the copy is asked for. What the fault does before is found by where in the function it is, for
/// compilers make one of both functions; and of the beginning and the end of the adding up half is before it looks at the clock or
/// after.
pub(crate) fn wpcopy(seen: &Seen) -> Like {
    let calls = calls(seen.samples(), "do_wp_page");
    let asks = |name: &str| name.starts_with("vma_alloc_folio") || name == "__vmf_anon_prepare";
    let first = calls.keys().filter(|(_, f)| f.is_some_and(asks));
    let first = first.map(|(at, _)| *at).min().unwrap_or_default();
    let ends: Vec<u64> = calls
        .keys()
        .filter(|(_, f)| *f == Some("__delayacct_wpcopy_end"))
        .map(|(at, _)| *at)
        .collect();
    let inside = |(at, called): &(u64, Option<&str>)| match called {
        Some("__delayacct_wpcopy_start" | "__delayacct_wpcopy_end") => 0.5,
        Some("_raw_spin_unlock_irqrestore") if ends.contains(at) => 0.0,
        _ if *at < first => 0.0,
        _ => 1.0,
    };
    Like {
        inside: calls.iter().map(|(c, n)| inside(c) * *n as f64).sum(),
        of: calls.values().sum::<usize>() as f64,
        more: 0,
        less: seen.off_in("do_wp_page"),
    }
}
