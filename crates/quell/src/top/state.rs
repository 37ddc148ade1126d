//! The state of the view, and how keys change it.

use std::collections::{HashMap, VecDeque};

use quell_event::Tally;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::account;
use super::close_up::ProcessCloseUp;
use super::filter::RowFilter;
use super::grid::{Grid, RowId, SortOrder};
use super::interval::LiveInterval;
use super::regions;
use super::tables::TallyTables;
use crate::show::units::rate_per_second;

/// The sparklines have more points than any terminal is wide.
const MAX_HISTORY_POINTS: usize = 1024;
/// A filter can't be longer.
const MAX_FILTER_CHARS: usize = 64;
/// A page has so many rows, whatever the height of the screen.
const PAGE_ROWS: usize = 10;

/// A part of the screen with one table or the matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Pane {
    Culprits,
    Victims,
    Causes,
    Matrix,
    Regions,
    Calls,
    /// The mechanisms of the account.
    Time,
    Holders,
    Threads,
    Reasons,
    /// The regions of one process.
    OwnRegions,
    Stacks,
}

/// The panes of the whole machine or scope. The last one is there only where all function calls are watched.
pub(crate) const OVERVIEW_PANES: [Pane; 8] = [
    Pane::Culprits,
    Pane::Victims,
    Pane::Causes,
    Pane::Matrix,
    Pane::Regions,
    Pane::Time,
    Pane::Holders,
    Pane::Calls,
];
/// The panes of one process.
pub(crate) const CLOSE_UP_PANES: [Pane; 4] =
    [Pane::Threads, Pane::Reasons, Pane::OwnRegions, Pane::Stacks];

/// The work that a key leaves to the main loop; the state does everything else itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeyAction {
    None,
    Quit,
    /// Look closely at this process.
    Open(u32),
    /// End the close look.
    Close,
    /// Stop quell until it is continued, as Ctrl-Z asks.
    Suspend,
}

/// The state of the view: an interval, and the user's choices.
#[derive(Clone, Debug)]
pub(crate) struct ViewState {
    /// Names the programs or CPUs that are watched.
    pub(crate) title: String,
    /// Whether all function calls are watched.
    pub(crate) ipi: bool,
    pub(crate) interval: LiveInterval,
    /// The points of the three sparklines: shootdowns, wait in ns and stall in ns, each a second.
    pub(crate) history: VecDeque<[u64; 3]>,
    pub(crate) paused: bool,
    pub(crate) help: bool,
    pub(crate) zoom: bool,
    pub(crate) filter: String,
    /// Whether the filter is being typed.
    pub(crate) typing: bool,
    /// The process of the close look, and its name.
    pub(crate) opened: Option<(u32, String)>,
    /// A message for the user, such as why a process can't be opened.
    pub(crate) notice: String,
    focus: Pane,
    sorts: HashMap<Pane, SortOrder>,
    /// The row that was chosen, and its last position.
    chosen: HashMap<Pane, (RowId, usize)>,
}

/// The table of a pane in this interval, sorted where its order has no meaning of its own. It is empty for the matrix, and for what
/// looks at one process until the first interval that does.
pub(crate) fn sorted_grid(
    interval: &LiveInterval,
    pane: Pane,
    filter: &RowFilter,
    sort: SortOrder,
) -> Grid {
    let tables = || TallyTables::new(interval, filter);
    // Before that interval there is no process, and not pid 0, which may have shot.
    let nobody = (ProcessCloseUp::default(), Tally::default());
    let (close_up, tally) = match &interval.close_up {
        Some(close_up) => (close_up, &interval.tally),
        None => (&nobody.0, &nobody.1),
    };
    let mut grid = match pane {
        Pane::Culprits => tables().culprits,
        Pane::Victims => tables().victims,
        Pane::Causes => tables().causes,
        Pane::Matrix => Grid::default(),
        Pane::Regions => {
            regions::grid_of_regions(interval.regions.as_ref(), interval.duration_ns(), filter)
        }
        Pane::Calls => match &interval.tally.calls {
            Some(calls) => super::calls::call_grid(interval, calls, filter),
            None => Grid::default(),
        },
        Pane::Time => account::mechanism_grid(interval, filter),
        Pane::Holders => account::holder_grid(interval, filter),
        Pane::Threads => close_up.thread_grid(filter),
        Pane::Reasons => close_up.cause_grid(tally, filter),
        Pane::OwnRegions => close_up.region_grid(filter),
        Pane::Stacks => close_up.stack_grid(filter),
    };
    grid.sort_rows(sort);
    grid
}

