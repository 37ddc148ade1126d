//! The matrix of culprit CPU by victim CPU in a pane.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::look::Look;
use crate::top::heat::{LABEL, heat};
use crate::top::state::{Pane, State};

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, state: &State, look: Look) {
    let focus = state.focus() == Pane::Matrix;
    let heat = heat(
        &state.sample,
        usize::from(area.width),
        usize::from(area.height.saturating_sub(2)),
    );
    let mut rows = area.rows();
    let mark = if focus { "▸ " } else { "  " };
    if let Some(row) = rows.next() {
        let mut spans = vec![
            Span::styled(mark, look.title(focus)),
            Span::styled("Hits/s from CPU ↓ at CPU →", look.title(focus)),
            Span::styled("  whole machine", look.dim()),
        ];
        if !heat.note.is_empty() {
            spans.push(Span::styled(format!(", {}", heat.note), look.dim()));
        }
        frame.render_widget(Line::from(spans), row);
    }
    if let Some(row) = rows.next() {
        frame.render_widget(header(&heat.victims, heat.width, state, look), row);
    }
    for ((cpu, cells), row) in heat.rows.iter().zip(rows) {
        let mut spans = vec![Span::styled(format!("{cpu:>LABEL$}"), look.dim())];
        for cell in cells {
            let style = if cell.alarm {
                look.alarm()
            } else {
                look.heat(cell.heat)
            };
            let text = format!(
                "{:>width$}",
                cell.text,
                width = heat.width.saturating_sub(1).max(1)
            );
            if heat.width > 1 {
                spans.push(Span::raw(" "));
            }
            spans.push(Span::styled(text, style));
        }
        frame.render_widget(Line::from(spans), row);
    }
}

fn header(victims: &[(u32, bool)], width: usize, state: &State, look: Look) -> Line<'static> {
    let mut spans = vec![Span::raw(" ".repeat(LABEL))];
    for &(cpu, guarded) in victims {
        let hit = state.sample.alarm.as_ref().is_some_and(|a| a.is_hit(cpu));
        let style = match (hit, guarded) {
            (true, _) => look.alarm(),
            (_, true) => look.title(true),
            _ => look.dim(),
        };
        // one character: the last digit, as the ruler of a text editor
        let text = match (width, guarded) {
            (1, true) => "!".to_owned(),
            (1, false) => (cpu % 10).to_string(),
            (_, true) => format!("!{cpu}"),
            (_, false) => cpu.to_string(),
        };
        if width > 1 {
            let text = format!("{text:>width$}", width = width - 1);
            spans.push(Span::styled(" ", Style::new()));
            spans.push(Span::styled(text, style));
        } else {
            spans.push(Span::styled(text, style));
        }
    }
    Line::from(spans)
}
