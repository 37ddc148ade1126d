//! From what the probe saw of a culprit to the cause.
//!
//! Mostly the system call tells. Where it can't (a fault, a kernel thread, a batched flush), the
//! kernel stack does: the probe counts such culprits apart by stack, and here the functions on it
//! are looked up.

use std::cell::RefCell;
use std::rc::{Rc, Weak};

use blazesym::symbolize::source::{Kernel, Source};
use blazesym::symbolize::{Input, Symbolizer};
use libbpf_rs::MapHandle;
use quell_event::{Cause, Comm};

use crate::calls;
use crate::error::{Error, Result};
use crate::frames;
use crate::layout::{self, CulpritInfo};
use crate::loader::{Maps, lookup};

/// A culprit of the tallies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Culprit {
    pub(crate) pid: u32,
    pub(crate) comm: String,
    pub(crate) cgroup: u64,
    pub(crate) cause: Cause,
    /// For [`Cause::Other`]: the kernel function that asked.
    pub(crate) detail: Option<String>,
    pub(crate) syscall: i16,
}

/// What of a culprit never changes.
#[derive(Clone)]
struct Known {
    cause: Cause,
    detail: Option<String>,
    syscall: i16,
}

/// Looks up causes by the probe's index of a culprit, each once.
pub(crate) struct Causes {
    maps: Option<Rc<Maps>>,
    known: Vec<Option<Known>>,
    symbolizer: Rc<Symbolizer>,
}

thread_local! {
    static READER: RefCell<Weak<Symbolizer>> = const { RefCell::new(Weak::new()) };
}

/// Reads the names of the kernel's functions. Those are 8 MB of memory, so that all of a thread have one reader in common, for as
/// long as any of them lives.
fn kernel_names_reader() -> Rc<Symbolizer> {
    READER.with_borrow_mut(|known| {
        known.upgrade().unwrap_or_else(|| {
            let reader = Rc::new(Symbolizer::new());
            *known = Rc::downgrade(&reader);
            reader
        })
    })
}

impl Causes {
    pub(crate) fn new(maps: Rc<Maps>) -> Self {
        Self {
            maps: Some(maps),
            known: Vec::new(),
            symbolizer: kernel_names_reader(),
        }
    }

    /// Knows nobody: for names alone.
    pub(crate) fn unattached() -> Self {
        Self {
            maps: None,
            known: Vec::new(),
            symbolizer: kernel_names_reader(),
        }
    }

    /// The cause and the system call alone: cheap enough for every record.
    pub(crate) fn cause(&mut self, index: u32) -> (Cause, i16) {
        if let Some(Some(known)) = self.known.get(index as usize) {
            return (known.cause, known.syscall);
        }
        self.culprit(index)
            .map_or((Cause::Other, layout::NR_FAULT), |c| (c.cause, c.syscall))
    }

    /// The name that a culprit was last seen with.
    pub(crate) fn comm(&self, index: u32) -> Option<Comm> {
        let bytes = lookup(&self.maps.as_ref()?.culprit_infos, index).ok()?;
        layout::read::<CulpritInfo>(&bytes).map(|info| Comm(info.comm))
    }

    /// Everything about a culprit.
    pub(crate) fn culprit(&mut self, index: u32) -> Result<Culprit> {
        if index == 0 {
            return Ok(Culprit {
                pid: 0,
                comm: quell_event::MORE.to_owned(),
                cgroup: 0,
                cause: Cause::Other,
                detail: Some("too many culprits to tell apart".to_owned()),
                syscall: layout::NR_FAULT,
            });
        }
        let bytes = match &self.maps {
            Some(maps) => lookup(&maps.culprit_infos, index)?,
            None => Vec::new(),
        };
        let info: CulpritInfo = layout::read(&bytes).unwrap_or_default();
        let slot = index as usize;
        if self.known.len() <= slot {
            self.known.resize(slot + 1, None);
        }
        let known = match &self.known[slot] {
            Some(known) => known.clone(),
            None => {
                let (cause, detail) = self.find(&info)?;
                let syscall = info.key.nr;
                let known = Known {
                    cause,
                    detail,
                    syscall,
                };
                self.known[slot] = Some(known.clone());
                known
            }
        };
        Ok(Culprit {
            pid: info.key.tgid,
            comm: Comm(info.comm).text().into_owned(),
            cgroup: info.cgroup,
            cause: known.cause,
            detail: known.detail,
            syscall: known.syscall,
        })
    }

    fn find(&self, info: &CulpritInfo) -> Result<(Cause, Option<String>)> {
        let key = &info.key;
        if key.nr == layout::NR_KERNEL {
            return Ok((Cause::Kernel, None));
        }
        let by_call = calls::cause_of(key);
        if key.kstack < 0 {
            let unknown = || (Cause::Other, Some("stack lost".to_owned()));
            return Ok(by_call.map_or_else(unknown, |cause| (cause, None)));
        }
        let names = self.kernel_stack(key.kstack)?;
        if let Some(cause) = frames::cause_of(&names, by_call) {
            return Ok((cause, None));
        }
        Ok((Cause::Other, Some(frames::top(&names).to_owned())))
    }

    /// The functions of a kernel stack, innermost first; addresses where there is no name.
    pub(crate) fn kernel_stack(&self, id: i32) -> Result<Vec<String>> {
        let Some(maps) = &self.maps else {
            return Ok(Vec::new());
        };
        let addresses = stack(&maps.stacks, id)?;
        self.kernel_names(&addresses)
    }

    /// The functions at these kernel addresses; the address where there is no name.
    pub(crate) fn kernel_names(&self, addresses: &[u64]) -> Result<Vec<String>> {
        let names = self.kernel_symbols(addresses)?;
        Ok(or_addresses(&names, addresses))
    }

    /// The functions at these kernel addresses, where they have names.
    pub(crate) fn kernel_symbols(&self, addresses: &[u64]) -> Result<Vec<Option<String>>> {
        let source = Source::Kernel(Kernel {
            // functions are enough, and a vmlinux that doesn't match would mislead
            vmlinux: blazesym::MaybeDefault::None,
            ..Kernel::default()
        });
        let found = self
            .symbolizer
            .symbolize(&source, Input::AbsAddr(addresses))
            .map_err(Error::Symbols)?;
        Ok(found
            .iter()
            .map(|sym| sym.as_sym().map(|s| s.name.clone().into_owned()))
            .collect())
    }
}

/// Names, with the address where there is none.
pub(crate) fn or_addresses(names: &[Option<String>], addresses: &[u64]) -> Vec<String> {
    let name = |(name, address): (&Option<String>, &u64)| {
        name.clone().unwrap_or_else(|| format!("{address:#x}"))
    };
    names.iter().zip(addresses).map(name).collect()
}

/// The addresses of a stack, innermost first.
pub(crate) fn stack(stacks: &MapHandle, id: i32) -> Result<Vec<u64>> {
    let Ok(id) = u32::try_from(id) else {
        return Ok(Vec::new());
    };
    Ok(lookup(stacks, id)?
        .chunks_exact(8)
        .map(|w| {
            let mut word = [0; 8];
            word.copy_from_slice(w);
            u64::from_ne_bytes(word)
        })
        .take_while(|&a| a != 0)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that the kernel's names are read once for all who live at a time, and anew once nobody does.
    #[test]
    fn names_are_shared() {
        let (one, other) = (Causes::unattached(), Causes::unattached());
        assert!(Rc::ptr_eq(&one.symbolizer, &other.symbolizer));
        let shared = Rc::downgrade(&one.symbolizer);
        drop((one, other));
        assert!(shared.upgrade().is_none());
    }
}
