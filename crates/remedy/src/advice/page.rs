//! The catalogue as a page of documentation.

use std::fmt::Write as _;

use super::{AdviceEntry, all};

/// Every entry, as docs/advice-catalogue.md has them: `cargo run -p quell-remedy --example advice_page` prints it.
#[must_use]
pub fn catalogue_page() -> String {
    let mut entries: Vec<&AdviceEntry> = all().to_vec();
    entries.sort_by_key(|entry| entry.id);
    entries.into_iter().map(entry_section).collect()
}

fn entry_section(entry: &AdviceEntry) -> String {
    let mechanisms: Vec<String> = entry.mechanisms.iter().map(|m| format!("`{m}`")).collect();
    let source = entry
        .source
        .split(' ')
        .map(|word| match word.starts_with("https://") {
            true => format!("<{word}>"),
            false => word.to_owned(),
        });
    let source: Vec<String> = source.collect();
    let mut out = format!("\n### {}\n\n{}.\n\n", entry.id, capitalised(entry.what));
    for (name, text) in [
        ("seen by", entry.seen_by),
        ("touches", &mechanisms.join(", ")),
        ("change", entry.switch),
        ("why", entry.why),
        ("source", &source.join(" ")),
    ] {
        // Writing to a String does not fail.
        let _ = writeln!(out, "- {name}: {text}");
    }
    out
}

/// With a large first letter.
fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_uppercase().chain(chars).collect(),
        None => String::new(),
    }
}
