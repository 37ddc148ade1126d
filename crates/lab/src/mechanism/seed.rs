//! Experiments of others, with their own parameters, and their figures beside those that are measured here.
//!
//! The documents are those that the project began with: "TLB shootdowns" of bitcharmer (github.com/bitcharmer/tlb_shootdowns),
//! "Latency implications of virtual memory" of Erik Rigtorp (rigtorp.se/virtual-memory).

use std::io;

use super::msync::Written;
use super::munmap::Munmap;
use super::{Culprit, DEFAULT, Mechanism, Timing};
use crate::attribute::Class;
use crate::memory::{Mapping, PAGE};
use crate::params::Param;
use crate::room::Takes;
use crate::summary::Summary;
use crate::victim::Touch;

/// An experiment as a document describes it.
#[derive(Debug)]
pub struct Seed {
    /// Its name and where it is.
    pub document: &'static str,
    /// Its figures, and how the same is said here.
    pub figures: &'static [Figure],
    /// Where and why the two differ.
    pub differs: &'static str,
}

/// One figure of a document.
#[derive(Debug)]
pub struct Figure {
    /// The quantity.
    pub what: &'static str,
    /// The document's words.
    pub seed: &'static str,
    /// The words for the figure that was measured here.
    pub here: fn(&Summary) -> String,
}

fn real_op(summary: &Summary) -> String {
    let op = summary.arms.get("real").and_then(|a| a.op_ns);
    op.map_or_else(
        || "?".to_owned(),
        |(p50, _)| format!("{:.2} ms", p50 as f64 / 1e6),
    )
}

fn per_op(summary: &Summary) -> String {
    let n = summary.shootdowns_per_op;
    n.map_or_else(|| "?".to_owned(), |n| format!("{n:.2}"))
}

fn each(summary: &Summary) -> String {
    if summary.has_no_block("real") {
        return "?".to_owned();
    }
    let ns = summary.effect.ns_per_event;
    ns.map_or_else(
        || "no stall".to_owned(),
        |ns| format!("{:.1} µs each", ns / 1e3),
    )
}

fn sham(summary: &Summary) -> String {
    if summary.has_no_block("sham") {
        return "?".to_owned();
    }
    let sham = summary.arms.get("sham").map_or(0, |a| a.caused);
    format!("{sham} with the culprit in another address space")
}

pub(super) const FREE: Mechanism = Mechanism {
    name: "seed-free",
    about: "bitcharmer's experiment: one free() of a large chunk A while the victim writes chunk B",
    params: &[
        Param {
            name: "bytes",
            about: "bytes of each chunk",
            default: 4 << 30,
            range: (1 << 20, 1 << 40),
        },
        Param {
            name: "huge",
            about: "1: with transparent huge pages",
            default: 0,
            range: (0, 1),
        },
    ],
    expects: |_| None,
    timing: Timing::Once {
        after_ms: 400,
        block_ms: 1200,
    },
    takes: |params| {
        let bytes = params.get("bytes");
        Takes {
            // Chunk A exists in the arm whose turn it is, and chunk B only at the victim, which alone touches it.
            held: 0,
            once: bytes,
            victim: bytes,
            disk: 0,
            work: bytes,
        }
    },
    prepare: |params| {
        let bytes = params.size("bytes");
        let huge = params.get("huge") == 1;
        // Nobody has touched it: only a victim does, so that the sham holds no memory for it.
        let other = Mapping::anonymous(bytes)?;
        let _ = other.advise(bytes, Munmap::advice(huge));
        Ok(Box::new(Free {
            chunk: Munmap::new(bytes, huge),
            other,
        }))
    },
    seed: Some(&Seed {
        document: "bitcharmer, \"TLB shootdowns\" (2020), Linux 4.15, 2 x Xeon E5-2680 v3, isolated CPUs",
        figures: &[
            Figure {
                what: "size of the chunks",
                seed: "4 GB, 4 KB pages, freed once",
                here: |s| {
                    let huge = s.params.get("huge") == 1;
                    let pages = if huge { "huge pages" } else { "4 KB pages" };
                    let gb = s.params.get("bytes") as f64 / f64::from(1 << 30);
                    format!("{gb:.2} GB, {pages}, freed once a block")
                },
            },
            Figure {
                what: "interrupts that reach the victim",
                seed: "\"many more\" than the six that are printed",
                here: |s| format!("{} a free", per_op(s)),
            },
            Figure {
                what: "without the culprit in its address space",
                seed: "not tried",
                here: sham,
            },
            Figure {
                what: "stall of the victim",
                seed: "a peak in a picture, without a scale in the text",
                here: each,
            },
            Figure {
                what: "time of the free",
                seed: "between two marks of the picture",
                here: real_op,
            },
        ],
        differs: "the document times batches of 16 pages with CLOCK_REALTIME and shows percentiles of 32 MB; here every page \
                  is timed by the counter and each gap has its cause. On an idle and isolated machine both show the peak; on any \
                  other only the cause tells it from noise. Kernels since 4.20 gather more pages for one flush.",
    }),
    ..DEFAULT
};

