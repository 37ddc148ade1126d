//! Properties of the bins, and of the page.

mod properties;
mod written;

use quell_event::Summary;

use crate::{About, Names};

/// A name for every number.
struct AnyNames;

impl Names for AnyNames {
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

fn about<'a>(summary: &'a Summary, title: &'a str) -> About<'a> {
    About {
        title,
        version: "0",
        host: "host",
        kernel: "6.18",
        start_wall_ns: 0,
        start_monotonic_ns: 0,
        summary,
        notes: &[],
    }
}
