//! The report as a page for browsers.

use std::collections::HashMap;
use std::path::Path;

use anyhow::Context as _;
use quell_event::trace::{EventRow, OUTER_FRAMES_MISSING, Trace};
use quell_page::{About, Binner, NameSource, PageLimits};

use super::Report;
use super::aggregate::Aggregate;
use super::code::Code;
use super::place::Place;
use super::progress::{ROWS_PER_STEP, ReadProgress};
use super::quick_map::QuickMap;
use super::regions::NumberedRegions;
use crate::show::{self, Replace};

/// Writes a trace as a page.
///
/// # Errors
///
/// If the trace can't be read or the file not written.
pub(crate) fn write_page(dir: &Path, file: &Path) -> anyhow::Result<()> {
    let trace = Trace::open(dir)?;
    let out = Replace::new(Some(file))?;
    let meta = trace.meta();
    let (code, garbled) = Code::read_trace(&trace)?;
    let mut binner = Binner::new(PageLimits::default());
    let mut places = RegionNumbers::new(&code);
    let mut sum = Aggregate::default();
    let progress = ReadProgress::new(trace.row_count());
    let mut rows = 0;
    trace.for_each_row_beside(
        |row| sum.add_row(row, code.mappings()),
        |row| {
            binner.take(row, places.region_number(row));
            rows += 1;
            if rows % ROWS_PER_STEP == 0 {
                progress.set_rows(rows);
            }
        },
    )?;
    drop(progress);
    let report = Report::new(&trace, &sum, &code, garbled);
    let (costs, _) = trace.read_account()?;
    let about = About {
        title: &report.title,
        version: env!("CARGO_PKG_VERSION"),
        host: &meta.host,
        kernel: &meta.kernel,
        start_wall_ns: meta.start_wall_ns,
        start_monotonic_ns: meta.start_monotonic_ns,
        summary: &report.summary,
        costs: &costs,
        notes: &report.notes,
    };
    let words = PageNames::new(&code, &places, &report);
    let written = out.write(|out| Ok(binner.write(&about, &words, out)?));
    show::unless_gone(written)
        .with_context(|| format!("can't write the page to {}", file.display()))
}

/// Regions by number, looked up once for each place.
struct RegionNumbers<'a> {
    code: &'a Code,
    regions: QuickMap<Place, u32>,
    named: NumberedRegions<'a>,
    /// The last row's shootdown and region: all rows of a shootdown have the same.
    last: Option<(u64, u32)>,
}

impl<'a> RegionNumbers<'a> {
    fn new(code: &'a Code) -> Self {
        Self {
            code,
            regions: QuickMap::default(),
            named: NumberedRegions::new(code),
            last: None,
        }
    }

    /// The number of a row's region. It is looked up once for each place, because there are far fewer places than rows.
    fn region_number(&mut self, row: &EventRow) -> u32 {
        if let Some((id, number)) = self.last
            && id == row.id
        {
            return number;
        }
        let place = Place::of_row(row, self.code.mappings());
        let named = &mut self.named;
        let number = *self
            .regions
            .entry(place)
            .or_insert_with(|| named.number_of(&place));
        self.last = Some((row.id, number));
        number
    }
}

/// The names for the numbers in a trace.
struct PageNames<'a> {
    code: &'a Code,
    places: &'a RegionNumbers<'a>,
    /// The names that the text report has for them.
    processes: HashMap<u32, &'a str>,
}

impl<'a> PageNames<'a> {
    fn new(code: &'a Code, places: &'a RegionNumbers<'a>, report: &'a Report) -> Self {
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

impl NameSource for PageNames<'_> {
    fn stack(&self, stack: i32) -> Option<Vec<String>> {
        let stack = self.code.stack_by_number(stack)?;
        let missing = stack.cut.then(|| OUTER_FRAMES_MISSING.to_owned());
        Some(
            missing
                .into_iter()
                .chain(stack.frame_texts().into_iter().rev())
                .collect(),
        )
    }

    fn region(&self, region: u32) -> String {
        self.places.named.name_of(region).to_owned()
    }

    fn process(&self, pid: u32) -> Option<String> {
        let known = self.processes.get(&pid).map(|name| (*name).to_owned());
        known.or_else(|| self.code.process_by_pid(pid).map(|p| p.comm.clone()))
    }
}
