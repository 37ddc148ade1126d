//! Those that no environment variable helps: said, so that nobody looks for one.

use super::{Remedy, RemedyAnswer, RemedyCase};
use crate::SoftwareKind;

/// The base of these.
const WITHOUT_REMEDY: Remedy = Remedy {
    stops: "nothing",
    source: "docs/remedies-measured.md: knobs",
    ..Remedy::BY_SETTING
};

/// Says of software of this kind why it has no remedy.
fn refuse_kind(case: &RemedyCase<'_>, kind: SoftwareKind, why: &str) -> Option<RemedyAnswer> {
    case.allocator_of_kind(kind)?;
    Some(RemedyAnswer::refuse(why))
}

const MUSL_WHY: &str =
    "musl's malloc has no settings; another allocator may help (preload or link it)";

/// musl has no settings.
pub(super) const NO_MUSL_REMEDY: Remedy = Remedy {
    id: "musl.none",
    worse: MUSL_WHY,
    consider: |case| refuse_kind(case, SoftwareKind::Musl, MUSL_WHY),
    ..WITHOUT_REMEDY
};

const GOOGLE_WHY: &str = "google/tcmalloc reads nothing from the environment and releases nothing unless the program sets a rate: \
     look at its calls of SetBackgroundReleaseRate (MongoDB: tcmallocReleaseRate)";

/// google/tcmalloc reads no environment for this.
pub(super) const NO_GOOGLE_REMEDY: Remedy = Remedy {
    id: "google-tcmalloc.none",
    worse: GOOGLE_WHY,
    consider: |case| refuse_kind(case, SoftwareKind::GoogleTcmalloc, GOOGLE_WHY),
    ..WITHOUT_REMEDY
};

const NODE_WHY: &str = "node --no-memory-reducer made 165 shootdowns 94, but NODE_OPTIONS does not take it; \
     --max-semi-space-size=64 made them 1,299, and won time elsewhere: quell prove tries it";

/// Node takes the one setting that stopped some on its command line only, and a setting that wins time may make more.
pub(super) const NO_NODE_REMEDY: Remedy = Remedy {
    id: "node.none",
    worse: NODE_WHY,
    consider: |case| refuse_kind(case, SoftwareKind::Node, NODE_WHY),
    ..WITHOUT_REMEDY
};

const DOTNET_WHY: &str = "nothing was measured on .NET; DOTNET_GCRetainVM=1 is its documented setting for keeping memory";

/// .NET is recognised only.
pub(super) const NO_DOTNET_REMEDY: Remedy = Remedy {
    id: "dotnet.none",
    worse: DOTNET_WHY,
    consider: |case| refuse_kind(case, SoftwareKind::DotNet, DOTNET_WHY),
    ..WITHOUT_REMEDY
};
