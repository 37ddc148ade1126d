//! Tables as data: what the screen and the text both print.

use std::cmp::Ordering;

use crate::show::units::count;

/// What a column is sorted by. Exact, where the cell is rounded.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Number(u64),
    Text(String),
}

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) title: &'static str,
    /// Numbers stand to the right.
    pub(crate) right: bool,
    /// Sorted from small to large by default: names and process numbers.
    pub(crate) ascending: bool,
    /// Left out first where there is little room.
    pub(crate) spare: bool,
    /// Its texts are long: others make room for it.
    pub(crate) long: bool,
}

impl Column {
    /// A column of counts or times.
    pub(crate) const fn number(title: &'static str) -> Self {
        Self {
            title,
            right: true,
            ascending: false,
            spare: false,
            long: false,
        }
    }

    /// A column of names.
    pub(crate) const fn name(title: &'static str) -> Self {
        Self {
            title,
            right: false,
            ascending: true,
            spare: false,
            long: false,
        }
    }

    /// A column of process or thread numbers.
    pub(crate) const fn id(title: &'static str) -> Self {
        Self {
            title,
            right: true,
            ascending: true,
            spare: false,
            long: false,
        }
    }

    /// The same, left out where there is little room.
    pub(crate) const fn spare(self) -> Self {
        Self {
            spare: true,
            ..self
        }
    }

    /// The same, with long texts.
    pub(crate) const fn long(self) -> Self {
        Self { long: true, ..self }
    }
}

/// How many shootdowns were looked at, of which one in so many was: 0 where none was yet.
pub(super) fn seen(shootdowns: u64, one_in: u64) -> String {
    let all = match one_in {
        0 | 1 => String::new(),
        n => format!(", one in {}", count(n)),
    };
    format!("of {} seen{all}", count(shootdowns))
}

/// How many rows a filter leaves; nothing where it leaves all.
pub(super) fn left_by_filter(shown: usize, all: usize) -> String {
    if shown == all {
        return String::new();
    }
    passed(shown, all)
}

/// How many rows there are, of how many without the filter.
pub(super) fn passed(shown: usize, all: usize) -> String {
    format!(
        "{} of {} pass the filter",
        count(shown as u64),
        count(all as u64)
    )
}

/// What a row is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Id {
    Process(u32),
    /// And whether it is a bystander.
    Victim(u32, bool),
    /// And the kernel's function, where the cause is `other`.
    Cause(String, Option<String>),
    Thread(u32),
    /// A process, and what lies there.
    Region(u32, String),
    /// A kernel function, and the process that called it.
    Call(String, u32),
    Line(usize),
}

/// How a row stands out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mark {
    #[default]
    None,
    /// Hit for memory that is not its own.
    Bystander,
    /// Something that should not be.
    Alarm,
    /// A detail of the row above.
    Minor,
}

/// A row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) id: Id,
    pub(crate) cells: Vec<String>,
    pub(crate) keys: Vec<Key>,
    pub(crate) mark: Mark,
}

/// Which column a table is sorted by, and whether the other way round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sort {
    pub(crate) column: usize,
    pub(crate) reverse: bool,
}

/// A table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Grid {
    pub(crate) title: String,
    /// Behind the title, such as what a filter leaves out.
    pub(crate) note: String,
    pub(crate) columns: Vec<Column>,
    pub(crate) lines: Vec<Line>,
    /// False where the order of the rows means something.
    pub(crate) sortable: bool,
    /// What stands there if there is no row.
    pub(crate) empty: &'static str,
}

impl Grid {
    /// Sorts the rows. Equal ones are in the order of what they are about, so that they don't jump.
    pub(crate) fn sort(&mut self, sort: Sort) {
        if !self.sortable {
            return;
        }
        let Some(column) = self.columns.get(sort.column) else {
            return;
        };
        let descending = column.ascending == sort.reverse;
        self.lines.sort_by(|a, b| {
            let by = match (a.keys.get(sort.column), b.keys.get(sort.column)) {
                (Some(a), Some(b)) if descending => b.cmp(a),
                (Some(a), Some(b)) => a.cmp(b),
                _ => Ordering::Equal,
            };
            by.then_with(|| a.id.cmp(&b.id))
        });
    }

    /// By what it is sorted, in words; empty where it is not.
    pub(crate) fn order(&self, sort: Sort) -> String {
        match self.columns.get(sort.column) {
            Some(column) if self.sortable => {
                let arrow = if column.ascending == sort.reverse {
                    '▼'
                } else {
                    '▲'
                };
                format!("by {} {arrow}", column.title)
            }
            _ => String::new(),
        }
    }
}
