//! The tables beside the events, and the views over both, for each engine.

use serde::Serialize;

use crate::Engine;

/// A type that a column of a table may have.
trait ColumnType {
    /// A column is text, or else a number.
    const IS_TEXT: bool = false;
}

impl ColumnType for u32 {}
impl ColumnType for u64 {}
impl ColumnType for i64 {}

impl ColumnType for &str {
    const IS_TEXT: bool = true;
}

impl ColumnType for String {
    const IS_TEXT: bool = true;
}

/// A row of a table that is made.
pub trait TableRow: Serialize {
    /// The table's name.
    const TABLE: &'static str;
}

/// Declares each table once: the row that is written, and the columns that the views read.
macro_rules! made_tables {
    ($(
        $(#[$about:meta])*
        $table:literal $row:ident {
            $($(#[$about_column:meta])* $column:ident: $kind:ty,)+
        }
    )+) => {
        $(
            $(#[$about])*
            #[derive(Clone, Debug, Default, Serialize)]
            pub struct $row {
                $($(#[$about_column])* pub $column: $kind,)+
            }

            impl TableRow for $row {
                const TABLE: &'static str = $table;
            }
        )+

        /// Tables that are made: name and columns. `true` is text, else it is a number.
        pub const MADE_TABLES: &[(&str, &[(&str, bool)])] = &[$(
            ($table, &[$((stringify!($column), <$kind as ColumnType>::IS_TEXT),)+]),
        )+];
    };
}

made_tables! {
    /// A trace.
    "traces" TraceRow {
        /// Its number, from 0, which ties all tables together.
        trace: u64,
        /// The machine's name.
        host: String,
        /// When it began, ns since 1970.
        start_ns: u64,
        /// The same moment, of the clock of `t_ns`.
        start_monotonic_ns: u64,
        /// How long it was recorded, ns.
        traced_ns: u64,
        /// 0 for the last period (7 days), 1 for the one before, and so on.
        period: u64,
        /// CPUs of the machine.
        cpus: u32,
        /// The kernel's release.
        kernel: String,
        /// Where it lies.
        dir: String,
    }

    /// A process, from a time to a time.
    "processes" ProcessRow {
        /// The trace.
        trace: u64,
        /// The process.
        pid: u32,
        /// From when on this holds, as `t_ns`.
        from_ns: i64,
        /// Until when.
        to_ns: i64,
        /// The last part of its executable's path, or its name in brackets where it has none.
        program: String,
        /// The executable's build id, empty where there is none.
        build_id: String,
        /// The executable.
        exe: String,
        /// The most likely asker for memory there: an allocator or runtime.
        asker: String,
    }

    /// A stack.
    "stacks" CallStackRow {
        /// The trace.
        trace: u64,
        /// Its number there: `user_stack` or `kernel_stack` of events.
        stack: u32,
        /// `user` or `kernel`.
        kind: &'static str,
        /// A frame a line, the innermost first.
        frames: String,
        /// The frame that called: the innermost that is no mere wrapper of a system call.
        caller: String,
        /// The asker: an allocator, `own calls`, `ending threads`; empty for the kernel's.
        asker: String,
    }

    /// The share of shootdowns that a remedy is expected to stop.
    "remedies" RemedyRow {
        /// Who asks.
        asker: String,
        /// Why.
        cause: String,
        /// The remedy.
        remedy: String,
        /// The share that it is expected to stop, in thousandths.
        permille: u32,
    }

    /// The cost of memory management in one function of a process.
    "account" CodeAccountRow {
        /// The trace.
        trace: u64,
        /// The process.
        pid: u32,
        /// As of [`ProcessRow`]; `[kernel]` of the kernel's own threads.
        program: String,
        /// As of [`ProcessRow`].
        build_id: String,
        /// The work that the kernel did.
        mechanism: String,
        /// The part of that work.
        part: String,
        /// The function that had it done, with its file; empty where it is not known.
        code: String,
        /// Samples of CPU time.
        samples: u64,
        /// The CPU time that they stand for, ns.
        cpu_ns: u64,
        /// How often a thread was made to sleep.
        waits: u64,
        /// How long those sleeps took, ns.
        blocked_ns: u64,
    }

    /// The most that a remedy could win for one origin of a process.
    "wins" WinRow {
        /// The trace.
        trace: u64,
        /// The process.
        pid: u32,
        /// As of [`ProcessRow`].
        program: String,
        /// As of [`ProcessRow`].
        build_id: String,
        /// Whose calls.
        asker: String,
        /// The remedy.
        remedy: String,
        /// CPU time, ns.
        cpu_ns: u64,
        /// Time in which threads slept for it, ns.
        blocked_ns: u64,
    }
}

/// Columns of the events: the name in the views, and the expression that makes it. Unsigned numbers of 64 bits are of another
/// type in each engine, so all are made signed; truth is 0 or 1, which can be summed up.
const CULPRIT_COLUMNS: &[(&str, &str)] = &[
    ("shootdown", "cast(id as bigint)"),
    ("t_ns", "cast(t_ns as bigint)"),
    ("wait_ns", "cast(wait_ns as bigint)"),
    ("cause", "cause"),
    ("syscall", "cast(syscall as bigint)"),
    ("pid", "cast(pid as bigint)"),
    ("tid", "cast(tid as bigint)"),
    ("comm", "comm"),
    ("cpu", "cast(cpu as bigint)"),
    ("cgroup", "cast(cgroup as bigint)"),
    (
        "full_flush",
        "case when full then cast(1 as bigint) else cast(0 as bigint) end",
    ),
    ("pages", "cast(pages as bigint)"),
    (
        "own_mm",
        "case when own_mm then cast(1 as bigint) else cast(0 as bigint) end",
    ),
    ("kernel_stack", "cast(kernel_stack as bigint)"),
    ("user_stack", "cast(user_stack as bigint)"),
];
const VICTIM_COLUMNS: &[(&str, &str)] = &[
    ("victim_index", "cast(victim_index as bigint)"),
    (
        "seen",
        // The number is `UNSEEN_CPU` of quell_event.
        "case when victim_cpu = 65535 then cast(0 as bigint) else cast(1 as bigint) end",
    ),
    ("victim_cpu", "cast(victim_cpu as bigint)"),
    ("victim_pid", "cast(victim_pid as bigint)"),
    ("victim_tid", "cast(victim_tid as bigint)"),
    ("victim_comm", "victim_comm"),
    (
        "bystander",
        "case when bystander then cast(1 as bigint) else cast(0 as bigint) end",
    ),
    ("delay_ns", "cast(delay_ns as bigint)"),
    ("stall_ns", "cast(stall_ns as bigint)"),
];

/// The statements that define the views, over a prepared folder. `full` is a word of SQL, so it is quoted as the
/// engine wants it.
#[must_use]
pub fn view_statements(engine: Engine, dir: &str) -> Vec<String> {
    let typed = |(column, is_text): &(&str, bool)| match engine {
        Engine::DuckDb => format!(
            "{column}: '{}'",
            if *is_text { "varchar" } else { "bigint" }
        ),
        Engine::Spark => format!("{column} {}", if *is_text { "string" } else { "bigint" }),
    };
    let statement = |(name, columns): &(&str, &[(&str, bool)])| {
        let columns: Vec<String> = columns.iter().map(typed).collect();
        let columns = columns.join(", ");
        match engine {
            Engine::DuckDb => format!(
                "create or replace view {name} as select * from read_json('{dir}/{name}.jsonl', \
                 format = 'newline_delimited', columns = {{{columns}}})"
            ),
            Engine::Spark => format!(
                "create or replace temporary view {name} ({columns}) using json options \
                 (path 'file:{dir}/{name}.jsonl', mode 'FAILFAST')"
            ),
        }
    };
    let mut out: Vec<String> = MADE_TABLES.iter().map(statement).collect();
    let (view, number, from, full) = match engine {
        Engine::DuckDb => (
            "create or replace view",
            // The file's name begins with the trace's number.
            format!(
                "cast(substring(filename, {}, 8) as bigint)",
                dir.chars().count() + "/events/".len() + 1
            ),
            format!(
                "read_parquet('{dir}/events/*.parquet', filename = true, hive_partitioning = false)"
            ),
            "\"full\"",
        ),
        Engine::Spark => (
            "create or replace temporary view",
            "cast(substring(_metadata.file_name, 1, 8) as bigint)".to_owned(),
            format!("parquet.`file:{dir}/events`"),
            "`full`",
        ),
    };
    let columns = |lists: &[&[(&str, &str)]]| {
        let all = lists.iter().flat_map(|list| list.iter());
        let all: Vec<String> = all
            .map(|(name, made_of)| {
                format!(
                    "{} as {name}",
                    made_of.replace("when full", &format!("when {full}"))
                )
            })
            .collect();
        all.join(", ")
    };
    out.push(format!(
        "{view} hits as select {number} as trace, {} from {from}",
        columns(&[CULPRIT_COLUMNS, VICTIM_COLUMNS])
    ));
    out.push(format!(
        "{view} shootdowns as select {number} as trace, {} from {from} where victim_index = 0",
        columns(&[CULPRIT_COLUMNS])
    ));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that the fields written to each table are its columns, no more and no fewer.
    #[test]
    fn tables_have_their_columns() {
        let rows = [
            serde_json::to_value(TraceRow::default()).unwrap(),
            serde_json::to_value(ProcessRow::default()).unwrap(),
            serde_json::to_value(CallStackRow::default()).unwrap(),
            serde_json::to_value(RemedyRow::default()).unwrap(),
            serde_json::to_value(CodeAccountRow::default()).unwrap(),
            serde_json::to_value(WinRow::default()).unwrap(),
        ];
        for (row, (name, columns)) in rows.iter().zip(MADE_TABLES) {
            let row = row.as_object().unwrap();
            assert_eq!(row.len(), columns.len(), "{name}");
            for (column, text) in *columns {
                assert_eq!(row[*column].is_string(), *text, "{name}.{column}");
            }
        }
    }
}
