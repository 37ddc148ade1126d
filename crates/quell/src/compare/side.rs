//! One of two traces: what it has, by names that the other can have too.

use std::path::Path;

use quell_event::text::clean;
use quell_event::trace::{Frame, Mark, Stack, Trace};
use quell_event::{Summary, Text};

use super::{Amount, change::Amounts};
use crate::report::code::base;
use crate::report::places::Places;
use crate::report::{Report, read};
use crate::show::summary;
use crate::show::units::plural;

/// One trace.
#[derive(Clone, Debug, Default)]
pub(crate) struct Side {
    /// As it was named.
    pub(crate) path: Text,
    pub(crate) title: String,
    pub(crate) scope: Text,
    pub(crate) kernel: Text,
    pub(crate) host: Text,
    /// Which stacks were asked for, as in `meta.json`.
    pub(crate) sampled: Text,
    pub(crate) cut_short: bool,
    pub(crate) summary: Summary,
    pub(crate) stacks: Amounts<Vec<String>>,
    /// What the reader should know of it.
    pub(crate) notes: Vec<String>,
}

impl Side {
    /// Reads a trace.
    ///
    /// # Errors
    ///
    /// It is none, or can't be read.
    pub(crate) fn open(dir: &Path) -> anyhow::Result<Self> {
        let trace = Trace::open(dir)?;
        let (sum, code, garbled) = read(&trace)?;
        let report = Report::new(&trace, &sum, &code, garbled);
        let mut stacks: Amounts<Vec<String>> = Amounts::new();
        for (number, shootdowns) in Places::new(&sum, &code).user_stacks() {
            let amount = Amount {
                shootdowns,
                ..Amount::default()
            };
            // one without frames says nothing
            if let Some(frames) = code.stack(number).map(frames).filter(|f| !f.is_empty()) {
                stacks.entry(frames).or_default().add(&amount);
            }
        }
        let meta = trace.meta();
        let side = Self {
            path: Text::of(dir),
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

    /// Says what is missing.
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

    pub(super) fn total(&self) -> Amount {
        Amount {
            shootdowns: self.summary.shootdowns,
            victims: Some(self.summary.victims),
            wait_ns: Some(self.summary.wait_ns.sum),
            stall_ns: Some(self.summary.stall_ns.sum),
        }
    }

    pub(super) fn causes(&self) -> Amounts<String> {
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
        sums(causes)
    }

    pub(super) fn culprits(&self) -> Amounts<String> {
        let culprits = self.summary.culprits.iter().map(|c| {
            let amount = Amount {
                shootdowns: c.shootdowns,
                victims: Some(c.victims),
                wait_ns: Some(c.wait_ns),
                stall_ns: None,
            };
            (c.comm.to_string(), amount)
        });
        sums(culprits)
    }

    pub(super) fn threads(&self) -> Amounts<String> {
        let culprits = self.summary.culprits.iter();
        sums(culprits.flat_map(|c| {
            c.threads.iter().map(|t| {
                let amount = Amount {
                    shootdowns: t.shootdowns,
                    wait_ns: Some(t.wait_ns),
                    ..Amount::default()
                };
                // a thread's name is the last that was seen, which may be from before its program began
                let alone = c.threads.len() == 1;
                (if alone { &c.comm } else { &t.comm }.to_string(), amount)
            })
        }))
    }

    pub(super) fn regions(&self) -> Amounts<String> {
        sums(self.summary.regions.iter().map(|r| {
            let amount = Amount {
                shootdowns: r.shootdowns,
                ..Amount::default()
            };
            (r.region.to_string(), amount)
        }))
    }
}

fn sums(all: impl Iterator<Item = (String, Amount)>) -> Amounts<String> {
    let mut sums = Amounts::new();
    for (name, amount) in all {
        sums.entry(name)
            .or_insert_with(Amount::default)
            .add(&amount);
    }
    sums
}

/// The frames of a stack as they read in every run.
fn frames(stack: &Stack) -> Vec<String> {
    stack.frames.iter().map(frame).collect()
}

/// A frame without its address, which is another in each run.
fn frame(frame: &Frame) -> String {
    let why = frame.mark.unwrap_or(Mark::Unknown).text();
    match (&frame.symbol, &frame.module, frame.offset) {
        (None, Some(module), None) => format!("[{why}] ({})", clean(base(module))),
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
            frame(&Frame {
                addr,
                symbol: symbol.map(str::to_owned),
                module: module.map(str::to_owned),
                offset,
                ..Frame::default()
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
