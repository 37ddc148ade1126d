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
/// From here on three tables stand side by side.
const WIDE: u16 = 110;

/// Draws everything.
pub(crate) fn draw(frame: &mut Frame<'_>, state: &State, look: Look) {
    let area = frame.area();
    if area.width < LEAST.0 || area.height < LEAST.1 {
        too_small(frame, area);
        return;
    }
    let alarm = u16::from(state.sample.alarm.is_some());
    let [top, body, foot] = Layout::vertical([
        Constraint::Length(header::HEIGHT + alarm),
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
            let [a, b] = columns(top, [60, 40]);
            pane(frame, a, state, panes[0], look);
            pane(frame, b, state, panes[2], look);
            if state.focus() == Pane::Calls {
                pane(frame, bottom, state, Pane::Calls, look);
                return;
            }
            let [a, b] = columns(bottom, [50, 50]);
            pane(frame, a, state, panes[1], look);
            pane(frame, b, state, panes[3], look);
        }
        return;
    }
    // the pane that is not there is where the focus is, or one key away
    if state.close.is_some() {
        pane(frame, top, state, panes[0], look);
        let [a, b] = columns(bottom, [50, 50]);
        match state.focus() {
            wide @ (Pane::Regions | Pane::Stacks) => pane(frame, bottom, state, wide, look),
            _ => {
                pane(frame, a, state, panes[1], look);
                pane(frame, b, state, panes[2], look);
            }
        }
        return;
    }
    pane(frame, top, state, panes[0], look);
    if let wide @ (Pane::Matrix | Pane::Calls) = state.focus() {
        pane(frame, bottom, state, wide, look);
    } else {
        let [a, b] = columns(bottom, [50, 50]);
        pane(frame, a, state, panes[1], look);
        pane(frame, b, state, panes[2], look);
    }
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
