//! Folded stacks: a line for each stack, `outermost;…;innermost N`, as Brendan Gregg's
//! stackcollapse scripts print them and flamegraph.pl, inferno and speedscope read them.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::Context as _;

use crate::samples::{self, SampleOrigin};
use crate::{Rows, SampleWeight, Stacks};

/// Writes a line for each thread name, stack and cause, sorted: the name, the program's frames, the kernel's, the cause in
/// brackets, or the mechanism and its part, the weight. Stacks without weight have no line.
///
/// # Errors
///
/// If the trace can't be read or `out` can't be written.
pub fn write(
    rows: &Rows<'_>,
    stacks: &Stacks,
    weight: SampleWeight,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    for (origin, sums) in samples::sum_of(rows, weight)? {
        let line = lines.entry(folded_line(&origin, stacks)).or_default();
        *line = line.saturating_add(sums.weight_of(weight));
    }
    for (line, n) in lines.iter().filter(|(_, n)| **n > 0) {
        writeln!(out, "{line} {n}").context("can't write folded stacks")?;
    }
    Ok(())
}

fn folded_line(origin: &SampleOrigin, stacks: &Stacks) -> String {
    let mut line = plain_part(&origin.comm.as_text());
    for frame in origin.frames(stacks) {
        line.push(';');
        line.push_str(&plain_part(&frame.to_string()));
    }
    for what in origin.what.frames() {
        line.push(';');
        line.push_str(&what);
    }
    line
}

/// A name without the characters that separate names and lines. An empty name gets a text, because readers would drop it.
fn plain_part(name: &str) -> String {
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
