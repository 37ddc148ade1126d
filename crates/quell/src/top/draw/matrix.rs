//! The matrix of culprit CPU by victim CPU in a pane.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::style::ScreenStyle;
use crate::top::heat::{LABEL_CHARS, heat_map};
use crate::top::state::{Pane, ViewState};

pub(super) fn draw_matrix(frame: &mut Frame<'_>, area: Rect, state: &ViewState, look: ScreenStyle) {
    let focus = state.focus() == Pane::Matrix;
    let heat = heat_map(
        &state.interval,
        usize::from(area.width),
        usize::from(area.height.saturating_sub(2)),
    );
    let (chars, gap) = heat.cell_layout();
    let mut rows = area.rows();
    let mark = if focus { "▸ " } else { "  " };
    if let Some(row) = rows.next() {
        let mut spans = vec![
            Span::styled(mark, look.title_style(focus)),
            Span::styled("Hits/s from CPU ↓ at CPU →", look.title_style(focus)),
            Span::styled("  whole machine", look.dim_style()),
        ];
        if !heat.note.is_empty() {
            spans.push(Span::styled(format!(", {}", heat.note), look.dim_style()));
        }
        frame.render_widget(Line::from(spans), row);
    }
    if let Some(row) = rows.next() {
        let mut spans = vec![Span::raw(" ".repeat(LABEL_CHARS))];
        for &(cpu, guarded) in &heat.victims {
            let hit = state.interval.alarm.as_ref().is_some_and(|a| a.is_hit(cpu));
            let style = match (hit, guarded) {
                (true, _) => look.alarm_style(),
                (_, true) => look.title_style(true),
                _ => look.dim_style(),
            };
            spans.push(Span::raw(gap));
            spans.push(Span::styled(heat.victim_name(cpu, guarded), style));
        }
        frame.render_widget(Line::from(spans), row);
    }
    for ((cpu, cells), row) in heat.rows.iter().zip(rows) {
        let mut spans = vec![Span::styled(
            format!("{cpu:>LABEL_CHARS$}"),
            look.dim_style(),
        )];
        for cell in cells {
            let style = if cell.alarm {
                look.alarm_style()
            } else {
                look.heat_style(cell.heat)
            };
            spans.push(Span::raw(gap));
            spans.push(Span::styled(format!("{:>chars$}", cell.text), style));
        }
        frame.render_widget(Line::from(spans), row);
    }
}
