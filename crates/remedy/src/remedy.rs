//! The remedies: one family a file, each one entry.
//!
//! To add a remedy, add a [`Remedy`] to the file of its family, and name it in [`ALL_REMEDIES`].
//! A remedy must rest on a measurement (docs/remedies-measured.md says how), or say that it was not measured; and
//! say what makes it worse.

mod beam;
mod cpython;
mod glibc;
mod go;
mod gperftools;
mod heap_trim;
mod jemalloc;
mod jemalloc_huge;
mod jvm;
pub(crate) mod kernel;
mod mimalloc;
mod node;
mod numpy;
mod servers;
pub(crate) mod shim;
mod shim_huge;
mod shim_library;
mod stacks;
mod undecayed;
mod unpurged;
mod without;

use std::collections::BTreeMap;
use std::path::Path;

use quell_event::{Cause, Mechanism};

use crate::evidence::Evidence;
use crate::share::Share;
use crate::{FoundSoftware, SoftwareKind, Touches};

/// From this many page faults on, huge pages are offered, and an allocator that was built in is
/// tuned even where few shootdowns were seen: on a busy machine its threads may not have run side by
/// side. Polars' six queries make 290,000, Redis with 6,000 large values 81,000, a start of Python 2,000.
pub(crate) const MANY_FAULTS: u64 = 50_000;
/// The share of all shootdowns from which on a remedy may change how the whole program uses memory.
pub(crate) const LARGE_SHARE: f64 = 0.2;

/// The share of CPU time that huge pages take, in parts of a thousand, from which on it may win time to have fewer.
pub(crate) const MUCH_HUGE_TIME: u32 = 30;
/// The share of the shootdowns by forks and copies from which on a program forks as it works.
const FORKS_AT_WORK: f64 = 0.05;

/// The calls by which a collector's heap grows and shrinks.
const HEAP_CALLS: &[Mechanism] = &[
    Mechanism::Map,
    Mechanism::Unmap,
    Mechanism::Advise,
    Mechanism::Protect,
];
/// The work for huge pages that is not done where there are none.
const HUGE_PAGE_WORK: &[Mechanism] = &[
    Mechanism::FaultHuge,
    Mechanism::Zeroing,
    Mechanism::CompactDirect,
];
/// What an allocator's huge pages touch.
const HUGE_FAULTS_TOUCHED: Touches = Touches::everywhere(
    &[Mechanism::FaultAnon, Mechanism::FaultEntry],
    "one fault brings 2 MB where there were 512; what is zeroed stays the same",
);

/// One change that stops a class of shootdowns.
pub struct Remedy {
    /// Its stable name, such as `jemalloc.decay`.
    pub id: &'static str,
    /// The class of shootdowns that it stops, in a sentence.
    pub stops: &'static str,
    /// The conditions that make it worse, or under which not to use it, in a sentence.
    pub worse: &'static str,
    /// The measurement or document that it rests on.
    pub source: &'static str,
    /// The part of a run's time that this change can touch, and why.
    pub touches: Touches,
    /// With this text in a variable that it sets, these mechanisms are touched everywhere too.
    pub everywhere_with: Option<(&'static str, &'static [Mechanism])>,
    /// Whether it also wins time that is no memory management, such as a collector's own: the account has no ceiling of that, and so
    /// the gain is not predicted.
    pub wins_beyond_account: bool,
    /// Whether it needs the preload library. Settings are preferred.
    pub preloads: bool,
    /// Whether it may win time where there are next to no shootdowns: few remedies by the library do.
    pub helps_without_shootdowns: bool,
    /// Whether it helps in this case, and how; none where it is not for such cases.
    pub consider: fn(&RemedyCase<'_>) -> Option<RemedyAnswer>,
}

impl Remedy {
    /// The base of a remedy by settings, which says nothing yet.
    const BY_SETTING: Self = Self {
        id: "",
        stops: "",
        worse: "",
        source: "",
        touches: Touches::NOTHING,
        everywhere_with: None,
        wins_beyond_account: false,
        preloads: false,
        helps_without_shootdowns: true,
        consider: |_| None,
    };
    /// The base of a remedy by the preload library.
    const BY_LIBRARY: Self = Self {
        preloads: true,
        helps_without_shootdowns: false,
        ..Self::BY_SETTING
    };

