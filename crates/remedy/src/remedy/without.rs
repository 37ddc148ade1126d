//! Those that no environment variable helps: said, so that nobody looks for one.

use super::{Case, Offer, Remedy, Verdict};
use crate::{Kind, Touches};

/// A kind without a remedy in the environment, and what is known instead.
pub(super) struct Without {
    id: &'static str,
    kind: Kind,
    why: &'static str,
}

/// musl has no settings.
pub(super) const MUSL: Without = Without {
    id: "musl.none",
    kind: Kind::Musl,
    why: "musl's malloc has no settings; another allocator may help (preload or link it)",
};

/// google/tcmalloc reads no environment for this.
pub(super) const GOOGLE: Without = Without {
    id: "google-tcmalloc.none",
    kind: Kind::GoogleTcmalloc,
    why: "google/tcmalloc reads nothing from the environment and releases nothing unless the program sets a rate: \
          look at its calls of SetBackgroundReleaseRate (MongoDB: tcmallocReleaseRate)",
};

/// Node takes the one setting that stopped some on its command line only; what wins time may make more.
pub(super) const NODE: Without = Without {
    id: "node.none",
    kind: Kind::Node,
    why: "node --no-memory-reducer made 165 shootdowns 94, but NODE_OPTIONS does not take it; \
          --max-semi-space-size=64 made them 1,299, and won time elsewhere: quell prove tries it",
};

/// .NET is recognised only.
pub(super) const DOTNET: Without = Without {
    id: "dotnet.none",
    kind: Kind::DotNet,
    why: "nothing was measured on .NET; DOTNET_GCRetainVM=1 is its documented setting for keeping memory",
};

impl Remedy for Without {
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

    fn consider(&self, case: &Case<'_>) -> Option<Verdict> {
        case.allocator(self.kind)?;
        Some(Verdict::refuse(self.why))
    }
}
