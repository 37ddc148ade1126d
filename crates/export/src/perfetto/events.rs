//! What a slice says: its name and its arguments.

use quell_event::trace::Row;

use super::names::{self, ArgName, Names};
use super::proto::{Arg, TrackEvent, Value};

fn arg(name: ArgName, value: Value) -> Arg {
    Arg {
        name_iid: Some(name as u64),
        value: Some(value),
    }
}

/// The culprit's slice: why, who, what, and from which code. `rows` are those of the shootdown.
pub(super) fn culprit(first: &Row, rows: &[Row], names: &mut Names<'_>) -> TrackEvent {
    let mut args = vec![
        arg(ArgName::Pid, Value::Uint(first.pid.into())),
        arg(ArgName::Tid, Value::Uint(first.tid.into())),
        arg(ArgName::Comm, Value::String(names.comm(first.comm))),
        arg(ArgName::Syscall, Value::Int(first.syscall.into())),
    ];
    if first.full() {
        args.push(arg(ArgName::Full, Value::Bool(true)));
    } else {
        args.push(arg(ArgName::Start, Value::Pointer(first.start)));
        args.push(arg(ArgName::Pages, Value::Uint(first.pages())));
    }
    args.push(arg(ArgName::Victims, Value::Uint(rows.len() as u64)));
    let unseen = rows.iter().filter(|r| r.is_unseen()).count();
    if unseen > 0 {
        args.push(arg(ArgName::Unseen, Value::Uint(unseen as u64)));
    }
    let stacks = [
        (ArgName::UserStack, first.user_stack),
        (ArgName::KernelStack, first.kernel_stack),
    ];
    for (name, id) in stacks {
        if let Some(iid) = names.stack(id) {
            args.push(arg(name, Value::String(iid)));
        }
    }
    TrackEvent {
        name_iid: Some(names::of_cause(first.cause)),
        args,
        ..TrackEvent::default()
    }
}

/// A victim's slice: who ran there, and whether it was for an address space of others.
pub(super) fn victim(row: &Row, names: &mut Names<'_>) -> TrackEvent {
    TrackEvent {
        name_iid: Some(names::of_stall()),
        args: vec![
            arg(ArgName::Pid, Value::Uint(row.victim_pid.into())),
            arg(ArgName::Tid, Value::Uint(row.victim_tid.into())),
            arg(ArgName::Comm, Value::String(names.comm(row.victim_comm))),
            arg(ArgName::Bystander, Value::Bool(row.bystander)),
            arg(ArgName::DelayNs, Value::Uint(row.delay_ns.into())),
        ],
        ..TrackEvent::default()
    }
}