    /// The part of a run's time that this offer can touch. The most that it can win is that time.
    pub(crate) fn touched_by(&self, offer: &Offer) -> Touches {
        match self.everywhere_with {
            Some((text, mechanisms)) if offer.sets.values().any(|v| v.contains(text)) => {
                self.touches.and_everywhere(mechanisms)
            }
            _ => self.touches,
        }
    }
}

/// The origin of the shootdowns of a case.
#[derive(Debug, Clone, Copy)]
pub enum ShootdownOrigin<'a> {
    /// An allocator or a runtime.
    Allocator(&'a FoundSoftware),
    /// A program with settings of its own.
    Program(&'a FoundSoftware),
    /// Code of this file, by calls of its own.
    Own(&'a Path),
    /// Threads that end, for their stacks.
    Threads,
    /// The kernel, by itself.
    Kernel,
}

/// One origin of shootdowns in one observed program: the input of a remedy's decision.
pub struct RemedyCase<'a> {
    /// The origin.
    pub origin: ShootdownOrigin<'a>,
    /// All that was found in the program.
    pub found: &'a [FoundSoftware],
    /// The observation of the run.
    pub evidence: &'a Evidence,
    /// All shootdowns that were observed.
    pub total: u64,
    /// The share of the shootdowns that fork and copy-on-write made: the program forks as it works.
    pub copies: f64,
    /// The share of the shootdowns that the making and splitting of huge pages made.
    pub huge: f64,
    /// Bytes by which memory may still grow; none where the program's memory was not measured.
    pub room: Option<u64>,
    /// The user's environment.
    pub env: &'a dyn Fn(&str) -> Option<String>,
    pub(crate) share: &'a Share,
}

impl<'a> RemedyCase<'a> {
    /// Whether the program forks as it works, when a write copies the page, and a huge one whole.
    #[must_use]
    pub fn forks_at_work(&self) -> bool {
        self.copies >= FORKS_AT_WORK
    }

    /// Whether the program bears huge pages: where it forks as it works a write would copy 2 MB, and elsewhere their making and
    /// splitting may be the trouble itself.
    pub(crate) fn bears_huge_pages(&self) -> bool {
        !self.forks_at_work() && self.huge < LARGE_SHARE
    }

    /// The shootdowns of this origin.
    #[must_use]
    pub fn shootdowns(&self) -> u64 {
        self.share.shootdowns
    }

    /// The part of this origin's shootdowns that these causes have, 0 to 1.
    #[must_use]
    pub fn part_of_causes(&self, causes: &[Cause]) -> f64 {
        let of = |c: &Cause| self.share.causes.get(c).copied().unwrap_or(0);
        causes.iter().map(of).sum::<u64>() as f64 / self.share.shootdowns.max(1) as f64
    }

    /// [`RemedyCase::part_of_causes`] of shootdowns on mappings of files.
    #[must_use]
    pub fn part_of_files(&self, causes: &[Cause]) -> f64 {
        let of = |c: &Cause| self.share.of_files.get(c).copied().unwrap_or(0);
        causes.iter().map(of).sum::<u64>() as f64 / self.share.shootdowns.max(1) as f64
    }

    /// The part of this origin's shootdowns that are copies of the allocator's own metadata, 0 to 1.
    #[must_use]
    pub fn of_metadata(&self) -> f64 {
        self.share.metadata as f64 / self.share.shootdowns.max(1) as f64
    }

    /// The part of this origin's memory that is not mappings of files, 0 to 1, by its shootdowns.
    #[must_use]
    pub fn part_kept(&self) -> f64 {
        1.0 - self.part_of_files(&Cause::ALL)
    }

    /// [`RemedyCase::part_of_causes`] of calls that give memory back, and of the copies that go with it: of pages that were given back,
    /// and then read before they were written.
    #[must_use]
    pub fn part_with_copies(&self, causes: &[Cause]) -> f64 {
        let asked = self.part_of_causes(causes);
        let given = self.share.gives_back() as f64;
        if given == 0.0 {
            return asked;
        }
        asked + asked * self.share.refaulted as f64 / given
    }

    /// Whether the blocks that are given back are large; not where their size is not known. Where few are, their size is
    /// overrated by the page faults: of blocks of 64 KB to 4 MB in 150 MB, some 5 MB were said.
    #[must_use]
    pub fn has_large_blocks(&self) -> bool {
        const LARGE_BLOCK_BYTES: u64 = 8 << 20;
        let mean = self.evidence.mean_block();
        mean.is_some_and(|bytes| bytes >= LARGE_BLOCK_BYTES)
    }

    /// The allocator or runtime of this case, if it is of this kind.
    #[must_use]
    pub fn allocator_of_kind(&self, kind: SoftwareKind) -> Option<&'a FoundSoftware> {
        match self.origin {
            ShootdownOrigin::Allocator(found) if found.kind == kind => Some(found),
            _ => None,
        }
    }

    /// The program, if it is of one of these kinds.
    #[must_use]
    pub fn program_of_kinds(&self, kinds: &[SoftwareKind]) -> Option<&'a FoundSoftware> {
        match self.origin {
            ShootdownOrigin::Program(found) if kinds.contains(&found.kind) => Some(found),
            _ => None,
        }
    }
}

/// A remedy's answer to a case.
#[derive(Debug, Clone, PartialEq)]
pub enum RemedyAnswer {
    /// Do one of these. Of those that the budget allows, and that stop enough or about as much as any, a plan takes the first,
    /// untried ones and ones of unknown memory last.
    Offer(Vec<Offer>),
    /// Settings that the program reads from a file of its own: said, and not made.
    Advise {
        /// The lines for that file, as its reader wants them.
        settings: Vec<String>,
        /// The file, the effect of the lines, the measurement, and the source.
        why: String,
    },
    /// Do nothing, and say why.
    Refuse(String),
}

