//! The parts of `quell doctor` around its rules: evidence, text, and changes that are shown before they are made.

pub(crate) mod change;
pub(crate) mod evidence;
pub(crate) mod text;
#[cfg(test)]
mod text_tests;
