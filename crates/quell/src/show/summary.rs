//! The summary as text: totals, culprits, victims, causes, regions and stacks.

use std::fmt::Write as _;

use quell_event::tally_summary::Quantiles;
use quell_event::{CROWDED_NAME, TallySummary};
use quell_remedy::advice::Advised;

use super::lines::write_frames;
use super::style::{BOLD, DIM, heading};
use super::table::{Table, say_how_many_more};
use super::units::{count, percent, plural, rate_per_second, share_of, time};
use super::{account, calls};

/// The whole text. Each table has at most `top` rows, and says how many it leaves out.
pub(crate) fn text(s: &TallySummary, title: &str, top: usize) -> String {
    advised_text(s, title, &[], top)
}

/// The whole text with advice, which has its place below the first line of the account, and so none without an account.
pub(crate) fn advised_text(
    s: &TallySummary,
    title: &str,
    advice: &[Advised],
    top: usize,
) -> String {
    let mut out = String::new();
    // Writing to a String does not fail.
    let _ = writeln!(
        out,
        "{BOLD}{title}{BOLD:#} {DIM}({}, {}){DIM:#}\n",
        s.backend,
        time(s.duration_ns)
    );
    if let Some(a) = &s.account {
        account::advised_text(&mut out, a, advice, top);
    }
    write_totals(&mut out, s);
    if s.shootdowns > 0 {
        write_culprits(&mut out, s, top);
        write_victims(&mut out, s, top);
        write_causes(&mut out, s, top);
        write_regions(&mut out, s, top);
        write_stacks(&mut out, s, top);
    }
    if let Some(calls) = &s.calls {
        calls::write_calls(&mut out, calls, top);
    }
    write_footer(&mut out, s);
    out
}

fn write_totals(out: &mut String, s: &TallySummary) {
    let rate = rate_per_second(s.shootdowns, s.duration_ns).round() as u64;
    let mut t = Table::new(&[">", "", ""]);
    t.row(vec![
        count(s.shootdowns),
        "shootdowns".into(),
        format!("{} a second, {}", count(rate), full_share_text(s)),
    ]);
    // Without one, nobody waited and nothing was lost: five rows of zeros would say it once more each.
    let has_none = s.shootdowns == 0 && s.victims == 0;
    if !has_none {
        let each = share_of(s.victims, s.shootdowns);
        t.row(vec![
            count(s.victims),
            "victims".into(),
            format!("{each:.2} a shootdown"),
        ]);
    }
    if s.empty_sends > 0 {
        t.row(vec![
            count(s.empty_sends),
            "empty sends".into(),
            "flushes that found no CPU to interrupt".into(),
        ]);
    }
    if !has_none {
        for (q, name) in [
            (&s.wait_ns, "wait of culprits"),
            (&s.delay_ns, "delay of victims"),
            (&s.stall_ns, "stall of victims"),
        ] {
            t.row(vec![time(q.sum), name.into(), quantiles_text(q)]);
        }
        t.row(lost_share(s));
    }
    // The first line of the table is its empty heading.
    out.push_str(t.text().trim_start_matches('\n'));
}

/// The share of CPU time in waits and stalls. It can't be above one: such a figure is an error of ours, so the row says that
/// it is left out. A sum that is estimated from some shootdowns may be a little too large, which is allowed for.
fn lost_share(s: &TallySummary) -> Vec<String> {
    const MAX_ESTIMATE_RATIO: f64 = 1.02;
    let share = s.share_lost();
    let (figure, why) = if share > MAX_ESTIMATE_RATIO {
        let told = format!(
            "left out: the sum is more than the time of {}",
            cpus_text(s)
        );
        ("-".to_owned(), told)
    } else {
        let told = format!("waits and stalls, of {}", cpus_text(s));
        (percent(share.min(1.0)), told)
    };
    vec![figure, "of CPU time lost".into(), why]
}

/// The number of CPUs, with a fraction where some came or went.
fn cpus_text(s: &TallySummary) -> String {
    let online = s.cpus_online();
    // Rounding is no change.
    if (online - f64::from(s.cpus)).abs() < 0.005 {
        return plural(s.cpus.into(), "CPU");
    }
    format!("{online:.2} CPUs on average: some came or went")
}

/// The share of shootdowns that flush everything, and the mean of pages in the others: `pages` counts none of a full flush.
fn full_share_text(s: &TallySummary) -> String {
    if s.shootdowns == 0 {
        return "none to wait for".to_owned();
    }
    let ranged = s.shootdowns - s.full.min(s.shootdowns);
    let full = format!("{} full", percent(share_of(s.full, s.shootdowns)));
    match ranged {
        0 => full,
        n => format!(
            "{full}, {:.1} pages in each of the others",
            s.pages as f64 / n as f64
        ),
    }
}

