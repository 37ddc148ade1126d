//! Plans in files.

use std::io::Read as _;
use std::path::Path;

use anyhow::Context as _;
use quell_remedy::Plan;

use crate::regular_file::open_regular_file;
use crate::show::Replace;
use crate::usage::usage;

/// The most bytes of a plan's file. A plan that quell made has some hundred.
const LONGEST_PLAN_BYTES: u64 = 1 << 20;

/// Reads a plan of the user's. A file that is no plan is a usage error.
pub(crate) fn read_plan(path: &Path) -> anyhow::Result<Plan> {
    let shown = path.display();
    let mut text = Vec::new();
    let got = open_regular_file(path, "it is no regular file: write the plan to one")
        .and_then(|file| file.take(LONGEST_PLAN_BYTES + 1).read_to_end(&mut text));
    got.map_err(|err| usage(format!("reading the plan {shown}: {err}")))?;
    if text.len() as u64 > LONGEST_PLAN_BYTES {
        return Err(usage(format!("{shown}: longer than any plan")));
    }
    let text = String::from_utf8(text)
        .map_err(|_| usage(format!("reading the plan {shown}: it is no text (UTF-8)")))?;
    Plan::from_toml(&text).map_err(|err| usage(format!("{shown}: {err:#}")))
}

/// Writes a plan where the user wants it: `-` is stdout.
pub(crate) fn save_plan(plan: &Plan, path: &Path) -> anyhow::Result<()> {
    write_plan(plan, Replace::new(Some(path))?, path)
}

/// Writes a plan to a place that was checked before.
pub(crate) fn write_plan(plan: &Plan, place: Replace, path: &Path) -> anyhow::Result<()> {
    place
        .write(|out| Ok(out.write_all(plan.to_toml().as_bytes())?))
        .with_context(|| format!("writing the plan to {}", path.display()))
}
