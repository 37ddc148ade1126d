//! The file of counts from before a trace: written for the process that names them, and read for a report.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, BufRead as _, Write as _};
use std::path::Path;

use quell_agent::look_back::{LookBackCount, LookBackLine};
use quell_event::{Mechanism, Text};

use crate::regular_file::open_regular_file;
use crate::show::style::heading;
use crate::show::table::{Table, plain};
use crate::show::units::{count, rate, time};

/// The file's name in a trace's folder.
pub(crate) const LOOK_BACK_FILE: &str = "lookback.jsonl";

/// A larger file was not written by the agent.
const MAX_LOOK_BACK_BYTES: u64 = 64 << 20;

/// Writes one line of JSON for each count, to the process that names them and into the trace's folder.
pub(crate) fn write_lines(lines: &[LookBackLine], to: impl io::Write) -> io::Result<()> {
    let mut out = io::BufWriter::new(to);
    for line in lines {
        serde_json::to_writer(&mut out, line)?;
        out.write_all(b"\n")?;
    }
    out.flush()
}

/// The counts in a trace's folder; none where there is no file, or one that is too large or not regular. A line that can't be
/// read, or ends before it begins, is left out.
pub(crate) fn read_look_back(trace: &Path) -> Vec<LookBackLine> {
    // A trace may be anybody's, and a pipe with this name would never have a writer.
    let opened = open_regular_file(&trace.join(LOOK_BACK_FILE), "it is no regular file");
    let Ok(file) = opened else {
        return Vec::new();
    };
    if file.metadata().is_ok_and(|m| m.len() > MAX_LOOK_BACK_BYTES) {
        return Vec::new();
    }
    let lines = io::BufReader::new(file).split(b'\n').map_while(Result::ok);
    lines
        .filter_map(|line| serde_json::from_slice(&line).ok())
        .filter(|line: &LookBackLine| line.from_ns <= line.to_ns)
        .collect()
}

#[derive(Default)]
struct LookBackSum {
    count: u64,
    victims: u64,
    ns: u64,
}

/// The dearest rows, as many as are shown, and the number of the others. Rows that cost nothing are not among either.
fn dearest_rows<K: Ord>(
    sums: BTreeMap<K, LookBackSum>,
    cost: impl Fn(&LookBackSum) -> u64,
    top: usize,
) -> (Vec<(K, LookBackSum)>, usize) {
    let mut rows: Vec<_> = sums.into_iter().filter(|(_, sum)| cost(sum) > 0).collect();
    rows.sort_by_key(|(_, sum)| std::cmp::Reverse(cost(sum)));
    let more = rows.len().saturating_sub(top);
    rows.truncate(top);
    (rows, more)
}

fn append_table(out: &mut String, title: &str, table: &Table, more: usize) {
    heading(out, title);
    out.push_str(&table.text());
    if more > 0 {
        let _ = writeln!(out, "  and {more} more");
    }
}

/// The frame that stands for a stack: the innermost that is not the C library's, or else the innermost.
fn own_function(frames: &[Text]) -> &str {
    let is_library = |frame: &&Text| frame.contains("(libc.so") || frame.contains("(ld-linux");
    let own = frames.iter().find(|frame| !is_library(frame));
    own.or_else(|| frames.first()).map_or("", |frame| frame)
}

