//! The content of the tables, and a crowd where there is none, for tests: the library itself uses none of it.

use crate::kernel::Kernel;
use crate::region::State;
use crate::shim::{Locked, Shim};
use crate::sync::Ordering;
use crate::table::Table;
use crate::{PAGE, Range};

/// The use of a range, by the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeUse {
    /// The program's, with this protection; whether it may be kept once it is unmapped, as to its advice.
    Live(i32, bool),
    /// Unmapped by the program, and kept with its content.
    Dirty,
    /// Being given back at this moment.
    Leaving,
    /// A page of the library's own.
    Anchor,
}

fn check_table(table: &Table) -> Result<(), &'static str> {
    let (mut end, mut dirty, mut fresh) = (0, (0, 0), (0, 0));
    let mut firm = 0;
    let (mut leaving, mut anchors) = ((0, 0), (0, 0));
    let mut at = table.nodes.first_ending_after(0);
    while let Some(id) = at {
        let region = table.nodes.get(id);
        let Range { start, end: stop } = region.range;
        if start < end {
            return Err("two regions overlap");
        }
        if start >= stop || !start.is_multiple_of(PAGE) || !stop.is_multiple_of(PAGE) {
            return Err("a region is empty, or not of whole pages");
        }
        let sum = match region.state {
            State::Dirty => &mut dirty,
            State::Fresh => &mut fresh,
            State::Leaving | State::Lost => &mut leaving,
            State::Anchor => &mut anchors,
            State::Live => &mut (0, 0),
        };
        *sum = (sum.0 + region.range.len(), sum.1 + 1);
        let is_kept = matches!(region.state, State::Dirty | State::Fresh);
        if is_kept && !region.offered {
            firm += region.range.len();
        }
        if region.offered && matches!(region.state, State::Live | State::Anchor) {
            return Err("what is in use is offered to the kernel");
        }
        end = stop;
        at = table.nodes.first_ending_after(end);
    }
    if (table.dirty.bytes, table.dirty.count) != dirty {
        return Err("the shelf of what is in memory is not what the regions say");
    }
    if (table.fresh.bytes, table.fresh.count) != fresh {
        return Err("the shelf of what nobody has looked at yet is not what the regions say");
    }
    if table.firm_bytes() != firm {
        return Err("the sum of what is not offered is not what the regions say");
    }
    if table.anchors.count() != anchors.1 {
        return Err("there are not as many anchors as the table says");
    }
    if table.leaving != leaving.0 {
        return Err("the sum of what leaves is not what the regions say");
    }
    Ok(())
}

impl<K: Kernel> Shim<K> {
    /// Whether the tables contradict themselves.
    ///
    /// # Errors
    ///
    /// How they do.
    pub fn check(&self) -> Result<(), &'static str> {
        match self.try_locked(|table| check_table(table)) {
            Locked::Done(done) => done,
            Locked::Mine | Locked::Busy => Ok(()),
        }
    }

    /// For so many calls from now on it is as if too many threads were at the lock.
    pub fn pretend_crowd(&self, calls: u32) {
        self.crowd
            .begin_pause(self.calls.load(Ordering::Relaxed), calls);
    }

    /// Shows every region that is known, by address, while the table is locked; none where the lock can't be had.
    pub fn each_region(&self, mut show: impl FnMut(Range, RangeUse)) {
        let _ = self.try_locked(|table| {
            let mut at = table.nodes.first_ending_after(0);
            while let Some(id) = at {
                let region = table.nodes.get(id);
                let held = match region.state {
                    State::Live => {
                        RangeUse::Live(i32::from(region.kind.prot), !region.kind.advised)
                    }
                    State::Dirty | State::Fresh => RangeUse::Dirty,
                    State::Leaving | State::Lost => RangeUse::Leaving,
                    State::Anchor => RangeUse::Anchor,
                };
                show(region.range, held);
                at = table.nodes.first_ending_after(region.range.end);
            }
        });
    }
}
