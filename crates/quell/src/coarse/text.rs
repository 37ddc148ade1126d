//! The counts of /proc as text and as JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::proc_counts::ProcSummary;
use crate::show::style::{BOLD, DIM, heading};
use crate::show::table::Table;
use crate::show::units::{count, percent, plural, time};

/// The most rows of a table.
const MAX_ROWS: usize = 10;

/// The figures that only the probe has, by their keys in its tally.
const NOT_SEEN: [&str; 14] = [
    "account",
    "shootdowns",
    "empty_sends",
    "full",
    "pages",
    "wait_ns",
    "delay_ns",
    "stall_ns",
    "causes",
    "culprits",
    "victims_by",
    "regions",
    "stacks",
    "self_ns",
];

fn lasted_ns(seen: &ProcSummary) -> u64 {
    u64::try_from(seen.lasted.as_nanos()).unwrap_or(u64::MAX)
}

/// The victims on all watched CPUs, whoever asked; none where the kernel does not count them.
fn victim_count(seen: &ProcSummary) -> Option<u64> {
    let cpus = seen.interrupts.as_ref()?;
    Some(cpus.iter().map(|(_, n)| n).sum())
}

/// Ticks as time: outside the kernel a tick is 10 ms (USER_HZ).
fn ticks_ns(ticks: u64) -> u64 {
    ticks * 10_000_000
}

/// The keys of `quell/tally/1`. Unknown figures are null, and `not_seen` names them.
pub(crate) fn summary_json(seen: &ProcSummary, why: &str) -> Value {
    let mut object = json!({
        "schema": "quell/tally/1", "backend": "proc", "duration_ns": lasted_ns(seen), "lost": null,
        "victims": victim_count(seen),
        "cpus": seen.interrupts.iter().flatten()
            .map(|(cpu, n)| json!({"cpu": cpu, "victims": n})).collect::<Vec<_>>(),
        "cpu": {"user_ns": ticks_ns(seen.ticks.user), "system_ns": ticks_ns(seen.ticks.system)},
        "stalls": {
            "some_ns": seen.stalls.pressure_ns.map(|p| p[0]), "full_ns": seen.stalls.pressure_ns.map(|p| p[1]),
            "reclaims": seen.stalls.reclaims, "compactions": seen.stalls.compactions},
        "page_faults": {"minor": seen.machine.minor, "major": seen.machine.major},
        "faults_by": seen.threads.iter()
            .map(|(pid, tid, comm, f)| json!({
                "pid": pid, "tid": tid, "comm": comm, "minor": f.minor, "major": f.major}))
            .collect::<Vec<_>>(),
        "not_seen": NOT_SEEN, "why": why,
    });
    for name in NOT_SEEN {
        object[name] = Value::Null;
    }
    object
}

