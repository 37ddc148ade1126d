//! Where the time of a run went.

use quell_event::account::Account;

/// Where the time of a run went.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObservedTime {
    /// The account.
    pub account: Account,
    /// Time that the watched threads lost as victims, ns: no sample shows it.
    pub hits_ns: u64,
    /// How long was watched, ns.
    pub duration_ns: u64,
}