fn quantiles_text(q: &Quantiles) -> String {
    format!(
        "p50 {}, p99 {}, p99.9 {}, max {}",
        time(q.p50),
        time(q.p99),
        time(q.p999),
        time(q.max)
    )
}

/// As [`quantiles_text`], for where there is less room.
pub(crate) fn short_quantiles_text(q: &Quantiles) -> String {
    format!(
        "p50 {}, p99 {}, max {}",
        time(q.p50),
        time(q.p99),
        time(q.max)
    )
}

fn write_culprits(out: &mut String, s: &TallySummary, top: usize) {
    heading(out, "Who: culprits");
    let mut t = Table::new(&[">shootdowns", ">victims", ">wait", ">pid", "name"]);
    for c in s.culprits.iter().take(top) {
        t.row(vec![
            count(c.shootdowns),
            count(c.victims),
            time_or_untimed(s, c.wait_ns),
            c.pid.to_string(),
            c.comm.to_string(),
        ]);
        // A thread that did it all alone needs no line of its own.
        for th in c.threads.iter().take(top).filter(|_| c.threads.len() > 1) {
            t.row(vec![
                count(th.shootdowns),
                String::new(),
                time_or_untimed(s, th.wait_ns),
                th.tid.to_string(),
                format!("· {}", th.comm),
            ]);
        }
    }
    out.push_str(&t.text());
    say_how_many_more(out, s.culprits.len(), top);
}

fn write_victims(out: &mut String, s: &TallySummary, top: usize) {
    heading(out, "At whom: victims");
    let mut t = Table::new(&[">hits", ">stall", ">pid", "name", ""]);
    for v in s.victims_by.iter().take(top) {
        let mark = match (v.bystander, v.pid) {
            (true, 0) => "idle CPU",
            (true, _) => "bystander: the memory was not its own",
            (false, _) => "",
        };
        t.row(vec![
            count(v.hits),
            time_or_untimed(s, v.stall_ns),
            v.pid.to_string(),
            v.comm.to_string(),
            mark.into(),
        ]);
    }
    out.push_str(&t.text());
    say_how_many_more(out, s.victims_by.len(), top);
}

fn write_causes(out: &mut String, s: &TallySummary, top: usize) {
    heading(out, "Why: causes");
    let mut t = Table::new(&[">shootdowns", ">victims", ">wait", ">stall", "cause"]);
    for c in s.causes.iter().take(top) {
        let name = c.label();
        t.row(vec![
            count(c.shootdowns),
            count(c.victims),
            time_or_untimed(s, c.wait_ns),
            time_or_untimed(s, c.stall_ns),
            name,
        ]);
    }
    out.push_str(&t.text());
    say_how_many_more(out, s.causes.len(), top);
}

fn write_regions(out: &mut String, s: &TallySummary, top: usize) {
    if s.regions.is_empty() {
        return;
    }
    heading(out, "Where: regions");
    let mut t = Table::new(&[">shootdowns", "region"]);
    for r in s.regions.iter().take(top) {
        t.row(vec![count(r.shootdowns), r.region.to_string()]);
    }
    out.push_str(&t.text());
    say_how_many_more(out, s.regions.len(), top);
}

fn write_stacks(out: &mut String, s: &TallySummary, top: usize) {
    if s.stacks.is_empty() {
        return;
    }
    heading(out, "From which code: user stacks, innermost first");
    // A stack takes many lines, so there are a third as many as rows of a table.
    let top = top.div_ceil(3);
    for stack in s.stacks.iter().take(top) {
        let share = share_of(stack.shootdowns, s.shootdowns);
        let _ = writeln!(
            out,
            "  {} ({}), {}",
            plural(stack.shootdowns, "shootdown"),
            percent(share),
            stack.cause
        );
        write_frames(out, stack.lines());
    }
    say_how_many_more(out, s.stacks.len(), top);
}

/// The meaning of lost records, some of which were counted but had no room for a row of their own.
pub(crate) fn lost_note(all: u64, crowded: u64) -> String {
    let told = format!("lost {}", count(all));
    let more = format!(
        "counted under {CROWDED_NAME}, because there were too many processes for a row each"
    );
    match all.saturating_sub(crowded) {
        0 => format!("{told}: {more}"),
        _ if crowded == 0 => format!("{told}: figures from records are too low by as many"),
        n => format!(
            "{told}: figures from records are too low by {}, and {} {more}",
            count(n),
            count(crowded)
        ),
    }
}

/// A time, or a dash where none of it was timed.
fn time_or_untimed(s: &TallySummary, ns: u64) -> String {
    match ns {
        0 if s.untimed > 0 => "-".to_owned(),
        ns => time(ns),
    }
}

