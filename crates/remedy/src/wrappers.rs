//! Which of the C library's functions about memory a file may call.
//!
//! Code without frame pointers hides who called it: a stack that goes from `munmap` to a program's own function may
//! have left out `free` between the two. A file that does not name `munmap` can't have called it.

use quell_event::Cause;
use quell_host::elf::ElfFile;

/// The functions that a file names among its dynamic symbols. A static program's are not told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wrappers(u8);

const UNMAP: u8 = 1;
const ADVISE: u8 = 2;
const REMAP: u8 = 4;
const PROTECT: u8 = 8;
const MAP: u8 = 16;
const BREAK: u8 = 32;
/// Any of them.
const ANY: u8 = 64;
const TRIM: u8 = 128;

/// `madvise` is the end of `posix_madvise` too, and `brk` of `sbrk`: linkers share the tails of names, so a name
/// that ends like one counts.
const NAMES: [(&[u8], u8); 9] = [
    (b"munmap\0", UNMAP),
    (b"madvise\0", ADVISE),
    (b"mremap\0", REMAP),
    (b"mprotect\0", PROTECT),
    (b"mmap\0", MAP),
    (b"mmap64\0", MAP),
    (b"brk\0", BREAK),
    (b"syscall\0", ANY),
    (b"malloc_trim\0", TRIM),
];

impl Wrappers {
    /// Those of a file; none where it has no dynamic symbols.
    pub(crate) fn of(elf: &ElfFile) -> Option<Self> {
        elf.section(".dynstr").map(Self::named)
    }

    pub(crate) fn named(names: &[u8]) -> Self {
        let there = |name: &[u8]| memchr::memmem::find(names, name).is_some();
        let named = NAMES.iter().filter(|(name, _)| there(name));
        Wrappers(named.fold(0, |all, (_, one)| all | one))
    }

    /// Whether its code may call malloc_trim(3). syscall(2) does not do that.
    pub(crate) fn may_trim(self) -> bool {
        self.0 & TRIM != 0
    }

    /// Whether its code may have asked for this by itself.
    pub(crate) fn may_ask(self, cause: Cause) -> bool {
        let by = match cause {
            Cause::Munmap => UNMAP,
            Cause::MadviseDontneed | Cause::MadviseFree | Cause::MadviseOther => ADVISE,
            Cause::Mremap => REMAP,
            Cause::Mprotect => PROTECT,
            Cause::Mmap => MAP,
            Cause::Brk => BREAK,
            _ => return true,
        };
        self.0 & (by | ANY) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that a name counts whole or as the end of another, and not as a part.
    #[test]
    fn by_name() {
        let all = Wrappers::named(b"\0munmap\0posix_madvise\0mmapped\0");
        assert!(all.may_ask(Cause::Munmap) && all.may_ask(Cause::MadviseFree));
        assert!(!all.may_ask(Cause::Mmap) && !all.may_ask(Cause::Brk));
        assert!(Wrappers::named(b"\0syscall\0").may_ask(Cause::Mremap));
        assert!(all.may_ask(Cause::Fork) && !all.may_trim());
        assert!(Wrappers::named(b"\0malloc_trim\0").may_trim());
    }

    /// Check that of real files the one that unmaps is told from one that does not.
    #[test]
    fn of_files() {
        let this = ElfFile::open(&std::env::current_exe().unwrap()).unwrap();
        assert!(Wrappers::of(&this).unwrap().may_ask(Cause::Munmap));
        let shell = ElfFile::open(std::path::Path::new("/bin/true")).unwrap();
        assert!(!Wrappers::of(&shell).unwrap().may_ask(Cause::Munmap));
    }
}
