//! The options of exports.

use clap::{Args, ValueEnum};

/// The form in which a trace goes to another tool.
#[derive(Args, Debug)]
pub(crate) struct ExportArgs {
    /// Write the trace in the form of another tool; docs/exports.md shows how each looks there.
    #[arg(long, value_enum, value_name = "FORMAT", conflicts_with_all = ["json", "top", "html"])]
    pub(crate) export: Option<Format>,
    /// The weight of stacks, for pprof, folded and speedscope [default: wait].
    #[arg(long, value_enum, value_name = "WEIGHT", requires = "export")]
    pub(crate) weight: Option<StackWeight>,
    /// The time to export, for hgrm [default: wait] and hlog [default: all three].
    #[arg(long, value_enum, value_name = "TIME", requires = "export")]
    pub(crate) of: Option<ExportedTime>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For ui.perfetto.dev: CPUs over time, arrows from culprit to victims, counters.
    Perfetto,
    /// For 'go tool pprof': the code behind shootdowns, wait and stall.
    Pprof,
    /// For flamegraph.pl and inferno: a line for each stack.
    Folded,
    /// For speedscope.app: the same stacks, to click through.
    Speedscope,
    /// For HdrHistogram's plotter: percentiles as text, in µs.
    Hgrm,
    /// For HdrHistogram's tools: a histogram a second, in ns.
    Hlog,
    /// For all else: a line for each victim of each shootdown.
    Csv,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StackWeight {
    /// The wait of culprits.
    Wait,
    /// The number of shootdowns.
    Count,
    /// The stall of victims.
    Stall,
    /// CPU time of all memory management.
    Cpu,
    /// Time asleep because of memory management.
    Blocked,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportedTime {
    /// The wait of culprits until the last victim was done.
    Wait,
    /// The delay of victims until the handler started.
    Delay,
    /// The stall of victims in the handler.
    Stall,
}

impl Format {
    /// Its name on the command line.
    pub(crate) fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |v| v.get_name().to_owned())
    }

    /// Whether it would garble a terminal.
    pub(crate) fn is_binary(self) -> bool {
        matches!(self, Self::Perfetto | Self::Pprof)
    }

    /// Whether it consists of stacks with a weight each.
    pub(crate) fn takes_weight(self) -> bool {
        matches!(self, Self::Pprof | Self::Folded | Self::Speedscope)
    }

    /// Whether it shows the code that asked.
    pub(crate) fn has_stacks(self) -> bool {
        self.takes_weight() || self == Self::Perfetto
    }

    /// Whether it is the distribution of a time.
    pub(crate) fn takes_of(self) -> bool {
        matches!(self, Self::Hgrm | Self::Hlog)
    }
}