/// A change, and its expected effect.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Offer {
    /// Variables to set; several settings in one are written as its reader wants them.
    pub sets: BTreeMap<String, String>,
    /// Changes to the process before it starts: keys and values of [`crate::Start`].
    pub starts: BTreeMap<String, String>,
    /// The share of this origin's shootdowns that it is expected to stop, 0 to 1.
    pub stops: f64,
    /// How much memory it is expected to take.
    pub memory: MemoryGrowth,
    /// The cost, with the figure and where that was measured.
    pub cost: String,
    /// Its price on a machine like this one was not measured: taken only where nothing else does.
    pub untried: bool,
    /// The user has allowed the program that much memory already: it may be tried whatever the budget, and a plan
    /// without runs has it not.
    pub allowed: bool,
}

/// By how much the most resident memory grows.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum MemoryGrowth {
    /// Nobody has measured it.
    #[default]
    Unknown,
    /// By this share of it, as measured; less than nothing where it shrank.
    Share(f64),
    /// By this number of bytes at most.
    UpTo(u64),
}

impl RemedyAnswer {
    /// One change.
    fn one(offer: Offer) -> Self {
        RemedyAnswer::Offer(vec![offer])
    }

    /// One change, with variables only.
    pub(crate) fn offer_variables(
        sets: BTreeMap<String, String>,
        stops: f64,
        memory: MemoryGrowth,
        cost: impl Into<String>,
    ) -> Self {
        Self::one(Offer {
            sets,
            stops,
            memory,
            cost: cost.into(),
            ..Offer::default()
        })
    }

    /// One change whose worth only runs can tell: it is in no plan without them.
    pub(crate) fn to_try(sets: BTreeMap<String, String>, cost: impl Into<String>) -> Self {
        Self::one(Offer {
            sets,
            untried: true,
            cost: cost.into(),
            ..Offer::default()
        })
    }

    pub(crate) fn refuse(why: impl Into<String>) -> Self {
        RemedyAnswer::Refuse(why.into())
    }

    pub(crate) fn advise(settings: &[&str], why: impl Into<String>) -> Self {
        RemedyAnswer::Advise {
            settings: settings.iter().map(|s| (*s).to_owned()).collect(),
            why: why.into(),
        }
    }
}

/// An error is why nothing is done.
impl From<Result<Offer, String>> for RemedyAnswer {
    fn from(offer: Result<Offer, String>) -> Self {
        offer.map_or_else(RemedyAnswer::Refuse, RemedyAnswer::one)
    }
}

/// Every remedy. To add one, add it here.
pub const ALL_REMEDIES: &[&Remedy] = &[
    &jemalloc::JEMALLOC_DECAY,
    &jemalloc::JEMALLOC_BATCH,
    &jemalloc_huge::JEMALLOC_HUGE_PAGES,
    &jemalloc_huge::JEMALLOC_HUGE_METADATA,
    &glibc::GLIBC_KEEP,
    &glibc::GLIBC_HUGE_PAGES,
    &stacks::STACK_CACHE,
    &mimalloc::MIMALLOC_PURGE,
    &gperftools::RELEASE_RATE,
    &gperftools::DISABLE_RELEASE,
    &go::GOGC,
    &go::GO_TOOLCHAIN,
    &jvm::FIXED_HEAP,
    &jvm::JAVA_HUGE_PAGES,
    &jvm::PARALLEL_COLLECTOR,
    &node::SEMI_SPACE,
    &beam::ERLANG_CARRIERS,
    &cpython::PYTHON_MALLOC,
    &without::NO_MUSL_REMEDY,
    &without::NO_GOOGLE_REMEDY,
    &without::NO_NODE_REMEDY,
    &without::NO_DOTNET_REMEDY,
    &heap_trim::DROP_HEAP_TRIM,
    &shim::SHIM_CACHE,
    &shim::SHIM_ZERO,
    &shim_huge::LIBRARY_HUGE_PAGES,
    &undecayed::UNDECAYED,
    &unpurged::UNPURGED,
    &kernel::NO_HUGE_PAGES,
    &kernel::NO_MERGING,
    &kernel::LOCAL_MEMORY,
    &numpy::NUMPY_UNADVISED,
    &servers::REDIS,
    &servers::POSTGRESQL,
    &servers::MONGODB,
    &servers::CLICKHOUSE,
    &servers::MYSQL,
    &servers::ROCKSDB,
    &servers::ENVOY,
];

/// One variable as a map.
fn one_variable(variable: impl Into<String>, value: impl Into<String>) -> BTreeMap<String, String> {
    BTreeMap::from([(variable.into(), value.into())])
}
