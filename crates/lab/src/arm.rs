//! The arms of an experiment, and the behaviour of its victim.

use quell_event::named_enum;
use serde::{Deserialize, Serialize};

named_enum! {
    /// The arms whose blocks are compared; a round has one block of each.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    pub enum Arm with serde {
        /// No culprit.
        Idle = "idle",
        /// The same culprit in an address space of its own.
        Sham = "sham",
        /// The culprit in the victim's address space.
        Real = "real",
        /// The same as real, while the probe is taken away: the difference is the cost of watching.
        Untraced = "untraced",
    }
}

/// The victim's behaviour in a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VictimActivity {
    /// It spins.
    #[default]
    Spin,
    /// It sleeps, so that its CPU idles with the address space still loaded.
    Sleep,
}

/// Valid rounds before any verdict.
pub(crate) const MIN_VALID_ROUNDS: usize = 6;