/// The notes for a summary in which not all victims were seen, or not all shootdowns timed.
pub(crate) fn missing_notes(s: &TallySummary) -> Vec<String> {
    let victims = plural(s.unseen, "victim");
    let unseen = format!("{victims} counted but not seen in their handler");
    let timed = |every| format!("times are of one shootdown in {every:.1}, counts are of all");
    let mut notes = Vec::from_iter((s.unseen > 0).then_some(unseen));
    notes.extend(s.timed_one_in().map(timed));
    notes
}

fn write_footer(out: &mut String, s: &TallySummary) {
    let mut notes = vec![match s.lost {
        0 if !s.lost_known => "lost: not known".to_owned(),
        0 => "lost 0".to_owned(),
        n => lost_note(n, s.crowded),
    }];
    if s.lost_stacks > 0 {
        notes.push(format!("{} not kept", plural(s.lost_stacks, "stack")));
    }
    notes.extend(missing_notes(s));
    if s.self_shootdowns > 0 {
        notes.push(format!(
            "{} of quell itself not counted",
            plural(s.self_shootdowns, "shootdown")
        ));
    }
    // Both come from the counters.
    if s.lost_known && s.self_ns > 0 {
        notes.push(format!("quell used {} of CPU time", time(s.self_ns)));
    }
    let _ = writeln!(out, "\n{DIM}{}{DIM:#}", notes.join("; "));
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_event::tally_summary::StackRow;

    /// Check that without a shootdown one row says so, and that with one all rows are there.
    #[test]
    fn no_rows_of_zeros() {
        let totals = |shootdowns: u64| {
            let mut out = String::new();
            let s = TallySummary {
                shootdowns,
                victims: shootdowns,
                ..TallySummary::default()
            };
            write_totals(&mut out, &s);
            out.lines().filter(|l| !l.trim().is_empty()).count()
        };
        assert_eq!(totals(0), 1);
        assert_eq!(totals(3), 6);
    }

    /// Check that records without room are not reported as missing, and that the others are.
    #[test]
    fn what_was_lost() {
        assert_eq!(
            lost_note(7, 0),
            "lost 7: figures from records are too low by as many"
        );
        assert!(lost_note(7, 7).starts_with("lost 7: counted under (more)"));
        let both = lost_note(7, 3);
        assert!(
            both.contains("too low by 4, and 3 counted under (more)"),
            "{both}"
        );
    }

    /// Check that CPUs that came or went are noted, and that rounding is not taken for that.
    #[test]
    fn cpus_on_average() {
        let summary = |online_ns| TallySummary {
            cpus: 4,
            duration_ns: 1_000_000,
            online_ns,
            ..TallySummary::default()
        };
        assert_eq!(cpus_text(&summary(None)), "4 CPUs");
        assert_eq!(cpus_text(&summary(Some(3_999_999))), "4 CPUs");
        assert_eq!(
            cpus_text(&summary(Some(3_500_000))),
            "3.50 CPUs on average: some came or went"
        );
    }

    /// Check that more time than the CPUs had is not shown as lost but noted, and that an estimate may be a little above.
    #[test]
    fn impossible_shares_are_left_out() {
        let lost = |ns| {
            let mut summary = TallySummary {
                cpus: 2,
                duration_ns: 1_000_000,
                ..TallySummary::default()
            };
            summary.wait_ns.sum = ns;
            lost_share(&summary)
        };
        assert_eq!(lost(1_000_000)[0], "50 %");
        assert_eq!(lost(2_010_000)[0], "100 %");
        let impossible = lost(2_500_000);
        assert_eq!(impossible[0], "-");
        assert!(
            impossible[2].contains("more than the time of 2 CPUs"),
            "{impossible:?}"
        );
    }

    /// Check that a function that calls itself is one line, and that the outer frames of a stack come last.
    #[test]
    fn recursion_is_one_line() {
        let frames = ["madvise", "walk", "walk", "walk", "main", "walk"];
        let summary = TallySummary {
            shootdowns: 4,
            stacks: vec![StackRow {
                frames: frames.map(Into::into).to_vec(),
                shootdowns: 3,
                cause: "munmap".to_owned(),
                cut: true,
            }],
            ..TallySummary::default()
        };
        let mut out = String::new();
        write_stacks(&mut out, &summary, 10);
        let lines: Vec<&str> = out.lines().map(str::trim).collect();
        let expected = [
            "3 shootdowns (75 %), munmap",
            "madvise",
            "walk  3 times",
            "main",
            "walk",
            "… outer frames missing",
        ];
        assert!(lines.ends_with(&expected), "{out}");
    }
}
