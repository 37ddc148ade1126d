//! The tables of the account: where the time went in this interval, and who held the locks.

use quell_event::HolderRole;
use quell_event::account::{AccountSummary, HolderShare, MechanismRow, WhoRow};

use super::filter::Filter;
use super::grid::{Column, Grid, Id, Key, Line, Mark, left_by_filter};
use super::sample::Sample;
use crate::show::account::{code, doing};
use crate::show::units::{count, percent, time, time_rate};

const NOT_SEEN: &str = "no account of the time here: quell said why as it began";

/// By mechanism, function and process: each as much a second as it took.
pub(crate) fn mechanisms(sample: &Sample, filter: &Filter) -> Grid {
    let ns = sample.duration_ns();
    let empty = AccountSummary::default();
    let account = sample.summary.account.as_ref();
    let a = account.unwrap_or(&empty);
    let all = a
        .mechanisms
        .iter()
        .flat_map(|m| m.who.iter().map(move |w| (m, w)));
    let shown = all.clone().filter(|(m, w)| {
        filter.text(m.mechanism.name())
            || filter.name(&w.comm, w.pid)
            || filter.text(&w.function)
            || filter.text(&w.file)
    });
    let lines: Vec<Line> = shown
        .enumerate()
        .map(|(at, (m, w))| mechanism(a, m, w, at, ns))
        .collect();
    let note = left_by_filter(lines.len(), all.count());
    Grid {
        title: format!("Time {}", lines.len()),
        note,
        columns: vec![
            Column::number("CPU/s"),
            Column::number("of CPU").spare(),
            Column::number("asleep/s"),
            Column::name("mechanism"),
            Column::id("pid"),
            Column::name("name"),
            Column::name("function").long(),
        ],
        lines,
        sortable: true,
        empty: if account.is_some() {
            "no memory management in this interval"
        } else {
            NOT_SEEN
        },
    }
}

fn mechanism(a: &AccountSummary, m: &MechanismRow, w: &WhoRow, at: usize, ns: u64) -> Line {
    let mut function = code(w);
    if w.processes > 1 {
        function.push_str(&format!("  {} processes", count(w.processes)));
    }
    Line {
        id: match w.pid {
            0 => Id::Line(at),
            // several rows of one process are told apart by what they are
            pid => Id::Region(pid, format!("{} {function}", m.mechanism)),
        },
        cells: vec![
            time_rate(w.cpu_ns, ns),
            percent(w.cpu_ns as f64 / a.cpu_ns.max(1) as f64),
            time_rate(w.blocked_ns, ns),
            m.mechanism.name().to_owned(),
            w.pid.to_string(),
            w.comm.to_string(),
            function.clone(),
        ],
        keys: vec![
            // asleep counts as well: who waits uses no CPU
            Key::Number(w.cpu_ns + w.blocked_ns),
            Key::Number(w.cpu_ns),
            Key::Number(w.blocked_ns),
            Key::Text(m.mechanism.name().to_owned()),
            Key::Number(w.pid.into()),
            Key::Text(w.comm.to_string()),
            Key::Text(function),
        ],
        mark: Mark::None,
    }
}

/// Who held the locks that others waited for.
pub(crate) fn holders(sample: &Sample, filter: &Filter) -> Grid {
    let ns = sample.duration_ns();
    let mechanisms = sample.summary.account.iter().flat_map(|a| &a.mechanisms);
    let all = mechanisms.flat_map(|m| m.holders.iter().map(move |h| (m, h)));
    let shown = all
        .clone()
        .filter(|(_, h)| filter.name(&h.comm, h.pid) || filter.text(&h.doing));
    let lines: Vec<Line> = shown.map(|(m, h)| holder(m, h, ns)).collect();
    let note = left_by_filter(lines.len(), all.count());
    Grid {
        title: format!("Holders {}", lines.len()),
        note,
        columns: vec![
            Column::number("asleep/s"),
            Column::number("waits").spare(),
            Column::number("longest"),
            Column::id("pid"),
            Column::name("name"),
            Column::name("doing").long(),
        ],
        lines,
        sortable: true,
        empty: if sample.summary.account.is_some() {
            "nobody waited for a lock in this interval"
        } else {
            NOT_SEEN
        },
    }
}

fn holder(m: &MechanismRow, h: &HolderShare, ns: u64) -> Line {
    let doing = doing(h);
    Line {
        id: match h.role {
            HolderRole::Unknown => Id::Call(m.mechanism.name().to_owned(), 0),
            _ => Id::Region(h.pid, format!("{} {doing}", m.mechanism)),
        },
        cells: vec![
            time_rate(h.blocked_ns, ns),
            count(h.waits),
            time(h.longest_ns),
            h.pid.to_string(),
            h.comm.to_string(),
            doing.clone(),
        ],
        keys: vec![
            Key::Number(h.blocked_ns),
            Key::Number(h.waits),
            Key::Number(h.longest_ns),
            Key::Number(h.pid.into()),
            Key::Text(h.comm.to_string()),
            Key::Text(doing),
        ],
        mark: Mark::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_event::{Mechanism, TallySummary};

    fn sample() -> Sample {
        let who = |pid, function: &str, cpu_ns, blocked_ns| WhoRow {
            pid,
            processes: 1,
            comm: format!("p{pid}").as_str().into(),
            function: function.into(),
            file: "app".into(),
            cpu_ns,
            blocked_ns,
            ..WhoRow::default()
        };
        let row = |mechanism, who| MechanismRow {
            mechanism,
            cpu_ns: 0,
            ci95: [0; 2],
            blocked_ns: 0,
            count: 0,
            longest_ns: 0,
            who,
            parts: Vec::new(),
            advice: Vec::new(),
            holders: Vec::new(),
        };
        let mut locked = row(Mechanism::LockMmap, vec![who(7, "wait", 0, 500)]);
        locked.holders = vec![HolderShare {
            pid: 9,
            comm: "monitor".into(),
            doing: "write /proc/7/clear_refs".into(),
            blocked_ns: 500,
            waits: 2,
            longest_ns: 300,
            role: HolderRole::Alone,
        }];
        let faults = vec![who(7, "fill", 200, 0), who(8, "copy", 100, 0)];
        Sample {
            summary: TallySummary {
                duration_ns: 1_000_000_000,
                account: Some(AccountSummary {
                    cpu_ns: 1000,
                    mechanisms: vec![row(Mechanism::FaultAnon, faults), locked],
                    ..AccountSummary::default()
                }),
                ..TallySummary::default()
            },
            ..Sample::default()
        }
    }

    /// Check that the dearest row comes first, asleep or not, that a filter finds mechanisms, functions and holders, and
    /// that it is said where there is no account.
    #[test]
    fn rows_of_the_account() {
        let mut sample = sample();
        let mut grid = mechanisms(&sample, &Filter::default());
        grid.sort(super::super::grid::Sort::default());
        let first: Vec<&str> = grid.lines.iter().map(|l| l.cells[6].as_str()).collect();
        assert_eq!(first, ["wait (app)", "fill (app)", "copy (app)"]);
        assert_eq!(
            mechanisms(&sample, &Filter::new("fault.anon")).lines.len(),
            2
        );
        assert_eq!(mechanisms(&sample, &Filter::new("copy")).lines.len(), 1);
        let held = holders(&sample, &Filter::new("clear_refs"));
        assert_eq!(held.lines[0].cells[3..5], ["9", "monitor"]);
        sample.summary.account = None;
        assert_eq!(mechanisms(&sample, &Filter::default()).empty, NOT_SEEN);
    }
}
