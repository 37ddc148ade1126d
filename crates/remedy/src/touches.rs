//! The part of a run's time that a change can touch, and why, as a remedy states it.

use quell_event::Mechanism;

/// The part of a run's time that a change can touch. Its time is the most that the change can win ([`crate::RemedyCeiling`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Touches {
    /// The calls of its origin that it makes fewer or cheaper. Their shootdowns are touched with them, and the waits for the
    /// lock of the address space while it is held for them.
    pub calls: &'static [Mechanism],
    /// It keeps memory that its origin gives back, so that this is not faulted in and zeroed again.
    pub again: bool,
    /// Mechanisms that it touches whichever origin caused them: huge pages are for all memory.
    pub everywhere: &'static [Mechanism],
    /// It also reaches memory that the program gives back by calls of its own, such as `malloc_trim(3)`, about which the
    /// allocator does not decide.
    pub asked: bool,
    /// Why these, and no others, in a sentence.
    pub because: &'static str,
}

impl Touches {
    /// The value of a remedy that only advises or refuses: it changes nothing.
    pub const NOTHING: Self = Self {
        calls: &[],
        again: false,
        everywhere: &[],
        asked: false,
        because: "it sets nothing",
    };

    /// The value of an allocator's setting that keeps memory which these calls would give back.
    #[must_use]
    pub const fn keeping(calls: &'static [Mechanism], because: &'static str) -> Self {
        Self {
            calls,
            again: true,
            everywhere: &[],
            asked: false,
            because,
        }
    }

    /// The value of a setting about huge pages, or about the kernel's own work.
    #[must_use]
    pub const fn everywhere(everywhere: &'static [Mechanism], because: &'static str) -> Self {
        Self {
            everywhere,
            because,
            ..Self::NOTHING
        }
    }

    /// The mechanisms by name, and why, in a sentence.
    #[must_use]
    pub fn in_words(&self) -> String {
        let mut names: Vec<&str> = self.calls.iter().map(|m| m.name()).collect();
        names.extend(self.again.then_some("faults on what it gives back"));
        names.extend(self.everywhere.iter().map(|m| m.name()));
        format!("{}: {}", names.join(", "), self.because)
    }

    /// The same, with the releases that the program requests by itself.
    #[must_use]
    pub const fn and_asked(self) -> Self {
        Self {
            asked: true,
            ..self
        }
    }

    /// The same, with these mechanisms of every origin, in place of those that it had.
    #[must_use]
    pub const fn and_everywhere(self, everywhere: &'static [Mechanism]) -> Self {
        Self { everywhere, ..self }
    }
}
