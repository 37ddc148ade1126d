//! Erlang: large binaries in carriers that stay, and not each in a mapping of its own.
//!
//! A block of 512 KB and more (`sbct`) is a carrier of its own, which is mapped for it and unmapped after it but for a small
//! cache. With larger bounds it lies in a carrier with others; or all carriers lie in one area that is reserved at the start.

use quell_event::Mechanism;

use super::{MemoryGrowth, Offer, Remedy, RemedyAnswer, RemedyCase, one_variable};
use crate::{SoftwareKind, Touches};

const FLAGS_VARIABLE: &str = "ERL_FLAGS";
/// Of binary_alloc, KB: blocks up to 64 MB share carriers of 64 to 256 MB. In one word each, as a value that stands by itself
/// could be taken for another option's.
const SHARED_CARRIERS: &str = "+MBsbct65536 +MBsmbcs65536 +MBlmbcs262144";
/// One area of 1 GB of addresses. Blocks that find no room there are mapped as before: without that the machine ends where it is
/// full.
const ONE_AREA: &str = "+MMscs1024 +MMscofalse";

/// An option's name, as the emulator takes it: the value may be a word of its own.
fn option_names(options: &str) -> impl Iterator<Item = &str> {
    options
        .split_ascii_whitespace()
        .map(|w| w.trim_end_matches(|c: char| c.is_ascii_digit()))
        .map(|w| w.strip_suffix("false").unwrap_or(w))
}

/// Larger carriers for binaries, or one area for all.
pub(super) const ERLANG_CARRIERS: Remedy = Remedy {
    id: "erlang.carriers",
    stops: "mmap and munmap of carriers with one large binary each, and the page faults in them",
    worse: "carriers of 64 MB and more stay for as long as one block in them is used; an area without +MMsco false ends the machine where it is full",
    source: "docs/remedies-measured.md: two processes that make binaries, measured on Erlang/OTP 25, Linux 6.18; erlang.org/doc, erts_alloc, and Super Carrier",
    touches: Touches::keeping(
        &[Mechanism::Map, Mechanism::Unmap, Mechanism::Advise],
        "carriers stay, so that large binaries are neither mapped and unmapped nor faulted in again",
    ),
    consider: consider_erlang_carriers,
    ..Remedy::BY_SETTING
};

fn consider_erlang_carriers(case: &RemedyCase<'_>) -> Option<RemedyAnswer> {
    case.allocator_of_kind(SoftwareKind::Beam)?;
    let theirs = (case.env)(FLAGS_VARIABLE).unwrap_or_default();
    let all = [theirs.as_str(), &case.evidence.command.join(" ")].join(" ");
    let taken =
        |ours: &str| option_names(ours).any(|name| option_names(&all).any(|their| their == name));
    let offer = |flags: &str, cost: &str| {
        (!taken(flags)).then(|| Offer {
            sets: one_variable(FLAGS_VARIABLE, flags),
            // Only the order of the two is known for shootdowns, so runs have to decide.
            untried: true,
            memory: MemoryGrowth::Unknown,
            cost: cost.to_owned(),
            ..Offer::default()
        })
    };
    let offers: Vec<Offer> = [
        offer(SHARED_CARRIERS, "a carrier of 64 to 256 MB is mapped where there was one for each binary; what is touched of it stays"),
        offer(ONE_AREA, "1 GB of addresses are reserved at the start, and count where memory may not be promised"),
    ]
    .into_iter()
    .flatten()
    .collect();
    if offers.is_empty() {
        return Some(RemedyAnswer::refuse("its carriers' sizes are set already"));
    }
    Some(RemedyAnswer::Offer(offers))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that options are compared by their names, whatever their values.
    #[test]
    fn by_name() {
        let of = |options| option_names(options).collect::<Vec<_>>();
        assert_eq!(of("+MBsbct65536 +MMscofalse"), ["+MBsbct", "+MMsco"]);
        assert_eq!(of("+MBsbct 512"), ["+MBsbct", ""]);
    }
}
