//! Those that no environment variable helps: said, so that nobody looks for one.

use super::{Offer, Remedy, RemedyAnswer, RemedyCase};
use crate::{SoftwareKind, Touches};

/// Software that has no remedy in its environment, with the advice that is known instead.
pub(super) struct KindWithoutRemedy {
    id: &'static str,
    kind: SoftwareKind,
    why: &'static str,
}

/// musl has no settings.
pub(super) const NO_MUSL_REMEDY: KindWithoutRemedy = KindWithoutRemedy {
    id: "musl.none",
    kind: SoftwareKind::Musl,
    why: "musl's malloc has no settings; another allocator may help (preload or link it)",
};

/// google/tcmalloc reads no environment for this.
pub(super) const NO_GOOGLE_REMEDY: KindWithoutRemedy = KindWithoutRemedy {
    id: "google-tcmalloc.none",
    kind: SoftwareKind::GoogleTcmalloc,
    why: "google/tcmalloc reads nothing from the environment and releases nothing unless the program sets a rate: \
          look at its calls of SetBackgroundReleaseRate (MongoDB: tcmallocReleaseRate)",
};

/// Node takes the one setting that stopped some on its command line only, and a setting that wins time may make more.
pub(super) const NO_NODE_REMEDY: KindWithoutRemedy = KindWithoutRemedy {
    id: "node.none",
    kind: SoftwareKind::Node,
    why: "node --no-memory-reducer made 165 shootdowns 94, but NODE_OPTIONS does not take it; \
          --max-semi-space-size=64 made them 1,299, and won time elsewhere: quell prove tries it",
};

/// .NET is recognised only.
pub(super) const NO_DOTNET_REMEDY: KindWithoutRemedy = KindWithoutRemedy {
    id: "dotnet.none",
    kind: SoftwareKind::DotNet,
    why: "nothing was measured on .NET; DOTNET_GCRetainVM=1 is its documented setting for keeping memory",
};

impl Remedy for KindWithoutRemedy {
    fn id(&self) -> &'static str {
        self.id
    }

    fn stops(&self) -> &'static str {
        "nothing"
    }

    fn worse(&self) -> &'static str {
        self.why
    }

    fn source(&self) -> &'static str {
        "docs/remedies-measured.md: knobs"
    }

    fn touches(&self, _offer: &Offer) -> Touches {
        Touches::NOTHING
    }

    fn consider(&self, case: &RemedyCase<'_>) -> Option<RemedyAnswer> {
        case.allocator_of_kind(self.kind)?;
        Some(RemedyAnswer::refuse(self.why))
    }
}
