//! What no setting reaches, by what a trace says of its time.

use quell_event::trace::Trace;
use quell_remedy::advice::{Advised, Scene, advise, mapped_files};

use super::code::Code;

/// Nothing where the trace has no account of the time.
pub(super) fn of(trace: &Trace, code: &Code, duration_ns: u64) -> Vec<Advised> {
    let tally = trace.tally().ok().flatten();
    let Some(account) = tally.and_then(|t| t.account) else {
        return Vec::new();
    };
    // without stacks it goes by the functions that the account has
    let costs = trace.account().map(|(costs, _)| costs).unwrap_or_default();
    let files = mapped_files(code.processes());
    let stack = |id: u32| code.stack(id.cast_signed());
    let scene = Scene::new(&account, duration_ns, &costs, &stack, files);
    advise(&scene)
}
