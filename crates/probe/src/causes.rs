//! The cause of a culprit, from its key in the probe's tables.
//!
//! Mostly the system call tells. Where it can't (a fault, a kernel thread, a batched flush), the
//! kernel stack does: the probe counts such culprits apart by stack, and here the functions on it
//! are looked up.

use std::cell::RefCell;
use std::rc::{Rc, Weak};

use blazesym::symbolize::source::{Kernel, Source};
use blazesym::symbolize::{Input, Symbolizer};
use quell_event::{Cause, Comm};

use crate::bpf_maps::{ProbeMaps, read_value, stack_addresses};
use crate::error::{Error, Result};
use crate::layout::{self, CulpritInfo};
use crate::stack_causes;
use crate::syscall_causes;

/// A culprit of the tallies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TalliedCulprit {
    pub(crate) pid: u32,
    pub(crate) comm: String,
    pub(crate) cgroup: u64,
    pub(crate) cause: Cause,
    /// For [`Cause::Other`]: the kernel function that asked.
    pub(crate) detail: Option<String>,
    pub(crate) syscall: i16,
}

/// The facts about a culprit that never change.
#[derive(Clone)]
struct KnownCulprit {
    cause: Cause,
    detail: Option<String>,
    syscall: i16,
}

/// Looks up causes by the probe's index of a culprit, each once.
pub(crate) struct Causes {
    maps: Option<Rc<ProbeMaps>>,
    known: Vec<Option<KnownCulprit>>,
    symbolizer: Rc<Symbolizer>,
}

thread_local! {
    static SHARED_SYMBOLIZER: RefCell<Weak<Symbolizer>> = const { RefCell::new(Weak::new()) };
}

/// The reader of the names of the kernel's functions. The names take 8 MB of memory, so all users on a thread share one reader,
/// for as long as any of them lives.
fn shared_symbolizer() -> Rc<Symbolizer> {
    SHARED_SYMBOLIZER.with_borrow_mut(|known| {
        known.upgrade().unwrap_or_else(|| {
            let reader = Rc::new(Symbolizer::new());
            *known = Rc::downgrade(&reader);
            reader
        })
    })
}

impl Causes {
    pub(crate) fn new(maps: Rc<ProbeMaps>) -> Self {
        Self {
            maps: Some(maps),
            known: Vec::new(),
            symbolizer: shared_symbolizer(),
        }
    }

    /// Without the probe's maps, for the names of kernel functions alone.
    pub(crate) fn unattached() -> Self {
        Self {
            maps: None,
            known: Vec::new(),
            symbolizer: shared_symbolizer(),
        }
    }

    /// The cause and the system call alone: cheap enough for every record.
    pub(crate) fn cause_and_syscall(&mut self, index: u32) -> (Cause, i16) {
        if let Some(Some(known)) = self.known.get(index as usize) {
            return (known.cause, known.syscall);
        }
        self.find_culprit(index)
            .map_or((Cause::Other, layout::NR_FAULT), |c| (c.cause, c.syscall))
    }

    /// The name that a culprit was last seen with.
    pub(crate) fn culprit_comm(&self, index: u32) -> Option<Comm> {
        let bytes = read_value(&self.maps.as_ref()?.culprit_infos, index).ok()?;
        layout::read_pod::<CulpritInfo>(&bytes).map(|info| Comm(info.comm))
    }

    /// All facts about a culprit.
    pub(crate) fn find_culprit(&mut self, index: u32) -> Result<TalliedCulprit> {
        if index == 0 {
            return Ok(TalliedCulprit {
                pid: 0,
                comm: quell_event::CROWDED_NAME.to_owned(),
                cgroup: 0,
                cause: Cause::Other,
                detail: Some("too many culprits to tell apart".to_owned()),
                syscall: layout::NR_FAULT,
            });
        }
        let bytes = match &self.maps {
            Some(maps) => read_value(&maps.culprit_infos, index)?,
            None => Vec::new(),
        };
        let info: CulpritInfo = layout::read_pod(&bytes).unwrap_or_default();
        let slot = index as usize;
        if self.known.len() <= slot {
            self.known.resize(slot + 1, None);
        }
        let known = match &self.known[slot] {
            Some(known) => known.clone(),
            None => {
                let (cause, detail) = self.find_cause(&info)?;
                let syscall = info.key.nr;
                let known = KnownCulprit {
                    cause,
                    detail,
                    syscall,
                };
                self.known[slot] = Some(known.clone());
                known
            }
        };
        Ok(TalliedCulprit {
            pid: info.key.tgid,
            comm: Comm(info.comm).as_text().into_owned(),
            cgroup: info.cgroup,
            cause: known.cause,
            detail: known.detail,
            syscall: known.syscall,
        })
    }

    fn find_cause(&self, info: &CulpritInfo) -> Result<(Cause, Option<String>)> {
        let key = &info.key;
        if key.nr == layout::NR_KERNEL {
            return Ok((Cause::Kernel, None));
        }
        let by_call = syscall_causes::syscall_cause(key);
        if key.kstack < 0 {
            let unknown = || (Cause::Other, Some("stack lost".to_owned()));
            return Ok(by_call.map_or_else(unknown, |cause| (cause, None)));
        }
        let names = self.kernel_stack(key.kstack)?;
        if let Some(cause) = stack_causes::stack_cause(&names, by_call) {
            return Ok((cause, None));
        }
        Ok((
            Cause::Other,
            Some(stack_causes::first_telling_function(&names).to_owned()),
        ))
    }

    /// The functions of a kernel stack, innermost first; addresses where there is no name.
    pub(crate) fn kernel_stack(&self, id: i32) -> Result<Vec<String>> {
        let Some(maps) = &self.maps else {
            return Ok(Vec::new());
        };
        let addresses = stack_addresses(&maps.stacks, id)?;
        self.kernel_names(&addresses)
    }

    /// The functions at these kernel addresses; the address where there is no name.
    pub(crate) fn kernel_names(&self, addresses: &[u64]) -> Result<Vec<String>> {
        let names = self.kernel_symbols(addresses)?;
        Ok(names_or_addresses(&names, addresses))
    }

    /// The functions at these kernel addresses, where they have names.
    pub(crate) fn kernel_symbols(&self, addresses: &[u64]) -> Result<Vec<Option<String>>> {
        let source = Source::Kernel(Kernel {
            // Functions are enough, and a vmlinux that doesn't match would mislead.
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

/// The names, with the address where there is no name.
pub(crate) fn names_or_addresses(names: &[Option<String>], addresses: &[u64]) -> Vec<String> {
    let name = |(name, address): (&Option<String>, &u64)| {
        name.clone().unwrap_or_else(|| format!("{address:#x}"))
    };
    names.iter().zip(addresses).map(name).collect()
}
