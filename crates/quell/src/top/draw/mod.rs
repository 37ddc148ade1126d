//! The screen, which is a pure function of the state.

mod header;
mod help;
mod matrix;
mod style;
mod table;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::Line;

use super::state::{Pane, ViewState};
pub(crate) use style::ScreenStyle;

/// On a smaller screen nothing could be read.
const MIN_SCREEN_SIZE: (u16, u16) = (50, 14);
/// From this width on tables stand side by side.
const MIN_SIDE_BY_SIDE_COLUMNS: u16 = 110;
/// From this height of the panes on three stand one over the other.
const MIN_THREE_PANES_ROWS: u16 = 21;

/// Draws the whole view.
pub(crate) fn draw_view(frame: &mut Frame<'_>, state: &ViewState, look: ScreenStyle) {
    let area = frame.area();
    if area.width < MIN_SCREEN_SIZE.0 || area.height < MIN_SCREEN_SIZE.1 {
        draw_too_small(frame, area);
        return;
    }
    let alarm = u16::from(state.interval.alarm.is_some());
    let account = u16::from(state.interval.summary.account.is_some());
    let [top, body, foot] = Layout::vertical([
        Constraint::Length(header::HEADER_ROWS + alarm + account),
        Constraint::Min(3),
        Constraint::Length(1),
    ])
    .areas(area);
    header::draw_header(frame, top, state, look);
    draw_panes(frame, body, state, look);
    header::draw_footer(frame, foot, state, look);
    if state.help {
        help::draw_help(frame, area, look);
    }
}

fn draw_too_small(frame: &mut Frame<'_>, area: Rect) {
    let text = [
        Line::from("quell top: too small"),
        Line::from(format!(
            "{}x{} of {}x{}",
            area.width, area.height, MIN_SCREEN_SIZE.0, MIN_SCREEN_SIZE.1
        )),
        Line::from("q quits"),
    ];
    for (row, line) in area.rows().zip(text) {
        frame.render_widget(line, row);
    }
}

fn draw_panes(frame: &mut Frame<'_>, area: Rect, state: &ViewState, look: ScreenStyle) {
    if state.zoom {
        draw_pane(frame, area, state, state.focus(), look);
        return;
    }
    let panes = state.panes();
    let (top, bottom) = half_areas(area, state);
    if area.width >= MIN_SIDE_BY_SIDE_COLUMNS {
        let close = state.opened.is_some();
        if close {
            let [a, b] = side_by_side_areas(top, [50, 50]);
            draw_pane(frame, a, state, panes[0], look);
            draw_pane(frame, b, state, panes[1], look);
            let [a, b] = side_by_side_areas(bottom, [40, 60]);
            draw_pane(frame, a, state, panes[2], look);
            draw_pane(frame, b, state, panes[3], look);
        } else {
            draw_overview(frame, area, state, look);
        }
        return;
    }
    // the pane that is left out is one key away when it has no focus
    if state.opened.is_some() {
        draw_pane(frame, top, state, panes[0], look);
        let [a, b] = side_by_side_areas(bottom, [50, 50]);
        match state.focus() {
            wide @ (Pane::OwnRegions | Pane::Stacks) => draw_pane(frame, bottom, state, wide, look),
            _ => {
                draw_pane(frame, a, state, panes[1], look);
                draw_pane(frame, b, state, panes[2], look);
            }
        }
        return;
    }
    // time is the answer, and counts explain it
    let focus = state.focus();
    if let Pane::Time | Pane::Holders = focus {
        draw_pane(frame, top, state, focus, look);
        draw_pane(frame, bottom, state, panes[0], look);
        return;
    }
    draw_pane(frame, top, state, panes[0], look);
    if let wide @ (Pane::Matrix | Pane::Regions | Pane::Calls) = focus {
        draw_pane(frame, bottom, state, wide, look);
    } else {
        let [a, b] = side_by_side_areas(bottom, [50, 50]);
        draw_pane(frame, a, state, panes[1], look);
        draw_pane(frame, b, state, panes[2], look);
    }
}

/// Draws culprits and victims on the left, and causes, regions and the matrix on the right; or the time and its holders above
/// culprits and causes, or all function calls below them.
fn draw_overview(frame: &mut Frame<'_>, area: Rect, state: &ViewState, look: ScreenStyle) {
    let focus = state.focus();
    if let Pane::Time | Pane::Holders = focus {
        let [top, bottom] = stacked_areas(area);
        let [time, holders] = side_by_side_areas(top, [60, 40]);
        draw_pane(frame, time, state, Pane::Time, look);
        draw_pane(frame, holders, state, Pane::Holders, look);
        let [culprits, causes] = side_by_side_areas(bottom, [55, 45]);
        draw_pane(frame, culprits, state, Pane::Culprits, look);
        draw_pane(frame, causes, state, Pane::Causes, look);
        return;
    }
    let [left, right] = side_by_side_areas(area, [55, 45]);
    let [culprits, victims] = stacked_areas(left);
    draw_pane(frame, culprits, state, Pane::Culprits, look);
    if focus == Pane::Calls {
        let [causes, _] = stacked_areas(right);
        let [_, bottom] = stacked_areas(area);
        draw_pane(frame, causes, state, Pane::Causes, look);
        draw_pane(frame, bottom, state, Pane::Calls, look);
        return;
    }
    draw_pane(frame, victims, state, Pane::Victims, look);
    if right.height >= MIN_THREE_PANES_ROWS {
        let [causes, regions, matrix] = stacked_areas(right);
        draw_pane(frame, causes, state, Pane::Causes, look);
        draw_pane(frame, regions, state, Pane::Regions, look);
        draw_pane(frame, matrix, state, Pane::Matrix, look);
        return;
    }
    let [causes, below] = stacked_areas(right);
    draw_pane(frame, causes, state, Pane::Causes, look);
    let shown = match focus {
        Pane::Matrix => Pane::Matrix,
        _ => Pane::Regions,
    };
    draw_pane(frame, below, state, shown, look);
}

/// Areas one over the other, of equal height.
fn stacked_areas<const N: usize>(area: Rect) -> [Rect; N] {
    Layout::vertical([Constraint::Fill(1); N]).areas(area)
}

fn half_areas(area: Rect, state: &ViewState) -> (Rect, Rect) {
    // stacks are long, so they get more room
    let share = match state.focus() {
        Pane::Stacks => 30,
        _ => 50,
    };
    let [top, bottom] =
        Layout::vertical([Constraint::Percentage(share), Constraint::Fill(1)]).areas(area);
    (top, bottom)
}

/// Areas side by side, with a gap between them.
fn side_by_side_areas(area: Rect, shares: [u16; 2]) -> [Rect; 2] {
    Layout::horizontal(shares.map(Constraint::Fill))
        .spacing(2)
        .areas(area)
}

fn draw_pane(frame: &mut Frame<'_>, area: Rect, state: &ViewState, pane: Pane, look: ScreenStyle) {
    if pane == Pane::Matrix {
        matrix::draw_matrix(frame, area, state, look);
    } else {
        table::draw_table(frame, area, state, pane, look);
    }
}
