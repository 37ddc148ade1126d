//! Timelines as bytes in base64: distances and lengths, most of which fit into two bytes. `web/results.js` reads
//! them.

use indexmap::IndexSet;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::cells::Cells;

/// Packs the timelines of every arm; `classes` gets the names of the classes in them, each once.
///
/// Each list begins with its length. A gap is its distance from the begin of the one before, its length, and twice the number of
/// its class, plus one where the culprit had a part in it; an operation is that distance and its length. Times are ns.
pub(super) fn pack_timelines(result: &mut Value, classes: &mut IndexSet<String>) {
    let arms = result.get_mut("arms").and_then(Value::as_object_mut);
    for arm in arms.into_iter().flat_map(|arms| arms.values_mut()) {
        let mut gaps: Vec<(u64, u64, String, bool)> = take_array(arm, "timeline");
        let mut ops: Vec<(u64, u64)> = take_array(arm, "timeline_ops");
        let Some(arm) = arm.as_object_mut() else {
            continue;
        };
        gaps.sort_by_key(|gap| gap.0);
        ops.sort_unstable();
        let mut cells = Cells::default();
        cells.push_number(gaps.len() as u64);
        let mut before = 0;
        for (begin, ns, class, caused) in gaps {
            cells.push_number(begin - before);
            cells.push_number(ns);
            let class = classes.insert_full(class).0 as u64;
            cells.push_number(class * 2 + u64::from(caused));
            before = begin;
        }
        arm.insert("timeline".to_owned(), cells.to_base64().into());
        let mut cells = Cells::default();
        cells.push_number(ops.len() as u64);
        let mut before = 0;
        for (begin, end) in ops {
            cells.push_number(begin - before);
            cells.push_number(end.saturating_sub(begin));
            before = begin;
        }
        arm.insert("timeline_ops".to_owned(), cells.to_base64().into());
    }
}

/// Takes a list out of an arm; it is empty where the key is missing or has another form.
fn take_array<T: DeserializeOwned>(arm: &mut Value, key: &str) -> Vec<T> {
    let value = arm.get_mut(key).map(Value::take);
    let list = value.and_then(|v| serde_json::from_value(v).ok());
    list.unwrap_or_default()
}
