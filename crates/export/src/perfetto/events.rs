//! The names and arguments of slices.

use quell_event::HolderRole;
use quell_event::trace::{EventRow, SampleRow, WaitRow};

use super::names::{self, ArgName, InternedNames};
use super::proto::{Arg, ArgValue, TrackEvent};

/// The culprit's slice: cause, process, address range, and the code that asked. `rows` are those of the shootdown.
pub(super) fn culprit_slice(
    first: &EventRow,
    rows: &[EventRow],
    names: &mut InternedNames<'_>,
) -> TrackEvent {
    let mut args = vec![
        ArgName::Pid.uint(first.pid),
        ArgName::Tid.uint(first.tid),
        ArgName::Comm.text(names.comm_id(first.comm)),
        ArgName::Syscall.with(ArgValue::Int(first.syscall.into())),
    ];
    if first.is_full() {
        args.push(ArgName::Full.with(ArgValue::Bool(true)));
    } else {
        args.push(ArgName::Start.with(ArgValue::Pointer(first.start)));
        args.push(ArgName::Pages.uint(first.page_count()));
    }
    args.push(ArgName::Victims.uint(rows.len() as u64));
    let unseen = rows.iter().filter(|r| r.is_unseen()).count();
    if unseen > 0 {
        args.push(ArgName::Unseen.uint(unseen as u64));
    }
    stack_args(&mut args, first.user_stack, first.kernel_stack, names);
    TrackEvent {
        name_iid: Some(names::of_cause(first.cause)),
        args,
        ..TrackEvent::default()
    }
}

fn stack_args(args: &mut Vec<Arg>, user: i32, kernel: i32, names: &mut InternedNames<'_>) {
    let stacks = [(ArgName::UserStack, user), (ArgName::KernelStack, kernel)];
    for (name, id) in stacks {
        if let Some(iid) = names.stack_id(id) {
            args.push(name.text(iid));
        }
    }
}

/// The slice of a thread that sleeps: why, in which call, and from which code.
pub(super) fn waiter_slice(wait: &WaitRow, names: &mut InternedNames<'_>) -> TrackEvent {
    let mut args = vec![ArgName::Syscall.with(ArgValue::Int(wait.syscall.into()))];
    if let Some(role) = wait.role {
        args.push(ArgName::Role.text(names.text_id(role.name())));
    }
    stack_args(&mut args, wait.user_stack, wait.kernel_stack, names);
    TrackEvent {
        name_iid: Some(names::of_mechanism(wait.mechanism)),
        args,
        ..TrackEvent::default()
    }
}

/// The slice of the thread that holds the lock: its call, and the thread that waits for it.
pub(super) fn holder_slice(wait: &WaitRow, names: &mut InternedNames<'_>) -> TrackEvent {
    let doing = wait.holder_doing.as_str();
    let name = if doing.is_empty() {
        names::of_mechanism(wait.mechanism)
    } else {
        names.slice_id(doing)
    };
    let role = wait.role.unwrap_or(HolderRole::Unknown).name();
    TrackEvent {
        name_iid: Some(name),
        args: vec![
            ArgName::Role.text(names.text_id(role)),
            ArgName::WaiterTid.uint(wait.tid),
            ArgName::WaiterComm.text(names.comm_id(wait.comm)),
        ],
        ..TrackEvent::default()
    }
}

/// The mark of a sample: the mechanism, its part, and the code.
pub(super) fn sample_mark(sample: &SampleRow, names: &mut InternedNames<'_>) -> TrackEvent {
    let mut args = vec![
        ArgName::Cpu.uint(sample.cpu),
        ArgName::Part.text(names.text_id(sample.part.name())),
    ];
    stack_args(&mut args, sample.user_stack, sample.kernel_stack, names);
    TrackEvent {
        name_iid: Some(names::of_mechanism(sample.mechanism)),
        args,
        ..TrackEvent::default()
    }
}

/// A victim's slice: the thread that ran there, and whether the flush was for an address space of others.
pub(super) fn victim_slice(row: &EventRow, names: &mut InternedNames<'_>) -> TrackEvent {
    TrackEvent {
        name_iid: Some(names::of_stall()),
        args: vec![
            ArgName::Pid.uint(row.victim_pid),
            ArgName::Tid.uint(row.victim_tid),
            ArgName::Comm.text(names.comm_id(row.victim_comm)),
            ArgName::Bystander.with(ArgValue::Bool(row.bystander)),
            ArgName::DelayNs.uint(row.delay_ns),
        ],
        ..TrackEvent::default()
    }
}
