//! The page of the lab: packed timelines come back, and nothing in it can run.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use indexmap::IndexSet;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Shown, pack, write};
use crate::tests::fetches_nothing;

/// Numbers of 7 bits a byte, as `web/reader.js` reads them.
fn numbers(base64: &Value) -> Vec<u64> {
    let bytes = STANDARD.decode(base64.as_str().unwrap()).unwrap();
    let mut numbers = Vec::new();
    let (mut n, mut shift) = (0, 0);
    for byte in bytes {
        n |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte < 0x80 {
            numbers.push(n);
            (n, shift) = (0, 0);
        }
    }
    numbers
}

const CLASSES: [&str; 3] = ["tlb", "timer", "none"];

proptest! {
    /// Check that every gap and every operation comes back, in the order of time.
    #[test]
    fn timelines_come_back(
        gaps in prop::collection::vec((any::<u64>(), any::<u64>(), prop::sample::select(&CLASSES), any::<bool>()), 0..50),
        ops in prop::collection::vec((0u64..1 << 60, 0u64..1 << 60), 0..50),
    ) {
        let ops: Vec<(u64, u64)> = ops.iter().map(|(begin, ns)| (*begin, begin + ns)).collect();
        let mut result = json!({"arms": {"real": {"timeline": gaps, "timeline_ops": ops}}});
        let mut classes = IndexSet::new();
        pack::pack_timelines(&mut result, &mut classes);
        let packed = numbers(&result["arms"]["real"]["timeline"]);
        let mut at = 0;
        let back: Vec<_> = packed[1..].chunks(3).map(|c| {
            at += c[0];
            (at, c[1], classes[(c[2] / 2) as usize].as_str(), c[2] % 2 == 1)
        }).collect();
        let mut sorted = gaps;
        sorted.sort_by_key(|gap| gap.0);
        prop_assert_eq!(packed[0], sorted.len() as u64);
        prop_assert_eq!(back, sorted);
        let packed = numbers(&result["arms"]["real"]["timeline_ops"]);
        let mut at = 0;
        let back: Vec<_> = packed[1..].chunks(2).map(|c| { at += c[0]; (at, at + c[1]) }).collect();
        let mut sorted = ops;
        sorted.sort_unstable();
        prop_assert_eq!(back, sorted);
    }
}

/// Check that a result without timelines, or with some of another form, is packed as one without gaps.
#[test]
fn odd_results_are_packed() {
    for odd in [
        json!({}),
        json!({"arms": 3}),
        json!({"arms": {"real": {}}}),
        json!({"arms": {"real": {"timeline": [[1, 2]], "timeline_ops": "x"}}}),
    ] {
        let mut result = odd;
        pack::pack_timelines(&mut result, &mut IndexSet::new());
        let real = &result["arms"]["real"];
        if real.is_object() {
            assert_eq!(numbers(&real["timeline"]), [0]);
            assert_eq!(numbers(&real["timeline_ops"]), [0]);
        }
    }
}

/// Check that names, whatever they hold, begin no element and end no script, and that the page fetches nothing.
#[test]
fn hostile_names_stay_text() {
    let hostile = "</script><img src=x onerror=alert(1)>@SCRIPT@<!--";
    let result = json!({"experiment": hostile, "about": hostile, "why": hostile, "arms": {"real": {
        "timeline": [[1, 2, hostile, true]],
    }}});
    let mut page = Vec::new();
    let shown = Shown {
        result,
        beside: None,
    };
    write(vec![shown], "0", &mut page).unwrap();
    let page = String::from_utf8(page).unwrap();
    assert_eq!(page.matches("<script").count(), 2);
    assert_eq!(page.matches("</script").count(), 2);
    assert!(!page.contains("<img") && !page.contains("<!--"));
    let data = page.split_once("id=\"data\">").unwrap().1;
    let data: Value = serde_json::from_str(data.split_once("</script>").unwrap().0).unwrap();
    assert_eq!(data["results"][0]["experiment"], hostile);
    assert_eq!(data["classes"][0], hostile);
    fetches_nothing(&page);
}
