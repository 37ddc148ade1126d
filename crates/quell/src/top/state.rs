//! What the user looks at, and what keys do to it.

use std::collections::{HashMap, VecDeque};

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::account;
use super::filter::Filter;
use super::grid::{Grid, Id, Sort};
use super::regions;
use super::sample::Sample;
use super::tables::Tables;

/// Points of the sparklines: more than any terminal is wide.
const HISTORY: usize = 1024;
/// The longest filter.
const FILTER: usize = 64;
/// Rows that a page is, whatever the height.
const PAGE: usize = 10;

/// A part of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Pane {
    Culprits,
    Victims,
    Causes,
    Matrix,
    Regions,
    Calls,
    /// Where the time went.
    Time,
    Holders,
    Threads,
    Reasons,
    /// Of one process.
    OwnRegions,
    Stacks,
}

/// Of everything.
pub(crate) const OVERVIEW: [Pane; 7] = [
    Pane::Culprits,
    Pane::Victims,
    Pane::Causes,
    Pane::Matrix,
    Pane::Regions,
    Pane::Time,
    Pane::Holders,
];
/// With the other function calls.
pub(crate) const WITH_CALLS: [Pane; 8] = [
    Pane::Culprits,
    Pane::Victims,
    Pane::Causes,
    Pane::Matrix,
    Pane::Regions,
    Pane::Time,
    Pane::Holders,
    Pane::Calls,
];
/// Of one process.
pub(crate) const CLOSE: [Pane; 4] = [Pane::Threads, Pane::Reasons, Pane::OwnRegions, Pane::Stacks];

/// What a key asks of the loop; everything else it does here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    None,
    Quit,
    /// Look closely at this process.
    Open(u32),
    /// No longer.
    Close,
    /// Ctrl-Z.
    Suspend,
}

/// One point of the sparklines, a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Point {
    pub(crate) shootdowns: u64,
    pub(crate) wait_ns: u64,
    pub(crate) stall_ns: u64,
}

/// What the user looks at.
#[derive(Clone, Debug)]
pub(crate) struct State {
    /// What is watched, in words.
    pub(crate) title: String,
    /// All function calls are watched.
    pub(crate) ipi: bool,
    pub(crate) sample: Sample,
    pub(crate) history: VecDeque<Point>,
    pub(crate) paused: bool,
    pub(crate) help: bool,
    pub(crate) zoom: bool,
    pub(crate) filter: String,
    /// The filter is being typed.
    pub(crate) typing: bool,
    /// A process that is looked at closely, and its name.
    pub(crate) close: Option<(u32, String)>,
    /// What the user should know, such as why a process can't be looked at.
    pub(crate) notice: String,
    focus: Pane,
    sorts: HashMap<Pane, Sort>,
    /// The row that was chosen, and where it was last.
    chosen: HashMap<Pane, (Id, usize)>,
}

impl State {
    pub(crate) fn new(title: String) -> Self {
        Self {
            title,
            ipi: false,
            sample: Sample::default(),
            history: VecDeque::new(),
            paused: false,
            help: false,
            zoom: false,
            filter: String::new(),
            typing: false,
            close: None,
            notice: String::new(),
            focus: Pane::Culprits,
            sorts: HashMap::new(),
            chosen: HashMap::new(),
        }
    }

    /// A new interval. While paused the screen keeps what it has.
    pub(crate) fn take(&mut self, sample: Sample) {
        if self.paused {
            return;
        }
        let second = |n: u64| match sample.duration_ns() {
            0 => 0,
            ns => (n as f64 * 1e9 / ns as f64).round() as u64,
        };
        let s = &sample.summary;
        self.history.push_back(Point {
            shootdowns: second(s.shootdowns),
            wait_ns: second(s.wait_ns.sum),
            stall_ns: second(s.stall_ns.sum),
        });
        if self.history.len() > HISTORY {
            self.history.pop_front();
        }
        self.sample = sample;
    }

