//! Experiments of others, with their own parameters, and their figures beside those that are measured here.
//!
//! The documents are those that the project began with: "TLB shootdowns" of bitcharmer (github.com/bitcharmer/tlb_shootdowns),
//! "Latency implications of virtual memory" of Erik Rigtorp (rigtorp.se/virtual-memory).

use std::io;

use super::mapping_culprit::{MappingCulprit, VictimAccess, nothing_before};
use super::msync::map_written_file;
use super::munmap::Munmap;
use super::{Culprit, DEFAULT_MECHANISM, OperationTiming, StallMechanism};
use crate::attribute::GapClass;
use crate::memory::{LabMapping, PAGE_BYTES, huge_page_advice};
use crate::params::Param;
use crate::resources::ResourceDemand;
use crate::summary::ExperimentSummary;
use crate::victim::TouchedMemory;

/// An experiment as a document describes it.
#[derive(Debug)]
pub struct PublishedExperiment {
    /// Its name and where it is.
    pub document: &'static str,
    /// Its figures, and how the same is said here.
    pub figures: &'static [PublishedFigure],
    /// Where and why the two differ.
    pub differs: &'static str,
}

/// One figure of a document.
#[derive(Debug)]
pub struct PublishedFigure {
    /// The quantity.
    pub quantity: &'static str,
    /// The document's words.
    pub published: &'static str,
    /// The words for the figure that was measured here, where one was.
    pub measured_words: fn(&ExperimentSummary) -> Option<String>,
}

/// The median time of an operation beside the victim, ns.
fn real_op_ns(summary: &ExperimentSummary) -> Option<f64> {
    let (p50, _) = summary.arms.get("real")?.op_ns?;
    Some(p50 as f64)
}

fn hits_per_op(summary: &ExperimentSummary) -> Option<String> {
    let hits = summary.shootdowns_per_op;
    let hits = hits.map_or_else(|| "?".to_owned(), |n| format!("{n:.2}"));
    Some(format!("{hits} a free"))
}

fn stall_of_each(summary: &ExperimentSummary) -> Option<String> {
    summary.valid_arm("real")?;
    Some(match summary.effect.ns_per_event {
        Some(ns) => format!("{:.1} µs each", ns / 1e3),
        None => "no stall".to_owned(),
    })
}

fn sham_hits(summary: &ExperimentSummary) -> Option<String> {
    let hits = summary.valid_arm("sham")?.caused;
    Some(format!("{hits} with the culprit in another address space"))
}

