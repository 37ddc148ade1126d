//! A folder that the views of all engines are of: links to the events of many traces, and the tables beside them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use quell_event::Text;

use crate::find::FoundTrace;
use crate::schema::{self, MADE_TABLES, TableRow, TraceRow};
use crate::{Engine, Question};

/// Characters with another meaning in a path within SQL, or in a pattern of files.
const ODD_CHARACTERS: &[char] = &[
    '\'', '"', '`', '\\', '*', '?', '[', ']', '{', '}', '\n', ':', '%',
];

/// A folder that is being filled.
#[derive(Debug)]
pub struct PreparedFolder {
    dir: PathBuf,
    traces: u64,
    /// By name.
    tables: BTreeMap<&'static str, BufWriter<File>>,
}

impl PreparedFolder {
    /// Begins to fill a folder, which is there and empty.
    ///
    /// # Errors
    ///
    /// It can't be written to, or its name would mean something else in SQL.
    pub fn begin(dir: &Path) -> anyhow::Result<Self> {
        let dir = dir
            .canonicalize()
            .with_context(|| format!("can't find {}", dir.display()))?;
        let is_plain = dir
            .to_str()
            .is_some_and(|text| !text.contains(ODD_CHARACTERS));
        anyhow::ensure!(
            is_plain,
            "{} has a character in it that SQL takes for something else: name another folder, by TMPDIR or --prepare",
            dir.display()
        );
        let make = || -> io::Result<BTreeMap<_, _>> {
            fs::create_dir(dir.join("events"))?;
            let table = |(name, _): &(&'static str, _)| {
                let file = File::create_new(dir.join(format!("{name}.jsonl")))?;
                Ok((*name, BufWriter::new(file)))
            };
            MADE_TABLES.iter().map(table).collect()
        };
        let tables = make().with_context(|| format!("can't write to {}", dir.display()))?;
        Ok(Self {
            dir,
            traces: 0,
            tables,
        })
    }

    /// Adds a trace; `period` as in [`TraceRow`]. The first one's number is 0, and so on.
    ///
    /// # Errors
    ///
    /// The folder can't be written to.
    pub fn add_trace(&mut self, found: &FoundTrace, period: u64) -> anyhow::Result<()> {
        let number = self.traces;
        self.traces += 1;
        for (n, file) in found.files.iter().enumerate() {
            // Links hide the tree's own names from the engine, which may misread them. The views read the trace's number from the
            // first eight digits (`view_statements`).
            let link = self.dir.join(format!("events/{number:08}-{n:05}.parquet"));
            let link = || std::os::unix::fs::symlink(file.canonicalize()?, link);
            link().with_context(|| format!("can't link to {}", file.display()))?;
        }
        let row = TraceRow {
            trace: number,
            host: found.meta.host.to_string(),
            start_ns: found.meta.start_wall_ns,
            start_monotonic_ns: found.meta.start_monotonic_ns,
            traced_ns: found.traced_ns(),
            period,
            cpus: found.meta.cpus,
            kernel: found.meta.kernel.to_string(),
            dir: Text::from_os_str(&found.dir).into(),
        };
        self.add_rows(&[row])
    }

    /// Adds rows to their table.
    ///
    /// # Errors
    ///
    /// The folder can't be written to.
    pub fn add_rows<R: TableRow>(&mut self, rows: &[R]) -> anyhow::Result<()> {
        let file = self.tables.get_mut(R::TABLE).context("no such table")?;
        let mut write = || -> io::Result<()> {
            for row in rows {
                serde_json::to_writer(&mut *file, row)?;
                file.write_all(b"\n")?;
            }
            Ok(())
        };
        write().with_context(|| format!("can't write to {}", self.dir.display()))
    }

    /// Ends it: writes the buffered lines, the definitions of the views, and the questions. Returns the folder's path.
    ///
    /// # Errors
    ///
    /// The folder can't be written to.
    pub fn end(self) -> anyhow::Result<String> {
        let dir = self.dir.clone();
        let write = || -> io::Result<String> {
            for table in self.tables.into_values() {
                table.into_inner()?.flush()?;
            }
            let text = self.dir.to_string_lossy().into_owned();
            for engine in [Engine::DuckDb, Engine::Spark] {
                let views = schema::view_statements(engine, &text).join(";\n");
                fs::write(
                    self.dir.join(format!("views-{}.sql", engine.name())),
                    views + ";\n",
                )?;
            }
            for question in Question::ALL {
                fs::write(
                    self.dir.join(format!("{}.sql", question.name)),
                    question.sql,
                )?;
            }
            Ok(text)
        };
        write().with_context(|| format!("can't write to {}", dir.display()))
    }
}

#[cfg(test)]
mod tests {
    use quell_event::Shootdown;
    use quell_event::trace::{TraceMeta, TraceWriter};

    use super::*;
    use crate::CallStackRow;

    /// Check that a prepared folder leads to the events by plain names, and has its tables and definitions.
    #[test]
    fn folders_are_filled() {
        let dir = tempfile::tempdir().unwrap();
        let trace = dir.path().join("odd ' name*");
        let mut writer = TraceWriter::create(&trace, &TraceMeta::default(), false).unwrap();
        writer.push_shootdown(&Shootdown::default());
        writer.finish(1, |_| ()).unwrap();
        let found = crate::find_traces(dir.path()).unwrap().traces;
        let out = dir.path().join("out");
        fs::create_dir(&out).unwrap();
        let mut prepared = PreparedFolder::begin(&out).unwrap();
        prepared.add_trace(&found[0], 3).unwrap();
        prepared
            .add_rows(&[CallStackRow {
                frames: "a\nb".to_owned(),
                ..CallStackRow::default()
            }])
            .unwrap();
        let text = prepared.end().unwrap();
        let link = out.join("events/00000000-00000.parquet");
        assert_eq!(
            fs::read(link).unwrap(),
            fs::read(trace.join("events-00001.parquet")).unwrap()
        );
        assert!(
            fs::read_to_string(out.join("traces.jsonl"))
                .unwrap()
                .contains("\"period\":3")
        );
        assert_eq!(
            fs::read_to_string(out.join("stacks.jsonl"))
                .unwrap()
                .lines()
                .count(),
            1
        );
        let views = fs::read_to_string(out.join("views-duckdb.sql")).unwrap();
        assert!(
            views.contains(&format!("{text}/events/*.parquet")),
            "{views}"
        );
        assert_eq!(
            fs::read_to_string(out.join("causes.sql")).unwrap(),
            Question::by_name("causes").unwrap().sql
        );
        assert!(PreparedFolder::begin(&out).is_err(), "it is not empty");
        let odd = dir.path().join("it's");
        fs::create_dir(&odd).unwrap();
        assert!(PreparedFolder::begin(&odd).is_err());
    }
}
