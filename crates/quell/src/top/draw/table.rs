//! A table in a pane.

use quell_event::text::is_plain;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::style::ScreenStyle;
use crate::top::grid::{Grid, RowMark};
use crate::top::state::{Pane, ViewState};

/// A name that is cut to less than this says too little, so other columns are left out first.
const MIN_NAME_CHARS: usize = 16;
/// The same bound for columns with long texts.
const MIN_LONG_TEXT_CHARS: usize = 40;
const COLUMN_GAP_CHARS: usize = 2;

pub(super) fn draw_table(
    frame: &mut Frame<'_>,
    area: Rect,
    state: &ViewState,
    pane: Pane,
    look: ScreenStyle,
) {
    let grid = state.pane_grid(pane);
    let focus = state.focus() == pane;
    let sort = state.sort_of(pane);
    let columns = fit_columns(&grid, usize::from(area.width), sort.column);
    let mut rows = area.rows();
    if let Some(row) = rows.next() {
        frame.render_widget(
            table_title(&grid, &grid.order_label(sort), focus, look),
            row,
        );
    }
    if let Some(row) = rows.next() {
        let head: Vec<Span<'_>> = columns
            .iter()
            .map(|&(i, width)| {
                let column = &grid.columns[i];
                let style = if grid.sortable && i == sort.column {
                    look.title_style(focus)
                } else {
                    look.dim_style()
                };
                Span::styled(fit_cell(column.title, width, column.right), style)
            })
            .collect();
        frame.render_widget(spaced_line(head), row);
    }
    if grid.lines.is_empty() {
        if let Some(row) = rows.next() {
            frame.render_widget(Line::styled(grid.empty, look.dim_style()), row);
        }
        return;
    }
    let height = usize::from(area.height).saturating_sub(2);
    let chosen = state.chosen_row(pane, &grid);
    let first = first_shown_row(chosen.unwrap_or(0), grid.lines.len(), height);
    for ((n, line), row) in grid.lines.iter().enumerate().skip(first).zip(rows) {
        let cells: Vec<Span<'_>> = columns
            .iter()
            .map(|&(i, width)| {
                let cell = line.cells.get(i).map_or("", String::as_str);
                Span::raw(fit_cell(cell, width, grid.columns[i].right))
            })
            .collect();
        let style = match line.mark {
            // an alarm is seen whether its row is chosen or not
            RowMark::Alarm if focus && chosen == Some(n) => look.alarm_style().underlined(),
            _ if focus && chosen == Some(n) => look.chosen_style(),
            RowMark::None => Style::new(),
            RowMark::Bystander => look.bystander_style(),
            RowMark::Alarm => look.alarm_style(),
            RowMark::Minor => look.dim_style(),
        };
        frame.buffer_mut().set_style(row, style);
        frame.render_widget(spaced_line(cells), row);
    }
}

fn table_title(grid: &Grid, order: &str, focus: bool, look: ScreenStyle) -> Line<'static> {
    let mark = if focus { "▸ " } else { "  " };
    let mut spans = vec![
        Span::styled(mark, look.title_style(focus)),
        Span::styled(grid.title.clone(), look.title_style(focus)),
        Span::styled(format!("  {order}"), look.dim_style()),
    ];
    if !grid.note.is_empty() {
        spans.push(Span::styled(format!("  {}", grid.note), look.dim_style()));
    }
    Line::from(spans)
}

fn spaced_line(cells: Vec<Span<'_>>) -> Line<'_> {
    let mut spans = Vec::with_capacity(cells.len() * 2);
    for cell in cells {
        if !spans.is_empty() {
            spans.push(Span::raw(" ".repeat(COLUMN_GAP_CHARS)));
        }
        spans.push(cell);
    }
    Line::from(spans)
}

/// The first row to show, so that the chosen one is visible.
fn first_shown_row(chosen: usize, all: usize, height: usize) -> usize {
    if all <= height || chosen < height {
        return 0;
    }
    (chosen + 1 - height).min(all - height)
}

/// Cuts or fills a text to a width, and replaces characters that a terminal would obey.
fn fit_cell(text: &str, width: usize, right: bool) -> String {
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

/// Which columns are shown, and how wide each is. The last one gets the room that is left.
fn fit_columns(grid: &Grid, width: usize, sorted: usize) -> Vec<(usize, usize)> {
    let mut shown: Vec<(usize, usize)> = (0..grid.columns.len())
        .map(|i| (i, natural_width(grid, i)))
        .collect();
    let names = |shown: &[(usize, usize)]| -> usize {
        let fixed: usize = shown
            .iter()
            .rev()
            .skip(1)
            .map(|&(_, w)| w + COLUMN_GAP_CHARS)
            .sum();
        width.saturating_sub(fixed)
    };
    // the bound does not depend on the names, or columns would come and go
    let long = grid.columns.last().is_some_and(|c| c.long);
    while names(&shown)
        < if long {
            MIN_LONG_TEXT_CHARS
        } else {
            MIN_NAME_CHARS
        }
    {
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

/// A column is as wide as its title and cells, and no less than cells of its alignment and order mostly are, so that it does not
/// jump from interval to interval.
fn natural_width(grid: &Grid, i: usize) -> usize {
    let column = &grid.columns[i];
    let cells = grid.lines.iter().filter_map(|l| l.cells.get(i));
    let widest = cells.map(|c| c.chars().count()).max().unwrap_or(0);
    let least = match (column.right, column.ascending) {
        (true, false) => 7,
        (true, true) => 5,
        // names and lists of CPUs: a name of a thread has at most 15 characters in the kernel
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
        assert_eq!(fit_cell("abc", 5, true), "  abc");
        assert_eq!(fit_cell("abcdef", 4, false), "abc…");
        assert_eq!(fit_cell("a\x1b[2J", 5, false), "a?[2J");
        assert_eq!(fit_cell("abc", 0, false), "");
    }

    /// Check that the chosen row is always among those that are shown.
    #[test]
    fn chosen_is_shown() {
        for all in 1..30 {
            for height in 1..10 {
                for chosen in 0..all {
                    let first = first_shown_row(chosen, all, height);
                    assert!((first..first + height).contains(&chosen));
                    assert!(first == 0 || first + height <= all);
                }
            }
        }
    }
}
