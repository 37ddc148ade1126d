//! Properties of the bins, and of the page.

mod properties;
mod written;

use quell_event::TallySummary;

use crate::{About, NameSource};

/// A name for every number.
struct AnyNames;

impl NameSource for AnyNames {
    fn stack(&self, stack: i32) -> Option<Vec<String>> {
        Some(vec!["main".to_owned(), format!("function {stack}")])
    }
    fn region(&self, region: u32) -> String {
        format!("region {region}")
    }
    fn process(&self, _: u32) -> Option<String> {
        None
    }
}

/// No address, nothing that fetches, a policy that forbids it, and no mark left.
pub(crate) fn fetches_nothing(page: &str) {
    assert!(page.contains("default-src 'none'; script-src 'sha256-"));
    assert!(!page.contains("@TITLE@") && !page.contains("@DATA@") && !page.contains("@CSP@"));
    for fetching in [
        "<script src",
        "url(",
        "@import",
        "<link",
        "fetch(",
        "XMLHttpRequest",
        "import(",
    ] {
        assert!(!page.contains(fetching), "{fetching}");
    }
    // the only address is the name of SVG's elements
    let addresses = page.matches("http").count() - page.matches("http-equiv").count();
    assert_eq!(
        addresses,
        page.matches("http://www.w3.org/2000/svg").count()
    );
}

fn about<'a>(summary: &'a TallySummary, title: &'a str) -> About<'a> {
    About {
        title,
        version: "0",
        host: "host",
        kernel: "6.18",
        start_wall_ns: 0,
        start_monotonic_ns: 0,
        summary,
        costs: &[],
        notes: &[],
    }
}
