//! The most that each remedy could win of one program's time, by its account alone: for questions over many hosts, where neither
//! the programs' files nor their memory are at hand.

use std::collections::BTreeSet;
use std::path::Path;

use quell_event::Cause;

use crate::caller::{CalledBy, called_by};
use crate::ceiling::{RemedyCeiling, origin_ceiling};
use crate::evidence::ObservedTime;
use crate::function_names::is_libc_file;
use crate::remedy::{self, RemedyAnswer, RemedyCase, ShootdownOrigin};
use crate::share::Share;
use crate::{Evidence, FoundSoftware, table};

/// The gain that a remedy could have for one origin.
#[derive(Debug, Clone, PartialEq)]
pub struct PossibleWin {
    /// Whose calls: an allocator, or the program's own.
    pub asker: &'static str,
    /// The remedy.
    pub remedy: &'static str,
    /// The most. Time that the program's threads lost as victims is left out, because the account does not say whose calls caused
    /// it.
    pub ceiling: RemedyCeiling,
}

/// Shootdowns that make every remedy considered: here the time decides.
const MANY_SHOOTDOWNS: u64 = 1_000_000;

/// The most that each remedy could win of a program with these allocators, as in a plan for a trace, where all faults may be on
/// memory that was given back. Origins of which no call was seen are left out, and so are remedies that win nothing, and those
/// that are for many page faults alone: an account does not count faults. Of a remedy the offer that it prefers is taken.
#[must_use]
pub fn possible_wins(found: &[FoundSoftware], spent: &ObservedTime) -> Vec<PossibleWin> {
    let evidence = Evidence {
        shootdowns: MANY_SHOOTDOWNS,
        spent: Some(spent.clone()),
        ..Evidence::default()
    };
    let mut share = Share::default();
    // Equal parts of the calls that remedies for allocators ask for, so that each is considered.
    for cause in [Cause::Munmap, Cause::MadviseDontneed, Cause::Brk] {
        share.count_cause(cause, MANY_SHOOTDOWNS / 4);
    }
    let mut out = Vec::new();
    let files: BTreeSet<&str> = spent.account.rows.iter().map(|r| r.file.as_str()).collect();
    // The rows of other files are the program's own calls, each file an origin.
    let is_known = |file: &&&str| {
        let file = Path::new(**file);
        let is_of =
            |f: &FoundSoftware| f.kind.has_allocator() && f.module.file_name() == file.file_name();
        file.as_os_str().is_empty() || is_libc_file(file) || found.iter().any(is_of)
    };
    let own = files.iter().filter(|file| !is_known(file));
    let own = own.map(|file| (table::OWN_CALLS, ShootdownOrigin::Own(Path::new(*file))));
    let allocators = found.iter().filter(|f| f.kind.has_allocator());
    let allocators = allocators.map(|f| (f.kind.name(), ShootdownOrigin::Allocator(f)));
    for (asker, origin) in allocators.chain(own) {
        let case = RemedyCase {
            origin,
            found,
            evidence: &evidence,
            // No shootdown belongs to any origin here: only the time that was seen counts.
            total: u64::MAX,
            copies: 0.0,
            huge: 0.0,
            room: None,
            env: &|_: &str| None,
            share: &share,
        };
        let rows = spent.account.rows.iter();
        if !rows
            .clone()
            .any(|r| called_by(&case, r) != CalledBy::Others)
        {
            continue;
        }
        for remedy in remedy::ALL_REMEDIES {
            let Some(RemedyAnswer::Offer(offers)) = (remedy.consider)(&case) else {
                continue;
            };
            let of = offers
                .first()
                .and_then(|o| origin_ceiling(&case, remedy.touched_by(o), 1.0));
            if let Some(ceiling) = of.filter(|c| c.cpu_ns + c.blocked_ns > 0) {
                out.push(PossibleWin {
                    asker,
                    remedy: remedy.id,
                    ceiling,
                });
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use quell_event::Mechanism;

    use super::*;
    use crate::ceiling::tests::spent;
    use crate::{SoftwareKind, by_name};

    /// Check that a remedy has the time of the calls that it touches, with all faults on memory that these give back, that an
    /// allocator that is not called has none, and that own calls belong to the file that made them.
    #[test]
    fn by_the_account_alone() {
        let spent = spent(&[
            (Mechanism::Unmap, "work", "app", "free (libc.so.6)", 30),
            (Mechanism::Unmap, "work", "app", "", 10),
            (Mechanism::FaultAnon, "work", "app", "", 100),
        ]);
        let found = [
            by_name::usual_version(SoftwareKind::Glibc),
            by_name::usual_version(SoftwareKind::Jemalloc),
        ];
        let wins = possible_wins(&found, &spent);
        let told: Vec<_> = wins
            .iter()
            .map(|w| (w.asker, w.remedy, w.ceiling.cpu_ns))
            .collect();
        // three quarters of the time in calls that give back are glibc's, and so are the faults
        assert_eq!(
            told,
            [
                ("glibc malloc", "glibc.keep", 105_000_000),
                ("own calls", "shim.cache", 35_000_000),
            ]
        );
    }
}
