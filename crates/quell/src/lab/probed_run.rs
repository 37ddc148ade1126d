//! One run of this program as a command, under the probe.

use std::ffi::OsString;
use std::time::Duration;

use anyhow::bail;
use quell_event::Tally;
use quell_probe::{Probe, ProbeOptions, Scope, StackShare, TimedShare};

use crate::cli::Target;
use crate::launch::{Output, Usage};
use crate::target::{End, Watch};

/// The counts of a run, and the resources that it used.
pub(super) struct ProbedRun {
    pub(super) tally: Tally,
    pub(super) usage: Usage,
    pub(super) output: String,
}

/// Runs `quell lab WORDS`, with these settings in its environment.
pub(super) fn run_under_probe(
    settings: &[(&str, OsString)],
    words: &[String],
) -> anyhow::Result<ProbedRun> {
    let mut argv: Vec<OsString> = Vec::new();
    if !settings.is_empty() {
        argv.push("env".into());
        for (name, value) in settings {
            let mut setting = OsString::from(name);
            setting.push("=");
            setting.push(value);
            argv.push(setting);
        }
    }
    argv.push(std::env::current_exe()?.into_os_string());
    argv.push("lab".into());
    argv.extend(words.iter().map(OsString::from));
    let target = Target {
        command: argv,
        ..Target::default()
    };
    let mut watch = Watch::prepare_to(&target, None, Output::Capture)?;
    let mut probe = Probe::attach(&ProbeOptions {
        scope: Scope::Tree,
        stacks: StackShare::None,
        timed: TimedShare::All,
        ..ProbeOptions::default()
    })?;
    watch.start(Some(&probe), &Scope::Tree)?;
    let ended = loop {
        match watch.step(Duration::from_secs(1))? {
            Some(End::Command(ended)) => break ended,
            Some(End::Over | End::Left(_)) => bail!("interrupted"),
            None => {}
        }
    };
    probe.detach()?;
    let tally = probe.tally()?;
    let output = String::from_utf8_lossy(&watch.output()).into_owned();
    if !ended.status.is_success() {
        bail!("the run {}: {}", ended.status, output.trim());
    }
    Ok(ProbedRun {
        tally,
        usage: ended.usage,
        output,
    })
}
