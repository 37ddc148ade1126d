//! Names, said once and then meant by number.

use std::collections::HashMap;

use quell_event::{Cause, Comm, Mechanism};

use super::proto::{Interned, InternedData};
use crate::Stacks;

/// What a victim's slice is called; a culprit's is called by its cause.
const STALL: &str = "stall";

/// Frames that are told of a stack, from the innermost.
const FRAMES: usize = 12;

/// The arguments of slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(super) enum ArgName {
    Pid = 1,
    Tid,
    Comm,
    Syscall,
    Start,
    Pages,
    Full,
    Victims,
    Unseen,
    UserStack,
    KernelStack,
    Bystander,
    DelayNs,
    Role,
    Part,
    Cpu,
    WaiterTid,
    WaiterComm,
}

const ARG_NAMES: &[(ArgName, &str)] = &[
    (ArgName::Pid, "pid"),
    (ArgName::Tid, "tid"),
    (ArgName::Comm, "comm"),
    (ArgName::Syscall, "syscall"),
    (ArgName::Start, "start"),
    (ArgName::Pages, "pages"),
    (ArgName::Full, "full"),
    (ArgName::Victims, "victims"),
    (ArgName::Unseen, "unseen"),
    (ArgName::UserStack, "user_stack"),
    (ArgName::KernelStack, "kernel_stack"),
    (ArgName::Bystander, "bystander"),
    (ArgName::DelayNs, "delay_ns"),
    (ArgName::Role, "role"),
    (ArgName::Part, "part"),
    (ArgName::Cpu, "cpu"),
    (ArgName::WaiterTid, "waiter_tid"),
    (ArgName::WaiterComm, "waiter_comm"),
];

fn interned(iid: u64, text: impl Into<String>) -> Interned {
    Interned {
        iid: Some(iid),
        text: Some(text.into()),
    }
}

/// The number of a culprit's slice; 0 is no number.
pub(super) fn of_cause(cause: Cause) -> u64 {
    cause as u64 + 1
}

/// The number of a victim's slice.
pub(super) fn of_stall() -> u64 {
    Cause::ALL.len() as u64 + 1
}

/// The number of a slice of a wait, or of a sample.
pub(super) fn of_mechanism(mechanism: Option<Mechanism>) -> u64 {
    let first = of_stall() + 1;
    mechanism.map_or(first, |m| first + 1 + m as u64)
}

/// What is called by its mechanism where that is not known.
const UNKNOWN: &str = "memory";

/// The names that are known before the first row.
pub(super) fn fixed() -> InternedData {
    let causes = Cause::ALL.iter().map(|c| interned(of_cause(*c), c.name()));
    let mechanisms = Mechanism::ALL
        .iter()
        .map(|m| interned(of_mechanism(Some(*m)), m.name()));
    InternedData {
        event_names: causes
            .chain([interned(of_stall(), STALL)])
            .chain([interned(of_mechanism(None), UNKNOWN)])
            .chain(mechanisms)
            .collect(),
        arg_names: ARG_NAMES
            .iter()
            .map(|(arg, name)| interned(*arg as u64, *name))
            .collect(),
        strings: Vec::new(),
    }
}

/// Names of threads and texts of stacks, by number from their first use on.
pub(super) struct Names<'a> {
    stacks: &'a Stacks,
    comms: HashMap<Comm, u64>,
    told: HashMap<i32, u64>,
    texts: HashMap<String, u64>,
    last: u64,
    fresh: Vec<Interned>,
    /// Names of slices beside those that are fixed.
    slices: HashMap<String, u64>,
    fresh_slices: Vec<Interned>,
}

impl<'a> Names<'a> {
    pub(super) fn new(stacks: &'a Stacks) -> Self {
        Self {
            stacks,
            comms: HashMap::new(),
            told: HashMap::new(),
            texts: HashMap::new(),
            last: 0,
            fresh: Vec::new(),
            slices: HashMap::new(),
            fresh_slices: Vec::new(),
        }
    }

    pub(super) fn comm(&mut self, comm: Comm) -> u64 {
        if let Some(iid) = self.comms.get(&comm) {
            return *iid;
        }
        let iid = self.add(comm.text().into_owned());
        self.comms.insert(comm, iid);
        iid
    }

    /// The innermost frames of a stack in one line, if it has any.
    pub(super) fn stack(&mut self, id: i32) -> Option<u64> {
        if let Some(iid) = self.told.get(&id) {
            return Some(*iid);
        }
        let frames = &self.stacks.get(&id)?.frames;
        let mut lines: Vec<_> = frames
            .iter()
            .take(FRAMES)
            .map(ToString::to_string)
            .collect();
        if lines.is_empty() {
            return None;
        }
        if frames.len() > FRAMES {
            lines.push("…".to_owned());
        }
        let iid = self.add(lines.join(" ← "));
        self.told.insert(id, iid);
        Some(iid)
    }

    /// Other text in an argument.
    pub(super) fn text(&mut self, text: &str) -> u64 {
        if let Some(iid) = self.texts.get(text) {
            return *iid;
        }
        let iid = self.add(text.to_owned());
        self.texts.insert(text.to_owned(), iid);
        iid
    }

    /// The name of a slice that is not known beforehand.
    pub(super) fn slice(&mut self, name: &str) -> u64 {
        if let Some(iid) = self.slices.get(name) {
            return *iid;
        }
        let fixed = of_mechanism(Mechanism::ALL.last().copied());
        let iid = fixed + 1 + self.slices.len() as u64;
        self.fresh_slices.push(interned(iid, name));
        self.slices.insert(name.to_owned(), iid);
        iid
    }

    /// What was first used since the last call: goes into the packet that uses it.
    pub(super) fn fresh(&mut self) -> Option<InternedData> {
        let is_new = !(self.fresh.is_empty() && self.fresh_slices.is_empty());
        is_new.then(|| InternedData {
            event_names: std::mem::take(&mut self.fresh_slices),
            strings: std::mem::take(&mut self.fresh),
            ..InternedData::default()
        })
    }

    fn add(&mut self, text: String) -> u64 {
        self.last += 1;
        self.fresh.push(interned(self.last, text));
        self.last
    }
}
