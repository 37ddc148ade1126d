//! The remedies of a plan that are not used, because they break the program, or would as far as its files tell.

use quell_remedy::{Plan, Planned};

use super::blame::{BlamedRemedy, FailureCount};
use crate::preload::fitness;
use crate::show::units::plural;

/// A remedy that was taken out of a plan.
#[derive(Clone, Debug)]
pub(crate) struct LeftOut {
    pub(crate) planned: Planned,
    /// The reason in a word or two, such as `SIGSEGV`; a clause where it was not tried.
    pub(crate) why: String,
    /// The reason in a clause, with the number of runs where there were any.
    words: String,
    /// The runs with it, and those that failed; no runs where it was not tried.
    pub(crate) with: FailureCount,
    /// False where only the plan as a whole is known to break the program.
    pub(crate) singled_out: bool,
}

impl LeftOut {
    /// A remedy that broke the program.
    pub(super) fn after_runs(planned: Planned, guilty: &BlamedRemedy) -> Self {
        let FailureCount { runs, failed } = guilty.with;
        let of_runs = format!("({failed} of {})", plural(runs as u64, "run"));
        let end = &guilty.end;
        let words = match (guilty.singled_out, guilty.without.failed) {
            (true, 0) => format!("with it {end} {of_runs}, without it not"),
            // The runs without it that failed had another guilty remedy.
            (true, _) => format!("with it {end} {of_runs}, even where it was alone"),
            (false, _) => format!(
                "with the whole plan {end} {of_runs}, without the plan not (0 of {}); which remedy does it was not to be found",
                plural(guilty.without.runs as u64, "run")
            ),
        };
        Self {
            planned,
            why: end.short_reason(),
            words,
            with: guilty.with,
            singled_out: guilty.singled_out,
        }
    }

    /// The line for the report and the log.
    pub(crate) fn report_line(&self) -> String {
        format!("left out: {}: {}", self.planned.remedy, self.words)
    }
}

/// Takes remedies that preload a library out of a plan, if the program must not have one.
pub(crate) fn take_preload_out(plan: &mut Plan, command: &[std::ffi::OsString]) -> Vec<LeftOut> {
    let preloads = |planned: &Planned| planned.sets.contains_key("LD_PRELOAD");
    if !plan.remedies.iter().any(preloads) {
        return Vec::new();
    }
    let Some(why) = fitness::unfit_for_preload(command) else {
        return Vec::new();
    };
    let (out, kept) = std::mem::take(&mut plan.remedies)
        .into_iter()
        .partition(preloads);
    plan.remedies = kept;
    let out: Vec<Planned> = out;
    out.into_iter()
        .map(|planned| LeftOut {
            planned,
            words: why.clone(),
            why: why.clone(),
            with: FailureCount::default(),
            singled_out: true,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::Status;
    use crate::prove::failed::{BadEnd, FailureKind};

    /// Check the line for a remedy that was singled out, for one of several, and for a plan in which none could be singled
    /// out.
    #[test]
    fn lines() {
        let line = |singled_out, runs, without_failed| {
            let planned = Planned {
                remedy: "shim.cache".into(),
                ..Planned::default()
            };
            let guilty = BlamedRemedy {
                remedy: 0,
                end: BadEnd {
                    who: "the program",
                    how: FailureKind::Ended(Status::Signal(libc::SIGSEGV)),
                },
                with: FailureCount { runs, failed: 2 },
                without: FailureCount {
                    runs: 3,
                    failed: without_failed,
                },
                singled_out,
            };
            LeftOut::after_runs(planned, &guilty).report_line()
        };
        assert_eq!(
            line(true, 2, 0),
            "left out: shim.cache: with it the program ended by SIGSEGV (2 of 2 runs), without it not"
        );
        assert_eq!(
            line(true, 2, 1),
            "left out: shim.cache: with it the program ended by SIGSEGV (2 of 2 runs), even where it was alone"
        );
        assert_eq!(
            line(false, 4, 0),
            "left out: shim.cache: with the whole plan the program ended by SIGSEGV (2 of 4 runs), without the plan not (0 of 3 runs); which remedy does it was not to be found"
        );
    }
}
