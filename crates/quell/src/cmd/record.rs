//! `quell record`: every shootdown into a trace.

use std::process::ExitCode;
use std::time::Duration;

use quell_probe::{ProbeOptions, StackShare};

use crate::cli::RecordArgs;
use crate::cmd::usage;
use crate::recording::{Recording, STEP};
use crate::show::units::{count, plural};
use crate::subject::Subject;
use crate::target::{self, End, Watch};

pub(crate) fn run(args: &RecordArgs) -> anyhow::Result<ExitCode> {
    let scope = target::scope_of_target(&args.target)?;
    if args.output.as_os_str() == "-" {
        return Err(usage(
            "a trace is a directory, and can't go to stdout: name it with -o",
        ));
    }
    let options = ProbeOptions {
        scope: scope.clone(),
        unwind: !args.target.no_unwind,
        stacks: stacks(&args.stacks)?,
        backend: target::backend(
            &args.target,
            "a trace takes the probe: choose another --backend, or count with 'quell stat'",
        )?,
        ipi: args.target.ipi,
        ..ProbeOptions::default()
    };
    let mut watch = Watch::prepare(&args.target, args.duration)?;
    let mut recording = Recording::start(
        &args.output,
        args.force,
        options,
        &Subject::of(&args.target),
    )
    .map_err(|err| target::or_stat(err, &args.target))?;
    recording.count_misses_of(&watch.processes());
    watch.start(Some(&recording.probe), &scope)?;
    let watched = follow(args, recording, &mut watch);
    watch.see_through(&args.target.command, watched)
}

/// Records until the watch ends.
fn follow(
    args: &RecordArgs,
    mut recording: Recording,
    watch: &mut Watch,
) -> anyhow::Result<Option<End>> {
    let end = loop {
        recording.step(STEP)?;
        if let Some(end) = watch.step(Duration::ZERO)? {
            break end;
        }
    };
    let tally = recording.finish()?;

    let totals = tally.total_counts();
    say!(
        "quell: {}, {} in {} (lost {}); see them with 'quell report {}'",
        plural(totals.shootdowns, "shootdown"),
        plural(totals.victims, "victim"),
        args.output.display(),
        count(tally.lost.missing_total()),
        args.output.display(),
    );
    Ok(Some(end))
}

fn stacks(text: &str) -> anyhow::Result<StackShare> {
    match text {
        "all" => Ok(StackShare::ALL),
        "none" | "0" => Ok(StackShare::None),
        n => match n.parse() {
            Ok(n) => Ok(StackShare::OneIn(n)),
            Err(_) => Err(usage(format!(
                "--stacks {n}: say all, none, or a number N for one in N"
            ))),
        },
    }
}