impl ViewState {
    pub(crate) fn new(title: String) -> Self {
        Self {
            title,
            ipi: false,
            interval: LiveInterval::default(),
            history: VecDeque::new(),
            paused: false,
            help: false,
            zoom: false,
            filter: String::new(),
            typing: false,
            opened: None,
            notice: String::new(),
            focus: Pane::Culprits,
            sorts: HashMap::new(),
            chosen: HashMap::new(),
        }
    }

    /// Shows a new interval. While paused the screen keeps the old one.
    pub(crate) fn take_interval(&mut self, interval: LiveInterval) {
        if self.paused {
            return;
        }
        // Time is what people pay: where it is told, the view begins with it, and keys lead to the counts.
        if self.history.is_empty() && self.opened.is_none() && interval.summary.account.is_some() {
            self.focus = Pane::Time;
        }
        let s = &interval.summary;
        let point = [s.shootdowns, s.wait_ns.sum, s.stall_ns.sum];
        let rate = |n| rate_per_second(n, interval.duration_ns()).round() as u64;
        self.history.push_back(point.map(rate));
        if self.history.len() > MAX_HISTORY_POINTS {
            self.history.pop_front();
        }
        self.interval = interval;
    }

    /// The panes of the view that is shown.
    pub(crate) fn panes(&self) -> &'static [Pane] {
        if self.opened.is_some() {
            &CLOSE_UP_PANES
        } else if self.ipi {
            &OVERVIEW_PANES
        } else {
            &OVERVIEW_PANES[..OVERVIEW_PANES.len() - 1]
        }
    }

    pub(crate) fn focus(&self) -> Pane {
        self.focus
    }

    pub(crate) fn sort_of(&self, pane: Pane) -> SortOrder {
        self.sorts.get(&pane).copied().unwrap_or_default()
    }

    /// The table of a pane, sorted; the matrix has none.
    pub(crate) fn pane_grid(&self, pane: Pane) -> Grid {
        let filter = RowFilter::new(&self.filter);
        sorted_grid(&self.interval, pane, &filter, self.sort_of(pane))
    }

    /// The position of the chosen row, if there is any row.
    pub(crate) fn chosen_row(&self, pane: Pane, grid: &Grid) -> Option<usize> {
        let last = grid.lines.len().checked_sub(1)?;
        let Some((id, at)) = self.chosen.get(&pane) else {
            return Some(0);
        };
        let found = grid.lines.iter().position(|l| l.id == *id);
        Some(found.unwrap_or(*at).min(last))
    }

    fn choose_row(&mut self, pane: Pane, grid: &Grid, row: usize) {
        if let Some(line) = grid.lines.get(row) {
            self.chosen.insert(pane, (line.id.clone(), row));
        }
    }

    fn move_choice(&mut self, by: isize) {
        let grid = self.pane_grid(self.focus);
        if let Some(row) = self.chosen_row(self.focus, &grid) {
            let last = grid.lines.len().saturating_sub(1);
            self.choose_row(self.focus, &grid, row.saturating_add_signed(by).min(last));
        }
    }

    fn move_focus(&mut self, by: isize) {
        let panes = self.panes();
        let at = panes.iter().position(|p| *p == self.focus).unwrap_or(0);
        let next = (at.cast_signed() + by).rem_euclid(panes.len().cast_signed());
        self.focus = panes[next.cast_unsigned()];
    }

    fn move_sort_column(&mut self, by: isize) {
        let columns = self.pane_grid(self.focus).columns.len().cast_signed();
        if columns == 0 {
            return;
        }
        let sort = self.sort_of(self.focus);
        let column = (sort.column.cast_signed() + by).rem_euclid(columns);
        let sort = SortOrder {
            column: column.cast_unsigned(),
            reverse: false,
        };
        self.sorts.insert(self.focus, sort);
    }

    /// Changes the state by a key, and returns the work for the main loop.
    pub(crate) fn handle_key(&mut self, key: KeyEvent) -> KeyAction {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if control => return KeyAction::Quit,
            KeyCode::Char('z') if control => return KeyAction::Suspend,
            _ => {}
        }
        if self.typing {
            self.type_filter(key, control);
            return KeyAction::None;
        }
        if self.help {
            self.help = false;
            return match key.code {
                KeyCode::Char('q') => KeyAction::Quit,
                _ => KeyAction::None,
            };
        }
        self.notice.clear();
        match key.code {
            KeyCode::Char('q') => return KeyAction::Quit,
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.help = true,
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Char('/') => self.typing = true,
            KeyCode::Char('z') => self.zoom = !self.zoom,
            KeyCode::Char('r') => {
                let mut sort = self.sort_of(self.focus);
                sort.reverse = !sort.reverse;
                self.sorts.insert(self.focus, sort);
            }
            KeyCode::Tab => self.move_focus(1),
            KeyCode::BackTab => self.move_focus(-1),
            KeyCode::Char(digit @ '1'..='8') => {
                let pane = self.panes().get(digit as usize - '1' as usize);
                self.focus = pane.copied().unwrap_or(self.focus);
            }
            KeyCode::Char('t') if self.opened.is_none() => self.focus = Pane::Time,
            KeyCode::Char('m') if self.opened.is_none() => self.focus = Pane::Matrix,
            KeyCode::Char('i') if self.opened.is_none() => {
                if self.ipi {
                    self.focus = Pane::Calls;
                } else {
                    self.notice =
                        "other function calls are watched with 'quell top --ipi'".to_owned();
                }
            }
            KeyCode::Left | KeyCode::Char('<') => self.move_sort_column(-1),
            KeyCode::Right | KeyCode::Char('>') => self.move_sort_column(1),
            KeyCode::Up | KeyCode::Char('k') => self.move_choice(-1),
            KeyCode::Down | KeyCode::Char('j') => self.move_choice(1),
            KeyCode::PageUp => self.move_choice(-(PAGE_ROWS.cast_signed())),
            KeyCode::PageDown => self.move_choice(PAGE_ROWS.cast_signed()),
            KeyCode::Home => self.move_choice(isize::MIN),
            KeyCode::End => self.move_choice(isize::MAX),
            KeyCode::Enter => return self.enter_row(),
            KeyCode::Esc | KeyCode::Backspace => return self.go_back(),
            _ => {}
        }
        KeyAction::None
    }

    fn type_filter(&mut self, key: KeyEvent, control: bool) {
        match key.code {
            KeyCode::Enter => self.typing = false,
            KeyCode::Esc => {
                self.filter.clear();
                self.typing = false;
            }
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char('u') if control => self.filter.clear(),
            KeyCode::Char(c) if !control && self.filter.chars().count() < MAX_FILTER_CHARS => {
                self.filter.push(c);
            }
            _ => {}
        }
    }

    /// Goes deeper: from a process to its threads, from a cause to its culprits.
    fn enter_row(&mut self) -> KeyAction {
        let grid = self.pane_grid(self.focus);
        let line = self
            .chosen_row(self.focus, &grid)
            .map(|row| &grid.lines[row]);
        match line.map(|l| &l.id) {
            Some(&RowId::Process(0) | &RowId::Region(0, _)) => {
                self.notice =
                    "the idle task and the kernel have no threads of their own".to_owned();
                KeyAction::None
            }
            Some(&RowId::Process(pid) | &RowId::Region(pid, _)) => KeyAction::Open(pid),
            Some(RowId::Cause(cause, _)) if self.opened.is_none() => {
                self.filter.clone_from(cause);
                self.focus = Pane::Culprits;
                KeyAction::None
            }
            _ => KeyAction::None,
        }
    }

    /// Goes one step back: from the whole screen, from a process, or from a filter.
    fn go_back(&mut self) -> KeyAction {
        if self.zoom {
            self.zoom = false;
        } else if self.opened.is_some() {
            self.show_overview();
            return KeyAction::Close;
        } else {
            self.filter.clear();
        }
        KeyAction::None
    }

    /// Shows a process closely. The filter that found it would hide its threads, so it is dropped.
    pub(crate) fn open_process(&mut self, pid: u32, comm: String) {
        self.opened = Some((pid, comm));
        self.focus = Pane::Threads;
        self.filter.clear();
        self.zoom = false;
        self.paused = false;
        for pane in CLOSE_UP_PANES {
            self.chosen.remove(&pane);
        }
    }

    /// Shows everything again.
    pub(crate) fn show_overview(&mut self) {
        self.opened = None;
        self.interval.close_up = None;
        self.focus = Pane::Culprits;
        self.filter.clear();
    }
}
