//! The frame of every page: one file with its style, its script and its data, that fetches nothing.

use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

/// The text around every page, with the marks `@CSP@`, `@TITLE@`, `@STYLE@`, `@BODY@`, `@DATA@` and `@SCRIPT@`, in this order.
const DOCUMENT_FRAME: &str = include_str!("web/document.html");

/// A page without its data.
pub(crate) struct PageDocument<'a> {
    /// Its own HTML.
    pub(crate) body: &'a str,
    /// One after the other.
    pub(crate) styles: &'a [&'a str],
    /// In the order in which they use each other.
    pub(crate) scripts: &'a [&'a str],
    /// The window's title. Anybody may have written it, so it is escaped here.
    pub(crate) title: &'a str,
}

impl PageDocument<'_> {
    /// Writes it around data in JSON.
    pub(crate) fn write(&self, json: &str, out: &mut dyn io::Write) -> io::Result<()> {
        let style = self.styles.join("\n");
        let script = format!(
            "(() => {{\n\"use strict\";\n{}\n}})();\n",
            self.scripts.join("\n")
        );
        let mut rest = DOCUMENT_FRAME;
        for (mark, text) in [
            // Nothing is fetched, from nowhere, and no script runs but ours, whatever a name holds.
            (
                "@CSP@",
                format!(
                    "default-src 'none'; script-src {}; style-src {}; base-uri 'none'; form-action 'none'",
                    csp_hash(&script),
                    csp_hash(&style)
                ),
            ),
            ("@TITLE@", escape_html(self.title)),
            ("@STYLE@", style),
            ("@BODY@", self.body.to_owned()),
            ("@DATA@", escape_script_json(json)),
            ("@SCRIPT@", script),
        ] {
            // Only the frame is searched, from the last mark on, so a mark that stands in a name is never taken for one.
            let (before, after) = rest.split_once(mark).unwrap_or((rest, ""));
            out.write_all(before.as_bytes())?;
            out.write_all(text.as_bytes())?;
            rest = after;
        }
        out.write_all(rest.as_bytes())
    }
}

/// How CSP names a text that may run.
fn csp_hash(text: &str) -> String {
    format!(
        "'sha256-{}'",
        STANDARD.encode(Sha256::digest(text.as_bytes()))
    )
}

/// Text in HTML.
fn escape_html(text: &str) -> String {
    // The ampersand is first, because every escape begins with one.
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('\'', "&#39;")
}

/// JSON that can't end its script block, nor begin a comment in it: these characters are only in its
/// strings, where an escape means the same.
fn escape_script_json(json: &str) -> String {
    json.replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
}
