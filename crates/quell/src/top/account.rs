//! The tables of the account: they say where the time went in this interval, and who held the locks.

use quell_event::account::{HolderShare, WhoRow};
use quell_event::{HolderRole, Mechanism};

use super::filter::RowFilter;
use super::grid::{Grid, GridColumn, RowId, left_by_filter};
use super::interval::LiveInterval;
use crate::show::account::{function_label, holder_label};
use crate::show::units::{count, percent, time_rate};

const NO_ACCOUNT_TEXT: &str = "no account of the time here: quell said why as it began";

/// The table of the account by mechanism, function and process. Each row says how much time a second it took.
pub(crate) fn mechanism_grid(interval: &LiveInterval, filter: &RowFilter) -> Grid {
    type Column<'a> = GridColumn<'a, (usize, (Mechanism, &'a WhoRow))>;
    let ns = interval.duration_ns();
    let account = interval.summary.account.as_ref();
    let cpu_ns = account.map_or(1, |a| a.cpu_ns.max(1)) as f64;
    let mechanisms = account.iter().flat_map(|a| &a.mechanisms);
    let all = mechanisms.flat_map(|m| m.who.iter().map(move |w| (m.mechanism, w)));
    let passes = |(mechanism, w): &(Mechanism, &WhoRow)| {
        filter.passes_text(mechanism.name())
            || filter.passes_named(&w.comm, w.pid)
            || filter.passes_text(&w.function)
            || filter.passes_text(&w.file)
    };
    let shown: Vec<_> = all.clone().filter(passes).enumerate().collect();
    Grid {
        title: format!("Time {}", shown.len()),
        note: left_by_filter(shown.len(), all.count()),
        empty: if account.is_some() {
            "no memory management in this interval"
        } else {
            NO_ACCOUNT_TEXT
        },
        ..Grid::of_rows(
            &shown,
            vec![
                // time asleep counts as well, since a thread that waits uses no CPU
                Column::of_time_rates("CPU/s", ns, |(_, (_, w))| w.cpu_ns + w.blocked_ns)
                    .with_text(|(_, (_, w))| time_rate(w.cpu_ns, ns)),
                Column::of_counts("of CPU", |(_, (_, w))| w.cpu_ns)
                    .with_text(|(_, (_, w))| percent(w.cpu_ns as f64 / cpu_ns))
                    .marked_spare(),
                Column::of_time_rates("asleep/s", ns, |(_, (_, w))| w.blocked_ns),
                Column::of_names("mechanism", |(_, (m, _))| m.name().to_owned()),
                Column::of_ids("pid", |(_, (_, w))| w.pid),
                Column::of_names("name", |(_, (_, w))| w.comm.to_string()),
                Column::of_names("function", |(_, (_, w))| function_text(w)).marked_long(),
            ],
            |(at, (mechanism, w))| match w.pid {
                0 => RowId::Line(*at),
                // several rows of one process are told apart by their mechanism and function
                pid => RowId::Region(pid, format!("{mechanism} {}", function_text(w))),
            },
        )
    }
}

/// The function of a row, with the number of its processes where there are several.
fn function_text(w: &WhoRow) -> String {
    let mut function = function_label(w);
    if w.processes > 1 {
        function.push_str(&format!("  {} processes", count(w.processes)));
    }
    function
}

/// The table of those who held the locks that others waited for.
pub(crate) fn holder_grid(interval: &LiveInterval, filter: &RowFilter) -> Grid {
    type Column<'a> = GridColumn<'a, (Mechanism, &'a HolderShare)>;
    let ns = interval.duration_ns();
    let account = interval.summary.account.as_ref();
    let mechanisms = account.iter().flat_map(|a| &a.mechanisms);
    let all = mechanisms.flat_map(|m| m.holders.iter().map(move |h| (m.mechanism, h)));
    let passes = |(_, h): &(Mechanism, &HolderShare)| {
        filter.passes_named(&h.comm, h.pid) || filter.passes_text(&h.doing)
    };
    let shown: Vec<_> = all.clone().filter(passes).collect();
    Grid {
        title: format!("Holders {}", shown.len()),
        note: left_by_filter(shown.len(), all.count()),
        empty: if account.is_some() {
            "nobody waited for a lock in this interval"
        } else {
            NO_ACCOUNT_TEXT
        },
        ..Grid::of_rows(
            &shown,
            vec![
                Column::of_time_rates("asleep/s", ns, |(_, h)| h.blocked_ns),
                Column::of_counts("waits", |(_, h)| h.waits).marked_spare(),
                Column::of_times("longest", |(_, h)| h.longest_ns),
                Column::of_ids("pid", |(_, h)| h.pid),
                Column::of_names("name", |(_, h)| h.comm.to_string()),
                Column::of_names("doing", |(_, h)| holder_label(h)).marked_long(),
            ],
            |(mechanism, h)| match h.role {
                HolderRole::Unknown => RowId::Call(mechanism.name().to_owned(), 0),
                _ => RowId::Region(h.pid, format!("{mechanism} {}", holder_label(h))),
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_event::TallySummary;
    use quell_event::account::{AccountSummary, MechanismRow};

    fn interval_with_account() -> LiveInterval {
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
        let mut interval = interval_with_account();
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
        state.take_interval(interval_with_account());
        assert_eq!(state.focus(), Pane::Culprits, "not against keys");
        let mut state = ViewState::new("app".to_owned());
        state.take_interval(interval_with_account());
        assert_eq!(state.focus(), Pane::Time);
    }
}
