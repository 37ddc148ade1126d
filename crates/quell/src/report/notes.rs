//! Notes on stacks for the reader: which end early, which have no names, and the remedy for each.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use quell_event::NO_STACK;
use quell_event::trace::{MissingNameReason, StackFrame};

use super::code::{Code, file_name_of};
use crate::show::units::count;

/// A flaw of less than one stack in this number is not worth a line.
const MIN_NOTED_DIVISOR: u64 = 10;

/// The notes on these user stacks, each with its number of shootdowns.
pub(crate) fn stack_notes(code: &Code, stacks: impl Iterator<Item = (i32, u64)>) -> Vec<String> {
    let mut seen = StackFlaws::default();
    for (id, n) in stacks {
        seen.all += n;
        let Some(stack) = code.stack_by_number(id) else {
            seen.missing += if id == NO_STACK { 0 } else { n };
            continue;
        };
        if stack.gone {
            seen.gone += n;
            continue;
        }
        if let Some(last) = stack.ends_early() {
            let place = last.module.as_deref().map_or("unknown code", file_name_of);
            *seen.early.entry(place).or_default() += n;
        }
        let marked = |f: &&StackFrame| f.symbol.is_none();
        // Two names matter: the caller's, and those of code that a JIT made on the way.
        let jit = stack
            .frames
            .iter()
            .any(|f| f.mark == Some(MissingNameReason::Jit));
        let caller = code.calling_frame(id).filter(marked);
        let place = caller
            .and_then(|f| f.module.as_deref())
            .map_or("", file_name_of);
        if let Some(mark) = jit
            .then_some(MissingNameReason::Jit)
            .or(caller.and_then(|f| f.mark))
        {
            *seen
                .marks
                .entry(mark)
                .or_default()
                .entry(place)
                .or_default() += n;
        }
    }
    seen.to_notes()
}

/// Numbers of shootdowns by the name of a file.
type PerFile<'c> = BTreeMap<&'c str, u64>;

#[derive(Default)]
struct StackFlaws<'c> {
    all: u64,
    /// Stacks of which the trace has nothing but a number.
    missing: u64,
    gone: u64,
    early: PerFile<'c>,
    marks: BTreeMap<MissingNameReason, PerFile<'c>>,
}

/// The total, and the place with the largest part; the first by name where several are equal.
fn total_and_largest<'c>(places: &PerFile<'c>) -> Option<(u64, &'c str)> {
    let most = places.iter().max_by_key(|&(name, n)| (n, Reverse(name)));
    Some((places.values().sum(), most?.0))
}

impl StackFlaws<'_> {
    /// The notes; those on early ends and unnamed code only where they concern enough of the stacks.
    fn to_notes(&self) -> Vec<String> {
        let all = count(self.all);
        let mut notes = Vec::new();
        if self.missing > 0 {
            notes.push(format!(
                "{} of {all} user stacks are missing: stacks.jsonl does not have them.",
                count(self.missing),
            ));
        }
        if self.gone > 0 {
            notes.push(format!(
                "{} of {all} user stacks have no names: their process ended before its memory map could be \
                 read.",
                count(self.gone),
            ));
        }
        if let Some((n, place)) =
            total_and_largest(&self.early).filter(|(n, _)| n * MIN_NOTED_DIVISOR >= self.all)
        {
            notes.push(format!(
                "{} of {all} user stacks end early, most of them in {place}, which has \
                 neither frame pointers nor .eh_frame: callers beyond it are not seen. Code keeps frame pointers if built with -fno-omit-frame-pointer (gcc, \
                 clang) or -C force-frame-pointers=yes (Rust), and Java's if run with \
                 -XX:+PreserveFramePointer.",
                count(n),
            ));
        }
        for (mark, places) in &self.marks {
            if let Some((n, place)) =
                total_and_largest(places).filter(|(n, _)| n * MIN_NOTED_DIVISOR >= self.all)
                && let Some(help) = help_for(*mark, place)
            {
                notes.push(format!("{} of {all} user stacks {help}", count(n)));
            }
        }
        notes
    }
}

