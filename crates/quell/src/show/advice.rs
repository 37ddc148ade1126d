//! Advice as text: the finding with its time, the program's own switch, and the source.

use std::fmt::Write as _;

use quell_remedy::advice::Advised;

use super::lines::wrap;
use super::style::{BOLD, DIM};
use super::symbol;
use super::units::{percent, time};

/// The most advice in text; JSON has all.
const MAX_ADVICE_SHOWN: usize = 2;

/// The part of a report that has the advice; empty without any. `cpu_ns` is the CPU time of all watched processes.
pub(crate) fn advice_text(advice: &[Advised], cpu_ns: u64) -> String {
    let mut out = String::new();
    if advice.is_empty() {
        return out;
    }
    // Writing to a String does not fail.
    let _ = writeln!(out, "\n{BOLD}Advice, where no setting reaches{BOLD:#}");
    for one in advice.iter().take(MAX_ADVICE_SHOWN) {
        let seen = wrap(
            &format!("{}: {}", one.what, touched_and_place(one, cpu_ns)),
            4,
        );
        let _ = write!(out, "  · {}", seen.trim_start());
        out.push_str(&wrap(&format!("do: {}", one.switch), 4));
        out.push_str(&wrap(&format!("why: {}", one.why), 4));
        let _ = writeln!(out, "    {DIM}source: {}{DIM:#}", one.source);
    }
    if let Some(more) = advice
        .len()
        .checked_sub(MAX_ADVICE_SHOWN)
        .filter(|&n| n > 0)
    {
        let _ = writeln!(out, "  {DIM}and {more} more, which --json has{DIM:#}");
    }
    out
}

/// The time that it could touch, further findings, and the place.
fn touched_and_place(one: &Advised, cpu_ns: u64) -> String {
    let mut parts = Vec::new();
    if one.cpu_ns > 0 {
        let share = percent((one.cpu_ns as f64 / cpu_ns.max(1) as f64).min(1.0));
        parts.push(format!("{} of CPU time ({share})", time(one.cpu_ns)));
    }
    if one.blocked_ns > 0 {
        parts.push(format!("threads slept for {}", time(one.blocked_ns)));
    }
    if !one.because.is_empty() {
        parts.push(one.because.clone());
    }
    format!("{}; {}", parts.join(", "), short_place(&one.place))
}

/// A process and its function, without the parameters that C++ and Rust have in brackets.
fn short_place(place: &str) -> String {
    let parts = place
        .split_once(": ")
        .and_then(|(comm, code)| Some((comm, code.rsplit_once(" (")?)));
    match parts {
        Some((comm, (function, file))) => {
            format!("{comm}: {} ({file}", symbol::shorten_symbol(function))
        }
        None => place.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advised(cpu_ns: u64, blocked_ns: u64) -> Advised {
        Advised {
            id: "fork.spawn",
            what: "fork copies the page tables of a large process",
            switch: "posix_spawn(3) or vfork(2)",
            place: "server: run (server)".to_owned(),
            because: "31.0 ms each, 42 times".to_owned(),
            why: "a fork takes as long as the parent is large",
            source: "https://example.org/1",
            cpu_ns,
            blocked_ns,
        }
    }

    /// Check that each piece of advice has its time, the cost of one call and the switch, and that there are two at most.
    #[test]
    fn told_with_time() {
        let one = advised(1_302_000_000, 400_000_000);
        let text = advice_text(&[one.clone(), one.clone(), one], 2_604_000_000);
        let text = anstream::adapter::strip_str(&text).to_string();
        let told = "
Advice, where no setting reaches
  · fork copies the page tables of a large process: 1.30 s of CPU time (50 %), threads slept for
    400 ms, 31.0 ms each, 42 times; server: run (server)
    do: posix_spawn(3) or vfork(2)
    why: a fork takes as long as the parent is large
    source: https://example.org/1
";
        assert!(text.starts_with(told), "{text}");
        assert_eq!(text.matches("  · ").count(), 2);
        assert!(text.ends_with("  and 1 more, which --json has\n"), "{text}");
    }

    /// Check that long names of functions are shortened, and that the work of a holder stays as it is.
    #[test]
    fn names_are_short() {
        let long = "<alloc::sync::Arc<vm::mmap::Mmap<vm::mmap::AlignedLength>>>::drop_slow_and_more_of_it (_lib.so)";
        let place = short_place(&format!("python: {long}"));
        assert!(place.starts_with("python: <Arc<…>>::drop_slow"), "{place}");
        assert!(place.ends_with(" (_lib.so)"), "{place}");
        let held = "python3: read /proc/12/smaps";
        assert_eq!(short_place(held), held);
    }

    /// Check that a time of zero is left out, and that the text is empty without advice.
    #[test]
    fn only_what_there_is() {
        let text = advice_text(&[advised(0, 50_000_000)], 1_000_000_000);
        assert!(
            text.contains(": threads slept for 50.0 ms, 31.0 ms each"),
            "{text}"
        );
        assert!(!text.contains("of CPU time"), "{text}");
        assert_eq!(advice_text(&[], 1), "");
    }
}
