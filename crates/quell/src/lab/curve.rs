//! Curves, as `quell lab run` runs them: on this machine, printed as text and JSON.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use quell_lab::curve::{self, Curve, CurveOptions, CurvePlace, CurveSeries, CurveSummary};
use quell_lab::pin;
use quell_lab::round::{DEFAULT_BLOCK_MS, DEFAULT_PACE_US};
use quell_lab::system::GuardedSettings;

use super::experiment::take_back;
use super::host::self_command;
use super::text::machine_line;
use super::{
    LabSharing, ResultFile, check_counter, guard_command, lock_lab, take_cpus, this_machine,
};
use crate::cli::{CURVE_WORKER_WORDS, LabRunArgs, VictimMode};
use crate::clock::monotonic_ns;
use crate::launch::signals;
use crate::show::emit_result;
use crate::show::style::{BOLD, heading};
use crate::show::table::{Table, plain};
use crate::show::units::time;
use crate::usage::usage;

/// The table of all curves.
pub(crate) fn curves_table() -> String {
    let mut table = Table::new(&["curve", "what is timed", "by"]);
    for c in curve::ALL_CURVES {
        table.row([c.name, c.about, c.x].map(str::to_owned).to_vec());
    }
    format!(
        "\nCurves: what one thing costs as one number changes; no victim, no verdict\n{}",
        table.text()
    )
}

/// Runs the curves that are named; nothing if none is.
pub(crate) fn run_curves(args: &LabRunArgs, budget: Duration) -> anyhow::Result<Option<ExitCode>> {
    let named: Vec<_> = args
        .experiments
        .iter()
        .map(|n| (n, curve::curve_by_name(n)))
        .collect();
    if named.iter().all(|(_, curve)| curve.is_none()) {
        return Ok(None);
    }
    if let Some((name, _)) = named.iter().find(|(_, curve)| curve.is_none()) {
        return Err(usage(format!(
            "'{name}' is no curve; 'quell lab list' prints them, and they are run apart from other experiments"
        )));
    }
    if let Some(flag) = ignored_option(args) {
        return Err(usage(format!(
            "a curve has no parameters, arms or victim: leave out {flag}"
        )));
    }
    check_counter()?;
    lock_lab(LabSharing::Alone)?;
    // They are asked for before quell leaves the CPUs on which peers run.
    let allowed = pin::allowed_cpus().context("can't ask which CPUs quell may use")?;
    let (peer, cpu) = take_cpus(args.victim_cpu, args.culprit_cpu)?;
    signals::install_handlers()?;
    let others = allowed.into_iter().filter(|c| *c != cpu && *c != peer);
    let place = CurvePlace {
        cpu,
        others: std::iter::once(peer).chain(others).collect(),
        memory: quell_host::memory::available_bytes().unwrap_or(0),
    };
    let mut kept = ResultFile::create(args.output.as_deref())?;
    let mut failed = false;
    for (_, curve) in named {
        let Some(curve) = curve else { continue };
        let options = CurveOptions {
            place: place.clone(),
            budget,
            seed: args.seed.unwrap_or_else(monotonic_ns),
            stop: || signals::first_signal().is_some(),
        };
        let (curved, as_before) = run_one_curve(curve, &options)?;
        failed |= !as_before;
        if let Some(kept) = &mut kept {
            kept.add_line(&curved)?;
        }
        emit_result(args.json, || &curved, || curve_text(&curved))?;
        if curved.interrupted {
            failed = true;
            break;
        }
    }
    if let Some(kept) = kept {
        kept.finish()?;
    }
    Ok(Some(ExitCode::from(u8::from(failed))))
}

