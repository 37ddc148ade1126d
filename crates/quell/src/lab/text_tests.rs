//! The text of an experiment, whoever made its file.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::lab::fixture;

/// Check the whole text of one experiment, and its line among several.
#[test]
fn text_of_a_result() {
    let plain =
        anstream::adapter::strip_str(&experiment_text(&fixture::dontneed_result())).to_string();
    insta::assert_snapshot!(plain);
    assert_eq!(
        experiment_row(&fixture::munmap_result()),
        [
            "munmap",
            "shown",
            "not shown",
            "1.000",
            "",
            "9,000",
            "2.40 µs",
            "3.20 µs"
        ]
    );
}

/// Check that numbers have commas, and a sign where they need one.
#[test]
fn numbers_have_commas() {
    assert_eq!(format_thousands(1_234_567.4), "1,234,567");
    assert_eq!(
        (format_thousands(-0.4), format_thousands(-1234.0)),
        ("0".into(), "-1,234".into())
    );
    assert_eq!(
        (format_signed(12_000.0), format_signed(-0.6)),
        ("+12,000".into(), "-1".into())
    );
}

/// A text that a terminal would act on.
fn hostile() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[\u{1b}\\[\\]0-9;mJH\\\\\r\n\u{7}\u{9b}\u{202e}a-c]{1,12}",
        Just("\u{1b}[31m\u{1b}]0;title\u{7}\n".to_owned()),
    ]
}

/// Puts the text and the number wherever a file holds some.
fn spoil(value: &mut Value, text: &str, number: u64) {
    match value {
        Value::String(s) => *s = text.to_owned(),
        Value::Number(n) if n.is_u64() => *value = number.into(),
        Value::Number(_) => *value = (number as f64).into(),
        Value::Array(all) => all.iter_mut().for_each(|v| spoil(v, text, number)),
        Value::Object(all) => {
            for (key, value) in all.iter_mut() {
                // These are words of a fixed set: another one is no result.
                if !matches!(
                    key.as_str(),
                    "schema" | "victim" | "verdict" | "sham_verdict" | "timeline"
                ) {
                    spoil(value, text, number);
                }
            }
        }
        _ => {}
    }
}

proptest! {
    /// Check that no text and no number in a file makes the text of it do anything at a terminal, add lines, or panic.
    #[test]
    fn files_are_only_told(text in hostile(), number in prop_oneof![any::<u64>(), Just(u64::MAX), 0_u64..9]) {
        let mut value = serde_json::to_value(fixture::dontneed_result()).expect("JSON");
        value["backtraces"] = json!({"culprit": ["a"], "victim": ["b"], "shootdowns": 3});
        value["note"] = text.clone().into();
        value["params"][&text] = 1.into();
        value["arms"]["idle"]["invalid"][&text] = 1.into();
        value["arms"]["idle"]["invalid"]["more"] = 1.into();
        value["arms"]["idle"]["gaps"][&text] = json!([1, 1]);
        // "machine" has names, and numbers of 32 bits.
        let machine = value["machine"].take();
        spoil(&mut value, &text, number);
        value["machine"] = machine;
        value["machine"]["kernel"] = text.clone().into();
        value["machine"]["cpu"] = text.clone().into();
        let spoilt: ExperimentSummary = serde_json::from_value(value).expect("a result");
        let told = experiment_text(&spoilt);
        let own = [format!("{BOLD}"), format!("{BOLD:#}")];
        let rest = own.iter().fold(told, |told, own| told.replace(own, ""));
        prop_assert!(!rest.chars().any(|c| c != '\n' && c.is_control()), "{rest:?}");
        let mut tame = fixture::dontneed_result();
        tame.backtraces = spoilt.backtraces.clone();
        tame.note = Some(String::new());
        tame.faults_per_op = Some(1.0);
        prop_assert!(rest.lines().count() <= experiment_text(&tame).lines().count());
        prop_assert!(experiment_row(&spoilt).iter().all(|cell| !cell.contains(char::is_control)));
        crate::lab::influx_lines(&crate::lab::Results { all: vec![spoilt], wall_ns: number });
    }
}
