//! Who is in [`Scope::Tree`](super::Scope::Tree).

use libbpf_rs::{MapCore as _, MapFlags};

use quell_host::proc::Proc;

use super::{Maps, Probe};
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
        // Twice: the second time finds those that were forked while their parents were not named here yet, and
        // those behind one that ended, which may end the walk of a hash table early.
        for _ in 0..2 {
            for key in theirs.keys() {
                if let Ok(pid) = key.try_into() {
                    self.add_process(u32::from_ne_bytes(pid))?;
                }
            }
        }
        // who ended between the two steps of naming is not to be taken for a stranger of that number
        for key in ours.keys() {
            let known = theirs.lookup(&key, MapFlags::ANY);
            if known
                .map_err(Error::load("look for a process in scope"))?
                .is_none()
            {
                // gone meanwhile: the kernel side does so as well
                let _ = ours.delete(&key);
            }
        }
        Ok(())
    }
}

impl Maps {
    /// Whether a process is none of those in [`Scope::Tree`](super::Scope::Tree), and only shot at them. None where
    /// that can't be told: it has ended, and the kernel side forgets it then (sched_process_free, kernel/exit.c:
    /// delayed_put_task_struct()).
    pub(crate) fn is_stranger(&self, proc: &Proc, pid: u32) -> Option<bool> {
        if !self.tree {
            return Some(false);
        }
        match self.scope_tgids.lookup(&pid.to_ne_bytes(), MapFlags::ANY) {
            Ok(Some(_)) => Some(false),
            // looked for afterwards: while it is there, its number is nobody else's
            Ok(None) => proc.exists(pid).then_some(true),
            Err(_) => None,
        }
    }
}
