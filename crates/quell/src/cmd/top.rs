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
use crate::top::draw::{ScreenStyle, draw_view};
use crate::top::interval::LiveInterval;
use crate::top::interval_source::IntervalSource;
use crate::top::state::{KeyAction, ViewState};
use crate::top::terminal::{self, TerminalInput, TerminalScreen};
use crate::top::{json, text};
use crate::usage::usage;

/// So often quell checks whether the watched program has ended, how large the terminal is, and where new culprits have their
/// code, which is gone when they are.
const LOOK_PERIOD: Duration = Duration::from_millis(250);
/// So often records are read while a process is looked at closely: the ring holds more than twice as much of the worst case.
const DRAIN_PERIOD: Duration = Duration::from_millis(40);

/// Long enough to know the rate of a process before it is looked at closely.
const FIRST_RATE_TIME: Duration = Duration::from_millis(100);

pub(crate) fn run(args: &TopArgs) -> anyhow::Result<ExitCode> {
    let target = everything_by_default(&args.target);
    let scope = target::scope_of_target(&target)?;
    if !(0.1..=60.0).contains(&args.interval) {
        return Err(usage(format!(
            "--interval {}: give a time from 0.1 to 60 seconds",
            args.interval
        )));
    }
    let every = Duration::from_secs_f64(args.interval);
    let mut guarded = Isolation::read(Path::new("/")).all_cpus();
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
    let screen = args.batch.is_none() && !args.json && terminal::can_draw();
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
        IntervalSource::start(options, guarded).map_err(|err| target::or_stat(err, &target))?;
    watch.start(Some(&source.probe), &scope)?;
    if let Some(pid) = args.close {
        // how many stacks are enough depends on the rate of shootdowns
        signals::sleep_until_signal(FIRST_RATE_TIME)?;
        let rate = shootdowns_a_second(&source.next_interval()?, pid);
        source.open_process(pid, rate)?;
        // threads and causes then have the same time
        source.restart_interval()?;
    }
    let title = Subject::of(&target).title();
    if screen {
        let mut end = run_screen(args, title, every, &mut watch, &mut source);
        if let Ok(End::Over) = end
            && let Err(err) = watch.stop()
        {
            end = Err(err);
        }
        // the command may have printed while the screen was up
        watch.print_output();
        return watch.see_through(&target.command, end.map(Some));
    }
    if args.batch.is_none() {
        let why = if args.json {
            "JSON"
        } else if terminal::is_dumb() {
            "the terminal has no screen (TERM is dumb): text"
        } else {
            "stdout is no terminal: text"
        };
        say!(
            "quell: {why} every {} until it is interrupted; '--batch N' ends after N",
            time(u64::try_from(every.as_nanos()).unwrap_or(u64::MAX))
        );
    }
    let watched = print_intervals(args, &title, every, &mut watch, &mut source);
    watch.see_through(&target.command, watched)
}

fn everything_by_default(target: &Target) -> Target {
    let mut target = target.clone();
    let asked = !target.pid.is_empty() || target.cpu.is_some() || !target.command.is_empty();
    target.all |= !asked;
    target
}

/// Prints intervals until there are enough or the watched program has ended. The last one may be shorter. None if the reader has
/// gone (`| head`).
fn print_intervals(
    args: &TopArgs,
    title: &str,
    every: Duration,
    watch: &mut Watch,
    source: &mut IntervalSource,
) -> anyhow::Result<Option<End>> {
    let mut out = show::output(None)?;
    let mut print = |interval: LiveInterval, number| -> anyhow::Result<bool> {
        let text = if args.json {
            json::interval_json(&interval)? + "\n"
        } else {
            text::interval_text(&interval, title, number, args.top)
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
            let nap = if source.is_open() {
                DRAIN_PERIOD
            } else {
                LOOK_PERIOD
            };
            let end = watch.step(nap.min(left))?;
            source.drain_records()?;
            if let Some(end) = end {
                print(source.last_interval()?, number)?;
                return Ok(Some(end));
            }
        }
        next += every;
        if !print(source.next_interval()?, number)? {
            return Ok(None);
        }
    }
    // the command ends with the watch when there are as many intervals as were asked for
    watch.stop()?;
    Ok(Some(End::Over))
}

