//! Allocators and runtimes: how to recognise each, its knobs by version, and plans.
//!
//! * [`recognise_file`], [`recognise_modules`], [`recognise_process`] and [`recognise_command`] say
//!   which allocators live in a program, by reading files only.
//! * [`plan()`] chooses remedies for the software that was found, from one observed run.
//! * [`advice`] names a program's own switch where no setting reaches, by the evidence in its time.
//! * A [`Plan`] is TOML that people read and edit, an environment to start a program with, and changes to the process before
//!   it starts ([`Start`]).
//!
//! To add a remedy, add a file under `src/remedy/` and name it in `remedy::ALL_REMEDIES`; to recognise something new, add a file
//! under `src/recognise/` and name it in `recognise::ALL_RECOGNISERS`.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod advice;
mod attribute;
pub mod by_name;
mod caller;
mod ceiling;
mod choose;
mod conf;
mod copies;
pub mod emit;
mod evidence;
mod function_names;
mod owner;
mod plan;
mod plan_file;
mod possible_wins;
pub mod predict;
pub mod quote;
mod recognise;
mod remedy;
mod share;
mod software;
mod start;
pub mod table;
mod touches;
mod version;
mod words;
mod wrappers;

pub use ceiling::RemedyCeiling;
pub use choose::{PlanOptions, Proposal, choose_remedies, plan};
pub use conf::{SHIM_LIBRARY, SHIM_VARIABLE, merge_setting, single_settings};
pub use evidence::{Evidence, FEW_SHOOTDOWNS, ObservedTime, ShootdownSource};
pub use owner::{Unattributed, calling_allocator};
pub use plan::{Plan, Planned};
pub use possible_wins::{PossibleWin, possible_wins};
pub use recognise::{
    Recognised, recognise_command, recognise_file, recognise_modules, recognise_process,
};
pub use remedy::{
    ALL_REMEDIES, MemoryGrowth, Offer, Remedy, RemedyAnswer, RemedyCase, ShootdownOrigin,
};
pub use software::{FoundSoftware, Linking, SoftwareKind};
pub use start::{List, Numa, Start};
pub use touches::Touches;
pub use version::Version;
pub use wrappers::Wrappers;
