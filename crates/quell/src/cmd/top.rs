//! `quell top`: the live view, or intervals as text.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use quell_host::cpus::Isolation;
use quell_host::proc::Proc;

use crate::cli::{Target, TopArgs};
use crate::launch::{Output, signals};
use crate::little_memory;
use crate::show::units::time;
use crate::show::{self, emit_more};
use crate::subject::Subject;
use crate::target::{self, End, Watch};
use crate::top::attach::AttachOptions;
use crate::top::draw::{Look, draw};
use crate::top::sample::Sample;
use crate::top::source::Source;
use crate::top::state::{Action, State};
use crate::top::term::{self, Input, Screen};
use crate::top::{json, text};
use crate::usage::usage;

/// How often it is looked whether what is watched has ended, how large the terminal is, and where new culprits
/// have their code: that is gone when they are.
const LOOK: Duration = Duration::from_millis(250);
/// How often records are read while a process is looked at closely: the ring holds more than twice
/// as much of the worst case.
const DRAIN: Duration = Duration::from_millis(40);

/// Long enough to know the rate of a process before it is looked at closely.
const BRIEFLY: Duration = Duration::from_millis(100);

pub(crate) fn run(args: &TopArgs) -> anyhow::Result<ExitCode> {
    let target = everything_by_default(&args.target);
    let scope = target::scope(&target)?;
    if !(0.1..=60.0).contains(&args.interval) {
        return Err(usage(format!(
            "--interval {}: give a time from 0.1 to 60 seconds",
            args.interval
        )));
    }
    let every = Duration::from_secs_f64(args.interval);
    let mut guarded = Isolation::read(Path::new("/")).all();
    if let Some(list) = &args.isolated {
        guarded.extend(target::cpu_list(list)?);
        guarded.sort_unstable();
        guarded.dedup();
    }
    if let Some(pid) = args.close {
        target::process("--close", pid)?;
    }
    let refusal = "top takes the probe: choose another --backend, or 'quell stat'";
    let backend = target::backend(&args.target, refusal)?;
    let screen = args.batch.is_none() && !args.json && term::is_there();
    let output = if screen {
        Output::Keep
    } else {
        Output::ToStderr
    };
    let mut watch = Watch::prepare_to(&target, None, output)?;
    let options = AttachOptions {
        scope: scope.clone(),
        backend,
        ipi: target.ipi,
        unwind: little_memory::may_unwind(!target.no_unwind),
    };
    let mut source =
        Source::start(options, guarded).map_err(|err| target::or_stat(err, &target))?;
    watch.start(Some(&source.probe), &scope)?;
    if let Some(pid) = args.close {
        // how many stacks are enough depends on how many shootdowns there are
        signals::sleep(BRIEFLY)?;
        let rate = a_second(&source.sample()?, pid);
        source.open(pid, rate)?;
        // threads and causes of the same time
        source.restart()?;
    }
    let title = Subject::of(&target).title();
    if screen {
        let mut end = live(args, title, every, &mut watch, &mut source);
        if let Ok(End::Over) = end
            && let Err(err) = watch.stop()
        {
            end = Err(err);
        }
        // what the command said while the screen was up
        watch.print_output();
        return watch.see_through(&target.command, end.map(Some));
    }
    if args.batch.is_none() {
        let why = if args.json {
            "JSON"
        } else if term::is_dumb() {
            "the terminal has no screen (TERM is dumb): text"
        } else {
            "stdout is no terminal: text"
        };
        say!(
            "quell: {why} every {} until it is interrupted; '--batch N' ends after N",
            time(u64::try_from(every.as_nanos()).unwrap_or(u64::MAX))
        );
    }
    let watched = batch(args, &title, every, &mut watch, &mut source);
    watch.see_through(&target.command, watched)
}

fn everything_by_default(target: &Target) -> Target {
    let mut target = target.clone();
    let asked = !target.pid.is_empty() || target.cpu.is_some() || !target.command.is_empty();
    target.all |= !asked;
    target
}