/// The text that follows a report's; empty where nothing is known. The first table has all looks, each of the others at most
/// `top` rows. Times are told backwards from the end of the last look.
pub(crate) fn look_back_text(lines: &[LookBackLine], top: usize) -> String {
    let (Some(from), Some(to)) = (
        lines.iter().map(|l| l.from_ns).min(),
        lines.iter().map(|l| l.to_ns).max(),
    ) else {
        return String::new();
    };
    let mut out = String::new();
    let mut looks = Table::new(&[
        ">from",
        ">to",
        ">shootdowns/s",
        ">wait",
        ">p99",
        ">memory CPU",
        ">blocked",
    ]);
    let mut culprits: BTreeMap<(&Text, &Text, &Text), LookBackSum> = BTreeMap::new();
    let mut code: BTreeMap<(Mechanism, &Text, &str, &Text), LookBackSum> = BTreeMap::new();
    let mut sleeps: BTreeMap<(Mechanism, &Text), LookBackSum> = BTreeMap::new();
    for line in lines {
        match &line.count {
            LookBackCount::Look {
                shootdowns,
                wait_ns,
                wait_p99_ns,
                memory_cpu_ns,
                blocked_ns,
                ..
            } => looks.row(vec![
                format!("-{}", time(to - line.from_ns)),
                match to - line.to_ns {
                    0 => "0".to_owned(),
                    ns => format!("-{}", time(ns)),
                },
                rate(*shootdowns, line.to_ns - line.from_ns),
                time(*wait_ns),
                time(*wait_p99_ns),
                time(*memory_cpu_ns),
                time(*blocked_ns),
            ]),
            LookBackCount::Culprit {
                cgroup,
                comm,
                cause,
                shootdowns,
                victims,
                wait_ns,
                ..
            } => {
                let sum = culprits.entry((cause, cgroup, comm)).or_default();
                sum.count += shootdowns;
                sum.victims += victims;
                sum.ns += wait_ns;
            }
            LookBackCount::Code {
                comm,
                cgroup,
                mechanism,
                samples,
                cpu_ns,
                frames,
                ..
            } => {
                let key = (*mechanism, comm, own_function(frames), cgroup);
                let sum = code.entry(key).or_default();
                sum.count += samples;
                sum.ns += cpu_ns;
            }
            LookBackCount::Time {
                cgroup,
                mechanism,
                sleeps: n,
                blocked_ns,
                ..
            } => {
                // Only sleeps are shown of these: their CPU time is in the looks, and by code.
                let sum = sleeps.entry((*mechanism, cgroup)).or_default();
                sum.count += n;
                sum.ns += blocked_ns;
            }
        }
    }
    let title = format!("Before it: the {} until the rule fired", time(to - from));
    append_table(&mut out, &title, &looks, 0);
    let (rows, more) = dearest_rows(culprits, |sum| sum.count, top);
    if !rows.is_empty() {
        let mut t = Table::new(&[
            ">shootdowns",
            ">victims",
            ">wait",
            "cause",
            "cgroup",
            "such as",
        ]);
        for ((cause, cgroup, comm), sum) in rows {
            t.row(vec![
                count(sum.count),
                count(sum.victims),
                time(sum.ns),
                plain(cause),
                plain(cgroup),
                plain(comm),
            ]);
        }
        append_table(&mut out, "Who asked for shootdowns before it", &t, more);
    }
    let (rows, more) = dearest_rows(code, |sum| sum.ns, top);
    if !rows.is_empty() {
        let mut t = Table::new(&[">CPU time", ">samples", "mechanism", "who", "cgroup"]);
        for ((mechanism, comm, function, cgroup), sum) in rows {
            let who = match function {
                "" => comm.to_string(),
                function => format!("{function}, {comm}"),
            };
            t.row(vec![
                time(sum.ns),
                count(sum.count),
                mechanism.name().to_owned(),
                plain(&who),
                plain(cgroup),
            ]);
        }
        append_table(&mut out, "Where CPU time went before it", &t, more);
    }
    let (rows, more) = dearest_rows(sleeps, |sum| sum.ns, top);
    if !rows.is_empty() {
        let mut t = Table::new(&[">blocked", ">sleeps", "mechanism", "cgroup"]);
        for ((mechanism, cgroup), sum) in rows {
            t.row(vec![
                time(sum.ns),
                count(sum.count),
                mechanism.name().to_owned(),
                plain(cgroup),
            ]);
        }
        append_table(&mut out, "What made threads sleep before it", &t, more);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines() -> Vec<LookBackLine> {
        let text = r#"
{"from_ns":1000000000,"to_ns":11000000000,"kind":"look","shootdowns":1200,"victims":1300,"wait_ns":9000000,"stall_ns":1,"wait_p99_ns":30000,"memory_cpu_ns":200000000,"blocked_ns":0,"left_out":0}
{"from_ns":11000000000,"to_ns":21000000000,"kind":"look","shootdowns":90000,"victims":90000,"wait_ns":900000000,"stall_ns":1,"wait_p99_ns":40000,"memory_cpu_ns":3000000000,"blocked_ns":70000000,"left_out":0}
{"from_ns":11000000000,"to_ns":21000000000,"kind":"culprit","cgroup":"/a.service","cgroup_id":7,"comm":"redis","cause":"madvise.dontneed","shootdowns":90000,"victims":90000,"wait_ns":900000000}
{"from_ns":11000000000,"to_ns":21000000000,"kind":"time","cgroup":"/a.service","cgroup_id":7,"mechanism":"lock.mmap","cpu_ns":0,"sleeps":70,"blocked_ns":70000000}
{"from_ns":11000000000,"to_ns":21000000000,"kind":"code","pid":5,"comm":"redis","cgroup":"/a.service","cgroup_id":7,"mechanism":"shootdown.wait","samples":150,"cpu_ns":3000000000,"frames":["madvise (libc.so.6)","purge\u001b[31m (redis)","main (redis)"]}
not a line
"#;
        text.lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }

    /// Check that of a trace's file the lines are left out that can't be read or end before they begin, and that a pipe in its place is not
    /// waited for.
    #[test]
    fn only_true_lines() {
        let dir = tempfile::tempdir().unwrap();
        let line = |from: u64, to: u64| {
            format!(
                r#"{{"from_ns":{from},"to_ns":{to},"kind":"time","cgroup":"/a","cgroup_id":7,"mechanism":"lock.mmap","cpu_ns":0,"sleeps":7,"blocked_ns":7}}"#
            )
        };
        let text = [line(1, 2), "not a line".to_owned(), line(2, 1)].join("\n");
        std::fs::write(dir.path().join(LOOK_BACK_FILE), text).unwrap();
        let read = read_look_back(dir.path());
        let times: Vec<_> = read.iter().map(|l| (l.from_ns, l.to_ns)).collect();
        assert_eq!(times, [(1, 2)]);
        // a pipe that nobody writes to
        let pipe = dir.path().join(LOOK_BACK_FILE);
        std::fs::remove_file(&pipe).unwrap();
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        assert!(read_look_back(dir.path()).is_empty());
    }

    /// Check that a report says what was before the trace: how it grew, who asked, which code, and what made threads sleep;
    /// that text of others is harmless; and that where nothing is known nothing is said.
    #[test]
    fn as_text() {
        assert_eq!(look_back_text(&[], 5), "");
        let text = anstream::adapter::strip_str(&look_back_text(&lines(), 5)).to_string();
        insta::assert_snapshot!(text, @r"
        Before it: the 20.0 s until the rule fired
             from       to  shootdowns/s     wait      p99  memory CPU  blocked
          -20.0 s  -10.0 s           120  9.00 ms  30.0 µs      200 ms     0 ns
          -10.0 s        0         9,000   900 ms  40.0 µs      3.00 s  70.0 ms

        Who asked for shootdowns before it
          shootdowns  victims    wait  cause             cgroup      such as
              90,000   90,000  900 ms  madvise.dontneed  /a.service  redis

        Where CPU time went before it
          CPU time  samples  mechanism       who                        cgroup
            3.00 s      150  shootdown.wait  purge?[31m (redis), redis  /a.service

        What made threads sleep before it
          blocked  sleeps  mechanism  cgroup
          70.0 ms      70  lock.mmap  /a.service
        ");
    }

    /// Check that what is told is read as it was, that garbled lines are left out, and that a trace without it has none.
    #[test]
    fn told_and_read() {
        let dir = tempfile::tempdir().unwrap();
        assert!(read_look_back(dir.path()).is_empty());
        let mut file = Vec::new();
        write_lines(&lines(), &mut file).unwrap();
        file.extend(b"{\n\xff\n{\"kind\":\"weather\"}\n");
        std::fs::write(dir.path().join(LOOK_BACK_FILE), file).unwrap();
        assert_eq!(read_look_back(dir.path()), lines());
    }
}
