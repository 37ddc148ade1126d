//! `quell lab watch`: the interrupts of a CPU, seen by a thread that wants to run there all the time.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use quell_host::proc::Proc;
use quell_lab::arm::VictimActivity;
use quell_lab::attribute::{Blame, GapClass, classify_gaps};
use quell_lab::cpu_watch::{WatchDocument, WatchTotals};
use quell_lab::protocol::{BlockOrder, WorkerRole, WorkerSetup};
use quell_lab::tsc;
use quell_lab::worker_handle::WorkerHandle;
use quell_lab::{mechanism, params::Params};
use quell_probe::{Interruptions, Scope};

use super::{LabSharing, check_counter, lock_lab, take_cpus, worker_command};
use crate::cli::{LabWatchArgs, Target};
use crate::show::emit_result;
use crate::show::style::heading;
use crate::show::table::{Table, plain};
use crate::show::units::{count, percent, time};
use crate::target::{End, Watch};
use crate::usage::usage;

/// The length of a block. The watch misses some µs between two.
const WATCH_BLOCK_TIME: Duration = Duration::from_millis(250);

/// The negative control, which has a victim as any other: its culprit is never asked to work.
const RESTING_MECHANISM: &str = "untouched";

pub(crate) fn watch_cpu(args: &LabWatchArgs) -> anyhow::Result<ExitCode> {
    check_counter()?;
    lock_lab(LabSharing::BesideWatchers)?;
    let target = Target {
        command: args.command.clone(),
        ..Target::default()
    };
    // This comes before quell leaves the CPU, for the command is to run where it would.
    let mut over = Watch::prepare(&target, args.duration)?;
    let watched = watch_until_end(args, &mut over);
    over.see_through(&args.command, watched)
}

/// Watches until the end, and prints the gaps.
fn watch_until_end(args: &LabWatchArgs, over: &mut Watch) -> anyhow::Result<Option<End>> {
    let (victim_cpu, culprit_cpu) = take_cpus(Some(args.cpu), None)?;
    let known = mechanism::mechanism_by_name(RESTING_MECHANISM).map_or(&[][..], |m| m.params);
    let setup = WorkerSetup {
        mechanism: RESTING_MECHANISM.to_owned(),
        params: Params::new(known, &[]).map_err(usage)?,
        role: WorkerRole::Both,
        culprit_cpu,
        victim_cpu,
        mode: VictimActivity::Spin,
    };
    let mut spinner = WorkerHandle::start_worker(&mut worker_command(), &setup, || false)?;
    let probe = Interruptions::attach(victim_cpu, spinner.ready().victim_tid, false)?;
    let mut names = BTreeMap::from([(spinner.pid(), "quell (it looks)".to_owned())]);
    let mut watched = WatchTotals::default();
    over.start(None, &Scope::All)?;
    // Classes alone are of interest here: nobody is blamed.
    let blame = Blame {
        is_culprit: &|_| false,
        faults: false,
    };
    let end = loop {
        probe.take()?;
        spinner.begin_block(BlockOrder {
            ns: tsc::duration_ns(WATCH_BLOCK_TIME),
            operate: false,
            pace_ns: 0,
            once_after_ns: None,
        })?;
        let end = over.step(WATCH_BLOCK_TIME)?;
        let raw = spinner.end_block()?;
        let seen = probe.take()?;
        for pid in seen.iter().map(|i| i.tgid) {
            // A process's name goes with it, so it is asked for while the process is there.
            let ask = || Proc::new("/").comm(pid);
            names
                .entry(pid)
                .or_insert_with(|| ask().unwrap_or_else(|_| "(ended)".to_owned()));
        }
        watched.add_block(&classify_gaps(raw, seen, &blame));
        if let Some(end) = end {
            break end;
        }
    };
    // It would be taken for something that the command has left.
    drop(spinner);
    let name = |pid| names.get(&pid).cloned().unwrap_or_default();
    let document = watched.to_document(victim_cpu, probe.lost()?, &name);
    emit_result(args.json, || &document, || watch_text(&document, args.top))?;
    Ok(Some(end))
}

