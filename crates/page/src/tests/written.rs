use quell_event::trace::EventRow;
use quell_event::{Cause, Comm, TallySummary};

use super::{AnyNames, about, fetches_nothing};
use crate::{Binner, NameSource, PageLimits};

const HOSTILE: &str = "</script><img src=x onerror=alert(1)>@SCRIPT@";

/// Names that would like to run.
struct Hostile;

impl NameSource for Hostile {
    fn stack(&self, _: i32) -> Option<Vec<String>> {
        Some(vec![HOSTILE.to_owned(), "<!--<script>".to_owned()])
    }
    fn region(&self, _: u32) -> String {
        HOSTILE.to_owned()
    }
    fn process(&self, _: u32) -> Option<String> {
        None
    }
}

fn page(names: &dyn NameSource, title: &str) -> String {
    let mut binner = Binner::new(PageLimits::default());
    binner.take(
        &EventRow {
            t_ns: 5_000,
            cause: Cause::Munmap,
            pid: 7,
            comm: Comm::from("<img src=x>"),
            user_stack: 1,
            victim_pid: 8,
            stall_ns: 300,
            wait_ns: 900,
            ..EventRow::default()
        },
        0,
    );
    let mut page = Vec::new();
    let summary = TallySummary::default();
    binner
        .write(&about(&summary, title), names, &mut page)
        .unwrap();
    String::from_utf8(page).unwrap()
}

/// Check that names, whatever they hold, begin no element and end no script.
#[test]
fn hostile_names_stay_text() {
    let page = page(&Hostile, HOSTILE);
    assert_eq!(page.matches("<script").count(), 2);
    assert_eq!(page.matches("</script").count(), 2);
    assert!(!page.contains("<img"));
    assert!(!page.contains("<!--"));
    // The data are the input all the same.
    let data = page.split_once("id=\"data\">").unwrap().1;
    let data = data.split_once("</script>").unwrap().0;
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    assert_eq!(data["frames"][0], HOSTILE);
    assert_eq!(data["regions"][0], HOSTILE);
    assert_eq!(data["title"], HOSTILE);
    assert_eq!(data["processes"]["7"], "<img src=x>");
}

/// Check that the page names nothing to fetch, and forbids it.
#[test]
fn nothing_is_fetched() {
    let page = page(&AnyNames, "quiet");
    fetches_nothing(&page);
}

/// Check that an empty trace is a page too.
#[test]
fn nothing_is_a_page() {
    let mut page = Vec::new();
    let summary = TallySummary::default();
    Binner::new(PageLimits::default())
        .write(&about(&summary, "none"), &AnyNames, &mut page)
        .unwrap();
    assert!(String::from_utf8(page).unwrap().contains("\"steps\":0"));
}