/// The first option that means nothing for a curve.
fn ignored_option(args: &LabRunArgs) -> Option<&'static str> {
    let flags = [
        ("--set", !args.set.is_empty()),
        ("--config", args.config.is_some()),
        ("--rounds", args.rounds != 0),
        ("--victim", args.victim != VictimMode::Spin),
        ("--block", args.block != DEFAULT_BLOCK_MS),
        ("--pace", args.pace != DEFAULT_PACE_US),
        ("--influx", args.influx.is_some()),
    ];
    flags
        .into_iter()
        .find(|(_, said)| *said)
        .map(|(flag, _)| flag)
}

/// Runs one curve, and says too whether all that was set up for it was taken back.
fn run_one_curve(
    curve: &'static Curve,
    options: &CurveOptions,
) -> anyhow::Result<(CurveSummary, bool)> {
    let guarded =
        GuardedSettings::set_up(&mut guard_command(), curve.wants).unwrap_or_else(|why| {
            // The series that needs it is missing from the curve, which says so too.
            say!("quell: {why}");
            None
        });
    let progress = super::ExperimentProgress::new(curve.name, options.budget);
    let goes_on = |rounds| {
        progress.show_progress(format!("{rounds} rounds"));
        signals::first_signal().is_none()
    };
    let measured = curve::run_curve(
        curve,
        options,
        &|| self_command(CURVE_WORKER_WORDS),
        &goes_on,
    );
    let as_before = take_back(guarded);
    let measured =
        measured.map_err(|why| usage(format!("{} can't run here: {why}", curve.name)))?;
    let place = &options.place;
    let peer = place.others.first().copied().unwrap_or(place.cpu);
    let curved = CurveSummary::new(curve, place, this_machine(peer, place.cpu), &measured);
    Ok((curved, as_before))
}

/// One curve as text.
pub(crate) fn curve_text(curved: &CurveSummary) -> String {
    let mut out = String::new();
    let m = &curved.machine;
    // Writing to a String does not fail.
    let _ = writeln!(
        out,
        "{BOLD}{}{BOLD:#}: {}\non CPU {}, peers on CPU {} first; {}; {} rounds",
        plain(&curved.experiment),
        plain(&curved.about),
        m.culprit_cpu,
        m.victim_cpu,
        machine_line(m),
        curved.rounds
    );
    heading(&mut out, "Median, and how far its 95 % interval reaches");
    out.push_str(&points_table(curved, &|p| {
        let reach = interval_reach(p).map_or_else(|| "±?".to_owned(), |r| format!("±{r:.1} %"));
        Some(format!("{} {reach:>7}", format_short_ns(p.p50)))
    }));
    if curved
        .series
        .iter()
        .any(|s| s.points.iter().any(|p| p.p99.is_some()))
    {
        heading(
            &mut out,
            "99th percentile, where at least 100 operations lie beyond",
        );
        out.push_str(&points_table(curved, &|p| p.p99.map(time)));
    }
    heading(&mut out, "To read it");
    for note in &curved.notes {
        let _ = writeln!(out, "  {}", plain(note));
    }
    if curved.interrupted {
        let _ = writeln!(out, "  it was interrupted: this is what was known by then");
    }
    out
}

/// The distance of the interval's further end from the median, per cent.
fn interval_reach(point: &curve::CurvePoint) -> Option<f64> {
    let (low, high) = (point.ci95.0?, point.ci95.1?);
    let far = (point.p50 - low).max(high - point.p50);
    (point.p50 > 0.0).then_some(far / point.p50 * 100.0)
}

/// Writes a time, with hundredths of ns where it is short.
pub(super) fn format_short_ns(ns: f64) -> String {
    if ns < 100.0 {
        format!("{ns:.2} ns")
    } else {
        time(ns.round() as u64)
    }
}

