//! Properties of the bins, and of the page.

mod properties;
mod written;
