//! A culprit that does one thing to one mapping.

use std::io;

use super::Culprit;
use crate::memory::LabMapping;
use crate::victim::TouchedMemory;

/// The victim's part in the mapping while it spins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VictimAccess {
    Nothing,
    Reads,
    Writes,
}

/// A mapping, and the work on it before an operation and as one.
pub(super) struct MappingCulprit<B, O> {
    pub(super) mapping: LabMapping,
    pub(super) victim: VictimAccess,
    pub(super) before: B,
    pub(super) operation: O,
}

impl<B, O> Culprit for MappingCulprit<B, O>
where
    B: FnMut(&LabMapping) -> io::Result<()> + Send,
    O: FnMut(&LabMapping) -> io::Result<()> + Send,
{
    fn prepare_operation(&mut self) -> io::Result<()> {
        (self.before)(&self.mapping)
    }

    fn run_operation(&mut self) -> io::Result<()> {
        (self.operation)(&self.mapping)
    }

    fn touched_memory(&self) -> Option<TouchedMemory> {
        let writes = self.victim == VictimAccess::Writes;
        let touches = self.victim != VictimAccess::Nothing;
        touches.then(|| TouchedMemory::new(&self.mapping, writes))
    }
}

/// Writes all pages, so that the operation finds them there.
pub(super) fn touch_before(mapping: &LabMapping) -> io::Result<()> {
    mapping.touch_pages();
    Ok(())
}

/// Leaves the mapping to the victim, or as the operation before has left it.
pub(super) fn nothing_before(_: &LabMapping) -> io::Result<()> {
    Ok(())
}
