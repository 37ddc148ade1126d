//! What of a run's time a change can touch, and why: the words in which a remedy says it.

use quell_event::Mechanism;

/// What of a run's time a change can touch. The time of it is the most that the change can win ([`crate::RemedyCeiling`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Touches {
    /// The calls of its origin that it makes fewer or cheaper. Their shootdowns are touched with them, and the waits for the
    /// lock of the address space while it is held for them.
    pub calls: &'static [Mechanism],
    /// It keeps memory that its origin gives back, so that this is not faulted in and zeroed again.
    pub again: bool,
    /// What it touches whoever had it done: huge pages are for all memory.
    pub everywhere: &'static [Mechanism],
    /// It reaches also what the program gives back by calls of its own, such as `malloc_trim(3)`, which are not the
    /// allocator's to decide.
    pub asked: bool,
    /// Why these, and no others, in a sentence.
    pub because: &'static str,
}

impl Touches {
    /// Of what only advises or refuses: there is no change.
    pub const NOTHING: Self = Self {
        calls: &[],
        again: false,
        everywhere: &[],
        asked: false,
        because: "it sets nothing",
    };

    /// Of an allocator's setting to keep what it would give back by these calls.
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

    /// Of a setting about huge pages, or about what the kernel does by itself.
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

    /// The same, and what the program asks for by itself.
    #[must_use]
    pub const fn and_asked(self) -> Self {
        Self {
            asked: true,
            ..self
        }
    }

    /// The same, and these, whoever had them done.
    #[must_use]
    pub const fn and_everywhere(self, everywhere: &'static [Mechanism]) -> Self {
        Self { everywhere, ..self }
    }
}
