//! An experiment: rounds of blocks, one of each arm, in an order that chance decides, until the effect is known well
//! enough or the time is spent.

use std::io;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use quell_event::Backtraces;
use quell_stats::Rng;

use crate::arms::Workers;
use crate::around::Surroundings;
use crate::attribute::Attributed;
use crate::block::Arm;
use crate::failures::Failures;
use crate::judge::{self, FEWEST, Judgement, Verdict};
use crate::mechanism::{Mechanism, Timing};
use crate::params::Params;
use crate::process::Worker;
use crate::protocol::{Mode, Role, Setup};
use crate::tsc::monotonic_ns;
use crate::who::Processes;

/// How long a block is where nobody says, ms.
pub const BLOCK_MS: u64 = 150;

/// How soon one operation may follow the start of the last where nobody says, µs.
pub const PACE_US: u64 = 10;

/// Where, for how long, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The victim's CPU.
    pub victim_cpu: u32,
    /// The culprit's.
    pub culprit_cpu: u32,
    /// At most so long, all in all.
    pub budget: Duration,
    /// Whether that may be stretched to what the fewest rounds take: nobody has asked for it.
    pub may_stretch: bool,
    /// So long a block.
    pub block: Duration,
    /// How soon one operation may follow the start of the last.
    pub pace: Duration,
    /// What the victim does.
    pub mode: Mode,
    /// Of the order of the arms.
    pub seed: u64,
    /// Rounds at most; 0 is as many as the budget allows.
    pub rounds: usize,
}

impl Options {
    /// As where nobody says more: a victim that spins, and as many rounds as it takes.
    #[must_use]
    pub fn new(victim_cpu: u32, culprit_cpu: u32, budget: Duration) -> Self {
        Self {
            victim_cpu,
            culprit_cpu,
            budget,
            may_stretch: false,
            block: Duration::from_millis(BLOCK_MS),
            pace: Duration::from_micros(PACE_US),
            mode: Mode::Spin,
            seed: monotonic_ns(),
            rounds: 0,
        }
    }
}

/// A block of one arm.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Which.
    pub arm: Arm,
    /// What was measured.
    pub block: Attributed,
    /// Why it does not count, if it does not.
    pub invalid: Option<Invalid>,
}

/// Why a block does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Invalid {
    /// The probe lost records.
    Lost,
    /// The victim had its CPU for less than a fifth of the block.
    Away,
    /// No operation of the culprit began and ended in it.
    NoOperation,
    /// An operation of the culprit failed.
    Failed,
}

impl Invalid {
    /// In words.
    #[must_use]
    pub fn why(self) -> &'static str {
        match self {
            Self::Lost => "the probe lost records",
            Self::Away => "others had the victim's CPU for more than four fifths of the time",
            Self::NoOperation => {
                "no operation began and ended in a block: one that takes so long needs a longer --block"
            }
            Self::Failed => "an operation failed",
        }
    }
}

/// One block of each arm.
pub type Round = Vec<Measured>;

/// All that was measured.
#[derive(Debug)]
pub struct Outcome {
    /// Round by round.
    pub rounds: Vec<Round>,
    /// Who took the victim's time in them.
    pub processes: Processes,
    /// What it says.
    pub judgement: Judgement,
    /// Whether somebody ended it early.
    pub interrupted: bool,
    /// The kernel's functions on both sides, where they were asked for.
    pub backtraces: Option<Backtraces>,
    /// What has to be known of where the culprit ran, in words.
    pub note: Option<String>,
    /// A turn of the victim that took so long was a gap.
    pub gap_limit_ns: u64,
}

/// Runs one.
///
/// # Errors
///
/// If a worker or the probe fails, in words that say at what.
pub fn run(
    mechanism: &'static Mechanism,
    params: &Params,
    options: &Options,
    around: &dyn Surroundings,
) -> anyhow::Result<Outcome> {
    let mut rounds = Vec::new();
    let began = Instant::now();
    let mut ended = Ended::default();
    let done = rounds_of(mechanism, params, options, around, &mut rounds, &mut ended);
    if let Err(err) = done {
        if !is_interruption(&err) {
            return Err(err);
        }
        // before there was a round
        ended.interrupted = true;
    }
    let Ended {
        judged,
        interrupted,
        backtraces,
        note,
        gap_limit_ns,
        processes,
    } = ended;
    let mut judgement =
        judged.unwrap_or_else(|| judge::judge(mechanism, params, options.mode, &rounds));
    if judgement.real.verdict == Verdict::TooShort && !interrupted {
        let why = &mut judgement.real.why;
        if options.rounds == 0 {
            let took = began.elapsed().as_secs_f64() / rounds.len().max(1) as f64;
            let seconds = (took * (FEWEST + 1) as f64).ceil();
            *why =
                format!("{why} fitted into the budget: --budget {seconds:.0}s has room for them");
        }
    }
    Ok(Outcome {
        rounds,
        processes,
        judgement,
        interrupted,
        backtraces,
        note,
        gap_limit_ns,
    })
}

