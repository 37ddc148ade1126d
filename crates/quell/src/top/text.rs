//! An interval as text, with the same content as the screen.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};

use super::calls;
use super::filter::Filter;
use super::grid::{Grid, Sort};
use super::heat::{LABEL, heat};
use super::regions;
use super::sample::Sample;
use super::tables::Tables;
use crate::show;
use crate::show::style::{BOLD, DIM, heading};
use crate::show::table::{Table, plain};
use crate::show::units::{count, plural, rate, time, time_rate};

const ALARM: Style = Style::new()
    .bold()
    .fg_color(Some(anstyle::Color::Ansi(AnsiColor::Red)));

/// Characters of the matrix: a wide terminal.
const WIDTH: usize = 120;
/// The numbers of a stack's frames say nothing beyond so many.
const FRAMES: usize = 60;

/// One interval, the `number`th. Each table has at most `top` rows and says what it leaves out.
pub(crate) fn text(sample: &Sample, title: &str, number: u64, top: usize) -> String {
    let s = &sample.summary;
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
    if let Some(alarm) = &sample.alarm {
        let style = if alarm.quiet() { DIM } else { ALARM };
        let _ = writeln!(out, "{style}{}{style:#}", alarm.line(ns));
    }
    if let Some(account) = &s.account {
        show::account::text(&mut out, account, top);
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
            format!(
                "p50 {}, p99 {}, max {}",
                time(q.p50),
                time(q.p99),
                time(q.max)
            ),
        ]);
    }
    out.push_str(t.text().trim_start_matches('\n'));
    let tables = Tables::new(sample, &Filter::default());
    let regions = regions::grid_of_regions(
        sample.regions.as_ref(),
        sample.duration_ns(),
        &Filter::default(),
    );
    let grids = [tables.culprits, tables.victims, tables.causes, regions];
    for mut grid in grids {
        grid.sort(Sort::default());
        table(&mut out, &grid, top);
    }
    if let Some(calls) = &sample.tally.calls {
        let mut grid = calls::grid(sample, calls, &Filter::default());
        grid.sort(Sort::default());
        table(&mut out, &grid, top);
    }
    matrix(&mut out, sample, top);
    if let Some(detail) = &sample.detail {
        let ended = if detail.ended {
            ", which has ended"
        } else {
            ""
        };
        heading(&mut out, &format!("Process {}{ended}", detail.pid));
        let none = Filter::default();
        for mut grid in [
            detail.threads(&none),
            detail.causes(&sample.tally, &none),
            detail.regions(&none),
        ] {
            grid.sort(Sort::default());
            table(&mut out, &grid, top);
        }
        table(&mut out, &detail.stacks(&none), FRAMES);
    }
    let mut notes = vec![format!("lost {}", count(s.lost))];
    if s.unseen > 0 {
        notes.push(format!(
            "{} counted but not seen in their handler",
            plural(s.unseen, "victim")
        ));
    }
    notes.extend(show::summary::untimed(s));
    notes.push(format!("quell used {} of CPU time so far", time(s.self_ns)));
    let _ = writeln!(out, "\n{DIM}{}{DIM:#}\n", notes.join("; "));
    out
}

fn table(out: &mut String, grid: &Grid, top: usize) {
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
    if grid.lines.len() > top {
        let left = count((grid.lines.len() - top) as u64);
        let _ = writeln!(out, "  {DIM}and {left} more{DIM:#}");
    }
}

fn matrix(out: &mut String, sample: &Sample, top: usize) {
    let heat = heat(sample, WIDTH, top.max(16));
    let note = match heat.note.as_str() {
        "" => String::new(),
        note => format!(", {note}"),
    };
    let _ = writeln!(
        out,
        "\n{BOLD}Hits/s from CPU ↓ at CPU →{BOLD:#} {DIM}whole machine{note}{DIM:#}"
    );
    let width = heat.width.saturating_sub(1).max(1);
    let gap = if heat.width > 1 { " " } else { "" };
    let _ = write!(out, "{:LABEL$}", "");
    for &(cpu, guarded) in &heat.victims {
        let name = match (width, guarded) {
            (1, true) => "!".to_owned(),
            (1, false) => (cpu % 10).to_string(),
            (_, true) => format!("!{cpu}"),
            (_, false) => cpu.to_string(),
        };
        let _ = write!(out, "{gap}{name:>width$}");
    }
    out.push('\n');
    for (cpu, cells) in &heat.rows {
        let _ = write!(out, "{cpu:>LABEL$}");
        for cell in cells {
            let style = if cell.alarm { ALARM } else { Style::new() };
            let _ = write!(out, "{gap}{style}{:>width$}{style:#}", cell.text);
        }
        out.push('\n');
    }
}