/// The table with a line for each x and a column for each series, or the other way round where there are more series.
fn points_table(
    curved: &CurveSummary,
    cell: &dyn Fn(&curve::CurvePoint) -> Option<String>,
) -> String {
    let mut xs: Vec<u64> = curved
        .series
        .iter()
        .flat_map(|s| s.points.iter().map(|p| p.x))
        .collect();
    xs.sort_unstable();
    xs.dedup();
    let at = |series: &CurveSeries, x: u64| {
        let point = series.points.iter().find(|p| p.x == x);
        point.and_then(cell).unwrap_or_default()
    };
    let mut headings;
    let mut rows: Vec<Vec<String>> = Vec::new();
    if curved.series.len() > xs.len() {
        headings = vec![format!("a figure for each, by {}", plain(&curved.x))];
        headings.extend(xs.iter().map(|x| format!(">{x}")));
        for s in &curved.series {
            let mut row = vec![format!("{} ({})", s.name, s.per)];
            row.extend(xs.iter().map(|x| at(s, *x)));
            rows.push(row);
        }
    } else {
        headings = vec![format!(">{}", plain(&curved.x))];
        headings.extend(curved.series.iter().map(|s| format!(">{}", plain(&s.name))));
        for x in xs {
            let mut row = vec![x.to_string()];
            row.extend(curved.series.iter().map(|s| at(s, x)));
            rows.push(row);
        }
    }
    // A line without a figure says nothing.
    rows.retain(|row| row[1..].iter().any(|cell| !cell.is_empty()));
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    let mut table = Table::new(&headings);
    for row in rows {
        table.row(row);
    }
    table.text()
}

#[cfg(test)]
mod tests {
    use quell_lab::curve::CurvePoint;

    use super::*;

    fn curved(series: &[(&str, &[u64])]) -> CurveSummary {
        let point = |x: &u64| CurvePoint {
            x: *x,
            p50: 1000.0 * *x as f64,
            p99: (*x > 1).then_some(5000),
            ci95: (Some(990.0 * *x as f64), None),
            n: 10,
        };
        CurveSummary {
            schema: curve::CURVE_SCHEMA.to_owned(),
            experiment: "some".to_owned(),
            about: "something".to_owned(),
            unit: "ns".to_owned(),
            x: "pages".to_owned(),
            rounds: 3,
            interrupted: false,
            machine: quell_lab::summary::MachineSummary::default(),
            series: series
                .iter()
                .map(|(name, xs)| CurveSeries {
                    name: (*name).to_owned(),
                    per: "call".to_owned(),
                    points: xs.iter().map(point).collect(),
                })
                .collect(),
            notes: vec!["careful".to_owned()],
        }
    }

    /// Check that the table has a line an x, and turns round where there are more series than that; that what was not
    /// measured is empty, and that lines without any figure are left out.
    #[test]
    fn tables_turn_round() {
        let p99 = |c: &CurveSummary| points_table(c, &|p| p.p99.map(time));
        let tall = p99(&curved(&[("alone", &[1, 2, 3]), ("beside", &[2])]));
        assert_eq!(
            tall,
            "  pages    alone   beside\n      2  5.00 µs  5.00 µs\n      3  5.00 µs\n"
        );
        let wide = p99(&curved(&[("one", &[1]), ("two", &[2]), ("three", &[2])]));
        assert_eq!(
            wide,
            "  a figure for each, by pages  1        2\n  two (call)                      5.00 µs\n  \
             three (call)                    5.00 µs\n"
        );
    }

    /// Check that the text names the curve, says that an interval is unknown, and ends with the notes.
    #[test]
    fn text_says_what_it_is() {
        let text = curve_text(&curved(&[("alone", &[1, 2])]));
        assert!(text.contains("some\u{1b}[0m: something"), "{text}");
        assert!(text.contains("±?") && text.contains("1.00 µs") && text.contains("3 rounds"));
        assert!(text.ends_with("  careful\n"), "{text}");
        assert_eq!(format_short_ns(1.534), "1.53 ns");
        assert_eq!(format_short_ns(2659.4), "2.66 µs");
    }

    /// Check that every curve is in the list.
    #[test]
    fn all_are_listed() {
        let list = curves_table();
        assert!(curve::ALL_CURVES.iter().all(|c| list.contains(c.name)));
    }
}