    /// The panes of the view.
    pub(crate) fn panes(&self) -> &'static [Pane] {
        if self.close.is_some() {
            &CLOSE
        } else if self.ipi {
            &WITH_CALLS
        } else {
            &OVERVIEW
        }
    }

    pub(crate) fn focus(&self) -> Pane {
        self.focus
    }

    pub(crate) fn sort(&self, pane: Pane) -> Sort {
        self.sorts.get(&pane).copied().unwrap_or_default()
    }

    /// The table of a pane, sorted; the matrix has none.
    pub(crate) fn grid(&self, pane: Pane) -> Grid {
        let filter = Filter::new(&self.filter);
        let tables = || Tables::new(&self.sample, &filter);
        let detail = || self.sample.detail.clone().unwrap_or_default();
        let mut grid = match pane {
            Pane::Culprits => tables().culprits,
            Pane::Victims => tables().victims,
            Pane::Causes => tables().causes,
            Pane::Matrix => Grid::default(),
            Pane::Regions => regions::grid_of_regions(
                self.sample.regions.as_ref(),
                self.sample.duration_ns(),
                &filter,
            ),
            Pane::Calls => match &self.sample.tally.calls {
                Some(calls) => super::calls::grid(&self.sample, calls, &filter),
                None => Grid::default(),
            },
            Pane::Time => account::mechanisms(&self.sample, &filter),
            Pane::Holders => account::holders(&self.sample, &filter),
            Pane::Threads => detail().threads(&filter),
            Pane::Reasons => detail().causes(&self.sample.tally, &filter),
            Pane::OwnRegions => detail().regions(&filter),
            Pane::Stacks => detail().stacks(&filter),
        };
        grid.sort(self.sort(pane));
        grid
    }

    /// The row that is chosen, if there is any row.
    pub(crate) fn row(&self, pane: Pane, grid: &Grid) -> Option<usize> {
        let last = grid.lines.len().checked_sub(1)?;
        let Some((id, at)) = self.chosen.get(&pane) else {
            return Some(0);
        };
        let found = grid.lines.iter().position(|l| l.id == *id);
        Some(found.unwrap_or(*at).min(last))
    }

    fn choose(&mut self, pane: Pane, grid: &Grid, row: usize) {
        if let Some(line) = grid.lines.get(row) {
            self.chosen.insert(pane, (line.id.clone(), row));
        }
    }

    fn step(&mut self, by: isize) {
        let grid = self.grid(self.focus);
        if let Some(row) = self.row(self.focus, &grid) {
            let last = grid.lines.len().saturating_sub(1);
            self.choose(self.focus, &grid, row.saturating_add_signed(by).min(last));
        }
    }

    fn turn(&mut self, by: isize) {
        let panes = self.panes();
        let at = panes.iter().position(|p| *p == self.focus).unwrap_or(0);
        let next = (at.cast_signed() + by).rem_euclid(panes.len().cast_signed());
        self.focus = panes[next.cast_unsigned()];
    }

    fn column(&mut self, by: isize) {
        let columns = self.grid(self.focus).columns.len().cast_signed();
        if columns == 0 {
            return;
        }
        let sort = self.sort(self.focus);
        let column = (sort.column.cast_signed() + by).rem_euclid(columns);
        let sort = Sort {
            column: column.cast_unsigned(),
            reverse: false,
        };
        self.sorts.insert(self.focus, sort);
    }

    /// What a key does.
    pub(crate) fn key(&mut self, key: KeyEvent) -> Action {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if control => return Action::Quit,
            KeyCode::Char('z') if control => return Action::Suspend,
            _ => {}
        }
        if self.typing {
            self.type_filter(key, control);
            return Action::None;
        }
        if self.help {
            self.help = false;
            return match key.code {
                KeyCode::Char('q') => Action::Quit,
                _ => Action::None,
            };
        }
        self.notice.clear();
        match key.code {
            KeyCode::Char('q') => return Action::Quit,
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.help = true,
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Char('/') => self.typing = true,
            KeyCode::Char('z') => self.zoom = !self.zoom,
            KeyCode::Char('r') => {
                let mut sort = self.sort(self.focus);
                sort.reverse = !sort.reverse;
                self.sorts.insert(self.focus, sort);
            }
            KeyCode::Tab => self.turn(1),
            KeyCode::BackTab => self.turn(-1),
            KeyCode::Char(digit @ '1'..='8') => {
                let pane = self.panes().get(digit as usize - '1' as usize);
                self.focus = pane.copied().unwrap_or(self.focus);
            }
            KeyCode::Char('t') if self.close.is_none() => self.focus = Pane::Time,
            KeyCode::Char('m') if self.close.is_none() => self.focus = Pane::Matrix,
            KeyCode::Char('i') if self.close.is_none() => {
                if self.ipi {
                    self.focus = Pane::Calls;
                } else {
                    self.notice =
                        "other function calls are watched with 'quell top --ipi'".to_owned();
                }
            }
            KeyCode::Left | KeyCode::Char('<') => self.column(-1),
            KeyCode::Right | KeyCode::Char('>') => self.column(1),
            KeyCode::Up | KeyCode::Char('k') => self.step(-1),
            KeyCode::Down | KeyCode::Char('j') => self.step(1),
            KeyCode::PageUp => self.step(-(PAGE.cast_signed())),
            KeyCode::PageDown => self.step(PAGE.cast_signed()),
            KeyCode::Home => self.step(isize::MIN),
            KeyCode::End => self.step(isize::MAX),
            KeyCode::Enter => return self.enter(),
            KeyCode::Esc | KeyCode::Backspace => return self.back(),
            _ => {}
        }
        Action::None
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
            KeyCode::Char(c) if !control && self.filter.chars().count() < FILTER => {
                self.filter.push(c);
            }
            _ => {}
        }
    }

    /// Deeper: from a process to its threads, from a cause to who has it.
    fn enter(&mut self) -> Action {
        let grid = self.grid(self.focus);
        let line = self.row(self.focus, &grid).map(|row| &grid.lines[row]);
        match line.map(|l| &l.id) {
            Some(&Id::Process(0) | &Id::Region(0, _)) => {
                self.notice =
                    "the idle task and the kernel have no threads of their own".to_owned();
                Action::None
            }
            Some(&Id::Process(pid) | &Id::Region(pid, _)) => Action::Open(pid),
            Some(Id::Cause(cause, _)) if self.close.is_none() => {
                self.filter.clone_from(cause);
                self.focus = Pane::Culprits;
                Action::None
            }
            _ => Action::None,
        }
    }

    /// One step back: from the whole screen, from a process, from a filter.
    fn back(&mut self) -> Action {
        if self.zoom {
            self.zoom = false;
        } else if self.close.is_some() {
            self.shut();
            return Action::Close;
        } else {
            self.filter.clear();
        }
        Action::None
    }

    /// Shows a process closely. The filter that found it would hide its threads.
    pub(crate) fn open(&mut self, pid: u32, comm: String) {
        self.close = Some((pid, comm));
        self.focus = Pane::Threads;
        self.filter.clear();
        self.zoom = false;
        self.paused = false;
        for pane in CLOSE {
            self.chosen.remove(&pane);
        }
    }

    /// Shows everything again.
    pub(crate) fn shut(&mut self) {
        self.close = None;
        self.sample.detail = None;
        self.focus = Pane::Culprits;
        self.filter.clear();
    }
}
