//! The page around the data.

use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use crate::about::{About, Names};
use crate::bins::{Binner, LONGEST_LOG2};
use crate::data::{Named, Packed, data};
use crate::names::cut;

const PAGE: &str = include_str!("web/page.html");
const STYLE: &str = include_str!("web/page.css");
/// In the order in which they use each other.
const SCRIPTS: &[&str] = &[
    include_str!("web/units.js"),
    include_str!("web/data.js"),
    include_str!("web/dom.js"),
    include_str!("web/colours.js"),
    include_str!("web/sums.js"),
    include_str!("web/words.js"),
    include_str!("web/timeline.js"),
    include_str!("web/brush.js"),
    include_str!("web/matrix.js"),
    include_str!("web/flame.js"),
    include_str!("web/percentiles.js"),
    include_str!("web/tables.js"),
    include_str!("web/main.js"),
];

impl Binner {
    /// Writes the page.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub fn write(
        mut self,
        about: &About<'_>,
        names: &dyn Names,
        out: &mut dyn io::Write,
    ) -> io::Result<()> {
        let (packed, named) = self.fit(names);
        let data = data(&self, about, names, &packed, named);
        let json = serde_json::to_string(&data)?;
        let script = format!(
            "(() => {{\n\"use strict\";\n{}\n}})();\n",
            SCRIPTS.join("\n")
        );
        let mut rest = PAGE;
        for (mark, text) in [
            // Nothing is fetched, from nowhere, and no script runs but ours, whatever a name holds.
            (
                "@CSP@",
                format!(
                    "default-src 'none'; script-src {}; style-src {}; base-uri 'none'; form-action 'none'",
                    hash(&script),
                    hash(STYLE)
                ),
            ),
            ("@TITLE@", escape(&cut(about.title))),
            ("@STYLE@", STYLE.to_owned()),
            ("@DATA@", inert(&json)),
            ("@SCRIPT@", script),
        ] {
            // The marks stand in this order, so that none in a name is taken for one.
            let (before, after) = rest.split_once(mark).unwrap_or((rest, ""));
            out.write_all(before.as_bytes())?;
            out.write_all(text.as_bytes())?;
            rest = after;
        }
        out.write_all(rest.as_bytes())
    }

    /// Makes it fit: first longer steps, down to a number that a brush can still use, then fewer
    /// things told apart, and then steps again.
    pub(crate) fn fit(&mut self, names: &dyn Names) -> (Packed, Named) {
        let limits = self.limits;
        self.sites.fold(limits.told, limits.cells);
        self.pairs.fold(limits.told, limits.cells);
        let mut named = Named::new(self, names);
        while named.len() > limits.name_bytes
            && self.sites.fold(self.sites.count() * 3 / 4, limits.cells)
        {
            named = Named::new(self, names);
        }
        let mut packed = Packed::new(self);
        while packed.len() > limits.cell_bytes {
            if self.steps() <= limits.steps {
                let sites = self.sites.fold(self.sites.count() * 3 / 4, limits.cells);
                let pairs = self.pairs.fold(self.pairs.count() * 3 / 4, limits.cells);
                if sites || pairs {
                    packed = Packed::new(self);
                    named = Named::new(self, names);
                    continue;
                }
            }
            if self.steps() <= 1 || self.step_log2 >= LONGEST_LOG2 {
                break;
            }
            self.lengthen_steps();
            packed = Packed::new(self);
        }
        (packed, named)
    }
}

/// How CSP names a text that may run.
fn hash(text: &str) -> String {
    format!(
        "'sha256-{}'",
        STANDARD.encode(Sha256::digest(text.as_bytes()))
    )
}

/// Text in HTML.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// JSON that can't end its script block, nor begin a comment in it: these characters are only in its
/// strings, where an escape means the same.
fn inert(json: &str) -> String {
    json.replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
}
