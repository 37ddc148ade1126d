//! The results of a run in the file that keeps them, which is whole at any time, and has its old contents until there is a
//! first result.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use quell_lab::summary::ExperimentSummary;
use serde::Serialize;

use crate::show::{self, Replace};

/// The file, and the results so far.
#[derive(Debug)]
pub(crate) struct ResultFile<'a> {
    file: &'a Path,
    text: String,
    /// It is a pipe or a device, which can't be replaced, and gets everything in the end.
    is_node: bool,
}

impl<'a> ResultFile<'a> {
    /// The file, where one is named. Whether it can be written is found out before anything that takes long.
    pub(crate) fn create(named: Option<&'a Path>) -> anyhow::Result<Option<Self>> {
        let Some(file) = show::file_named(named) else {
            return Ok(None);
        };
        Replace::new(Some(file))?;
        Ok(Some(Self {
            file,
            text: String::new(),
            is_node: fs::metadata(file).is_ok_and(|there| !there.is_file()),
        }))
    }

    /// Adds a result, but for one that was ended before anything was measured.
    pub(crate) fn add(&mut self, summary: &ExperimentSummary) -> anyhow::Result<()> {
        if summary.arms.values().all(|arm| arm.blocks == 0) && summary.interrupted {
            return Ok(());
        }
        self.add_line(summary)
    }

    /// Adds a curve, or any result.
    pub(crate) fn add_line(&mut self, result: &impl Serialize) -> anyhow::Result<()> {
        self.text += &(serde_json::to_string(result)? + "\n");
        if self.is_node {
            Ok(())
        } else {
            self.replace_file()
        }
    }

    /// Writes the file where it could not be written before: there are no more results.
    pub(crate) fn finish(self) -> anyhow::Result<()> {
        if self.is_node {
            self.replace_file()
        } else {
            Ok(())
        }
    }

    fn replace_file(&self) -> anyhow::Result<()> {
        let written =
            Replace::new(Some(self.file))?.write(|out| Ok(out.write_all(self.text.as_bytes())?));
        show::unless_gone(written)
            .with_context(|| format!("can't write the results to {}", self.file.display()))
    }
}
