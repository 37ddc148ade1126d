//! An interval as text, with the same content as the screen.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};

use super::filter::RowFilter;
use super::grid::{Grid, SortOrder};
use super::heat::{LABEL_CHARS, heat_map};
use super::interval::LiveInterval;
use super::state::{Pane, sorted_grid};
use crate::show;
use crate::show::style::{BOLD, DIM, heading};
use crate::show::summary::{missing_notes, short_quantiles_text};
use crate::show::table::{Table, plain, say_how_many_more};
use crate::show::units::{count, rate, time, time_rate};

const ALARM_STYLE: Style = Style::new()
    .bold()
    .fg_color(Some(anstyle::Color::Ansi(AnsiColor::Red)));

/// The matrix of a text is as wide as a wide terminal, in characters.
const TEXT_MATRIX_CHARS: usize = 120;
/// More rows of frames say nothing new.
const MAX_FRAME_ROWS: usize = 60;

/// Writes one interval, the `number`th. Each table has at most `top` rows and says how many it leaves out.
pub(crate) fn interval_text(
    interval: &LiveInterval,
    title: &str,
    number: u64,
    top: usize,
) -> String {
    let s = &interval.summary;
    let ns = s.duration_ns;
    let mut out = String::new();
    // writing to a String does not fail
    let _ = writeln!(
        out,
        "{BOLD}{title}{BOLD:#} {DIM}({}, interval {}, {}){DIM:#}",
        s.backend,
        count(number),
        time(ns)
    );
    if let Some(alarm) = &interval.alarm {
        let style = if alarm.is_quiet() { DIM } else { ALARM_STYLE };
        let _ = writeln!(out, "{style}{}{style:#}", alarm.summary_line(ns));
    }
    if let Some(account) = &s.account {
        show::account::write_account(&mut out, account, top);
    }
    let each = s.victims as f64 / s.shootdowns.max(1) as f64;
    let mut t = Table::new(&["", ">", ""]);
    t.row(vec![
        "shootdowns".into(),
        format!("{}/s", rate(s.shootdowns, ns)),
        format!("{} victims/s, {each:.2} each", rate(s.victims, ns)),
    ]);
    for (name, q) in [
        ("wait", &s.wait_ns),
        ("delay", &s.delay_ns),
        ("stall", &s.stall_ns),
    ] {
        t.row(vec![
            name.into(),
            format!("{}/s", time_rate(q.sum, ns)),
            short_quantiles_text(q),
        ]);
    }
    out.push_str(t.text().trim_start_matches('\n'));
    let write_pane = |out: &mut String, pane, top| {
        let grid = sorted_grid(interval, pane, &RowFilter::default(), SortOrder::default());
        write_table(out, &grid, top);
    };
    for pane in [Pane::Culprits, Pane::Victims, Pane::Causes, Pane::Regions] {
        write_pane(&mut out, pane, top);
    }
    if interval.tally.calls.is_some() {
        write_pane(&mut out, Pane::Calls, top);
    }
    write_matrix(&mut out, interval, top);
    if let Some(close_up) = &interval.close_up {
        let ended = if close_up.ended {
            ", which has ended"
        } else {
            ""
        };
        heading(&mut out, &format!("Process {}{ended}", close_up.pid));
        for pane in [Pane::Threads, Pane::Reasons, Pane::OwnRegions] {
            write_pane(&mut out, pane, top);
        }
        write_pane(&mut out, Pane::Stacks, MAX_FRAME_ROWS);
    }
    let mut notes = vec![format!("lost {}", count(s.lost))];
    notes.extend(missing_notes(s));
    notes.push(format!("quell used {} of CPU time so far", time(s.self_ns)));
    let _ = writeln!(out, "\n{DIM}{}{DIM:#}\n", notes.join("; "));
    out
}

fn write_table(out: &mut String, grid: &Grid, top: usize) {
    let note = match grid.note.as_str() {
        "" => String::new(),
        note => format!(" {DIM}{note}{DIM:#}"),
    };
    let _ = writeln!(out, "\n{BOLD}{}{BOLD:#}{note}", grid.title);
    if grid.lines.is_empty() {
        let _ = writeln!(out, "  {DIM}{}{DIM:#}", grid.empty);
        return;
    }
    let titles: Vec<String> = grid
        .columns
        .iter()
        .map(|c| format!("{}{}", if c.right { ">" } else { "" }, c.title))
        .collect();
    let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
    let mut t = Table::new(&titles);
    for line in grid.lines.iter().take(top) {
        t.row(line.cells.iter().map(|c| plain(c)).collect());
    }
    out.push_str(&t.text());
    say_how_many_more(out, grid.lines.len(), top);
}

fn write_matrix(out: &mut String, interval: &LiveInterval, top: usize) {
    let heat = heat_map(interval, TEXT_MATRIX_CHARS, top.max(16));
    let note = match heat.note.as_str() {
        "" => String::new(),
        note => format!(", {note}"),
    };
    let _ = writeln!(
        out,
        "\n{BOLD}Hits/s from CPU ↓ at CPU →{BOLD:#} {DIM}whole machine{note}{DIM:#}"
    );
    let (chars, gap) = heat.cell_layout();
    let _ = write!(out, "{:LABEL_CHARS$}", "");
    for &(cpu, guarded) in &heat.victims {
        let _ = write!(out, "{gap}{}", heat.victim_name(cpu, guarded));
    }
    out.push('\n');
    for (cpu, cells) in &heat.rows {
        let _ = write!(out, "{cpu:>LABEL_CHARS$}");
        for cell in cells {
            let style = if cell.alarm {
                ALARM_STYLE
            } else {
                Style::new()
            };
            let _ = write!(out, "{gap}{style}{:>chars$}{style:#}", cell.text);
        }
        out.push('\n');
    }
}
