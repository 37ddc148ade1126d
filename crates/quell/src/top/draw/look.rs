//! Colours, or none.

use ratatui::style::{Color, Modifier, Style};

/// How things stand out: by colour, and always also without.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    pub(crate) color: bool,
}

impl Look {
    fn colored(self, style: Style, color: Color) -> Style {
        if self.color { style.fg(color) } else { style }
    }

    pub(crate) fn title(self, focus: bool) -> Style {
        let style = Style::new().add_modifier(Modifier::BOLD);
        if focus {
            return self.colored(style, Color::Cyan);
        }
        style
    }

    pub(crate) fn dim(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    pub(crate) fn chosen(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    pub(crate) fn alarm(self) -> Style {
        let style = Style::new().add_modifier(Modifier::BOLD | Modifier::REVERSED);
        self.colored(style, Color::Red)
    }

    pub(crate) fn bystander(self) -> Style {
        self.colored(Style::new(), Color::Yellow)
    }

    pub(crate) fn spark(self) -> Style {
        self.colored(Style::new(), Color::Cyan)
    }

    /// Of a cell of the matrix, 0 to 5.
    pub(crate) fn heat(self, level: usize) -> Style {
        const COLORS: [Color; 6] = [
            Color::Reset,
            Color::Blue,
            Color::Cyan,
            Color::Green,
            Color::Yellow,
            Color::Magenta,
        ];
        match level {
            0 => self.dim(),
            n => self.colored(Style::new(), COLORS[n.min(5)]),
        }
    }
}
