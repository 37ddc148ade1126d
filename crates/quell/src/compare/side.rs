//! One of two traces: its amounts, by names that the other one can have too.

use std::path::Path;

use quell_event::text::clean_text;
use quell_event::trace::{MissingNameReason, StackFrame, Trace, TracedStack};
use quell_event::{TallySummary, Text};

use super::{Amount, change::Amounts};
use crate::report::code::file_name_of;
use crate::report::places::Places;
use crate::report::{Report, sum_up_trace};
use crate::show::summary;
use crate::show::units::plural;

/// One trace.
#[derive(Clone, Debug, Default)]
pub(crate) struct TraceSide {
    /// Its path, as the user gave it.
    pub(crate) path: Text,
    pub(crate) title: String,
    pub(crate) scope: Text,
    pub(crate) kernel: Text,
    pub(crate) host: Text,
    /// The stacks that were recorded, as in `meta.json`.
    pub(crate) sampled: Text,
    pub(crate) cut_short: bool,
    pub(crate) summary: TallySummary,
    pub(crate) stacks: Amounts<Vec<String>>,
    /// Notes on it for the reader.
    pub(crate) notes: Vec<String>,
}

impl TraceSide {
    /// Reads a trace.
    ///
    /// # Errors
    ///
    /// The folder has no trace, or it can't be read.
    pub(crate) fn open(dir: &Path) -> anyhow::Result<Self> {
        let trace = Trace::open(dir)?;
        let (sum, code, garbled) = sum_up_trace(&trace)?;
        let report = Report::new(&trace, &sum, &code, garbled);
        let mut stacks: Amounts<Vec<String>> = Amounts::new();
        for (number, shootdowns) in Places::new(&sum, &code).user_stacks() {
            let amount = Amount {
                shootdowns,
                ..Amount::default()
            };
            // A stack without frames names no code.
            let frames = code
                .stack_by_number(number)
                .map(frame_texts_without_addresses);
            if let Some(frames) = frames.filter(|f| !f.is_empty()) {
                stacks.entry(frames).or_default().add(&amount);
            }
        }
        let meta = trace.meta();
        let side = Self {
            path: Text::from_os_str(dir),
            title: report.title,
            scope: if meta.scope.is_empty() {
                "the command".into()
            } else {
                meta.scope.clone()
            },
            kernel: meta.kernel.clone(),
            host: meta.host.clone(),
            sampled: meta.stacks.clone(),
            cut_short: trace.cut_short(),
            summary: report.summary,
            stacks,
            notes: report.notes,
        };
        Ok(side.with_losses())
    }

    /// Adds notes on lost records and stacks.
    pub(super) fn with_losses(mut self) -> Self {
        if self.summary.lost > 0 {
            let lost = summary::lost_note(self.summary.lost, self.summary.crowded);
            self.notes.push(format!("{lost}."));
        }
        if self.summary.lost_stacks > 0 {
            let stacks = plural(self.summary.lost_stacks, "stack");
            self.notes.push(format!("{stacks} not kept."));
        }
        self
    }

    pub(super) fn total_amount(&self) -> Amount {
        Amount {
            shootdowns: self.summary.shootdowns,
            victims: Some(self.summary.victims),
            wait_ns: Some(self.summary.wait_ns.sum),
            stall_ns: Some(self.summary.stall_ns.sum),
        }
    }

    pub(super) fn amounts_by_cause(&self) -> Amounts<String> {
        let causes = self.summary.causes.iter().map(|c| {
            let name = c.label();
            let amount = Amount {
                shootdowns: c.shootdowns,
                victims: Some(c.victims),
                wait_ns: Some(c.wait_ns),
                stall_ns: Some(c.stall_ns),
            };
            (name, amount)
        });
        sum_by_name(causes)
    }

    pub(super) fn amounts_by_comm(&self) -> Amounts<String> {
        let culprits = self.summary.culprits.iter().map(|c| {
            let amount = Amount {
                shootdowns: c.shootdowns,
                victims: Some(c.victims),
                wait_ns: Some(c.wait_ns),
                stall_ns: None,
            };
            (c.comm.to_string(), amount)
        });
        sum_by_name(culprits)
    }

    pub(super) fn amounts_by_thread(&self) -> Amounts<String> {
        let culprits = self.summary.culprits.iter();
        sum_by_name(culprits.flat_map(|c| {
            c.threads.iter().map(|t| {
                let amount = Amount {
                    shootdowns: t.shootdowns,
                    wait_ns: Some(t.wait_ns),
                    ..Amount::default()
                };
                // A thread has the last name that was seen, which may be from before its program began.
                let alone = c.threads.len() == 1;
                (if alone { &c.comm } else { &t.comm }.to_string(), amount)
            })
        }))
    }

    pub(super) fn amounts_by_region(&self) -> Amounts<String> {
        sum_by_name(self.summary.regions.iter().map(|r| {
            let amount = Amount {
                shootdowns: r.shootdowns,
                ..Amount::default()
            };
            (r.region.to_string(), amount)
        }))
    }
}

fn sum_by_name(all: impl Iterator<Item = (String, Amount)>) -> Amounts<String> {
    let mut sums = Amounts::new();
    for (name, amount) in all {
        sums.entry(name)
            .or_insert_with(Amount::default)
            .add(&amount);
    }
    sums
}

/// The texts of a stack's frames, innermost first, which are the same in every run.
fn frame_texts_without_addresses(stack: &TracedStack) -> Vec<String> {
    stack
        .frames
        .iter()
        .map(frame_text_without_address)
        .collect()
}

/// The text of a frame that is the same in each run of the same files: its function, or its file with the offset there, and
/// never its address, which is another in each run. A frame without either says only why it has none.
fn frame_text_without_address(frame: &StackFrame) -> String {
    let why = frame
        .mark
        .unwrap_or(MissingNameReason::Unknown)
        .bracket_text();
    match (&frame.symbol, &frame.module, frame.offset) {
        (None, Some(module), None) => format!("[{why}] ({})", clean_text(file_name_of(module))),
        (None, None, _) => format!("[{why}]"),
        _ => frame.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that frames read the same wherever their code was loaded, by name or by offset in the file.
    #[test]
    fn frames_have_no_addresses() {
        let spelled = |addr, symbol: Option<&str>, module: Option<&str>, offset| {
            frame_text_without_address(&StackFrame {
                addr,
                symbol: symbol.map(str::to_owned),
                module: module.map(str::to_owned),
                offset,
                ..StackFrame::default()
            })
        };
        for addr in [1, 0x7f00_0000_1000] {
            assert_eq!(
                spelled(addr, Some("f"), Some("/x/lib.so"), Some(addr)),
                "f (lib.so)"
            );
            assert_eq!(
                spelled(addr, None, Some("/x/lib.so"), Some(64)),
                "lib.so+0x40 [unknown]"
            );
            assert_eq!(
                spelled(addr, None, Some("/x/lib.so"), None),
                "[unknown] (lib.so)"
            );
            assert_eq!(spelled(addr, None, None, Some(3)), "[unknown]");
        }
    }
}
