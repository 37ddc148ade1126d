//! khugepaged: it goes over memory that was advised to be huge, and makes one huge page of 512 small ones by itself
//! (mm/khugepaged.c: khugepaged_do_scan(), collapse_huge_page()). As with MADV_COLLAPSE it is a flush for each huge page, but one
//! that a kernel thread asks for, when it likes; it looks every ten seconds by default.

use std::fs;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use super::pagemap::Pagemap;
use super::{Culprit, DEFAULT, Mechanism};
use crate::memory::{HUGE, Mapping, PAGE};
use crate::params::Param;

pub(super) const KHUGEPAGED: Mechanism = Mechanism {
    name: "khugepaged",
    about: "written small pages of which khugepaged makes huge ones, and that are split again",
    params: &[Param {
        name: "huge",
        about: "huge pages that are made",
        default: 4,
        range: (1, 512),
    }],
    expects: |_| None,
    prepare: |params| Ok(Box::new(Khugepaged::new(params.size("huge") * HUGE)?)),
    daemons: &["khugepaged"],
    needs: &[super::Need::Khugepaged],
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
        let often = super::Need::Khugepaged.is_there();
        (!often).then(|| {
            "khugepaged looks too seldom (/sys/kernel/mm/transparent_hugepage/khugepaged)"
                .to_owned()
        })
    },
    ..DEFAULT
};

/// The longest time that khugepaged may need to come round: it goes over the memory of others too.
const PATIENCE: Duration = Duration::from_secs(5);

/// Time between two looks at the pages: short against khugepaged's pause, and long enough that the CPU is free for it.
const NAP: Duration = Duration::from_micros(500);

struct Khugepaged {
    mapping: Mapping,
    pagemap: Pagemap,
}

impl Khugepaged {
    fn new(bytes: usize) -> io::Result<Self> {
        let mapping = Mapping::aligned(bytes, HUGE)?;
        // Small pages come first, or the first fault would give a huge one.
        mapping.advise(bytes, libc::MADV_NOHUGEPAGE)?;
        mapping.touch();
        mapping.advise(bytes, libc::MADV_HUGEPAGE)?;
        let mut new = Self {
            pagemap: Pagemap::of(&mapping)?,
            mapping,
        };
        if !new.pagemap.read()?.all(|page| page.frame().is_some()) {
            return Err(io::Error::other(
                "the kernel does not say where pages lie (/proc/self/pagemap): it takes CAP_SYS_ADMIN",
            ));
        }
        new.operate()?;
        Ok(new)
    }

    /// Whether each huge page's worth lies together, which small pages that were given one by one don't.
    fn is_huge(&mut self) -> io::Result<bool> {
        const EACH: usize = HUGE / PAGE;
        let mut first = None;
        let pages = self.pagemap.read()?.enumerate();
        for (i, frame) in pages.map(|(i, page)| ((i % EACH) as u64, page.frame())) {
            if i == 0 {
                first = frame.filter(|frame| frame % EACH as u64 == 0);
            }
            if first.is_none() || frame != first.map(|first| first + i) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Culprit for Khugepaged {
    fn before(&mut self) -> io::Result<()> {
        for at in (0..self.mapping.bytes()).step_by(HUGE) {
            // A huge page of which one small page goes is mapped by small ones from then on, and the page that takes its place is
            // another.
            self.mapping.advise_page(at, libc::MADV_DONTNEED)?;
        }
        self.mapping.touch();
        Ok(())
    }

    fn operate(&mut self) -> io::Result<()> {
        let until = Instant::now() + PATIENCE;
        while !self.is_huge()? {
            if Instant::now() > until {
                return Err(io::Error::other(format!(
                    "khugepaged has made no huge pages of them in {} s",
                    PATIENCE.as_secs()
                )));
            }
            thread::sleep(NAP);
        }
        Ok(())
    }
}
