//! A table in a pane.

use quell_event::text::is_plain;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::look::Look;
use crate::top::grid::{Grid, Mark};
use crate::top::state::{Pane, State};

/// A name that is shorter than this says too little: columns go first.
const NAME: usize = 16;
/// The same of long ones.
const LONG: usize = 40;
const GAP: usize = 2;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, state: &State, pane: Pane, look: Look) {
    let grid = state.grid(pane);
    let focus = state.focus() == pane;
    let sort = state.sort(pane);
    let columns = fit(&grid, usize::from(area.width), sort.column);
    let mut rows = area.rows();
    if let Some(row) = rows.next() {
        frame.render_widget(title(&grid, &grid.order(sort), focus, look), row);
    }
    if let Some(row) = rows.next() {
        let head: Vec<Span<'_>> = columns
            .iter()
            .map(|&(i, width)| {
                let column = &grid.columns[i];
                let style = if grid.sortable && i == sort.column {
                    look.title(focus)
                } else {
                    look.dim()
                };
                Span::styled(pad(column.title, width, column.right), style)
            })
            .collect();
        frame.render_widget(spaced(head), row);
    }
    if grid.lines.is_empty() {
        if let Some(row) = rows.next() {
            frame.render_widget(Line::styled(grid.empty, look.dim()), row);
        }
        return;
    }
    let height = usize::from(area.height).saturating_sub(2);
    let chosen = state.row(pane, &grid);
    let first = first(chosen.unwrap_or(0), grid.lines.len(), height);
    for ((n, line), row) in grid.lines.iter().enumerate().skip(first).zip(rows) {
        let cells: Vec<Span<'_>> = columns
            .iter()
            .map(|&(i, width)| {
                let cell = line.cells.get(i).map_or("", String::as_str);
                Span::raw(pad(cell, width, grid.columns[i].right))
            })
            .collect();
        let style = match line.mark {
            // chosen or not, an alarm is seen
            Mark::Alarm if focus && chosen == Some(n) => look.alarm().underlined(),
            _ if focus && chosen == Some(n) => look.chosen(),
            Mark::None => Style::new(),
            Mark::Bystander => look.bystander(),
            Mark::Alarm => look.alarm(),
            Mark::Minor => look.dim(),
        };
        frame.buffer_mut().set_style(row, style);
        frame.render_widget(spaced(cells), row);
    }
}

fn title(grid: &Grid, order: &str, focus: bool, look: Look) -> Line<'static> {
    let mark = if focus { "▸ " } else { "  " };
    let mut spans = vec![
        Span::styled(mark, look.title(focus)),
        Span::styled(grid.title.clone(), look.title(focus)),
        Span::styled(format!("  {order}"), look.dim()),
    ];
    if !grid.note.is_empty() {
        spans.push(Span::styled(format!("  {}", grid.note), look.dim()));
    }
    Line::from(spans)
}

fn spaced(cells: Vec<Span<'_>>) -> Line<'_> {
    let mut spans = Vec::with_capacity(cells.len() * 2);
    for cell in cells {
        if !spans.is_empty() {
            spans.push(Span::raw(" ".repeat(GAP)));
        }
        spans.push(cell);
    }
    Line::from(spans)
}

/// The first row that is shown, so that the chosen one is seen.
fn first(chosen: usize, all: usize, height: usize) -> usize {
    if all <= height || chosen < height {
        return 0;
    }
    (chosen + 1 - height).min(all - height)
}

/// Cut or filled to a width, and never with what a terminal would obey.
fn pad(text: &str, width: usize, right: bool) -> String {
    let clean = |c: char| if is_plain(c) { c } else { '?' };
    let length = text.chars().count();
    if length > width {
        let kept = text.chars().map(clean).take(width.saturating_sub(1));
        return kept.chain(std::iter::once('…')).take(width).collect();
    }
    let fill = " ".repeat(width - length);
    let text: String = text.chars().map(clean).collect();
    if right { fill + &text } else { text + &fill }
}

/// Which columns are shown, and how wide. The last one gets what is left.
fn fit(grid: &Grid, width: usize, sorted: usize) -> Vec<(usize, usize)> {
    let mut shown: Vec<(usize, usize)> = (0..grid.columns.len())
        .map(|i| (i, natural(grid, i)))
        .collect();
    let names = |shown: &[(usize, usize)]| -> usize {
        let fixed: usize = shown.iter().rev().skip(1).map(|&(_, w)| w + GAP).sum();
        width.saturating_sub(fixed)
    };
    // whatever the names are now, or columns would come and go
    let long = grid.columns.last().is_some_and(|c| c.long);
    while names(&shown) < if long { LONG } else { NAME } {
        let spare = |&(i, _): &(usize, usize)| grid.columns[i].spare && i != sorted;
        let Some(at) = shown.iter().rposition(spare) else {
            break;
        };
        shown.remove(at);
    }
    let left = names(&shown);
    if let Some(last) = shown.last_mut() {
        last.1 = left;
    }
    shown
}

/// As wide as a column's title and cells, and no less than numbers mostly are, so that it does not
/// jump from interval to interval.
fn natural(grid: &Grid, i: usize) -> usize {
    let column = &grid.columns[i];
    let cells = grid.lines.iter().filter_map(|l| l.cells.get(i));
    let widest = cells.map(|c| c.chars().count()).max().unwrap_or(0);
    let least = match (column.right, column.ascending) {
        (true, false) => 7,
        (true, true) => 5,
        // of a thread, in the kernel
        (false, true) => 15,
        (false, false) => 1,
    };
    widest.max(column.title.chars().count()).max(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that cells are cut and filled to their width, and that a name can't move the cursor.
    #[test]
    fn cells_fit() {
        assert_eq!(pad("abc", 5, true), "  abc");
        assert_eq!(pad("abcdef", 4, false), "abc…");
        assert_eq!(pad("a\x1b[2J", 5, false), "a?[2J");
        assert_eq!(pad("abc", 0, false), "");
    }

    /// Check that the chosen row is always among those that are shown.
    #[test]
    fn chosen_is_shown() {
        for all in 1..30 {
            for height in 1..10 {
                for chosen in 0..all {
                    let first = first(chosen, all, height);
                    assert!((first..first + height).contains(&chosen));
                    assert!(first == 0 || first + height <= all);
                }
            }
        }
    }
}
