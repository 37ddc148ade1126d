//! The program's calls, one file each.

mod advise;
mod heap;
mod map;
mod pieces;
mod protect;
mod remap;
mod unmap;