/// The caution that a reader needs.
const WATCH_CAUTION: &str = "
The thread that looks takes half of this CPU from a program that runs there. It sees what hits the CPU while it has
the CPU itself: shootdowns of an address space that is not loaded then reach nobody there. What hits a program in
its own time: quell stat --cpu";

fn watch_text(watched: &WatchDocument, top: usize) -> String {
    let (cpu, lost) = (watched.cpu, watched.lost);
    let spun = watched.spun_ns.max(1) as f64;
    let mut out = format!(
        "CPU {cpu}: a thread wanted to run for {}, and others had it for {} of that\n",
        time(watched.spun_ns),
        percent(watched.away_ns as f64 / spun)
    );
    if lost > 0 {
        let lost = count(lost);
        // Writing to a String does not fail.
        let _ = writeln!(
            out,
            "the probe lost {lost} records: as many gaps may have a wrong cause, or none"
        );
    }
    heading(&mut out, "What kept it");
    let mut table = Table::new(&[
        "cause",
        ">gaps",
        ">a second",
        ">ppm",
        ">p50",
        ">p99",
        ">longest seen",
    ]);
    let rare = |at: Option<u64>| at.map_or_else(|| "-".to_owned(), time);
    for row in &watched.classes {
        table.row(vec![
            row.class.name().to_owned(),
            count(row.gaps),
            format!("{:.1}", row.gaps as f64 * 1e9 / spun),
            count((row.ns as f64 * 1e6 / spun).round() as u64),
            rare(row.p50),
            rare(row.p99),
            time(row.longest),
        ]);
    }
    out.push_str(&table.text());
    if !watched.by.is_empty() {
        heading(&mut out, "Who ran instead, or asked for it");
        let mut table = Table::new(&["cause", ">pid", "name", ">gaps", ">time", ">longest seen"]);
        for row in watched.by.iter().take(top) {
            table.row(vec![
                row.class.name().to_owned(),
                row.pid.to_string(),
                plain(&row.comm),
                count(row.gaps),
                time(row.ns),
                time(row.longest),
            ]);
        }
        out.push_str(&table.text());
    }
    if watched
        .classes
        .iter()
        .any(|row| row.class == GapClass::None)
    {
        out.push_str(
            "\nnone: nothing that this kernel knows of. In a virtual machine that is mostly the host; on the metal firmware, \
             or memory.\n",
        );
    }
    let _ = writeln!(out, "{WATCH_CAUTION} {cpu} -- YOUR-PROGRAM");
    out
}

#[cfg(test)]
mod tests {
    use quell_lab::attribute::{ClassifiedBlock, ClassifiedGap};
    use quell_lab::block::VictimGap;

    use super::*;

    /// Check the text: who kept the thread, with names that do nothing at a terminal, what was lost, and what it can't see.
    #[test]
    fn text_of_a_watch() {
        let mut watched = WatchTotals::default();
        let told = |class, ns, by| ClassifiedGap {
            gap: VictimGap { begin_ns: 1, ns },
            class,
            caused: false,
            by,
        };
        watched.add_block(&ClassifiedBlock {
            begin_ns: 0,
            end_ns: 1_000_000_000,
            gaps: vec![
                told(GapClass::Tlb, 2_000, 7),
                told(GapClass::Sched, 3_000_000, 8),
                told(GapClass::None, 700, 0),
            ],
            away_ns: 3_000_000,
            ..ClassifiedBlock::default()
        });
        let document =
            |lost| watched.to_document(3, lost, &|pid: u32| format!("\u{1b}[31mp{pid}\n"));
        let told = watch_text(&document(12), 10);
        let told = anstream::adapter::strip_str(&told).to_string();
        insta::assert_snapshot!(told);
        assert!(!watch_text(&document(0), 10).contains("lost"));
    }
}
