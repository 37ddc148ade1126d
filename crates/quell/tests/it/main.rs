//! The binary as its users see it. One program, for every one links all of quell.

mod causes;
mod common;
mod exact;
mod input;
mod interrupt;
mod prove;
mod run;
