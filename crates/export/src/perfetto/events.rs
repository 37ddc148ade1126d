//! What a slice says: its name and its arguments.

use quell_event::HolderRole;
use quell_event::trace::{Row, Sample, Wait};

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
    stacks(&mut args, first.user_stack, first.kernel_stack, names);
    TrackEvent {
        name_iid: Some(names::of_cause(first.cause)),
        args,
        ..TrackEvent::default()
    }
}

fn stacks(args: &mut Vec<Arg>, user: i32, kernel: i32, names: &mut Names<'_>) {
    let stacks = [(ArgName::UserStack, user), (ArgName::KernelStack, kernel)];
    for (name, id) in stacks {
        if let Some(iid) = names.stack(id) {
            args.push(arg(name, Value::String(iid)));
        }
    }
}

/// The slice of a thread that sleeps: why, in which call, and from which code.
pub(super) fn waiter(wait: &Wait, names: &mut Names<'_>) -> TrackEvent {
    let mut args = vec![arg(ArgName::Syscall, Value::Int(wait.syscall.into()))];
    if let Some(role) = wait.role {
        args.push(arg(ArgName::Role, Value::String(names.text(role.name()))));
    }
    stacks(&mut args, wait.user_stack, wait.kernel_stack, names);
    TrackEvent {
        name_iid: Some(names::of_mechanism(wait.mechanism)),
        args,
        ..TrackEvent::default()
    }
}

/// The slice of the thread that it waits for: what that does, and for whom it is too long.
pub(super) fn holder(wait: &Wait, names: &mut Names<'_>) -> TrackEvent {
    let doing = wait.holder_doing.as_str();
    let name = if doing.is_empty() {
        names::of_mechanism(wait.mechanism)
    } else {
        names.slice(doing)
    };
    let role = wait.role.unwrap_or(HolderRole::Unknown).name();
    TrackEvent {
        name_iid: Some(name),
        args: vec![
            arg(ArgName::Role, Value::String(names.text(role))),
            arg(ArgName::WaiterTid, Value::Uint(wait.tid.into())),
            arg(ArgName::WaiterComm, Value::String(names.comm(wait.comm))),
        ],
        ..TrackEvent::default()
    }
}

/// The mark of a sample: what the kernel did, where, and from which code.
pub(super) fn sample(sample: &Sample, names: &mut Names<'_>) -> TrackEvent {
    let mut args = vec![
        arg(ArgName::Cpu, Value::Uint(sample.cpu.into())),
        arg(ArgName::Part, Value::String(names.text(sample.part.name()))),
    ];
    stacks(&mut args, sample.user_stack, sample.kernel_stack, names);
    TrackEvent {
        name_iid: Some(names::of_mechanism(sample.mechanism)),
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
