//! Answers as text.

use std::fmt::Write as _;

use quell_fleet::{Question, QuestionAnswer, day};
use serde_json::Value;

use super::FleetAnswers;
use crate::show::lines::write_frames;
use crate::show::style::{BOLD, DIM, heading};
use crate::show::table::{Table, plain};
use crate::show::units::{count, percent, plural, time};

/// The shown length of a build id, which is enough to distinguish builds.
const BUILD_ID_CHARS: usize = 12;

/// All answers, each with at most `top` rows.
pub(crate) fn answers_text(asked: &FleetAnswers<'_>, top: usize) -> String {
    let choice = asked.choice;
    let mut out = String::new();
    // Writing to a String does not fail.
    let _ = writeln!(
        out,
        "{BOLD}{} of {}{BOLD:#} {DIM}({} to {}, {} traced){DIM:#}",
        plural(choice.traces.len() as u64, "trace"),
        plural(choice.host_count(), "host"),
        day(choice.from_ns),
        day(choice.to_ns - 1),
        time(choice.traced_ns()),
    );
    for answer in asked.answers {
        let title = Question::by_name(&answer.question).map_or("", |q| q.title);
        heading(&mut out, title);
        if answer.rows.is_empty() {
            out.push_str("  nothing\n");
        } else if answer.question == "stacks" {
            write_stacks(&mut out, answer, top);
        } else {
            out.push_str(&answer_table(answer, top));
        }
        if answer.rows.len() > top {
            let _ = writeln!(out, "  {DIM}and more: -n N shows N of them{DIM:#}");
        }
    }
    out
}

/// Whether a column has names, which stand to the left. Any other has numbers.
fn is_text(column: &str) -> bool {
    matches!(
        column,
        "cause"
            | "program"
            | "build_id"
            | "host"
            | "change"
            | "remedy"
            | "asker"
            | "build_before"
            | "build_now"
            | "mechanism"
            | "code"
    )
}

fn answer_table(answer: &QuestionAnswer, top: usize) -> String {
    let headings: Vec<String> = answer.columns.iter().map(|c| column_heading(c)).collect();
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    let mut t = Table::new(&headings);
    for row in answer.rows.iter().take(top) {
        let cells = answer.columns.iter().zip(row);
        t.row(
            cells
                .map(|(column, value)| cell_text(column, value))
                .collect(),
        );
    }
    t.text()
}

/// A column's heading.
fn column_heading(column: &str) -> String {
    let words = column.strip_suffix("_ns").unwrap_or(column);
    let words = words
        .replace("_per_s", "/s")
        .replace("per_s", "a second")
        .replace('_', " ");
    if is_text(column) {
        words
    } else {
        format!(">{words}")
    }
}

/// A value with the unit that its column's name implies.
fn cell_text(column: &str, value: &Value) -> String {
    match value {
        Value::String(text) if text.is_empty() => "-".to_owned(),
        Value::String(text) if column.starts_with("build") => {
            plain(text).chars().take(BUILD_ID_CHARS).collect()
        }
        Value::String(text) => plain(text),
        Value::Number(n) if column.ends_with("_ns") => {
            n.as_u64().map_or_else(|| n.to_string(), time)
        }
        Value::Number(n) if column == "of_a_cpu" => {
            n.as_f64().map_or_else(|| n.to_string(), percent)
        }
        Value::Number(n) if column.ends_with("per_s") => {
            n.as_f64().map_or_else(|| n.to_string(), rate_text)
        }
        Value::Number(n) => n.as_u64().map_or_else(|| n.to_string(), count),
        _ => "-".to_owned(),
    }
}

/// A rate per second, with a decimal where it is low.
fn rate_text(n: f64) -> String {
    match n {
        0.0 => "0".to_owned(),
        n if n < 0.05 => "<0.1".to_owned(),
        n if n < 9.95 => format!("{n:.1}"),
        n => count(n.round() as u64),
    }
}

