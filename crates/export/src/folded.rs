//! Folded stacks: a line for each stack, `outermost;…;innermost N`, as Brendan Gregg's
//! stackcollapse scripts print them and flamegraph.pl, inferno and speedscope read them.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::Context as _;

use crate::samples::{self, Origin};
use crate::{Rows, Stacks, Weight};

/// Writes a line for each thread name, stack and cause, sorted: the name, the program's frames, the
/// kernel's, the cause in brackets, or the mechanism and its part, the weight. What weighs nothing has no line.
///
/// # Errors
///
/// If the trace can't be read or `out` can't be written.
pub fn write(
    rows: &Rows<'_>,
    stacks: &Stacks,
    weight: Weight,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    for (origin, sums) in samples::sum_of(rows, weight)? {
        let line = lines.entry(line(&origin, stacks)).or_default();
        *line = line.saturating_add(sums.weigh(weight));
    }
    for (line, n) in lines.iter().filter(|(_, n)| **n > 0) {
        writeln!(out, "{line} {n}").context("can't write folded stacks")?;
    }
    Ok(())
}

fn line(origin: &Origin, stacks: &Stacks) -> String {
    let mut line = part(&origin.comm.text());
    for frame in origin.frames(stacks) {
        line.push(';');
        line.push_str(&part(&frame.to_string()));
    }
    for what in origin.what.frames() {
        line.push(';');
        line.push_str(&what);
    }
    line
}

/// A name without what separates names and lines. Empty ones would be lost by readers.
fn part(name: &str) -> String {
    if name.trim().is_empty() {
        return "[no name]".to_owned();
    }
    let clean = |c: char| match c {
        ';' => ':',
        c if c.is_control() => '?',
        c => c,
    };
    name.trim().chars().map(clean).collect()
}