/// Shows the screen until the user quits. The screen stays when the watched program has ended.
fn run_screen(
    args: &TopArgs,
    title: String,
    every: Duration,
    watch: &mut Watch,
    source: &mut IntervalSource,
) -> anyhow::Result<End> {
    let look = ScreenStyle {
        color: terminal::wants_color(),
    };
    let mut state = ViewState::new(title);
    state.ipi = args.target.ipi;
    if let Some(pid) = args.close {
        // nothing has been counted yet that has its name
        let comm = Proc::new("/").comm(pid).unwrap_or_default();
        state.open_process(pid, comm);
    }
    let mut screen = TerminalScreen::take_terminal()?;
    let mut next = Instant::now() + every;
    let mut over: Option<End> = None;
    let mut stale = true;
    loop {
        if stale {
            screen.draw_frame(|frame| draw_view(frame, &state, look))?;
            stale = false;
        }
        let nap = match (&over, source.is_open()) {
            (Some(_), _) => LOOK_PERIOD,
            (None, true) => DRAIN_PERIOD,
            (None, false) => LOOK_PERIOD,
        };
        let left = next.saturating_duration_since(Instant::now());
        let inputs = screen.wait_for_input(if over.is_some() { nap } else { nap.min(left) })?;
        if signals::first_signal().is_some() {
            // SIGTERM and SIGHUP leave a command to itself
            if over.is_none() && signals::leave_signal().is_some() {
                over = watch.step(Duration::ZERO)?;
            }
            break;
        }
        for input in inputs {
            stale = true;
            let TerminalInput::Key(key) = input else {
                continue;
            };
            match state.handle_key(key) {
                KeyAction::None => {}
                KeyAction::Quit => return Ok(over.unwrap_or(End::Over)),
                KeyAction::Suspend => screen.suspend_quell()?,
                KeyAction::Close => source.close_process(),
                KeyAction::Open(_) if over.is_some() => {
                    state.notice = "what was watched has ended: nothing more is seen".to_owned();
                }
                KeyAction::Open(pid) => {
                    // this takes some 100 ms, and far more on a busy machine
                    state.notice = "loading the probe for a close look".to_owned();
                    screen.draw_frame(|frame| draw_view(frame, &state, look))?;
                    state.notice.clear();
                    open_process(&mut state, source, pid);
                    // loading a probe takes a while, so a whole interval begins now
                    source.restart_interval()?;
                    next = Instant::now() + every;
                }
            }
        }
        if over.is_some() {
            continue;
        }
        source.drain_records()?;
        over = watch.step(Duration::ZERO)?;
        if Instant::now() >= next || over.is_some() {
            // nothing comes after the last interval: paused, it would never be seen
            state.paused &= over.is_none();
            state.take_interval(match over {
                Some(_) => source.last_interval()?,
                None => source.next_interval()?,
            });
            let now = Instant::now();
            next += every;
            if next <= now {
                // quell is late by more than an interval, and shows no short one to make up for it
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

/// How many shootdowns a second a process made in the interval.
fn shootdowns_a_second(interval: &LiveInterval, pid: u32) -> u64 {
    let s = &interval.summary;
    let culprit = s.culprits.iter().find(|c| c.pid == pid);
    let shot = culprit.map_or(0, |c| c.shootdowns);
    let a_second = u128::from(shot) * 1_000_000_000 / u128::from(s.duration_ns.max(1));
    u64::try_from(a_second).unwrap_or(u64::MAX)
}

fn open_process(state: &mut ViewState, source: &mut IntervalSource, pid: u32) {
    let culprits = &state.interval.summary.culprits;
    let culprit = culprits.iter().find(|c| c.pid == pid);
    let comm = culprit.map(|c| c.comm.clone()).unwrap_or_default();
    match source.open_process(pid, shootdowns_a_second(&state.interval, pid)) {
        Ok(()) => state.open_process(pid, comm.into()),
        Err(err) => state.notice = format!("can't look at process {pid}: {err:#}"),
    }
}
