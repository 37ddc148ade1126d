//! khugepaged: it goes over memory that was advised to be huge, and makes one huge page of 512 small ones by itself
//! (mm/khugepaged.c: khugepaged_do_scan(), collapse_huge_page()). As with MADV_COLLAPSE it is a flush for each huge page, but one
//! that a kernel thread asks for, when it likes; it looks every ten seconds by default.

use std::fs;
use std::io;

use super::daemon_wait::wait_for_daemon;
use super::pagemap::Pagemap;
use super::{Culprit, DEFAULT_MECHANISM, StallMechanism};
use crate::memory::{HUGE_PAGE_BYTES, LabMapping, PAGE_BYTES};
use crate::params::Param;

pub(super) const KHUGEPAGED_MECHANISM: StallMechanism = StallMechanism {
    name: "khugepaged",
    about: "written small pages of which khugepaged makes huge ones, and that are split again",
    params: &[Param::new("huge", "huge pages that are made", 4, (1, 512))],
    expects: |_| None,
    prepare: |params| {
        Ok(Box::new(Khugepaged::new(
            params.size("huge") * HUGE_PAGE_BYTES,
        )?))
    },
    daemons: &["khugepaged"],
    needs: &[super::SystemNeed::Khugepaged],
    lacks: || {
        let enabled =
            fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
        let on = enabled.contains("[always]") || enabled.contains("[madvise]");
        if !on {
            return Some(
                "khugepaged does not run: no huge pages (/sys/kernel/mm/transparent_hugepage/enabled)"
                    .to_owned(),
            );
        }
        let often = super::SystemNeed::Khugepaged.is_there();
        (!often).then(|| {
            "khugepaged looks too seldom (/sys/kernel/mm/transparent_hugepage/khugepaged)"
                .to_owned()
        })
    },
    ..DEFAULT_MECHANISM
};

struct Khugepaged {
    mapping: LabMapping,
    pagemap: Pagemap,
}

impl Khugepaged {
    fn new(bytes: usize) -> io::Result<Self> {
        let mapping = LabMapping::aligned(bytes, HUGE_PAGE_BYTES)?;
        // Small pages come first, or the first fault would give a huge one.
        mapping.advise(bytes, libc::MADV_NOHUGEPAGE)?;
        mapping.touch_pages();
        mapping.advise(bytes, libc::MADV_HUGEPAGE)?;
        let mut new = Self {
            pagemap: Pagemap::of_mapping(&mapping)?,
            mapping,
        };
        if !new
            .pagemap
            .read_entries()?
            .all(|page| page.frame_number().is_some())
        {
            return Err(io::Error::other(
                "the kernel does not say where pages lie (/proc/self/pagemap): it takes CAP_SYS_ADMIN",
            ));
        }
        new.run_operation()?;
        Ok(new)
    }

    /// Whether each huge page's worth lies together, which small pages that were given one by one don't.
    fn is_huge(&mut self) -> io::Result<bool> {
        const PAGES_PER_HUGE_PAGE: usize = HUGE_PAGE_BYTES / PAGE_BYTES;
        let mut first = None;
        let pages = self.pagemap.read_entries()?.enumerate();
        for (i, frame) in
            pages.map(|(i, page)| ((i % PAGES_PER_HUGE_PAGE) as u64, page.frame_number()))
        {
            if i == 0 {
                first = frame.filter(|frame| frame % PAGES_PER_HUGE_PAGE as u64 == 0);
            }
            if first.is_none() || frame != first.map(|first| first + i) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Culprit for Khugepaged {
    fn prepare_operation(&mut self) -> io::Result<()> {
        for at in (0..self.mapping.bytes()).step_by(HUGE_PAGE_BYTES) {
            // A huge page of which one small page goes is mapped by small ones from then on, and the page that takes its place is
            // another.
            self.mapping
                .advise_range(at, PAGE_BYTES, libc::MADV_DONTNEED)?;
        }
        self.mapping.touch_pages();
        Ok(())
    }

    fn run_operation(&mut self) -> io::Result<()> {
        wait_for_daemon(
            || self.is_huge(),
            |seconds| format!("khugepaged has made no huge pages of them in {seconds} s"),
        )
    }
}
