//! What can be said of exports.

use clap::{Args, ValueEnum};

/// In which form a trace goes to other tools.
#[derive(Args, Debug)]
pub(crate) struct ExportArgs {
    /// Write the trace in the form of another tool; docs/exports.md shows what one sees there.
    #[arg(long, value_enum, value_name = "FORMAT", conflicts_with_all = ["json", "top", "html"])]
    pub(crate) export: Option<Format>,
    /// What stacks are weighed by, for pprof, folded and speedscope [default: wait].
    #[arg(long, value_enum, value_name = "WHAT", requires = "export")]
    pub(crate) weight: Option<Weight>,
    /// Which time, for hgrm [default: wait] and hlog [default: all three].
    #[arg(long, value_enum, value_name = "WHAT", requires = "export")]
    pub(crate) of: Option<Of>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For ui.perfetto.dev: CPUs over time, arrows from culprit to victims, counters.
    Perfetto,
    /// For 'go tool pprof': where shootdowns, wait and stall come from.
    Pprof,
    /// For flamegraph.pl and inferno: a line for each stack.
    Folded,
    /// For speedscope.app: the same to click through.
    Speedscope,
    /// For HdrHistogram's plotter: percentiles as text, in µs.
    Hgrm,
    /// For HdrHistogram's tools: a histogram a second, in ns.
    Hlog,
    /// For all else: a line for each victim of each shootdown.
    Csv,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Weight {
    /// What culprits waited.
    Wait,
    /// How many shootdowns.
    Count,
    /// What victims were stalled.
    Stall,
    /// CPU time of all memory management.
    Cpu,
    /// Time asleep because of memory management.
    Blocked,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Of {
    /// Culprits, until the last victim was done.
    Wait,
    /// Victims, until the handler started.
    Delay,
    /// Victims, in the handler.
    Stall,
}

impl Format {
    /// As it is typed.
    pub(crate) fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |v| v.get_name().to_owned())
    }

    /// Would it spoil a terminal?
    pub(crate) fn is_binary(self) -> bool {
        matches!(self, Self::Perfetto | Self::Pprof)
    }

    /// Is it drawn of stacks, each with a weight?
    pub(crate) fn takes_weight(self) -> bool {
        matches!(self, Self::Pprof | Self::Folded | Self::Speedscope)
    }

    /// Does it show the code that asked?
    pub(crate) fn has_stacks(self) -> bool {
        self.takes_weight() || self == Self::Perfetto
    }

    /// Is it the distribution of a time?
    pub(crate) fn takes_of(self) -> bool {
        matches!(self, Self::Hgrm | Self::Hlog)
    }
}
