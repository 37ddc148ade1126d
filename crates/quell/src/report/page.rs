//! The report as a page for browsers.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use anyhow::Context as _;
use quell_event::trace::{Row, Trace};
use quell_page::{About, Binner, Limits, Names};

use super::Report;
use super::aggregate::{Place, region};
use super::code::Code;
use super::regions::Regions;
use crate::cmd::usage;

/// Writes a trace as a page.
///
/// # Errors
///
/// If the trace can't be read or the file not written.
pub(crate) fn html(dir: &Path, file: &Path) -> anyhow::Result<()> {
    let trace = Trace::open(dir)?;
    let meta = trace.meta();
    let mut binner = Binner::new(Limits::default());
    let mut places = Places::default();
    let (report, code) = Report::read(&trace, |row, regions| {
        let region = places.number(row, regions);
        binner.take(row, region);
    })?;
    let about = About {
        title: &report.title,
        version: env!("CARGO_PKG_VERSION"),
        host: &meta.host,
        kernel: &meta.kernel,
        start_wall_ns: meta.start_wall_ns,
        start_monotonic_ns: meta.start_monotonic_ns,
        summary: &report.summary,
        notes: &report.notes,
    };
    let words = Words::new(&code, &places, &report);
    // not before the trace was read: a page that is there stays if it can't be
    let out = File::create(file)
        .map_err(|err| usage(format!("can't write to {}: {err}", file.display())))?;
    let mut out = BufWriter::new(out);
    binner
        .write(&about, &words, &mut out)
        .and_then(|()| out.flush())
        .with_context(|| format!("can't write the page to {}", file.display()))
}

/// Regions by number, named once for each place.
#[derive(Default)]
struct Places {
    regions: HashMap<Place, u32, ahash::RandomState>,
    numbers: HashMap<String, u32>,
    names: Vec<String>,
    /// The last row's shootdown and region: all rows of a shootdown have the same.
    last: Option<(u64, u32)>,
}

impl Places {
    fn number(&mut self, row: &Row, regions: &Regions<'_>) -> u32 {
        if let Some((id, number)) = self.last
            && id == row.id
        {
            return number;
        }
        let place = Place::of(row);
        let number = match self.regions.get(&place) {
            Some(&number) => number,
            None => {
                let number = self.name(region(regions, &place, row.start));
                self.regions.insert(place, number);
                number
            }
        };
        self.last = Some((row.id, number));
        number
    }

    fn name(&mut self, name: String) -> u32 {
        let next = self.names.len() as u32;
        let names = &mut self.names;
        *self.numbers.entry(name).or_insert_with_key(|name| {
            names.push(name.clone());
            next
        })
    }
}

/// What the numbers in the trace stand for.
struct Words<'a> {
    code: &'a Code,
    places: &'a Places,
    /// As the text report calls them.
    processes: HashMap<u32, &'a str>,
}

impl<'a> Words<'a> {
    fn new(code: &'a Code, places: &'a Places, report: &'a Report) -> Self {
        let victims = report.summary.victims_by.iter().map(|v| (v.pid, &v.comm));
        let culprits = report.summary.culprits.iter().map(|c| (c.pid, &c.comm));
        Self {
            code,
            places,
            processes: victims
                .chain(culprits)
                .map(|(pid, comm)| (pid, comm.as_str()))
                .collect(),
        }
    }
}

impl Names for Words<'_> {
    fn stack(&self, stack: i32) -> Option<Vec<String>> {
        let stack = self.code.stack(stack)?;
        let missing = stack.cut.then(|| "… outer frames missing".to_owned());
        let frames = stack.frames.iter().rev().map(ToString::to_string);
        Some(missing.into_iter().chain(frames).collect())
    }

    fn region(&self, region: u32) -> String {
        let name = self.places.names.get(region as usize);
        name.cloned().unwrap_or_default()
    }

    fn process(&self, pid: u32) -> Option<String> {
        let known = self.processes.get(&pid).map(|name| (*name).to_owned());
        known.or_else(|| self.code.process(pid).map(|p| p.comm.clone()))
    }
}
