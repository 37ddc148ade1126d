//! Prints the entries of the catalogue of advice, as docs/advice-catalogue.md ends with them.

use std::io::Write as _;

fn main() -> std::io::Result<()> {
    let page = quell_remedy::advice::catalogue_page();
    std::io::stdout().write_all(page.as_bytes())
}
