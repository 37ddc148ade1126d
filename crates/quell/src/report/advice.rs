//! Advice for costs that no setting reaches, by the account of a trace.

use quell_event::Account;
use quell_event::trace::Trace;
use quell_remedy::advice::{Advised, Scene, advise, mapped_files};

use super::code::Code;

/// Chooses the advice for a trace; `account` is the trace's own.
pub(super) fn advise_on_trace(
    trace: &Trace,
    account: &Account,
    code: &Code,
    duration_ns: u64,
) -> Vec<Advised> {
    // Without stacks it goes by the functions that the account has.
    let costs = trace
        .read_account()
        .map(|(costs, _)| costs)
        .unwrap_or_default();
    let files = mapped_files(code.watched_processes());
    let stack = |id: u32| code.stack_by_number(id.cast_signed());
    let scene = Scene::new(account, duration_ns, &costs, &stack, files);
    advise(&scene)
}
