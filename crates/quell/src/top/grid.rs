//! Tables as data, which the screen and the text both print.

use std::cmp::Ordering;

use crate::show::units::{count, rate, time, time_rate};

/// The value that a row is sorted by. It is exact where the cell is rounded.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SortKey {
    Number(u64),
    Text(String),
}

/// The head of a column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ColumnHead {
    pub(crate) title: &'static str,
    /// Whether its cells are aligned to the right, as numbers are.
    pub(crate) right: bool,
    /// Whether it is sorted from small to large at first, as names and process numbers are.
    pub(crate) ascending: bool,
    /// Whether it is left out first where there is little room.
    pub(crate) spare: bool,
    /// Whether its texts are long, so that others make room for it.
    pub(crate) long: bool,
}

/// What a row has in a column: the text, and the value that rows are sorted by.
type CellOf<'a, R> = dyn Fn(&R) -> (String, SortKey) + 'a;

/// A column of a table of `R`s, with the text that a row has there, and the value that it is sorted by.
pub(super) struct GridColumn<'a, R> {
    head: ColumnHead,
    cell: Box<CellOf<'a, R>>,
}

impl<'a, R: 'a> GridColumn<'a, R> {
    fn of_numbers(
        title: &'static str,
        number: impl Fn(&R) -> u64 + 'a,
        text: impl Fn(u64) -> String + 'a,
    ) -> Self {
        Self {
            head: ColumnHead {
                title,
                right: true,
                ..ColumnHead::default()
            },
            cell: Box::new(move |row| {
                let number = number(row);
                (text(number), SortKey::Number(number))
            }),
        }
    }

    pub(super) fn of_counts(title: &'static str, number: impl Fn(&R) -> u64 + 'a) -> Self {
        Self::of_numbers(title, number, count)
    }

    pub(super) fn of_times(title: &'static str, ns: impl Fn(&R) -> u64 + 'a) -> Self {
        Self::of_numbers(title, ns, time)
    }

    /// A column of counts per second, in an interval of so many ns.
    pub(super) fn of_rates(
        title: &'static str,
        duration_ns: u64,
        number: impl Fn(&R) -> u64 + 'a,
    ) -> Self {
        Self::of_numbers(title, number, move |n| rate(n, duration_ns))
    }

    /// A column of times per second, in an interval of so many ns.
    pub(super) fn of_time_rates(
        title: &'static str,
        duration_ns: u64,
        ns: impl Fn(&R) -> u64 + 'a,
    ) -> Self {
        Self::of_numbers(title, ns, move |n| time_rate(n, duration_ns))
    }

    /// A column of process or thread numbers.
    pub(super) fn of_ids(title: &'static str, id: impl Fn(&R) -> u32 + 'a) -> Self {
        let mut column = Self::of_numbers(title, move |row| id(row).into(), |n| n.to_string());
        column.head.ascending = true;
        column
    }

    pub(super) fn of_names(title: &'static str, name: impl Fn(&R) -> String + 'a) -> Self {
        Self {
            head: ColumnHead {
                title,
                ascending: true,
                ..ColumnHead::default()
            },
            cell: Box::new(move |row| {
                let name = name(row);
                (name.clone(), SortKey::Text(name))
            }),
        }
    }

    /// The same column and order, with another text.
    pub(super) fn with_text(self, text: impl Fn(&R) -> String + 'a) -> Self {
        let cell = self.cell;
        Self {
            head: self.head,
            cell: Box::new(move |row| (text(row), cell(row).1)),
        }
    }

    /// The same column, aligned to the left.
    pub(super) fn aligned_left(mut self) -> Self {
        self.head.right = false;
        self
    }

    /// The same column, left out where there is little room.
    pub(super) fn marked_spare(mut self) -> Self {
        self.head.spare = true;
        self
    }

    /// The same column, with long texts.
    pub(super) fn marked_long(mut self) -> Self {
        self.head.long = true;
        self
    }
}

/// Says how many shootdowns were sampled, and that these are one in so many of all: 0 where none was sampled yet.
pub(super) fn sampling_text(shootdowns: u64, one_in: u64) -> String {
    let all = match one_in {
        0 | 1 => String::new(),
        n => format!(", one in {}", count(n)),
    };
    format!("of {} seen{all}", count(shootdowns))
}

/// Says how many rows a filter leaves; the text is empty where it leaves all.
pub(super) fn left_by_filter(shown: usize, all: usize) -> String {
    if shown == all {
        return String::new();
    }
    passed_text(shown, all)
}

/// Says how many rows pass the filter, and how many there are without it.
pub(super) fn passed_text(shown: usize, all: usize) -> String {
    format!(
        "{} of {} pass the filter",
        count(shown as u64),
        count(all as u64)
    )
}

/// The subject of a row, by which its choice is kept from interval to interval.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RowId {
    Process(u32),
    /// A process, and whether it is a bystander.
    Victim(u32, bool),
    /// A cause, and the kernel's function where the cause is `other`.
    Cause(String, Option<String>),
    Thread(u32),
    /// A process, and one of its regions.
    Region(u32, String),
    /// A kernel function, and the process that called it.
    Call(String, u32),
    Line(usize),
}

/// How a row stands out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RowMark {
    #[default]
    None,
    /// The process was hit for memory that is not its own.
    Bystander,
    /// Something happened that should not.
    Alarm,
    /// The row is a detail of the one above.
    Minor,
}

/// A row of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GridRow {
    pub(crate) id: RowId,
    pub(crate) cells: Vec<String>,
    pub(crate) keys: Vec<SortKey>,
    pub(crate) mark: RowMark,
}

/// Which column a table is sorted by, and whether in the opposite direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SortOrder {
    pub(crate) column: usize,
    pub(crate) reverse: bool,
}

/// A table, with all its rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Grid {
    pub(crate) title: String,
    /// Stands behind the title, and says for example how many rows a filter leaves out.
    pub(crate) note: String,
    pub(crate) columns: Vec<ColumnHead>,
    pub(crate) lines: Vec<GridRow>,
    /// False where the order of the rows has a meaning of its own.
    pub(crate) sortable: bool,
    /// Stands in place of the rows if there is none.
    pub(crate) empty: &'static str,
}

impl Grid {
    /// The table of these rows in their order, without its title and its note.
    pub(super) fn of_rows<R>(
        rows: &[R],
        columns: Vec<GridColumn<'_, R>>,
        id: impl Fn(&R) -> RowId,
    ) -> Self {
        let lines = rows.iter().map(|row| {
            let (cells, keys) = columns.iter().map(|c| (c.cell)(row)).unzip();
            GridRow {
                id: id(row),
                cells,
                keys,
                mark: RowMark::None,
            }
        });
        Self {
            lines: lines.collect(),
            columns: columns.iter().map(|c| c.head).collect(),
            sortable: true,
            ..Self::default()
        }
    }

    /// The same table, with this mark on some of its rows.
    pub(super) fn with_mark<R>(
        mut self,
        mark: RowMark,
        rows: &[R],
        is_marked: impl Fn(&R) -> bool,
    ) -> Self {
        for (line, row) in self.lines.iter_mut().zip(rows) {
            if is_marked(row) {
                line.mark = mark;
            }
        }
        self
    }

    /// Sorts the rows. Equal ones are ordered by their subject, so that they don't jump.
    pub(crate) fn sort_rows(&mut self, sort: SortOrder) {
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

    /// Names the column and the direction of the order; empty where the table is not sorted.
    pub(crate) fn order_label(&self, sort: SortOrder) -> String {
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
