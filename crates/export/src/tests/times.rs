//! Distributions of times, and rows as they are.

use std::time::Duration;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use proptest::prelude::*;

use super::{START_NS, Totals, comm, export, shootdowns};
use crate::{Measure, csv, hgrm, hlog};

/// Tag, start and values.
type Interval = (String, Duration, Histogram<u64>);

fn intervals(log: &[u8]) -> Vec<Interval> {
    IntervalLogIterator::new(log)
        .filter_map(|entry| match entry.unwrap() {
            LogEntry::Interval(i) => {
                let bytes = base64_of(i.encoded_histogram());
                let histogram = Deserializer::new().deserialize(&mut &bytes[..]).unwrap();
                let tag = i.tag().unwrap().as_str().to_owned();
                Some((tag, i.start_timestamp(), histogram))
            }
            _ => None,
        })
        .collect()
}

/// Base64 as RFC 4648 says it, which the log has its histograms in.
pub(crate) fn base64_of(text: &str) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut bytes = Vec::new();
    let (mut held, mut bits) = (0u32, 0);
    for c in text.bytes().filter(|c| *c != b'=') {
        let digit = DIGITS.iter().position(|d| *d == c).unwrap();
        held = (held << 6 | digit as u32) & 0xffff;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((held >> bits) as u8);
        }
    }
    bytes
}

proptest! {
    /// Check that the log has every value under its tag, that a tag's seconds only grow, and that sums are
    /// as exact as three digits are.
    #[test]
    fn hlog_any_trace(all in shootdowns()) {
        let log = export(&all, |rows, out| hlog::write(rows, &Measure::ALL, out));
        let totals = Totals::value_of(&all);
        for (name, count, sum) in [
            ("wait", totals.shootdowns, Some(totals.wait_ns)),
            ("delay", totals.seen, None),
            ("stall", totals.seen, Some(totals.stall_ns)),
        ] {
            let (mut found, mut mean, mut before) = (0, 0.0, None);
            for (_, start, histogram) in intervals(&log).iter().filter(|i| i.0 == name) {
                prop_assert!(Some(*start) > before);
                before = Some(*start);
                found += histogram.len();
                mean += histogram.mean() * histogram.len() as f64;
            }
            prop_assert_eq!(found, count);
            if let Some(sum) = sum {
                prop_assert!((mean - sum as f64).abs() <= sum as f64 / 500.0 + count as f64);
            }
        }
    }

    /// Check that values stand in their own second where rows come in the order of time.
    #[test]
    fn hlog_seconds(mut all in shootdowns()) {
        all.retain(|s| s.t_ns >= START_NS);
        all.sort_by_key(|s| s.t_ns);
        let log = export(&all, |rows, out| hlog::write(rows, &[Measure::Wait], out));
        for (tag, start, histogram) in intervals(&log) {
            prop_assert_eq!(tag, "wait");
            let second = |t_ns: u64| (t_ns - START_NS) / 1_000_000_000 == start.as_secs();
            let there = all.iter().filter(|s| second(s.t_ns)).count() as u64;
            prop_assert_eq!(histogram.len(), there);
        }
    }

    /// Check that the distribution's values and percentiles only grow, and that it ends with all values.
    #[test]
    fn hgrm_any_trace(all in shootdowns()) {
        let totals = Totals::value_of(&all);
        let of = [(Measure::Wait, totals.shootdowns), (Measure::Delay, totals.seen), (Measure::Stall, totals.seen)];
        for (measure, count) in of {
            let text = export(&all, |rows, out| hgrm::write(rows, measure, out));
            let text = String::from_utf8(text).unwrap();
            let unit = format!("microseconds of {}", measure.name());
            prop_assert!(text.contains(&unit));
            let lines = text.lines().skip(2).take_while(|l| !l.starts_with('#'));
            let numbers = |l: &str| l.split_whitespace().map(|w| w.parse::<f64>().unwrap()).collect::<Vec<_>>();
            let mut last = vec![0.0; 3];
            for line in lines {
                let now = numbers(line);
                prop_assert!(now.iter().zip(&last).all(|(n, l)| n >= l), "{text}");
                prop_assert!(now[1] <= 1.0);
                last = now;
            }
            prop_assert_eq!(last[2] as u64, count);
            let total = format!("Total count    = {count:>12}]");
            prop_assert!(text.contains(&total));
        }
    }

    /// Check that CSV has a header, and that every row has its values, however a name is quoted.
    #[test]
    fn csv_any_trace(all in shootdowns(), name in comm()) {
        let mut all = all;
        all.iter_mut().for_each(|s| s.comm = name);
        let text = export(&all, |rows, out| csv::write(rows, out));
        let mut reader = ::csv::Reader::from_reader(&text[..]);
        let header = reader.headers().unwrap().clone();
        let column = |name: &str| header.iter().position(|h| h == name).unwrap();
        let mut found = Totals::default();
        for line in reader.records() {
            let line = line.unwrap();
            let number = |name: &str| line[column(name)].parse::<u64>().unwrap();
            prop_assert_eq!(&line[column("comm")], &name.as_text());
            if number("victim_index") == 0 {
                found.shootdowns += 1;
                found.wait_ns += number("wait_ns");
            }
            found.rows += 1;
            found.seen += u64::from(number("victim_cpu") != 65535);
            found.stall_ns += number("stall_ns");
        }
        prop_assert_eq!(found, Totals::value_of(&all));
    }
}