/// Prints intervals, until there are enough or what is watched has ended. The last one may be shorter. None if the
/// reader has gone (`| head`).
fn batch(
    args: &TopArgs,
    title: &str,
    every: Duration,
    watch: &mut Watch,
    source: &mut Source,
) -> anyhow::Result<Option<End>> {
    let mut out = show::output(None)?;
    let mut print = |sample: Sample, number| -> anyhow::Result<bool> {
        let text = if args.json {
            json::json(&sample)? + "\n"
        } else {
            text::text(&sample, title, number, args.top)
        };
        emit_more(&mut *out, &text)
    };
    let mut next = Instant::now() + every;
    for number in 1..=args.batch.unwrap_or(u64::MAX) {
        loop {
            let now = Instant::now();
            let left = next.saturating_duration_since(now);
            if left.is_zero() {
                break;
            }
            let nap = if source.is_open() { DRAIN } else { LOOK };
            let end = watch.step(nap.min(left))?;
            source.drain()?;
            if let Some(end) = end {
                print(source.last()?, number)?;
                return Ok(Some(end));
            }
        }
        next += every;
        if !print(source.sample()?, number)? {
            return Ok(None);
        }
    }
    // as many as were asked for: a command goes with the watch
    watch.stop()?;
    Ok(Some(End::Over))
}

/// Shows the screen until somebody quits. When what is watched has ended, the screen stays.
fn live(
    args: &TopArgs,
    title: String,
    every: Duration,
    watch: &mut Watch,
    source: &mut Source,
) -> anyhow::Result<End> {
    let look = Look {
        color: term::wants_color(),
    };
    let mut state = State::new(title);
    state.ipi = args.target.ipi;
    if let Some(pid) = args.close {
        // nothing has been counted yet that has its name
        let comm = Proc::new("/").comm(pid).unwrap_or_default();
        state.open(pid, comm);
    }
    let mut screen = Screen::take()?;
    let mut next = Instant::now() + every;
    let mut over: Option<End> = None;
    let mut stale = true;
    loop {
        if stale {
            screen.draw(|frame| draw(frame, &state, look))?;
            stale = false;
        }
        let nap = match (&over, source.is_open()) {
            (Some(_), _) => LOOK,
            (None, true) => DRAIN,
            (None, false) => LOOK,
        };
        let left = next.saturating_duration_since(Instant::now());
        let inputs = screen.wait(if over.is_some() { nap } else { nap.min(left) })?;
        if signals::interrupted().is_some() {
            // SIGTERM and SIGHUP leave a command to itself
            if over.is_none() && signals::leave_signal().is_some() {
                over = watch.step(Duration::ZERO)?;
            }
            break;
        }
        for input in inputs {
            stale = true;
            let Input::Key(key) = input else { continue };
            match state.key(key) {
                Action::None => {}
                Action::Quit => return Ok(over.unwrap_or(End::Over)),
                Action::Suspend => screen.suspend()?,
                Action::Close => source.close(),
                Action::Open(_) if over.is_some() => {
                    state.notice = "what was watched has ended: nothing more is seen".to_owned();
                }
                Action::Open(pid) => {
                    // some 100 ms, and far more on a busy machine
                    state.notice = "loading the probe for a close look".to_owned();
                    screen.draw(|frame| draw(frame, &state, look))?;
                    state.notice.clear();
                    open(&mut state, source, pid);
                    // loading a probe takes a while: a whole interval from now on
                    source.restart()?;
                    next = Instant::now() + every;
                }
            }
        }
        if over.is_some() {
            continue;
        }
        source.drain()?;
        over = watch.step(Duration::ZERO)?;
        if Instant::now() >= next || over.is_some() {
            // nothing comes after the last one: paused, it would never be seen
            state.paused &= over.is_none();
            state.take(match over {
                Some(_) => source.last()?,
                None => source.sample()?,
            });
            let now = Instant::now();
            next += every;
            if next <= now {
                // late by more than an interval: no short one to make up for it
                next = now + every;
            }
            stale |= !state.paused;
        }
        if over.is_some() {
            state.notice = "what was watched has ended; q quits".to_owned();
            stale = true;
        }
    }
    Ok(over.unwrap_or(End::Over))
}

/// How many shootdowns a process made, in a second.
fn a_second(sample: &Sample, pid: u32) -> u64 {
    let s = &sample.summary;
    let culprit = s.culprits.iter().find(|c| c.pid == pid);
    let shot = culprit.map_or(0, |c| c.shootdowns);
    let a_second = u128::from(shot) * 1_000_000_000 / u128::from(s.duration_ns.max(1));
    u64::try_from(a_second).unwrap_or(u64::MAX)
}

fn open(state: &mut State, source: &mut Source, pid: u32) {
    let culprits = &state.sample.summary.culprits;
    let culprit = culprits.iter().find(|c| c.pid == pid);
    let comm = culprit.map(|c| c.comm.clone()).unwrap_or_default();
    match source.open(pid, a_second(&state.sample, pid)) {
        Ok(()) => state.open(pid, comm.into()),
        Err(err) => state.notice = format!("can't look at process {pid}: {err:#}"),
    }
}
