//! The screen: a pure function of the state.

mod header;
mod help;
mod look;
mod matrix;
mod table;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::Line;

use super::state::{Pane, State};
pub(crate) use look::Look;

/// Below it nothing is to be read.
const LEAST: (u16, u16) = (50, 14);
/// From here on tables stand side by side.
const WIDE: u16 = 110;
/// From this height of the panes on three stand one over the other.
const TALL: u16 = 21;

/// Draws everything.
pub(crate) fn draw(frame: &mut Frame<'_>, state: &State, look: Look) {
    let area = frame.area();
    if area.width < LEAST.0 || area.height < LEAST.1 {
        too_small(frame, area);
        return;
    }
    let alarm = u16::from(state.sample.alarm.is_some());
    let account = u16::from(state.sample.summary.account.is_some());
    let [top, body, foot] = Layout::vertical([
        Constraint::Length(header::HEIGHT + alarm + account),
        Constraint::Min(3),
        Constraint::Length(1),
    ])
    .areas(area);
    header::draw(frame, top, state, look);
    panes(frame, body, state, look);
    header::foot(frame, foot, state, look);
    if state.help {
        help::draw(frame, area, look);
    }
}

fn too_small(frame: &mut Frame<'_>, area: Rect) {
    let text = [
        Line::from("quell top: too small"),
        Line::from(format!(
            "{}x{} of {}x{}",
            area.width, area.height, LEAST.0, LEAST.1
        )),
        Line::from("q quits"),
    ];
    for (row, line) in area.rows().zip(text) {
        frame.render_widget(line, row);
    }
}

fn panes(frame: &mut Frame<'_>, area: Rect, state: &State, look: Look) {
    if state.zoom {
        pane(frame, area, state, state.focus(), look);
        return;
    }
    let panes = state.panes();
    let (top, bottom) = halves(area, state);
    if area.width >= WIDE {
        let close = state.close.is_some();
        if close {
            let [a, b] = columns(top, [50, 50]);
            pane(frame, a, state, panes[0], look);
            pane(frame, b, state, panes[1], look);
            let [a, b] = columns(bottom, [40, 60]);
            pane(frame, a, state, panes[2], look);
            pane(frame, b, state, panes[3], look);
        } else {
            overview(frame, area, state, look);
        }
        return;
    }
    // the pane that is not there is where the focus is, or one key away
    if state.close.is_some() {
        pane(frame, top, state, panes[0], look);
        let [a, b] = columns(bottom, [50, 50]);
        match state.focus() {
            wide @ (Pane::OwnRegions | Pane::Stacks) => pane(frame, bottom, state, wide, look),
            _ => {
                pane(frame, a, state, panes[1], look);
                pane(frame, b, state, panes[2], look);
            }
        }
        return;
    }
    pane(frame, top, state, panes[0], look);
    if let wide @ (Pane::Matrix | Pane::Regions | Pane::Calls | Pane::Time | Pane::Holders) =
        state.focus()
    {
        pane(frame, bottom, state, wide, look);
    } else {
        let [a, b] = columns(bottom, [50, 50]);
        pane(frame, a, state, panes[1], look);
        pane(frame, b, state, panes[2], look);
    }
}

/// Who on the left, and on the right why, what and where.
fn overview(frame: &mut Frame<'_>, area: Rect, state: &State, look: Look) {
    let focus = state.focus();
    let [left, right] = columns(area, [55, 45]);
    let [culprits, victims] = stacked(left);
    pane(frame, culprits, state, Pane::Culprits, look);
    if let wide @ (Pane::Calls | Pane::Time | Pane::Holders) = focus {
        let [causes, _] = stacked(right);
        let [_, bottom] = stacked(area);
        pane(frame, causes, state, Pane::Causes, look);
        if wide == Pane::Calls {
            pane(frame, bottom, state, wide, look);
            return;
        }
        let [time, holders] = columns(bottom, [60, 40]);
        pane(frame, time, state, Pane::Time, look);
        pane(frame, holders, state, Pane::Holders, look);
        return;
    }
    pane(frame, victims, state, Pane::Victims, look);
    if right.height >= TALL {
        let [causes, regions, matrix] = stacked(right);
        pane(frame, causes, state, Pane::Causes, look);
        pane(frame, regions, state, Pane::Regions, look);
        pane(frame, matrix, state, Pane::Matrix, look);
        return;
    }
    let [causes, below] = stacked(right);
    pane(frame, causes, state, Pane::Causes, look);
    let shown = match focus {
        Pane::Matrix => Pane::Matrix,
        _ => Pane::Regions,
    };
    pane(frame, below, state, shown, look);
}

/// One over the other, of equal height.
fn stacked<const N: usize>(area: Rect) -> [Rect; N] {
    Layout::vertical([Constraint::Fill(1); N]).areas(area)
}

fn halves(area: Rect, state: &State) -> (Rect, Rect) {
    // stacks are long
    let share = match state.focus() {
        Pane::Stacks => 30,
        _ => 50,
    };
    let [top, bottom] =
        Layout::vertical([Constraint::Percentage(share), Constraint::Fill(1)]).areas(area);
    (top, bottom)
}

/// Side by side, with room between.
fn columns(area: Rect, shares: [u16; 2]) -> [Rect; 2] {
    Layout::horizontal(shares.map(Constraint::Fill))
        .spacing(2)
        .areas(area)
}

fn pane(frame: &mut Frame<'_>, area: Rect, state: &State, pane: Pane, look: Look) {
    if pane == Pane::Matrix {
        matrix::draw(frame, area, state, look);
    } else {
        table::draw(frame, area, state, pane, look);
    }
}
