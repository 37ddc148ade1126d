//! A trace as one HTML page that needs nothing but a browser; and so are results of the lab ([`lab`]).
//!
//! Rows are summed while they are read: into *bins* of time for the timeline, and into *steps*, some bins each, for everything
//! else that a brush on the timeline filters. Each stack, process and CPU has an amount for each step in which it did something.
//! Both have bounds: where they are reached, steps become longer, and then the rarest of them are folded into "other". The page
//! says so, and sums stay exact.

mod about;
mod bins;
mod cells;
mod data;
mod document;
mod folding_map;
mod keys;
pub mod lab;
mod limits;
mod matrix;
mod names;
mod page;
mod series;
mod shots;
mod spent;
mod spread;

#[cfg(test)]
mod tests;

pub use about::{About, NameSource};
pub use bins::Binner;
pub use limits::PageLimits;
