//! Who is in [`Scope::Tree`](super::Scope::Tree).

use libbpf_rs::{MapCore as _, MapFlags};

use super::Probe;
use crate::error::{Error, Result};

impl Probe {
    /// Takes a process, and all that it forks from now on, into [`Scope::Tree`].
    ///
    /// # Errors
    ///
    /// If more processes are named than the probe can hold.
    pub fn add_process(&self, pid: u32) -> Result<()> {
        self.maps
            .scope_tgids
            .update(&pid.to_ne_bytes(), &[1], MapFlags::ANY)
            .map_err(Error::load("name a process to the probe"))?;
        Ok(())
    }

    /// Takes all of another probe's processes into scope. Those that one of them forks meanwhile are found at
    /// the latest when this is done again, for each probe follows those that it has.
    ///
    /// # Errors
    ///
    /// As for [`Self::add_process`].
    pub fn add_processes_of(&self, other: &Self) -> Result<()> {
        let theirs = &other.maps.scope_tgids;
        // one that ends meanwhile may end the walk of a hash table early: its neighbours are found again
        for key in theirs.keys() {
            if let Ok(pid) = key.try_into() {
                self.add_process(u32::from_ne_bytes(pid))?;
            }
        }
        Ok(())
    }
}
