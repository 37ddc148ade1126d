//! InfluxDB's line protocol: `MEASUREMENT,TAG=VALUE FIELD=NUMBERi TIME`, as
//! <https://docs.influxdata.com/influxdb/v2/reference/syntax/line-protocol/> has it.

mod sink;

use std::fmt::Write as _;

pub use sink::{Sink, SinkTarget};

/// One point.
#[derive(Clone, Debug)]
pub struct InfluxPoint<'a> {
    /// The name of the measurement.
    pub measurement: &'a str,
    /// The tags that distinguish points. A tag without a value is left out, because the protocol has no empty one.
    pub tags: Vec<(&'a str, &'a str)>,
    /// The measured values: integers, at least one.
    pub fields: Vec<(&'a str, i64)>,
    /// When, ns since 1970.
    pub t_ns: u64,
}

impl InfluxPoint<'_> {
    /// The line, with its end. A point without fields is none, and has no line.
    #[must_use]
    pub fn protocol_line(&self) -> String {
        if self.fields.is_empty() {
            return String::new();
        }
        let mut line = escape_special(self.measurement, &[',', ' ']);
        for (tag, value) in self.tags.iter().filter(|(_, value)| !value.is_empty()) {
            let [tag, value] = [tag, value].map(|text| escape_special(text, &[',', '=', ' ']));
            // Writing to a String does not fail.
            let _ = write!(line, ",{tag}={value}");
        }
        for (i, (field, value)) in self.fields.iter().enumerate() {
            let between = if i == 0 { ' ' } else { ',' };
            let field = escape_special(field, &[',', '=', ' ']);
            let _ = write!(line, "{between}{field}={value}i");
        }
        // The protocol's times are signed.
        let _ = writeln!(line, " {}", self.t_ns.min(i64::MAX as u64));
        line
    }
}

/// A text with a backslash before each separator. The protocol can't write an end of line, nor a backslash before a separator
/// (readers differ about two of them): those become `?` and `/`.
fn escape_special(text: &str, special: &[char]) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if special.contains(&c) => {
                out.push('\\');
                out.push(c);
            }
            '\\' => out.push('/'),
            c if c.is_control() => out.push('?'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Splits at separators without a backslash before them, as InfluxDB's own parser does.
    fn split(text: &str, separator: char) -> Vec<String> {
        let mut parts = vec![String::new()];
        let mut before = ' ';
        for c in text.chars() {
            if c == separator && before != '\\' {
                parts.push(String::new());
            } else if let Some(part) = parts.last_mut() {
                part.push(c);
            }
            before = c;
        }
        parts
    }

    fn plain(text: &str) -> String {
        text.replace("\\,", ",")
            .replace("\\=", "=")
            .replace("\\ ", " ")
    }

    /// The part of a text that the protocol can write.
    fn told(text: &str) -> String {
        text.chars()
            .map(|c| match c {
                '\\' => '/',
                c if c.is_control() => '?',
                c => c,
            })
            .collect()
    }

    proptest! {
        /// Check that whatever a tag holds, the line is one line, and a reader finds the same tags, fields and time in it.
        #[test]
        fn any_text_comes_through(
            tags in prop::collection::vec(("[a-z]{1,5}", prop_oneof![".{0,12}", "[,= \\\\\n\"'#]{0,6}"]), 0..4),
            fields in prop::collection::vec(("[a-z_]{1,8}", any::<i64>()), 1..5),
            t_ns: u64,
        ) {
            let point = InfluxPoint {
                measurement: "quell_lab",
                tags: tags.iter().map(|(tag, value)| (tag.as_str(), value.as_str())).collect(),
                fields: fields.iter().map(|(field, value)| (field.as_str(), *value)).collect(),
                t_ns,
            };
            let line = point.protocol_line();
            prop_assert_eq!(line.matches('\n').count(), 1);
            let line = line.strip_suffix('\n').unwrap();
            prop_assert_eq!(line.lines().count(), 1);
            let parts = split(line, ' ');
            prop_assert_eq!(parts.len(), 3, "{}", line);
            let key = split(&parts[0], ',');
            prop_assert_eq!(&key[0], "quell_lab");
            let found: Vec<_> = key[1..].iter().map(|tag| {
                let pair = split(tag, '=');
                assert_eq!(pair.len(), 2, "{tag}");
                (plain(&pair[0]), plain(&pair[1]))
            }).collect();
            let given: Vec<_> = tags.iter().filter(|(_, v)| !v.is_empty()).map(|(t, v)| (t.clone(), told(v))).collect();
            prop_assert_eq!(found, given);
            let found: Vec<_> = split(&parts[1], ',').iter().map(|field| {
                let pair = split(field, '=');
                (pair[0].clone(), pair[1].strip_suffix('i').unwrap().parse::<i64>().unwrap())
            }).collect();
            prop_assert_eq!(found, fields);
            prop_assert_eq!(parts[2].parse::<i64>().unwrap(), i64::try_from(t_ns).unwrap_or(i64::MAX));
        }
    }

    /// Check that parts which the protocol can't write are left out: tags without a value, points without fields.
    #[test]
    fn nothing_is_left_out() {
        let mut point = InfluxPoint {
            measurement: "m",
            tags: vec![("a", ""), ("b", "c d")],
            fields: vec![("n", -1)],
            t_ns: 7,
        };
        assert_eq!(point.protocol_line(), "m,b=c\\ d n=-1i 7\n");
        point.fields.clear();
        assert_eq!(point.protocol_line(), "");
    }
}
