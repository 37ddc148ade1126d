//! Regions, stacks and sources of shootdowns, from the places of a trace.

use std::cmp::Reverse;
use std::path::PathBuf;

use quell_event::tally_summary::{RegionRow, StackRow};
use quell_event::trace::StackFrame;
use quell_event::{Cause, Text};
use quell_remedy::ShootdownSource;

use super::aggregate::Aggregate;
use super::code::Code;
pub(crate) use super::place::Place;
use super::quick_map::QuickMap;
use super::regions::NumberedRegions;

/// All places, with the regions that they are in.
pub(crate) struct Places<'a> {
    code: &'a Code,
    /// Each place with its shootdowns and the number of its region.
    all: Vec<(Place, u64, u32)>,
    names: Vec<String>,
}

impl<'a> Places<'a> {
    /// The places of these sums.
    pub(crate) fn new(sums: &Aggregate, code: &'a Code) -> Self {
        let mut named = NumberedRegions::new(code);
        let all = sums
            .place_counts()
            .map(|(place, n)| (*place, n, named.number_of(place)))
            .collect();
        Self {
            code,
            all,
            names: named.into_names(),
        }
    }

    /// The user stacks with numbers of shootdowns. A stack comes once for each place that has it, so its sum is the caller's to
    /// make. Negative numbers mean that no stack was taken, and are left out.
    pub(crate) fn user_stacks(&self) -> impl Iterator<Item = (i32, u64)> {
        let with_stack = self.all.iter().filter(|(p, ..)| p.user_stack >= 0);
        with_stack.map(|(p, n, _)| (p.user_stack, *n))
    }

    /// The regions, those with the most shootdowns first.
    pub(crate) fn region_rows(&self) -> Vec<RegionRow> {
        let mut counts = vec![0; self.names.len()];
        for (_, n, region) in &self.all {
            counts[*region as usize] += n;
        }
        let mut rows: Vec<_> = self
            .names
            .iter()
            .zip(counts)
            .map(|(region, shootdowns)| RegionRow {
                region: region.into(),
                shootdowns,
            })
            .collect();
        rows.sort_by(|a, b| (b.shootdowns, &a.region).cmp(&(a.shootdowns, &b.region)));
        rows
    }

    /// The `most` user stacks with the most shootdowns. Stacks with the same text are one, under the cause that most of its
    /// shootdowns have.
    pub(crate) fn stack_rows(&self, most: usize) -> Vec<StackRow> {
        // Sums are by number first, because to spell a stack out takes long.
        let mut by_number: QuickMap<i32, QuickMap<Cause, u64>> = QuickMap::default();
        for (place, n, _) in &self.all {
            let causes = by_number.entry(place.user_stack).or_default();
            *causes.entry(place.cause).or_default() += n;
        }
        let mut rows: QuickMap<(Vec<String>, bool), QuickMap<Cause, u64>> = QuickMap::default();
        for (number, causes) in by_number {
            let Some(stack) = self.code.stack_by_number(number) else {
                continue;
            };
            let row = rows.entry((stack.frame_texts(), stack.cut)).or_default();
            for (cause, n) in causes {
                *row.entry(cause).or_default() += n;
            }
        }
        let mut rows: Vec<_> = rows
            .into_iter()
            .map(|((frames, cut), causes)| StackRow {
                frames: frames.into_iter().map(Text::from).collect(),
                cut,
                shootdowns: causes.values().sum(),
                cause: causes
                    .iter()
                    .max_by_key(|(c, n)| (**n, Reverse(**c)))
                    .map_or_else(String::new, |(c, _)| c.name().to_owned()),
            })
            .collect();
        rows.sort_by(|a, b| {
            (b.shootdowns, &a.frames, a.cut).cmp(&(a.shootdowns, &b.frames, b.cut))
        });
        rows.truncate(most);
        rows
    }

    /// The shootdowns by processes that were not watched, and only shot at watched ones.
    pub(crate) fn by_strangers(&self) -> u64 {
        let strangers = self
            .all
            .iter()
            .filter(|(p, ..)| self.code.is_stranger(p.pid));
        strangers.map(|(_, n, _)| n).sum()
    }

    /// The sources of shootdowns, for a plan: those of all watched processes, or of one.
    pub(crate) fn shootdown_sources(&self, pid: Option<u32>) -> Vec<ShootdownSource> {
        let mut callers: QuickMap<i32, Option<&StackFrame>> = QuickMap::default();
        // The cause, the module, the symbol and the region's number.
        type SourceKey<'a> = (Cause, Option<&'a str>, Option<&'a str>, u32);
        let mut rows: QuickMap<SourceKey<'_>, u64> = QuickMap::default();
        let wanted = |place: &Place| match pid {
            Some(pid) => place.pid == pid,
            None => !self.code.is_stranger(place.pid),
        };
        for (place, n, region) in self.all.iter().filter(|(place, ..)| wanted(place)) {
            let caller = *callers
                .entry(place.user_stack)
                .or_insert_with_key(|stack| self.code.calling_frame(*stack));
            let module = caller.and_then(|f| f.module.as_deref());
            let symbol = caller.and_then(|f| f.symbol.as_deref());
            *rows
                .entry((place.cause, module, symbol, *region))
                .or_default() += n;
        }
        let mut rows: Vec<_> = rows
            .into_iter()
            .map(
                |((cause, module, symbol, region), shootdowns)| ShootdownSource {
                    cause,
                    caller_module: module.map(PathBuf::from),
                    caller_symbol: symbol.map(str::to_owned),
                    region: Some(self.names[region as usize].clone()),
                    shootdowns,
                },
            )
            .collect();
        rows.sort_by(|a, b| {
            let most_first = b.shootdowns.cmp(&a.shootdowns);
            most_first
                .then_with(|| a.cause.cmp(&b.cause))
                .then_with(|| a.region.cmp(&b.region))
                .then_with(|| a.caller_module.cmp(&b.caller_module))
                .then_with(|| a.caller_symbol.cmp(&b.caller_symbol))
        });
        rows
    }
}
