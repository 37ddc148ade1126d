//! The code that `plan`, `run` and `prove` share: plans in files, as text and JSON, and the environment that they set.

mod environment;
mod file;
mod json;
mod text;

pub(crate) use environment::{
    Environment, overridden_settings, own_variable, setup_of, shell_exports,
};
pub(crate) use file::{read_plan, save_plan, write_plan};
pub(crate) use json::PlannedJson;
pub(crate) use text::{could_help, describe_candidates, describe_remedies, how_to_keep};
