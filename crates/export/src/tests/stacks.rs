//! The formats that flame graphs are drawn of.

use std::collections::HashSet;
use std::io::Read as _;

use flate2::read::GzDecoder;
use proptest::prelude::*;
use prost::Message as _;
use serde_json::Value;

use super::{Totals, export, shootdowns, some_stacks};
use crate::pprof::proto::PprofProfile;
use crate::{SampleWeight, folded, pprof, speedscope};

const WEIGHTS: [SampleWeight; 5] = [
    SampleWeight::Count,
    SampleWeight::Wait,
    SampleWeight::Stall,
    SampleWeight::Cpu,
    SampleWeight::Blocked,
];

const NAMES: [&str; 5] = ["shootdowns", "wait", "stall", "cpu", "blocked"];

fn expected(totals: &Totals, weight: SampleWeight) -> u64 {
    match weight {
        SampleWeight::Wait | SampleWeight::Cpu => totals.wait_ns,
        SampleWeight::Count => totals.shootdowns,
        SampleWeight::Stall | SampleWeight::Blocked => totals.stall_ns,
    }
}

fn profile(bytes: &[u8]) -> PprofProfile {
    let mut whole = Vec::new();
    GzDecoder::new(bytes).read_to_end(&mut whole).unwrap();
    PprofProfile::decode(&whole[..]).unwrap()
}

proptest! {
    /// Check that each folded line is a stack and a number, that lines are sorted and each there once,
    /// and that the numbers add up.
    #[test]
    fn folded_any_trace(all in shootdowns()) {
        let stacks = some_stacks();
        for weight in WEIGHTS {
            let text = export(&all, |rows, out| folded::write(rows, &stacks, weight, out));
            let text = String::from_utf8(text).unwrap();
            let mut sum = 0;
            let mut before = "";
            for line in text.lines() {
                let (stack, n) = line.rsplit_once(' ').unwrap();
                sum += n.parse::<u64>().unwrap();
                prop_assert!(before < stack, "{before:?} {stack:?}");
                before = stack;
                prop_assert!(stack.split(';').all(|frame| !frame.trim().is_empty()), "{line:?}");
                let cause = stack.rsplit(';').next().unwrap();
                prop_assert!(cause.starts_with('[') && cause.ends_with(']'));
                prop_assert!(!text.contains("[u8;"), "a semicolon in a frame splits it");
            }
            prop_assert_eq!(sum, expected(&Totals::value_of(&all), weight));
        }
    }

    /// Check that a speedscope profile has a weight for each sample, known frames only, and the totals.
    #[test]
    fn speedscope_any_trace(all in shootdowns()) {
        let stacks = some_stacks();
        for weight in WEIGHTS {
            let text = export(&all, |rows, out| speedscope::write(rows, &stacks, weight, out));
            let file: Value = serde_json::from_slice(&text).unwrap();
            let frames = file["shared"]["frames"].as_array().unwrap().len() as u64;
            let profile = &file["profiles"][0];
            let samples = profile["samples"].as_array().unwrap();
            let weights = profile["weights"].as_array().unwrap();
            prop_assert_eq!(samples.len(), weights.len());
            for sample in samples {
                let known = |f: &Value| f.as_u64().unwrap() < frames;
                prop_assert!(sample.as_array().unwrap().iter().all(known));
            }
            let sum: u64 = weights.iter().map(|w| w.as_u64().unwrap()).sum();
            prop_assert_eq!(sum, expected(&Totals::value_of(&all), weight));
            prop_assert_eq!(profile["endValue"].as_u64(), Some(sum));
        }
    }

    /// Check that a pprof profile has no number without meaning, none twice, all totals, and the chosen weight as its default.
    #[test]
    fn pprof_any_trace(all in shootdowns()) {
        let stacks = some_stacks();
        let totals = Totals::value_of(&all);
        for (weight, name) in WEIGHTS.into_iter().zip(NAMES) {
            let bytes = export(&all, |rows, out| pprof::write(rows, &stacks, weight, out));
            let profile = profile(&bytes);
            let text = |n: i64| profile.string_table[usize::try_from(n).unwrap()].as_str();
            prop_assert_eq!(text(0), "");
            prop_assert_eq!(text(profile.default_sample_type), name);
            let types: Vec<_> = profile.sample_type.iter().map(|t| text(t.kind)).collect();
            prop_assert_eq!(types, NAMES);
            let functions: HashSet<u64> = profile.function.iter().map(|f| f.id).collect();
            let locations: HashSet<u64> = profile.location.iter().map(|l| l.id).collect();
            prop_assert_eq!(functions.len(), profile.function.len());
            prop_assert_eq!(locations.len(), profile.location.len());
            for location in &profile.location {
                prop_assert!(location.line.iter().all(|l| functions.contains(&l.function_id)));
                prop_assert!(location.mapping_id as usize <= profile.mapping.len());
            }
            let mut sums = [0u64; 5];
            for sample in &profile.sample {
                prop_assert!(!sample.location_id.is_empty());
                prop_assert!(sample.location_id.iter().all(|l| locations.contains(l)));
                let keys: Vec<_> = sample.label.iter().map(|l| text(l.key)).collect();
                let shootdown = ["cause", "comm", "pid"];
                let memory = ["mechanism", "part", "comm", "pid"];
                prop_assert!(keys == shootdown || keys == memory, "{keys:?}");
                for (sum, value) in sums.iter_mut().zip(&sample.value) {
                    *sum += value.cast_unsigned();
                }
            }
            prop_assert_eq!(sums, WEIGHTS.map(|weight| expected(&totals, weight)));
        }
    }
}
