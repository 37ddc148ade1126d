//! What `quell agent` reads of this host. What is told of it, and to whom, is the crate quell-agent's.

pub(crate) mod figures;
pub(crate) mod look_back;
pub(crate) mod own;
pub(crate) mod recorder;
pub(crate) mod source;
pub(crate) mod watch;
