//! The processes in [`Scope::Tree`](super::Scope::Tree).

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

    /// Takes all of another probe's processes into scope, of which none may be yet.
    ///
    /// # Errors
    ///
    /// As for [`Self::add_process`].
    pub fn add_processes_of(&self, other: &Self) -> Result<()> {
        let (ours, theirs) = (&self.maps.scope_tgids, &other.maps.scope_tgids);
        // The second time finds the processes that were forked while their parents were not named here yet, and
        // those behind one that ended, which may end the walk of a hash table early.
        for _ in 0..2 {
            for key in theirs.keys() {
                if let Ok(pid) = key.try_into() {
                    self.add_process(u32::from_ne_bytes(pid))?;
                }
            }
        }
        // A process that ended between the two steps must not be taken for a stranger that gets its number.
        for key in ours.keys() {
            let known = theirs.lookup(&key, MapFlags::ANY);
            if known
                .map_err(Error::load("look for a process in scope"))?
                .is_none()
            {
                // It may be gone meanwhile: the programs delete it as well.
                let _ = ours.delete(&key);
            }
        }
        Ok(())
    }
}
