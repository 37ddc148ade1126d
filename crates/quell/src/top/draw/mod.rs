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
    let focus = state.focus();
    let is_wide = area.width >= MIN_SIDE_BY_SIDE_COLUMNS;
    let placed = match (state.opened.is_some(), is_wide) {
        _ if state.zoom => vec![(focus, area)],
        (true, _) => place_close_up(area, focus, is_wide),
        (false, true) => place_overview(area, focus),
        (false, false) => place_narrow_overview(area, focus),
    };
    for (pane, area) in placed {
        if pane == Pane::Matrix {
            matrix::draw_matrix(frame, area, state, look);
        } else {
            table::draw_table(frame, area, state, pane, look);
        }
    }
}

/// Panes with their places.
type PlacedPanes = Vec<(Pane, Rect)>;

/// Places the panes of one process. On a narrow screen the pane that is left out is one key away when it has no focus.
fn place_close_up(area: Rect, focus: Pane, is_wide: bool) -> PlacedPanes {
    let [top, bottom] = half_areas(area, focus);
    if is_wide {
        let [threads, reasons] = side_by_side_areas(top, [50, 50]);
        let [regions, stacks] = side_by_side_areas(bottom, [40, 60]);
        return vec![
            (Pane::Threads, threads),
            (Pane::Reasons, reasons),
            (Pane::OwnRegions, regions),
            (Pane::Stacks, stacks),
        ];
    }
    if let Pane::OwnRegions | Pane::Stacks = focus {
        return vec![(Pane::Threads, top), (focus, bottom)];
    }
    let [reasons, regions] = side_by_side_areas(bottom, [50, 50]);
    vec![
        (Pane::Threads, top),
        (Pane::Reasons, reasons),
        (Pane::OwnRegions, regions),
    ]
}

/// Places the panes of everything on a narrow screen. Time is the answer, and counts explain it.
fn place_narrow_overview(area: Rect, focus: Pane) -> PlacedPanes {
    let [top, bottom] = half_areas(area, focus);
    match focus {
        Pane::Time | Pane::Holders => vec![(focus, top), (Pane::Culprits, bottom)],
        Pane::Matrix | Pane::Regions | Pane::Calls => vec![(Pane::Culprits, top), (focus, bottom)],
        _ => {
            let [victims, causes] = side_by_side_areas(bottom, [50, 50]);
            vec![
                (Pane::Culprits, top),
                (Pane::Victims, victims),
                (Pane::Causes, causes),
            ]
        }
    }
}

/// Places culprits and victims on the left, and causes, regions and the matrix on the right; or the time and its holders above
/// culprits and causes, or all function calls below them.
fn place_overview(area: Rect, focus: Pane) -> PlacedPanes {
    let [top, bottom] = stacked_areas(area);
    if let Pane::Time | Pane::Holders = focus {
        let [time, holders] = side_by_side_areas(top, [60, 40]);
        let [culprits, causes] = side_by_side_areas(bottom, [55, 45]);
        return vec![
            (Pane::Time, time),
            (Pane::Holders, holders),
            (Pane::Culprits, culprits),
            (Pane::Causes, causes),
        ];
    }
    let [left, right] = side_by_side_areas(area, [55, 45]);
    let [culprits, victims] = stacked_areas(left);
    let mut placed = vec![(Pane::Culprits, culprits)];
    if focus == Pane::Calls {
        let [causes, _] = stacked_areas(right);
        placed.extend([(Pane::Causes, causes), (Pane::Calls, bottom)]);
        return placed;
    }
    placed.push((Pane::Victims, victims));
    if right.height >= MIN_THREE_PANES_ROWS {
        let panes = [Pane::Causes, Pane::Regions, Pane::Matrix];
        placed.extend(panes.into_iter().zip(stacked_areas::<3>(right)));
    } else {
        let below = match focus {
            Pane::Matrix => Pane::Matrix,
            _ => Pane::Regions,
        };
        let panes = [Pane::Causes, below];
        placed.extend(panes.into_iter().zip(stacked_areas::<2>(right)));
    }
    placed
}

/// Areas one over the other, of equal height.
fn stacked_areas<const N: usize>(area: Rect) -> [Rect; N] {
    Layout::vertical([Constraint::Fill(1); N]).areas(area)
}

fn half_areas(area: Rect, focus: Pane) -> [Rect; 2] {
    // stacks are long, so they get more room
    let share = if focus == Pane::Stacks { 30 } else { 50 };
    Layout::vertical([Constraint::Percentage(share), Constraint::Fill(1)]).areas(area)
}

/// Areas side by side, with a gap between them.
fn side_by_side_areas(area: Rect, shares: [u16; 2]) -> [Rect; 2] {
    Layout::horizontal(shares.map(Constraint::Fill))
        .spacing(2)
        .areas(area)
}
