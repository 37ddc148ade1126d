//! Memory and disk that an experiment takes, compared with the free ones before anything begins, for a machine that runs out of
//! memory kills processes of its own choice.

use std::path::PathBuf;

use crate::memory::PAGE_BYTES;
use crate::params::Params;
use crate::unnamed_file;

/// The resources of an experiment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceDemand {
    /// Bytes that a culprit may hold between its operations. There are two of them, the real one and the sham.
    pub held: u64,
    /// Bytes that an operation takes besides.
    pub once: u64,
    /// Bytes that the victim has for its own.
    pub victim: u64,
    /// Bytes on a disk, for each of the two.
    pub disk: u64,
    /// Bytes that an operation goes through, which is the measure of its work.
    pub work: u64,
}

/// An operation of more would take a minute and more, which no block has room for.
const MAX_WORK_BYTES: u64 = 64 << 30;

/// Bytes that victims and culprits take in any case: their stamps.
const STAMP_BYTES: u64 = 64 << 20;

impl ResourceDemand {
    /// The demand of a culprit that holds the pages or bytes of its parameters.
    #[must_use]
    pub fn of_params(params: &Params) -> Self {
        Self::of_memory(pages_to_bytes(params.get("pages")).saturating_add(params.get("bytes")))
    }

    /// The demand of a culprit that holds so much, and goes through it in an operation.
    #[must_use]
    pub fn of_memory(bytes: u64) -> Self {
        Self {
            held: bytes,
            work: bytes,
            ..Self::default()
        }
    }

    /// The same for a file on a disk.
    #[must_use]
    pub fn of_file(bytes: u64) -> Self {
        Self {
            disk: bytes,
            ..Self::of_memory(bytes)
        }
    }

    fn total_memory(&self) -> u64 {
        [self.held, self.once, self.victim, STAMP_BYTES]
            .iter()
            .fold(self.held, |sum, bytes| sum.saturating_add(*bytes))
    }

    /// Why this machine has not enough room, if it has not.
    #[must_use]
    pub fn shortage(&self) -> Option<String> {
        self.shortage_in(quell_host::memory::available_bytes(), free_disk())
    }

    fn shortage_in(&self, memory: Option<u64>, disk: Option<(u64, PathBuf)>) -> Option<String> {
        if self.work > MAX_WORK_BYTES {
            return Some(format!(
                "an operation would go through {}, and {} are the most that make sense: take less",
                in_mebibytes(self.work),
                in_mebibytes(MAX_WORK_BYTES)
            ));
        }
        // A tenth is left to everybody else.
        let enough = |bytes: u64, there: u64| bytes <= there / 10 * 9;
        if let Some(there) = memory
            && !enough(self.total_memory(), there)
        {
            return Some(format!(
                "it takes {} of memory, and of {} that are to be had a tenth is left to others: take less (--set)",
                in_mebibytes(self.total_memory()),
                in_mebibytes(there)
            ));
        }
        let files = self.disk.saturating_mul(2);
        match disk {
            Some((there, folder)) if files > 0 && !enough(files, there) => Some(format!(
                "it takes {} of disk, and of {} that are free in {} a tenth is left to others: take less (--set)",
                in_mebibytes(files),
                in_mebibytes(there),
                folder.display()
            )),
            _ => None,
        }
    }
}

/// The bytes of so many pages.
#[must_use]
pub fn pages_to_bytes(pages: u64) -> u64 {
    pages.saturating_mul(PAGE_BYTES as u64)
}

fn in_mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
}

/// The free bytes of the folder for files, and that folder.
fn free_disk() -> Option<(u64, PathBuf)> {
    unnamed_file::file_folders().into_iter().find_map(|folder| {
        let there = rustix::fs::statvfs(&folder).ok()?;
        Some((there.f_bavail.saturating_mul(there.f_frsize), folder))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mechanism;

    /// Check that both culprits are counted, the victim once, that a tenth is left, and that what can't be known
    /// refuses nothing.
    #[test]
    fn little_room_is_said() {
        let takes = ResourceDemand {
            held: 1 << 30,
            victim: 1 << 30,
            ..ResourceDemand::default()
        };
        let why = |memory| takes.shortage_in(memory, None);
        assert_eq!(why(None), None);
        assert_eq!(why(Some(4 << 30)), None);
        let said = why(Some(3 << 30)).unwrap();
        assert!(
            said.contains("3136 MiB") && said.contains("3072 MiB"),
            "{said}"
        );
        let file = ResourceDemand::of_file(1 << 30);
        let disk = |bytes| file.shortage_in(None, Some((bytes, "/var/tmp".into())));
        assert_eq!(disk(4 << 30), None);
        assert!(disk(2 << 30).unwrap().contains("/var/tmp"));
    }

    /// Check that the defaults of every experiment have room on a machine of 16 GB, and that parameters whose product
    /// is too much are refused on one of 8 GB, though each alone is in its range.
    #[test]
    fn products_are_bounded() {
        for m in mechanism::ALL_MECHANISMS {
            let defaults = Params::new(m.params, &[]).unwrap();
            let room = Some(16 << 30);
            let lacks = (m.takes)(&defaults).shortage_in(room, Some((1 << 30, "/".into())));
            assert_eq!(lacks, None, "{}", m.name);
        }
        let refused = |name: &str, said: &[(&str, u64)]| {
            let m = mechanism::mechanism_by_name(name).unwrap();
            let said: Vec<_> = said.iter().map(|(n, v)| ((*n).to_owned(), *v)).collect();
            let params = Params::new(m.params, &said).unwrap();
            let lacks = (m.takes)(&params).shortage_in(Some(8 << 30), Some((1 << 30, "/".into())));
            assert!(lacks.is_some(), "{name} {said:?}");
        };
        refused("alloc-free", &[("bytes", 16 << 30), ("chunks", 1 << 16)]);
        refused("alloc-free", &[("bytes", 1 << 20), ("chunks", 1 << 14)]);
        refused("munmap", &[("bytes", 64 << 30)]);
        refused("numa-balancing", &[("pages", 1 << 20)]);
        refused("compact", &[("pages", 1 << 20)]);
        refused(
            "convoy",
            &[("threads", 256), ("times", 1024), ("pages", 8192)],
        );
        refused("seed-writeback", &[("bytes", 1 << 30)]);
        refused("seed-free", &[("bytes", 8 << 30)]);
    }
}