pub(super) const SEED_FREE_MECHANISM: StallMechanism = StallMechanism {
    name: "seed-free",
    about: "bitcharmer's experiment: one free() of a large chunk A while the victim writes chunk B",
    params: &[
        Param::new("bytes", "bytes of each chunk", 4 << 30, (1 << 20, 1 << 40)),
        Param::new("huge", "1: with transparent huge pages", 0, (0, 1)),
    ],
    expects: |_| None,
    timing: OperationTiming::Once {
        after_ms: 400,
        block_ms: 1200,
    },
    takes: |params| {
        let bytes = params.get("bytes");
        ResourceDemand {
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
        let other = LabMapping::anonymous(bytes)?;
        let _ = other.advise(bytes, huge_page_advice(huge));
        Ok(Box::new(SeedFree {
            chunk: Munmap::new(bytes, huge),
            other,
        }))
    },
    seed: Some(&PublishedExperiment {
        document: "bitcharmer, \"TLB shootdowns\" (2020), Linux 4.15, 2 x Xeon E5-2680 v3, isolated CPUs",
        figures: &[
            PublishedFigure {
                quantity: "size of the chunks",
                published: "4 GB, 4 KB pages, freed once",
                measured_words: |s| {
                    let huge = s.params.get("huge") == 1;
                    let pages = if huge { "huge pages" } else { "4 KB pages" };
                    let gb = s.params.get("bytes") as f64 / f64::from(1 << 30);
                    Some(format!("{gb:.2} GB, {pages}, freed once a block"))
                },
            },
            PublishedFigure {
                quantity: "interrupts that reach the victim",
                published: "\"many more\" than the six that are printed",
                measured_words: hits_per_op,
            },
            PublishedFigure {
                quantity: "without the culprit in its address space",
                published: "not tried",
                measured_words: sham_hits,
            },
            PublishedFigure {
                quantity: "stall of the victim",
                published: "a peak in a picture, without a scale in the text",
                measured_words: stall_of_each,
            },
            PublishedFigure {
                quantity: "time of the free",
                published: "between two marks of the picture",
                measured_words: |s| Some(format!("{:.2} ms", real_op_ns(s)? / 1e6)),
            },
        ],
        differs: "the document times batches of 16 pages with CLOCK_REALTIME and shows percentiles of 32 MB; here every page \
                  is timed by the counter and each gap has its cause. On an idle and isolated machine both show the peak; on any \
                  other only the cause tells it from noise. Kernels since 4.20 gather more pages for one flush.",
    }),
    ..DEFAULT_MECHANISM
};

struct SeedFree {
    chunk: Munmap,
    other: LabMapping,
}

impl Culprit for SeedFree {
    fn begin_block(&mut self) -> io::Result<()> {
        self.chunk.prepare_operation()
    }

    fn run_operation(&mut self) -> io::Result<()> {
        self.chunk.run_operation()
    }

    fn warm_memory(&self) -> Option<TouchedMemory> {
        self.chunk.next_chunk()
    }

    fn touched_memory(&self) -> Option<TouchedMemory> {
        Some(TouchedMemory::new(&self.other, true))
    }
}

pub(super) const SEED_MUNMAP_MECHANISM: StallMechanism = StallMechanism {
    name: "seed-munmap",
    about: "Rigtorp's tlbshootdown: mmap, a write and munmap of one page, again and again",
    expects: |_| Some(1.0),
    prepare: |_| Ok(Box::new(Munmap::new(PAGE_BYTES, false))),
    seed: Some(&PublishedExperiment {
        document: "Rigtorp, \"Latency implications of virtual memory\" (2020)",
        figures: &[
            PublishedFigure {
                quantity: "flushes for 100,000 munmaps",
                published: "100,016 (tlb:tlb_flush), its own, alone in its address space",
                measured_words: |s| {
                    let n = s.shootdowns_per_op.unwrap_or(0.0) * 1e5;
                    Some(format!("{n:.0} shootdowns, with a thread beside it"))
                },
            },
            PublishedFigure {
                quantity: "time of one",
                published: "2.3 µs of system time, the page's fault included",
                measured_words: |s| {
                    let us = real_op_ns(s)? / 1e3;
                    Some(format!("{us:.1} µs, the wait for the victim included"))
                },
            },
            PublishedFigure {
                quantity: "stall of others",
                published: "\"would have triggered 100000 TLB shootdowns\"; not measured",
                measured_words: stall_of_each,
            },
        ],
        differs: "the document counts flushes of the culprit's own CPU, since the program has one thread; here a second thread \
                  makes them shootdowns, and those are counted where they arrive.",
    }),
    ..DEFAULT_MECHANISM
};

pub(super) const SEED_WRITEBACK_MECHANISM: StallMechanism = StallMechanism {
    name: "seed-writeback",
    about: "Rigtorp's writeback: the victim writes a shared file mapping while it is written to the disk",
    params: &[Param::new(
        "bytes",
        "bytes of the file",
        2 << 20,
        (4096, 1 << 36),
    )],
    expects: |_| None,
    takes: |params| ResourceDemand::of_file(params.get("bytes")),
    keeps_tables: true,
    makes_faults: true,
    prepare: |params| {
        let bytes = params.size("bytes").next_multiple_of(PAGE_BYTES);
        let (mapping, file) = map_written_file(bytes)?;
        Ok(Box::new(MappingCulprit {
            mapping,
            victim: VictimAccess::Writes,
            before: nothing_before,
            // The file is written back by its descriptor, as databases do.
            operation: move |_: &LabMapping| file.sync_data(),
        }))
    },
    daemons: &["kworker"],
    seed: Some(&PublishedExperiment {
        document: "Rigtorp, \"Latency implications of virtual memory\" (2020), Ryzen 3900X, NVMe, Linux 5.7",
        figures: &[
            PublishedFigure {
                quantity: "gaps",
                published: "18 to 901 µs, nine of them printed, above 17.8 µs",
                measured_words: |s| {
                    let real = s.valid_arm("real")?;
                    Some(format!(
                        "{:.0} faults and {:.0} shootdowns a second",
                        real.class_rate(GapClass::Fault),
                        real.class_rate(GapClass::Tlb)
                    ))
                },
            },
            PublishedFigure {
                quantity: "p99.99 of a write",
                published: "not told",
                measured_words: |s| {
                    let ns = *s.arms.get("real")?.turn_ns.get("p9999")?;
                    Some(format!("{:.1} µs", ns as f64 / 1e3))
                },
            },
            PublishedFigure {
                quantity: "stall of the victim",
                published: "not told",
                measured_words: |s| match s.effect.stall_ppm.signs {
                    (_, 0) => None,
                    _ => Some(format!(
                        "{:.1} % of its time",
                        s.effect.stall_ppm.difference / 1e4
                    )),
                },
            },
        ],
        differs: "the document waits for the kernel's own write-back, every five seconds; here the culprit asks for it with \
                  fdatasync, so that it happens in every block. A write that waits for the disk is a fault here too: where the disk is \
                  slower than memory its length is the disk's.",
    }),
    ..DEFAULT_MECHANISM
};
