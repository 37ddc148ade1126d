//! The styles of the screen, with colours or without.

use ratatui::style::{Color, Modifier, Style};

/// How parts of the screen stand out. Each style has a modifier too, for a terminal without colours; only bystanders and shades
/// rely on their characters instead.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScreenStyle {
    pub(crate) color: bool,
}

impl ScreenStyle {
    fn with_color(self, style: Style, color: Color) -> Style {
        if self.color { style.fg(color) } else { style }
    }

    pub(crate) fn title_style(self, focus: bool) -> Style {
        let style = Style::new().add_modifier(Modifier::BOLD);
        if focus {
            return self.with_color(style, Color::Cyan);
        }
        style
    }

    pub(crate) fn dim_style(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    pub(crate) fn chosen_style(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    pub(crate) fn alarm_style(self) -> Style {
        let style = Style::new().add_modifier(Modifier::BOLD | Modifier::REVERSED);
        self.with_color(style, Color::Red)
    }

    pub(crate) fn bystander_style(self) -> Style {
        self.with_color(Style::new(), Color::Yellow)
    }

    pub(crate) fn sparkline_style(self) -> Style {
        self.with_color(Style::new(), Color::Cyan)
    }

    /// The style of a cell of the matrix, by a level from 0 to 5.
    pub(crate) fn heat_style(self, level: usize) -> Style {
        const HEAT_COLORS: [Color; 6] = [
            Color::Reset,
            Color::Blue,
            Color::Cyan,
            Color::Green,
            Color::Yellow,
            Color::Magenta,
        ];
        match level {
            0 => self.dim_style(),
            n => self.with_color(Style::new(), HEAT_COLORS[n.min(5)]),
        }
    }
}