fn write_stacks(out: &mut String, answer: &QuestionAnswer, top: usize) {
    for row in answer.rows.iter().take(top) {
        let of = |column: &str| {
            let at = answer.columns.iter().position(|c| c == column);
            at.and_then(|at| row.get(at)).unwrap_or(&Value::Null)
        };
        let number = |column: &str| of(column).as_u64().unwrap_or(0);
        let _ = writeln!(
            out,
            "  {}, {}, wait {}, stall {}, {}",
            plural(number("shootdowns"), "shootdown"),
            plural(number("victims"), "victim"),
            time(number("wait_ns")),
            time(number("stall_ns")),
            plural(number("hosts"), "host"),
        );
        write_frames(out, of("stack").as_str().unwrap_or_default().lines());
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use quell_fleet::Engine;
    use serde_json::json;

    use super::*;
    use crate::fleet::choose_traces;

    fn answer_text(question: &str, columns: &[&str], rows: Vec<Vec<Value>>, top: usize) -> String {
        let answers = [QuestionAnswer {
            question: question.to_owned(),
            took_ns: 1,
            columns: columns.iter().map(|c| (*c).to_owned()).collect(),
            rows,
        }];
        let asked = FleetAnswers {
            engine: Engine::DuckDb,
            choice: &choose_traces(Vec::new(), None, false),
            passed: &BTreeMap::new(),
            answers: &answers,
        };
        anstream::adapter::strip_str(&answers_text(&asked, top)).to_string()
    }

    /// Check that numbers have their units, texts no control characters, and that a line says that rows are left out.
    #[test]
    fn answers_as_tables() {
        let columns = [
            "change",
            "program",
            "before_per_s",
            "wait_ns",
            "shootdowns",
            "build_now",
        ];
        let rows = vec![
            vec![
                json!("more"),
                json!("a\u{1b}[2Jb"),
                json!(12.4),
                json!(12_345),
                json!(1234),
                json!("0123456789abcdef"),
            ],
            vec![
                json!("new"),
                json!("c"),
                json!(0.01),
                json!(0),
                json!(5),
                Value::Null,
            ],
            vec![
                json!("gone"),
                json!("d"),
                json!(0.0),
                json!(0),
                json!(5),
                json!(""),
            ],
        ];
        insta::assert_snapshot!(answer_text("changes", &columns, rows, 2), @r"
        0 traces of 0 hosts (1970-01-01 to 1970-01-01, 0 ns traced)

        What changed: the last period against the one before
          change  program  before/s     wait  shootdowns  build now
          more    a?[2Jb         12  12.3 µs       1,234  0123456789ab
          new     c            <0.1     0 ns           5  -
          and more: -n N shows N of them
        ");
    }

    /// Check that time has its units, and a share of a CPU is in per cent.
    #[test]
    fn answers_about_time() {
        let columns = ["host", "cpu_ns", "of_a_cpu", "mechanism"];
        let row = vec![
            json!("a"),
            json!(1_500_000_000),
            json!(0.153),
            json!("lock.mmap"),
        ];
        insta::assert_snapshot!(answer_text("time-hosts", &columns, vec![row], 2), @r"
        0 traces of 0 hosts (1970-01-01 to 1970-01-01, 0 ns traced)

        Hosts by CPU time in memory management per traced second
          host     cpu  of a cpu  mechanism
          a     1.50 s      15 %  lock.mmap
        ");
    }

    /// Check that stacks have a line for each frame.
    #[test]
    fn write_stacks() {
        let columns = [
            "stack",
            "caller",
            "shootdowns",
            "victims",
            "wait_ns",
            "stall_ns",
            "hosts",
        ];
        let row = vec![
            json!("munmap\nwalk\nwalk\nmain"),
            json!("walk"),
            json!(1),
            json!(2),
            json!(1500),
            json!(300),
            json!(3),
        ];
        insta::assert_snapshot!(answer_text("stacks", &columns, vec![row], 10), @r"
        0 traces of 0 hosts (1970-01-01 to 1970-01-01, 0 ns traced)

        Code that asks for the most
          1 shootdown, 2 victims, wait 1.50 µs, stall 300 ns, 3 hosts
              munmap
              walk  2 times
              main
        ");
        insta::assert_snapshot!(answer_text("hosts", &["host"], Vec::new(), 10), @r"
        0 traces of 0 hosts (1970-01-01 to 1970-01-01, 0 ns traced)

        Hosts by shootdowns per traced second
          nothing
        ");
    }
}