/// How the rounds ended.
#[derive(Default)]
struct Ended {
    /// What all of them say, where they were looked at last of all: that takes its time.
    judged: Option<Judgement>,
    /// Somebody wanted it to.
    interrupted: bool,
    backtraces: Option<Backtraces>,
    note: Option<String>,
    gap_limit_ns: u64,
    processes: Processes,
}

fn is_interruption(err: &anyhow::Error) -> bool {
    err.chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|err| err.kind() == io::ErrorKind::Interrupted)
}

/// Adds round after round, until it is known well, the time is over, or somebody wants it to end.
fn rounds_of(
    mechanism: &'static Mechanism,
    params: &Params,
    options: &Options,
    around: &dyn Surroundings,
    rounds: &mut Vec<Round>,
    ended: &mut Ended,
) -> anyhow::Result<()> {
    let started = Instant::now();
    let mut until = started + options.budget;
    let stop = around.stop();
    let mut options = options.clone();
    options.block = mechanism.timing.block().unwrap_or(options.block);
    let options = &options;
    let setup = |role| Setup {
        mechanism: mechanism.name.to_owned(),
        params: params.clone(),
        role,
        culprit_cpu: options.culprit_cpu,
        victim_cpu: options.victim_cpu,
        mode: options.mode,
    };
    let start = |role| {
        Worker::start_unless(&mut around.worker(), &setup(role), stop)
            .with_context(|| format!("can't prepare {}", mechanism.name))
    };
    let mut workers = Workers {
        both: start(Role::Both)?,
        sham: start(Role::Culprit)?,
        stop,
    };
    ended.gap_limit_ns = workers.both.ready().limit_ns;
    ended.note.clone_from(&workers.both.ready().note);
    ended.processes = Processes::new(workers.both.pid(), workers.sham.pid(), mechanism.daemons);
    // microseconds each, which only matter where there are many
    let stacks = matches!(mechanism.timing, Timing::Once { .. });
    let mut watch = around.watch(options.victim_cpu, workers.both.ready().victim_tid, stacks)?;
    let mut rng = Rng::new(options.seed);
    let mut took = Duration::ZERO;
    let mut judgement = None;
    let mut look = judge::next_look(0, None).unwrap_or_default();
    let mut failures = Failures::default();
    loop {
        let began = Instant::now();
        let mut arms = Arm::ALL;
        rng.shuffle(&mut arms);
        let mut round = Vec::new();
        let mut interrupted = false;
        for arm in arms {
            if stop() {
                break;
            }
            let block = workers
                .block(arm, options, mechanism, &mut *watch)
                .with_context(|| format!("the {} arm of {}", arm.name(), mechanism.name));
            let block = match failures.of(arm, block) {
                Err(err) if is_interruption(&err) => {
                    interrupted = true;
                    break;
                }
                block => block?,
            };
            ended.processes.meet(&block.block);
            around.block(&block);
            round.push(block);
        }
        interrupted |= stop();
        // half a round compares nothing
        if round.len() == arms.len() {
            rounds.push(round);
        }
        took = took.max(began.elapsed());
        let valid = rounds.iter().filter(|round| counts(round)).count();
        // nobody asked for less time than an answer takes, unless the machine lets too few rounds count
        let counted = options.rounds > 0;
        if options.may_stretch && !counted && valid < FEWEST && rounds.len() < 2 * FEWEST {
            let left = u32::try_from(FEWEST - valid).unwrap_or(1);
            let needed = Instant::now() + took.saturating_mul(left + 1);
            if needed > until {
                until = needed;
                around.stretched(started.elapsed() + took.saturating_mul(left + 1));
            }
        }
        let mut enough = false;
        let looked = rounds.len() >= look;
        if looked {
            let now = judge::judge(mechanism, params, options.mode, rounds);
            let next = judge::next_look(rounds.len(), Some(&now));
            enough = next.is_none();
            look = next.unwrap_or(look);
            judgement = Some(now);
        }
        around.round(rounds, look, judgement.as_ref());
        let counted_out = counted && rounds.len() >= options.rounds;
        if interrupted || enough || counted_out || Instant::now() + took > until {
            ended.judged = judgement.filter(|_| looked);
            ended.interrupted = interrupted;
            ended.backtraces = watch.backtraces(workers.both.pid())?;
            return Ok(());
        }
    }
}

/// The block of an arm, if it counts.
pub(crate) fn block_of(round: &Round, arm: Arm) -> Option<&Attributed> {
    let found = round.iter().find(|m| m.arm == arm && m.invalid.is_none())?;
    Some(&found.block)
}

/// Whether the three arms that are compared are valid.
pub(crate) fn counts(round: &Round) -> bool {
    let valid = |arm| block_of(round, arm).is_some();
    // of what failed nothing is known, not even that it was short
    let failed = round.iter().any(|m| m.invalid == Some(Invalid::Failed));
    valid(Arm::Idle) && valid(Arm::Sham) && valid(Arm::Real) && !failed
}

/// Operations that tell something. One that is done once takes so long that on a busy machine the victim is always away
/// for a part of it: it tells less then, but still something.
#[must_use]
pub fn operations(block: &Attributed, timing: Timing) -> u64 {
    match timing {
        Timing::Repeated | Timing::Slow { .. } => block.counted_ops,
        Timing::Once { .. } => block.whole_ops,
    }
}
