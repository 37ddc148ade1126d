//! The keys of sites and of pairs.

use quell_event::{Cause, NO_STACK};

use crate::folding_map::FoldKey;

/// The stack of a site whose own stack was folded.
pub(crate) const OTHER_STACK: i32 = i32::MIN;

/// The origin of shootdowns. A part that is `None` was folded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Site {
    pub(crate) cause: Cause,
    pub(crate) culprit: Option<u32>,
    pub(crate) region: Option<u32>,
    /// A number of the trace, [`NO_STACK`] or [`OTHER_STACK`].
    pub(crate) stack: i32,
}

impl FoldKey for Site {
    fn detail(self) -> u8 {
        // A site without a stack has none that could be folded.
        match (self.stack, self.region, self.culprit) {
            (OTHER_STACK | NO_STACK, None, None) => 0,
            (OTHER_STACK | NO_STACK, None, Some(_)) => 1,
            (OTHER_STACK | NO_STACK, Some(_), _) => 2,
            _ => 3,
        }
    }

    fn coarser(mut self) -> Self {
        match self.detail() {
            3 => self.stack = OTHER_STACK,
            2 => self.region = None,
            // There is one for each cause, so that at worst only causes are left.
            _ => (self.culprit, self.stack) = (None, OTHER_STACK),
        }
        self
    }
}

/// A culprit and a victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CulpritVictimPair {
    pub(crate) culprit: Option<u32>,
    pub(crate) victim: Option<u32>,
    pub(crate) bystander: bool,
}

impl FoldKey for CulpritVictimPair {
    fn detail(self) -> u8 {
        u8::from(self.culprit.is_some()) + u8::from(self.victim.is_some())
    }

    fn coarser(mut self) -> Self {
        // The victim is kept longer than the culprit, because the sites have culprits too.
        if self.culprit.take().is_none() {
            self.victim = None;
        }
        self
    }
}
