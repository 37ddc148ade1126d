//! Results of the lab as one HTML page that needs nothing but a browser.
//!
//! The page reads results in the form that is quell's contract (`quell/lab/1`), so that its pictures come straight from a result
//! file. Only timelines are packed: as JSON those of thirty experiments are twenty megabytes.

mod pack;
#[cfg(test)]
mod tests;

use std::io;

use indexmap::IndexSet;
use serde::Serialize;
use serde_json::Value;

use crate::document::PageDocument;
use crate::names::cut_name;

const PAGE_BODY: &str = include_str!("web/lab.html");
/// The tokens, and the style of every page, come first.
const STYLES: &[&str] = &[include_str!("../web/page.css"), include_str!("web/lab.css")];
/// In the order in which they use each other.
const PAGE_SCRIPTS: &[&str] = &[
    include_str!("../web/units.js"),
    include_str!("../web/reader.js"),
    include_str!("../web/dom.js"),
    include_str!("../web/colours.js"),
    include_str!("../web/scales.js"),
    include_str!("../web/flame.js"),
    include_str!("web/results.js"),
    include_str!("web/marks.js"),
    include_str!("web/axes.js"),
    include_str!("web/words.js"),
    include_str!("web/tables.js"),
    include_str!("web/gaps.js"),
    include_str!("web/walk.js"),
    include_str!("web/percentiles.js"),
    include_str!("web/budget.js"),
    include_str!("web/heat.js"),
    include_str!("web/phase.js"),
    include_str!("web/matrix.js"),
    include_str!("web/ways.js"),
    include_str!("web/document.js"),
    include_str!("web/main.js"),
];

/// A result, with facts about it that no result holds.
#[derive(Debug)]
pub struct Shown {
    /// An object of the form `quell/lab/1`.
    pub result: Value,
    /// Where the experiment comes from a document.
    pub beside: Option<Beside>,
}

/// A document's figures beside those that were measured.
#[derive(Debug, Serialize)]
pub struct Beside {
    /// Its name and where it is.
    pub document: &'static str,
    /// One after the other.
    pub figures: Vec<Figure>,
    /// Where and why the two differ.
    pub differs: &'static str,
}

/// A figure of a document.
#[derive(Debug, Serialize)]
pub struct Figure {
    /// The measured quantity.
    pub what: &'static str,
    /// The value in the document.
    pub document: &'static str,
    /// The value that was measured here.
    pub here: String,
}

/// The data that the page reads. They are no part of quell's contract, except for `results`.
#[derive(Serialize)]
struct Data<'a> {
    version: &'a str,
    /// The names of the classes, by their number in packed timelines.
    classes: Vec<String>,
    results: Vec<Value>,
    /// Of each result.
    beside: Vec<Option<Beside>>,
}

/// Writes the page of results.
///
/// # Errors
///
/// Those of `out`.
pub fn write(shown: Vec<Shown>, version: &str, out: &mut dyn io::Write) -> io::Result<()> {
    let of_each = shown.into_iter().map(|s| (s.result, s.beside));
    let (mut results, beside): (Vec<Value>, Vec<_>) = of_each.unzip();
    let mut classes = IndexSet::new();
    for result in &mut results {
        pack::pack_timelines(result, &mut classes);
    }
    let names: Vec<&str> = results
        .iter()
        .filter_map(|r| r.get("experiment")?.as_str())
        .collect();
    let title = cut_name(&format!("quell lab: {}", names.join(", ")));
    let data = Data {
        version,
        classes: classes.into_iter().collect(),
        results,
        beside,
    };
    let json = serde_json::to_string(&data)?;
    let document = PageDocument {
        body: PAGE_BODY,
        styles: STYLES,
        scripts: PAGE_SCRIPTS,
        title: &title,
    };
    document.write(&json, out)
}