struct Free {
    chunk: Munmap,
    other: Mapping,
}

impl Culprit for Free {
    fn begin_block(&mut self) -> io::Result<()> {
        self.chunk.before()
    }

    fn operate(&mut self) -> io::Result<()> {
        self.chunk.operate()
    }

    fn warm(&self) -> Option<Touch> {
        self.chunk.chunk()
    }

    fn touch(&self) -> Option<Touch> {
        Some(Touch::new(self.other.start(), self.other.bytes(), true))
    }
}

pub(super) const MUNMAP: Mechanism = Mechanism {
    name: "seed-munmap",
    about: "Rigtorp's tlbshootdown: mmap, a write and munmap of one page, again and again",
    expects: |_| Some(1.0),
    prepare: |_| Ok(Box::new(Munmap::new(PAGE, false))),
    seed: Some(&Seed {
        document: "Rigtorp, \"Latency implications of virtual memory\" (2020)",
        figures: &[
            Figure {
                what: "flushes for 100,000 munmaps",
                seed: "100,016 (tlb:tlb_flush), its own, alone in its address space",
                here: |s| {
                    let n = s.shootdowns_per_op.unwrap_or(0.0) * 1e5;
                    format!("{n:.0} shootdowns, with a thread beside it")
                },
            },
            Figure {
                what: "time of one",
                seed: "2.3 µs of system time, the page's fault included",
                here: |s| {
                    let op = s.arms.get("real").and_then(|a| a.op_ns);
                    op.map_or_else(
                        || "?".to_owned(),
                        |(p50, _)| {
                            format!(
                                "{:.1} µs, the wait for the victim included",
                                p50 as f64 / 1e3
                            )
                        },
                    )
                },
            },
            Figure {
                what: "stall of others",
                seed: "\"would have triggered 100000 TLB shootdowns\"; not measured",
                here: each,
            },
        ],
        differs: "the document counts flushes of the culprit's own CPU, since the program has one thread; here a second thread \
                  makes them shootdowns, and those are counted where they arrive.",
    }),
    ..DEFAULT
};

pub(super) const WRITEBACK: Mechanism = Mechanism {
    name: "seed-writeback",
    about: "Rigtorp's writeback: the victim writes a shared file mapping while it is written to the disk",
    params: &[Param {
        name: "bytes",
        about: "bytes of the file",
        default: 2 << 20,
        range: (4096, 1 << 36),
    }],
    expects: |_| None,
    takes: |params| Takes::file(params.get("bytes")),
    keeps_tables: true,
    makes_faults: true,
    prepare: |params| {
        Ok(Box::new(Written::new(
            params.size("bytes").next_multiple_of(PAGE),
        )?))
    },
    daemons: &["kworker"],
    seed: Some(&Seed {
        document: "Rigtorp, \"Latency implications of virtual memory\" (2020), Ryzen 3900X, NVMe, Linux 5.7",
        figures: &[
            Figure {
                what: "gaps",
                seed: "18 to 901 µs, nine of them printed, above 17.8 µs",
                here: |s| {
                    if s.has_no_block("real") {
                        return "?".to_owned();
                    }
                    let real = s.arms.get("real");
                    let rate = |class| real.map_or(0.0, |a| a.class_rate(class));
                    format!(
                        "{:.0} faults and {:.0} shootdowns a second",
                        rate(Class::Fault),
                        rate(Class::Tlb)
                    )
                },
            },
            Figure {
                what: "p99.99 of a write",
                seed: "not told",
                here: |s| {
                    let p = s.arms.get("real").and_then(|a| a.turn_ns.get("p9999"));
                    p.map_or_else(
                        || "?".to_owned(),
                        |ns| format!("{:.1} µs", *ns as f64 / 1e3),
                    )
                },
            },
            Figure {
                what: "stall of the victim",
                seed: "not told",
                here: |s| match s.effect.stall_ppm.signs {
                    (_, 0) => "?".to_owned(),
                    _ => format!("{:.1} % of its time", s.effect.stall_ppm.difference / 1e4),
                },
            },
        ],
        differs: "the document waits for the kernel's own write-back, every five seconds; here the culprit asks for it with \
                  fdatasync, so that it happens in every block. A write that waits for the disk is a fault here too: where the disk is \
                  slower than memory its length is the disk's.",
    }),
    ..DEFAULT
};
