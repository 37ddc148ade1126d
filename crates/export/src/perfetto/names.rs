//! Names, said once and then meant by number.

use std::collections::HashMap;

use quell_event::{Cause, Comm, Mechanism};

use super::proto::{Arg, ArgValue, Interned, InternedData};
use crate::Stacks;

/// The name of a victim's slice; a culprit's slice has the name of its cause.
const STALL_NAME: &str = "stall";

/// At most this many frames of a stack are shown, from the innermost.
const MAX_SHOWN_FRAMES: usize = 12;

/// Makes the arguments of slices, numbered from 1, and the list of their names.
macro_rules! arg_names {
    ($($arg:ident $name:literal,)*) => {
        /// The arguments of slices.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum ArgName { $($arg,)* }

        const ARG_NAMES: &[(ArgName, &str)] = &[$((ArgName::$arg, $name),)*];
    };
}

arg_names! {
    Pid "pid",
    Tid "tid",
    Comm "comm",
    Syscall "syscall",
    Start "start",
    Pages "pages",
    Full "full",
    Victims "victims",
    Unseen "unseen",
    UserStack "user_stack",
    KernelStack "kernel_stack",
    Bystander "bystander",
    DelayNs "delay_ns",
    Role "role",
    Part "part",
    Cpu "cpu",
    WaiterTid "waiter_tid",
    WaiterComm "waiter_comm",
}

impl ArgName {
    fn number(self) -> u64 {
        self as u64 + 1
    }

    /// The argument with this value.
    pub(super) fn with(self, value: ArgValue) -> Arg {
        Arg {
            name_iid: Some(self.number()),
            value: Some(value),
        }
    }

    /// The argument with a number.
    pub(super) fn uint(self, number: impl Into<u64>) -> Arg {
        self.with(ArgValue::Uint(number.into()))
    }

    /// The argument with an interned text.
    pub(super) fn text(self, iid: u64) -> Arg {
        self.with(ArgValue::String(iid))
    }
}

pub(crate) fn intern_entry(iid: u64, text: impl Into<String>) -> Interned {
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

/// The name of a slice whose mechanism is not known.
const UNKNOWN_MECHANISM_NAME: &str = "memory";

/// The names that are known before the first row.
pub(super) fn fixed_names() -> InternedData {
    let causes = Cause::ALL.map(|c| intern_entry(of_cause(c), c.name()));
    let mechanisms = Mechanism::ALL.map(|m| intern_entry(of_mechanism(Some(m)), m.name()));
    InternedData {
        event_names: causes
            .into_iter()
            .chain([intern_entry(of_stall(), STALL_NAME)])
            .chain([intern_entry(of_mechanism(None), UNKNOWN_MECHANISM_NAME)])
            .chain(mechanisms)
            .collect(),
        arg_names: ARG_NAMES
            .iter()
            .map(|(arg, name)| intern_entry(arg.number(), *name))
            .collect(),
        strings: Vec::new(),
    }
}

/// Names of threads and texts of stacks, by number from their first use on.
pub(super) struct InternedNames<'a> {
    stacks: &'a Stacks,
    told: HashMap<i32, u64>,
    texts: HashMap<String, u64>,
    fresh: Vec<Interned>,
    /// Names of slices beside those that are fixed.
    slices: HashMap<String, u64>,
    fresh_slices: Vec<Interned>,
}

impl<'a> InternedNames<'a> {
    pub(super) fn new(stacks: &'a Stacks) -> Self {
        Self {
            stacks,
            told: HashMap::new(),
            texts: HashMap::new(),
            fresh: Vec::new(),
            slices: HashMap::new(),
            fresh_slices: Vec::new(),
        }
    }

    pub(super) fn comm_id(&mut self, comm: Comm) -> u64 {
        self.text_id(&comm.as_text())
    }

    /// The innermost frames of a stack in one line, if it has any.
    pub(super) fn stack_id(&mut self, id: i32) -> Option<u64> {
        if let Some(iid) = self.told.get(&id) {
            return Some(*iid);
        }
        let frames = &self.stacks.get(&id)?.frames;
        let mut lines: Vec<_> = frames
            .iter()
            .take(MAX_SHOWN_FRAMES)
            .map(ToString::to_string)
            .collect();
        if lines.is_empty() {
            return None;
        }
        if frames.len() > MAX_SHOWN_FRAMES {
            lines.push("…".to_owned());
        }
        let iid = self.text_id(&lines.join(" ← "));
        self.told.insert(id, iid);
        Some(iid)
    }

    /// Other text in an argument.
    pub(super) fn text_id(&mut self, text: &str) -> u64 {
        if let Some(iid) = self.texts.get(text) {
            return *iid;
        }
        let iid = self.texts.len() as u64 + 1;
        self.fresh.push(intern_entry(iid, text));
        self.texts.insert(text.to_owned(), iid);
        iid
    }

    /// The name of a slice that is not known beforehand.
    pub(super) fn slice_id(&mut self, name: &str) -> u64 {
        if let Some(iid) = self.slices.get(name) {
            return *iid;
        }
        // The last mechanism has the highest number of `fixed_names`.
        let fixed = of_mechanism(Mechanism::ALL.last().copied());
        let iid = fixed + 1 + self.slices.len() as u64;
        self.fresh_slices.push(intern_entry(iid, name));
        self.slices.insert(name.to_owned(), iid);
        iid
    }

    /// The names that were first used since the last call: they go into the packet that uses them.
    pub(super) fn take_new(&mut self) -> Option<InternedData> {
        let is_new = !(self.fresh.is_empty() && self.fresh_slices.is_empty());
        is_new.then(|| InternedData {
            event_names: std::mem::take(&mut self.fresh_slices),
            strings: std::mem::take(&mut self.fresh),
            ..InternedData::default()
        })
    }
}
