//! The lines above and below the tables. They show totals and their history, warnings, and the keys.

use quell_event::text::clean_text;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Sparkline;

use super::style::ScreenStyle;
use crate::show::account::account_headline;
use crate::show::summary::short_quantiles_text;
use crate::show::units::{count, plural, rate, time, time_rate};
use crate::top::state::ViewState;

/// Lines of the header, without the one about isolated CPUs and the one about the account.
pub(super) const HEADER_ROWS: u16 = 5;
/// The sparklines begin here, since the totals need so much room.
const SPARKLINE_START_COLUMN: u16 = 62;

pub(super) fn draw_header(frame: &mut Frame<'_>, area: Rect, state: &ViewState, look: ScreenStyle) {
    let mut rows = area.rows();
    if let Some(row) = rows.next() {
        frame.render_widget(header_title(state, look), row);
    }
    if let Some(alarm) = &state.interval.alarm
        && let Some(row) = rows.next()
    {
        let text = alarm.summary_line(state.interval.duration_ns());
        let style = if alarm.is_quiet() {
            look.dim_style()
        } else {
            look.alarm_style()
        };
        let text = format!("{text:<width$}", width = usize::from(row.width));
        frame.render_widget(Line::styled(text, style), row);
    }
    if let Some(account) = &state.interval.summary.account
        && let Some(row) = rows.next()
    {
        frame.render_widget(
            Line::raw(clean_text(&account_headline(account)).into_owned()),
            row,
        );
    }
    let s = &state.interval.summary;
    let ns = s.duration_ns;
    let each = s.victims as f64 / s.shootdowns.max(1) as f64;
    let figures = [
        (
            "shootdowns",
            rate(s.shootdowns, ns),
            format!("{} victims, {each:.2} each", rate(s.victims, ns)),
        ),
        (
            "wait",
            time_rate(s.wait_ns.sum, ns),
            short_quantiles_text(&s.wait_ns),
        ),
        (
            "stall",
            time_rate(s.stall_ns.sum, ns),
            short_quantiles_text(&s.stall_ns),
        ),
    ];
    for (i, (name, value, more)) in figures.into_iter().enumerate() {
        let Some(row) = rows.next() else { return };
        let line = Line::from(vec![
            Span::raw(format!("{name:<10}{value:>9}/s  ")),
            Span::styled(more, look.dim_style()),
        ]);
        let left = Rect {
            width: row.width.min(SPARKLINE_START_COLUMN),
            ..row
        };
        frame.render_widget(line, left);
        let width = row.width.saturating_sub(SPARKLINE_START_COLUMN + 1);
        let right = Rect {
            x: row.x + row.width - width,
            width,
            ..row
        };
        // the newest point stands at the right edge
        let newest = state.history.iter().rev().map(|point| point[i]);
        let padded = newest.chain(std::iter::repeat(0));
        let mut data: Vec<u64> = padded.take(usize::from(width)).collect();
        data.reverse();
        frame.render_widget(
            Sparkline::default()
                .data(data)
                .style(look.sparkline_style()),
            right,
        );
    }
}

fn header_title(state: &ViewState, look: ScreenStyle) -> Line<'static> {
    let mut spans = vec![
        Span::styled("quell top", look.title_style(false)),
        Span::raw(format!("  {}", state.title)),
        Span::styled(
            format!("  every {}", time(state.interval.duration_ns())),
            look.dim_style(),
        ),
    ];
    if let Some((pid, comm)) = &state.opened {
        spans.push(Span::styled(
            format!("  › {} ({pid})", clean_text(comm)),
            look.title_style(true),
        ));
        if state.interval.close_up.as_ref().is_some_and(|d| d.ended) {
            spans.push(Span::styled(" has ended", look.alarm_style()));
        }
    }
    if state.paused {
        spans.push(Span::raw("  "));
        spans.push(Span::styled(" PAUSED ", look.chosen_style()));
    }
    let s = &state.interval.summary;
    if s.lost > 0 {
        spans.push(Span::styled(
            format!("  lost {}", count(s.lost)),
            look.alarm_style(),
        ));
    }
    if s.unseen > 0 {
        let unseen = format!("  {} not seen in their handler", plural(s.unseen, "victim"));
        spans.push(Span::styled(unseen, look.dim_style()));
    }
    if let Some(every) = s.timed_one_in() {
        let timed = format!("  times of one in {every:.1}");
        spans.push(Span::styled(timed, look.dim_style()));
    }
    Line::from(spans)
}

/// Draws the last line, which shows the filter, a notice, or the keys.
pub(super) fn draw_footer(frame: &mut Frame<'_>, area: Rect, state: &ViewState, look: ScreenStyle) {
    let line = if state.typing {
        Line::from(vec![
            Span::styled("filter: ", look.title_style(true)),
            Span::raw(state.filter.clone()),
            Span::styled(" ", look.chosen_style()),
            Span::styled("  Enter keeps it, Esc drops it", look.dim_style()),
        ])
    } else if !state.notice.is_empty() {
        Line::styled(state.notice.clone(), look.title_style(true))
    } else {
        let mut spans = Vec::new();
        if !state.filter.is_empty() {
            spans.push(Span::styled(
                format!("filter '{}' (Esc drops it)  ", state.filter),
                look.title_style(true),
            ));
        }
        let keys = if state.opened.is_some() {
            "q quit  ? help  Esc back  Tab pane  ←→ r sort  z zoom  p pause  / filter"
        } else {
            "q quit  ? help  Enter open  Tab pane  ←→ r sort  z zoom  p pause  / filter"
        };
        spans.push(Span::styled(keys, look.dim_style()));
        Line::from(spans)
    };
    frame.render_widget(line, area);
}