/// The counts as text, and under them a line with the missing figures and the reason.
pub(crate) fn summary_text(seen: &ProcSummary, title: &str, why: &str) -> String {
    let mut out = String::new();
    // Writing to a String does not fail.
    let _ = writeln!(
        out,
        "{BOLD}{title}, as far as /proc tells{BOLD:#} {DIM}(proc, {}){DIM:#}\n",
        time(lasted_ns(seen))
    );
    let mut t = Table::new(&[">", "", ""]);
    let ticks = seen.ticks;
    let all = ticks.user + ticks.system;
    let system = ticks.system as f64 / all.max(1) as f64;
    t.row(vec![
        time(ticks_ns(all)),
        "CPU time".into(),
        format!(
            "{} in the kernel, of which memory management may be a part; with the processes that had ended by the last look",
            percent(system)
        ),
    ]);
    if let Some([some, full]) = seen.stalls.pressure_ns {
        t.row(vec![
            time(some),
            "memory pressure".into(),
            format!(
                "some thread of the machine waited for memory, all for {}; {} to free memory, {} to make room for a large page",
                time(full),
                plural(seen.stalls.reclaims, "time"),
                count(seen.stalls.compactions),
            ),
        ]);
    }
    match (victim_count(seen), &seen.interrupts) {
        (Some(sum), Some(cpus)) => {
            let each: Vec<_> = cpus.iter().filter(|(_, n)| *n > 0).take(MAX_ROWS).collect();
            let each: Vec<_> = each
                .iter()
                .map(|(cpu, n)| format!("CPU {cpu}: {}", count(*n)))
                .collect();
            t.row(vec![
                count(sum),
                "victims".into(),
                format!(
                    "interrupts for shootdowns of any process; {}",
                    each.join(", ")
                )
                .trim_end_matches("; ")
                .to_owned(),
            ]);
        }
        _ => t.row(vec![
            "?".into(),
            "victims".into(),
            "this kernel counts no TLB: in /proc/interrupts".into(),
        ]),
    }
    let faults = &seen.machine;
    t.row(vec![
        count(faults.all_faults()),
        "page faults".into(),
        format!(
            "of the whole machine; {} waited for a disk",
            count(faults.major)
        ),
    ]);
    out.push_str(t.text().trim_start_matches('\n'));
    if !seen.threads.is_empty() {
        heading(&mut out, "Page faults by thread");
        let mut t = Table::new(&[">faults", ">from disk", ">pid", ">tid", "name"]);
        for (pid, tid, comm, f) in seen.threads.iter().take(MAX_ROWS) {
            t.row(vec![
                count(f.all_faults()),
                count(f.major),
                pid.to_string(),
                tid.to_string(),
                comm.clone(),
            ]);
        }
        out.push_str(&t.text());
        if seen.threads.len() > MAX_ROWS {
            let _ = writeln!(
                out,
                "  {DIM}and {} more{DIM:#}",
                plural((seen.threads.len() - MAX_ROWS) as u64, "thread")
            );
        }
    }
    let _ = writeln!(
        out,
        "\nNot seen: where the time went in memory management, who shot at whom, how many shootdowns there were and \
         why, what they cost, and from which code.\n{why}"
    );
    out
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::proc_counts::{CpuTicks, MemoryStalls, PageFaults};
    use super::*;

    fn seen() -> ProcSummary {
        ProcSummary {
            stalls: MemoryStalls {
                pressure_ns: Some([3_000_000, 1_000_000]),
                reclaims: 1,
                compactions: 2,
            },
            ticks: CpuTicks {
                user: 150,
                system: 50,
            },
            lasted: Duration::from_millis(2500),
            interrupts: Some(vec![(0, 1200), (1, 0), (2, 34)]),
            machine: PageFaults {
                minor: 56_000,
                major: 3,
            },
            threads: vec![
                (
                    7,
                    9,
                    "worker".into(),
                    PageFaults {
                        minor: 4000,
                        major: 2,
                    },
                ),
                (
                    7,
                    7,
                    "main".into(),
                    PageFaults {
                        minor: 10,
                        major: 0,
                    },
                ),
            ],
        }
    }

    /// Check that the text has the counts, the missing figures, and a remedy.
    #[test]
    fn says_what_it_cannot_see() {
        let said = summary_text(&seen(), "'prog': where its time goes", "run it as root");
        let said = anstream::adapter::strip_str(&said).to_string();
        insta::assert_snapshot!(said, @r"
        'prog': where its time goes, as far as /proc tells (proc, 2.50 s)

           2.00 s  CPU time         25 % in the kernel, of which memory management may be a part; with the processes that had ended by the last look
          3.00 ms  memory pressure  some thread of the machine waited for memory, all for 1.00 ms; 1 time to free memory, 2 to make room for a large page
            1,234  victims          interrupts for shootdowns of any process; CPU 0: 1,200, CPU 2: 34
           56,003  page faults      of the whole machine; 3 waited for a disk

        Page faults by thread
          faults  from disk  pid  tid  name
           4,002          2    7    9  worker
              10          0    7    7  main

        Not seen: where the time went in memory management, who shot at whom, how many shootdowns there were and why, what they cost, and from which code.
        run it as root
        ");
        let nothing = ProcSummary {
            interrupts: None,
            threads: vec![],
            ..seen()
        };
        assert!(summary_text(&nothing, "t", "w").contains("counts no TLB:"));
    }

    /// Check that unknown figures are null and not zero, and that known ones have their place.
    #[test]
    fn unknown_is_null() {
        let object = summary_json(&seen(), "why");
        assert_eq!(object["victims"], 1234);
        assert_eq!(object["cpus"][2]["victims"], 34);
        for name in NOT_SEEN {
            assert!(object[name].is_null(), "{name}");
        }
    }
}
