//! What the made-up programs spend in memory management.

use quell_event::Mechanism;

use crate::programs::PROGRAMS;

/// How long each sleep takes.
pub(crate) const WAIT_NS: u64 = 250_000;

/// What one function of a program spends by one mechanism.
#[derive(Clone, Copy)]
pub(crate) struct Spent {
    pub(crate) program: usize,
    pub(crate) mechanism: Mechanism,
    pub(crate) function: &'static str,
    pub(crate) samples: u64,
    pub(crate) waits: u64,
}

/// Program, mechanism, function, samples for each 100 shootdowns in either week, and sleeps as often.
type Rate = (usize, Mechanism, &'static str, [u64; 2], u64);

const RATES: [Rate; 6] = [
    (0, Mechanism::FaultAnon, "ingest::read", [7, 21], 0),
    (0, Mechanism::LockMmap, "ingest::read", [0, 0], 11),
    (1, Mechanism::FaultCow, "lookup::copy", [3, 3], 0),
    (4, Mechanism::Unmap, "shard::drop", [0, 9], 2),
    (5, Mechanism::Protect, "store::seal", [4, 4], 0),
    (6, Mechanism::Kswapd, "", [2, 2], 1),
];

/// Of a trace of that week, with so many shootdowns.
pub(crate) fn spent(week: usize, shootdowns: u64) -> Vec<Spent> {
    let of = |rate: &Rate| Spent {
        program: rate.0,
        mechanism: rate.1,
        function: rate.2,
        samples: rate.3[week] * shootdowns / 100,
        waits: rate.4 * shootdowns / 100,
    };
    let all = RATES.iter().map(of);
    all.filter(|s| s.samples + s.waits > 0).collect()
}

impl Spent {
    /// What it is counted under.
    pub(crate) fn binary(&self) -> &'static str {
        match PROGRAMS[self.program].exe {
            "" => "[kernel]",
            exe => crate::programs::base(exe),
        }
    }

    /// The function, with its file.
    pub(crate) fn code(&self) -> String {
        match self.function {
            "" => String::new(),
            function => format!("{function} ({})", self.binary()),
        }
    }
}
