//! The arms of an experiment, and the behaviour of its victim.

use serde::{Deserialize, Serialize};

/// The arms whose blocks are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arm {
    /// No culprit.
    Idle,
    /// The same culprit in an address space of its own.
    Sham,
    /// The culprit in the victim's address space.
    Real,
    /// The same as real, while the probe is taken away: the difference is the cost of watching.
    Untraced,
}

impl Arm {
    /// The arms of a round.
    pub const ALL: [Self; 4] = [Self::Idle, Self::Sham, Self::Real, Self::Untraced];

    /// The name in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Sham => "sham",
            Self::Real => "real",
            Self::Untraced => "untraced",
        }
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
