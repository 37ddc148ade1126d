//! The help, which is drawn over everything else.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::{Block, Clear, Paragraph};

use super::style::ScreenStyle;

const HELP_TEXT: &str = "\
Tab 1-8   choose a pane           q    quit
↑ ↓ j k   choose a row            p    pause, also space
← →       choose what to sort by  z    zoom the pane
r         the other way round     m    the matrix
Enter     open a process; of a cause: who has it
t         where the time goes, and who holds locks
5         regions: what lies at the ranges
i         other function calls, with --ipi
Esc       back; drop the filter   /    filter

shoot/s   shootdowns a second: requests to flush
victims/s CPUs interrupted by them
wait      time culprits waited for their victims
each      wait or stall of one, on average
stall     time victims spent in the handler
* hit for memory that is not its own, or idle
! an isolated CPU: nobody should disturb it
Any key closes this. More: docs/top.md";

pub(super) fn draw_help(frame: &mut Frame<'_>, area: Rect, look: ScreenStyle) {
    let widest = HELP_TEXT
        .lines()
        .map(|l| l.chars().count())
        .max()
        .unwrap_or(0);
    let width = u16::try_from(widest + 4)
        .unwrap_or(area.width)
        .min(area.width);
    let lines = HELP_TEXT.lines().count() + 2;
    let height = u16::try_from(lines).unwrap_or(area.height).min(area.height);
    let area = Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    };
    let block = Block::bordered()
        .title(Line::styled(" Help ", look.title_style(true)))
        .padding(ratatui::widgets::Padding::horizontal(1));
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(HELP_TEXT).block(block), area);
}
