//! The tables of the account: they say where the time went in this interval, and who held the locks.

use quell_event::HolderRole;
use quell_event::account::{AccountSummary, HolderShare, MechanismRow, WhoRow};

use super::filter::RowFilter;
use super::grid::{Grid, GridColumn, GridRow, RowId, RowMark, SortKey, left_by_filter};
use super::interval::LiveInterval;
use crate::show::account::{function_label, holder_label};
use crate::show::units::{count, percent, time, time_rate};

const NO_ACCOUNT_TEXT: &str = "no account of the time here: quell said why as it began";

/// The table of the account by mechanism, function and process. Each row says how much time a second it took.
pub(crate) fn mechanism_grid(interval: &LiveInterval, filter: &RowFilter) -> Grid {
    let ns = interval.duration_ns();
    let empty = AccountSummary::default();
    let account = interval.summary.account.as_ref();
    let a = account.unwrap_or(&empty);
    let all = a
        .mechanisms
        .iter()
        .flat_map(|m| m.who.iter().map(move |w| (m, w)));
    let shown = all.clone().filter(|(m, w)| {
        filter.passes_text(m.mechanism.name())
            || filter.passes_named(&w.comm, w.pid)
            || filter.passes_text(&w.function)
            || filter.passes_text(&w.file)
    });
    let lines: Vec<GridRow> = shown
        .enumerate()
        .map(|(at, (m, w))| mechanism_row(a, m, w, at, ns))
        .collect();
    let note = left_by_filter(lines.len(), all.count());
    Grid {
        title: format!("Time {}", lines.len()),
        note,
        columns: vec![
            GridColumn::of_numbers("CPU/s"),
            GridColumn::of_numbers("of CPU").as_spare(),
            GridColumn::of_numbers("asleep/s"),
            GridColumn::of_names("mechanism"),
            GridColumn::of_ids("pid"),
            GridColumn::of_names("name"),
            GridColumn::of_names("function").as_long(),
        ],
        lines,
        sortable: true,
        empty: if account.is_some() {
            "no memory management in this interval"
        } else {
            NO_ACCOUNT_TEXT
        },
    }
}

fn mechanism_row(a: &AccountSummary, m: &MechanismRow, w: &WhoRow, at: usize, ns: u64) -> GridRow {
    let mut function = function_label(w);
    if w.processes > 1 {
        function.push_str(&format!("  {} processes", count(w.processes)));
    }
    GridRow {
        id: match w.pid {
            0 => RowId::Line(at),
            // several rows of one process are told apart by their mechanism and function
            pid => RowId::Region(pid, format!("{} {function}", m.mechanism)),
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
            // time asleep counts as well, since a thread that waits uses no CPU
            SortKey::Number(w.cpu_ns + w.blocked_ns),
            SortKey::Number(w.cpu_ns),
            SortKey::Number(w.blocked_ns),
            SortKey::Text(m.mechanism.name().to_owned()),
            SortKey::Number(w.pid.into()),
            SortKey::Text(w.comm.to_string()),
            SortKey::Text(function),
        ],
        mark: RowMark::None,
    }
}

/// The table of those who held the locks that others waited for.
pub(crate) fn holder_grid(interval: &LiveInterval, filter: &RowFilter) -> Grid {
    let ns = interval.duration_ns();
    let mechanisms = interval.summary.account.iter().flat_map(|a| &a.mechanisms);
    let all = mechanisms.flat_map(|m| m.holders.iter().map(move |h| (m, h)));
    let shown = all
        .clone()
        .filter(|(_, h)| filter.passes_named(&h.comm, h.pid) || filter.passes_text(&h.doing));
    let lines: Vec<GridRow> = shown.map(|(m, h)| holder_row(m, h, ns)).collect();
    let note = left_by_filter(lines.len(), all.count());
    Grid {
        title: format!("Holders {}", lines.len()),
        note,
        columns: vec![
            GridColumn::of_numbers("asleep/s"),
            GridColumn::of_numbers("waits").as_spare(),
            GridColumn::of_numbers("longest"),
            GridColumn::of_ids("pid"),
            GridColumn::of_names("name"),
            GridColumn::of_names("doing").as_long(),
        ],
        lines,
        sortable: true,
        empty: if interval.summary.account.is_some() {
            "nobody waited for a lock in this interval"
        } else {
            NO_ACCOUNT_TEXT
        },
    }
}

fn holder_row(m: &MechanismRow, h: &HolderShare, ns: u64) -> GridRow {
    let doing = holder_label(h);
    GridRow {
        id: match h.role {
            HolderRole::Unknown => RowId::Call(m.mechanism.name().to_owned(), 0),
            _ => RowId::Region(h.pid, format!("{} {doing}", m.mechanism)),
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
            SortKey::Number(h.blocked_ns),
            SortKey::Number(h.waits),
            SortKey::Number(h.longest_ns),
            SortKey::Number(h.pid.into()),
            SortKey::Text(h.comm.to_string()),
            SortKey::Text(doing),
        ],
        mark: RowMark::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_event::{Mechanism, TallySummary};

    fn interval() -> LiveInterval {
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
        LiveInterval {
            summary: TallySummary {
                duration_ns: 1_000_000_000,
                account: Some(AccountSummary {
                    cpu_ns: 1000,
                    mechanisms: vec![row(Mechanism::FaultAnon, faults), locked],
                    ..AccountSummary::default()
                }),
                ..TallySummary::default()
            },
            ..LiveInterval::default()
        }
    }

    /// Check that the dearest row comes first, asleep or not, that a filter finds mechanisms, functions and holders, and
    /// that it is said where there is no account.
    #[test]
    fn rows_of_the_account() {
        let mut interval = interval();
        let mut grid = mechanism_grid(&interval, &RowFilter::default());
        grid.sort_rows(super::super::grid::SortOrder::default());
        let first: Vec<&str> = grid.lines.iter().map(|l| l.cells[6].as_str()).collect();
        assert_eq!(first, ["wait (app)", "fill (app)", "copy (app)"]);
        assert_eq!(
            mechanism_grid(&interval, &RowFilter::new("fault.anon"))
                .lines
                .len(),
            2
        );
        assert_eq!(
            mechanism_grid(&interval, &RowFilter::new("copy"))
                .lines
                .len(),
            1
        );
        let held = holder_grid(&interval, &RowFilter::new("clear_refs"));
        assert_eq!(held.lines[0].cells[3..5], ["9", "monitor"]);
        interval.summary.account = None;
        assert_eq!(
            mechanism_grid(&interval, &RowFilter::default()).empty,
            NO_ACCOUNT_TEXT
        );
    }

    /// Check that the view begins with the time where it is told, with the counts where not, and that it stays where keys led.
    #[test]
    fn time_comes_first() {
        use super::super::state::{Pane, ViewState};
        let mut state = ViewState::new("app".to_owned());
        state.take_interval(LiveInterval::default());
        assert_eq!(state.focus(), Pane::Culprits);
        state.take_interval(interval());
        assert_eq!(state.focus(), Pane::Culprits, "not against keys");
        let mut state = ViewState::new("app".to_owned());
        state.take_interval(interval());
        assert_eq!(state.focus(), Pane::Time);
    }
}
