//! KSM: ksmd makes equal pages one. Each is made read only, compared, and replaced, which is two flushes
//! (mm/ksm.c: write_protect_page() and replace_page()); and whoever writes to it again gets a copy of his own, which
//! is one more (mm/memory.c: wp_page_copy()).

use std::fs;
use std::io;

use super::daemon_wait::wait_for_daemon;
use super::pagemap::Pagemap;
use super::{Culprit, DEFAULT_MECHANISM, StallMechanism};
use crate::memory::{LabMapping, PAGE_BYTES};
use crate::params::Param;

pub(super) const KSM_MECHANISM: StallMechanism = StallMechanism {
    name: "ksm",
    about: "equal pages that ksmd makes one, and that are written again: a copy and two flushes for each",
    params: &[Param {
        name: "pages",
        about: "equal pages",
        default: 64,
        // One more page is never written, and a page that KSM shares has 256 places at most (max_page_sharing).
        range: (1, 250),
    }],
    expects: |_| None,
    keeps_tables: true,
    prepare: |params| Ok(Box::new(Ksm::new(params.size("pages") * PAGE_BYTES)?)),
    daemons: &["ksmd"],
    needs: &[super::SystemNeed::Ksm],
    lacks: || {
        let run = fs::read_to_string("/sys/kernel/mm/ksm/run").unwrap_or_default();
        (run.trim() != "1").then(|| "ksmd does not run (/sys/kernel/mm/ksm/run)".to_owned())
    },
    ..DEFAULT_MECHANISM
};

struct Ksm {
    mapping: LabMapping,
    pagemap: Pagemap,
    /// Bytes that are written again: all but the last two pages, which stay one, so that the others need not wait
    /// until they have been seen unchanged twice (mm/ksm.c: stable_tree_search() comes first).
    again: usize,
}

impl Ksm {
    fn new(bytes: usize) -> io::Result<Self> {
        let mapping = LabMapping::anonymous(bytes + 2 * PAGE_BYTES)?;
        let _ = mapping.advise(mapping.bytes(), libc::MADV_NOHUGEPAGE);
        // They are equal to no page of another process, or the sham would be merged with the victim's.
        let mine = u64::from(std::process::id()) << 32 | 0x7175_656c;
        for at in (0..mapping.bytes()).step_by(PAGE_BYTES) {
            // SAFETY: within the mapping, and aligned to a page.
            unsafe { mapping.start().add(at).cast::<u64>().write_volatile(mine) };
        }
        mapping.advise(mapping.bytes(), libc::MADV_MERGEABLE)?;
        let mut new = Self {
            pagemap: Pagemap::of_mapping(&mapping)?,
            mapping,
            again: bytes,
        };
        new.wait_until_merged()?;
        Ok(new)
    }

    /// Waits until all pages are one.
    fn wait_until_merged(&mut self) -> io::Result<()> {
        wait_for_daemon(
            || Ok(self.pagemap.read_entries()?.all(|page| page.is_shared())),
            |seconds| format!("ksmd has not merged them in {seconds} s (/sys/kernel/mm/ksm)"),
        )
    }
}

impl Culprit for Ksm {
    fn run_operation(&mut self) -> io::Result<()> {
        for at in (0..self.again).step_by(PAGE_BYTES) {
            // Writes the byte that is there already, so that the pages stay equal.
            // SAFETY: within the mapping.
            unsafe {
                self.mapping
                    .start()
                    .add(at + PAGE_BYTES - 1)
                    .write_volatile(0);
            };
        }
        self.wait_until_merged()
    }
}