/// The flaw of stacks whose caller has this mark, and its remedy.
fn help_for(mark: MissingNameReason, place: &str) -> Option<String> {
    Some(match mark {
        MissingNameReason::Jit => "pass through code that was made at run time and has no perf map [JIT, no perf map]: \
                      run Java with -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit, Node with \
                      --perf-basic-prof, Python 3.12 or later with -X perf."
            .to_owned(),
        MissingNameReason::Stripped => format!(
            "come from stripped code, most of them from {place} [stripped]: install its debug symbols under \
             /usr/lib/debug before recording, or build it without -s."
        ),
        MissingNameReason::Replaced => format!(
            "come from a file that is no longer the one that ran, most of them from {place} [file replaced]: \
             its names would be wrong. Record again."
        ),
        MissingNameReason::Unreadable => format!(
            "come from a file that could not be read, most of them from {place} [file unreadable]: record as \
             root, and while it is there."
        ),
        MissingNameReason::Unmapped | MissingNameReason::Gone | MissingNameReason::Unknown => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_event::trace::TracedStack;

    fn marked_frame(symbol: &str, module: &str, mark: Option<MissingNameReason>) -> StackFrame {
        StackFrame {
            symbol: (!symbol.is_empty()).then(|| symbol.to_owned()),
            module: (!module.is_empty()).then(|| module.to_owned()),
            offset: Some(1),
            mark,
            ..StackFrame::default()
        }
    }

    fn stack_of_frames(frames: &[(&str, &str, Option<MissingNameReason>)]) -> TracedStack {
        let frames = frames.iter().map(|(s, m, k)| marked_frame(s, m, *k));
        TracedStack {
            frames: frames.collect(),
            ..TracedStack::default()
        }
    }

    const LIBC: &str = "/lib/x86_64-linux-gnu/libc.so.6";
    const STRIPPED: Option<MissingNameReason> = Some(MissingNameReason::Stripped);

    /// Check that each note names a remedy, and that there is none where all is well.
    #[test]
    fn notes_name_what_helps() {
        let said = |frames: &[_]| {
            let code = Code::new([], [stack_of_frames(frames)]);
            stack_notes(&code, [(0, 1000)].into_iter()).join("\n")
        };
        let start = ("_start", "/a", None);
        assert_eq!(said(&[("f", "/a", None), start]), "");
        let lost = stack_notes(&Code::new([], []), [(3, 8), (NO_STACK, 2)].into_iter());
        assert_eq!(
            lost,
            ["8 of 10 user stacks are missing: stacks.jsonl does not have them."]
        );
        let early = said(&[("f", "/opt/a", None)]);
        assert!(
            early.starts_with("1,000 of 1,000 user stacks end early, most of them in a, which"),
            "{early}"
        );
        for flag in [
            "-fno-omit-frame-pointer",
            "force-frame-pointers=yes",
            "-XX:+PreserveFramePointer",
        ] {
            assert!(early.contains(flag), "{early}");
        }
        let jit = said(&[
            ("madvise", LIBC, None),
            ("", "", Some(MissingNameReason::Jit)),
            start,
        ]);
        for flag in ["-XX:+DumpPerfMapAtExit", "--perf-basic-prof", "-X perf"] {
            assert!(jit.contains(flag), "{jit}");
        }
        let stripped = said(&[("madvise", LIBC, None), ("", "/opt/b", STRIPPED), start]);
        assert!(
            stripped.contains("from b [stripped]") && stripped.contains("/usr/lib/debug"),
            "{stripped}"
        );
        let replaced = said(&[("", "/opt/b", Some(MissingNameReason::Replaced)), start]);
        assert!(replaced.contains("[file replaced]"), "{replaced}");
    }
}
