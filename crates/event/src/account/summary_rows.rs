//! The rows of the account as JSON has them. Times are integer ns.

use serde::Serialize;

use super::{HolderRole, MechanismPart};
use crate::{Mechanism, Text};

/// The most that any remedy could win: the time of the mechanisms that one can touch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct AccountCeiling {
    /// As a share of CPU time, 0 to 1.
    pub cpu: f64,
    /// As a share of the time that passed, 0 to 1: as if nothing of it happened beside something else.
    pub wall: f64,
}

/// One mechanism.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MechanismRow {
    /// Its name.
    pub mechanism: Mechanism,
    /// CPU time.
    pub cpu_ns: u64,
    /// Between these it is, in 95 of 100 recordings.
    pub ci95: [u64; 2],
    /// Time in which threads slept for it.
    pub blocked_ns: u64,
    /// How often that was, or how many shootdowns, hits or forks there were.
    pub count: u64,
    /// The longest of these sleeps.
    pub longest_ns: u64,
    /// Who had it done, the dearest first.
    pub who: Vec<WhoRow>,
    /// The parts of its work, the dearest first.
    pub parts: Vec<PartShare>,
    /// The advice that was given, the dearest first; only of [`Mechanism::Advise`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub advice: Vec<AdviceShare>,
    /// Who held the lock, the dearest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub holders: Vec<HolderShare>,
}

/// One function of a process, or of several of the same name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WhoRow {
    /// The process; of several the one that took most.
    pub pid: u32,
    /// How many processes.
    pub processes: u64,
    /// Their name.
    pub comm: Text,
    /// The function; empty where it is not known.
    pub function: Text,
    /// Its file; empty where it is not known.
    pub file: Text,
    /// The allocator's function that it called for it, with its file; empty where there was none.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub allocator: Text,
    /// CPU time.
    pub cpu_ns: u64,
    /// Time in which it slept for it.
    pub blocked_ns: u64,
    /// How often the process `pid` forked; only of [`Mechanism::Fork`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forks: Option<u64>,
    /// CPU time of one of these forks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub each_ns: Option<u64>,
}

/// The cost of a part of a mechanism's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PartShare {
    /// The part of the work.
    pub part: MechanismPart,
    /// CPU time.
    pub cpu_ns: u64,
}

/// The cost of one kind of advice to madvise(2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AdviceShare {
    /// Its name, as `MADV_FREE`.
    pub advice: Text,
    /// CPU time.
    pub cpu_ns: u64,
    /// Time asleep.
    pub blocked_ns: u64,
}

/// Who held a lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HolderShare {
    /// The process; 0 where that could not be told.
    pub pid: u32,
    /// Its name.
    pub comm: Text,
    /// The holder's work when waits began.
    pub doing: Text,
    /// How long others waited for it.
    pub blocked_ns: u64,
    /// How often.
    pub waits: u64,
    /// The longest of these waits.
    pub longest_ns: u64,
    /// How it held it.
    pub role: HolderRole,
}
