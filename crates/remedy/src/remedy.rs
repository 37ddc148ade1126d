//! The remedies: one family a file, behind one trait.
//!
//! To add a remedy, add a file here with a type that implements [`Remedy`], and name it in [`ALL`].
//! A remedy must rest on a measurement (docs/remedies.md says how) and say what makes it worse.

mod glibc;
mod go;
mod gperftools;
mod jemalloc;
mod jvm;
mod mimalloc;
mod without;

use std::collections::BTreeMap;

use crate::attribute::Share;
use crate::{Found, Kind};

/// From this many page faults on, huge pages are asked for, and an allocator that somebody built in is
/// tuned even where few shootdowns were seen: on a busy machine its threads may not have run side by
/// side. Polars' six queries make 290,000, Redis with 6,000 large values 81,000, a start of Python 2,000.
pub(crate) const MANY_FAULTS: u64 = 50_000;

/// One change that stops a class of shootdowns.
pub trait Remedy: Sync {
    /// Its stable name, such as `jemalloc.decay`.
    fn id(&self) -> &'static str;
    /// What it is for.
    fn kind(&self) -> Kind;
    /// What it stops, in a sentence.
    fn stops(&self) -> &'static str;
    /// What makes it worse, or when not to use it, in a sentence.
    fn worse(&self) -> &'static str;
    /// The measurement or document that it rests on.
    fn source(&self) -> &'static str;
    /// Whether it helps in this case, and how.
    fn consider(&self, case: &Case<'_>) -> Verdict;
}

/// One allocator in one observed program: what a remedy decides on.
pub struct Case<'a> {
    /// The allocator.
    pub found: &'a Found,
    /// All shootdowns that were observed.
    pub total: u64,
    /// The page faults, if they were counted.
    pub page_faults: Option<u64>,
    /// The share of the shootdowns that fork and copy-on-write made: the program forks as it works.
    pub copies: f64,
    /// What the user's environment holds.
    pub env: &'a dyn Fn(&str) -> Option<String>,
    pub(crate) share: &'a Share,
}

impl Case<'_> {
    /// The shootdowns that this allocator asked for.
    #[must_use]
    pub fn shootdowns(&self) -> u64 {
        self.share.shootdowns
    }
}

/// What a remedy says of a case.
pub enum Verdict {
    /// Set these variables.
    Set {
        /// The variables; several settings in one are written as its reader wants them.
        sets: BTreeMap<String, String>,
        /// The share of this allocator's shootdowns that it is expected to stop.
        stops: f64,
        /// What it costs, with the figure and where that was measured.
        cost: String,
    },
    /// Do nothing, and say why.
    Refuse(String),
}

/// Every remedy. To add one, add it here.
const ALL: &[&dyn Remedy] = &[
    &jemalloc::Decay,
    &glibc::Keep,
    &mimalloc::Purge,
    &gperftools::ReleaseRate,
    &go::Gogc,
    &jvm::FixedHeap,
    &without::MUSL,
    &without::GOOGLE,
    &without::NODE,
    &without::DOTNET,
];

/// Every remedy that quell knows, for documentation.
#[must_use]
pub fn all() -> &'static [&'static dyn Remedy] {
    ALL
}

/// One variable as a map.
fn one(variable: impl Into<String>, value: impl Into<String>) -> BTreeMap<String, String> {
    BTreeMap::from([(variable.into(), value.into())])
}
