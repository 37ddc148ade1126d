//! Which of the C library's functions about memory a file may call.
//!
//! Code without frame pointers hides who called it: a stack that goes from `munmap` to a program's own function may
//! have left out `free` between the two. A file that does not name `munmap` can't have called it.

use quell_event::Cause;
use quell_host::elf::ElfFile;

/// The functions that a file names among its dynamic symbols. A static program has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wrappers(u8);

const UNMAP_BIT: u8 = 1;
const ADVISE_BIT: u8 = 2;
const REMAP_BIT: u8 = 4;
const PROTECT_BIT: u8 = 8;
const MAP_BIT: u8 = 16;
const BRK_BIT: u8 = 32;
/// Any of them.
const ANY_BIT: u8 = 64;
const TRIM_BIT: u8 = 128;

/// `madvise` is the end of `posix_madvise` too, and `brk` of `sbrk`: linkers share the tails of names, so a name
/// that ends like one counts.
const FUNCTION_BITS: [(&[u8], u8); 9] = [
    (b"munmap\0", UNMAP_BIT),
    (b"madvise\0", ADVISE_BIT),
    (b"mremap\0", REMAP_BIT),
    (b"mprotect\0", PROTECT_BIT),
    (b"mmap\0", MAP_BIT),
    (b"mmap64\0", MAP_BIT),
    (b"brk\0", BRK_BIT),
    (b"syscall\0", ANY_BIT),
    (b"malloc_trim\0", TRIM_BIT),
];

impl Wrappers {
    /// Those of a file; none where it has no dynamic symbols.
    pub(crate) fn of_file(elf: &ElfFile) -> Option<Self> {
        elf.section_contents(".dynstr").map(Self::from_names)
    }

    pub(crate) fn from_names(names: &[u8]) -> Self {
        let there = |name: &[u8]| memchr::memmem::find(names, name).is_some();
        let named = FUNCTION_BITS.iter().filter(|(name, _)| there(name));
        Wrappers(named.fold(0, |all, (_, one)| all | one))
    }

    /// Whether its code may call malloc_trim(3). syscall(2) does not do that.
    pub(crate) fn may_trim(self) -> bool {
        self.0 & TRIM_BIT != 0
    }

    /// Whether its code may have called for this itself. True for causes that come by none of these functions.
    pub(crate) fn may_ask(self, cause: Cause) -> bool {
        let by = match cause {
            Cause::Munmap => UNMAP_BIT,
            Cause::MadviseDontneed | Cause::MadviseFree | Cause::MadviseOther => ADVISE_BIT,
            Cause::Mremap => REMAP_BIT,
            Cause::Mprotect => PROTECT_BIT,
            Cause::Mmap => MAP_BIT,
            Cause::Brk => BRK_BIT,
            _ => return true,
        };
        self.0 & (by | ANY_BIT) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that a name counts whole or as the end of another, and not as a part.
    #[test]
    fn by_name() {
        let all = Wrappers::from_names(b"\0munmap\0posix_madvise\0mmapped\0");
        assert!(all.may_ask(Cause::Munmap) && all.may_ask(Cause::MadviseFree));
        assert!(!all.may_ask(Cause::Mmap) && !all.may_ask(Cause::Brk));
        assert!(Wrappers::from_names(b"\0syscall\0").may_ask(Cause::Mremap));
        assert!(all.may_ask(Cause::Fork) && !all.may_trim());
        assert!(Wrappers::from_names(b"\0malloc_trim\0").may_trim());
    }

    /// Check with real files that one which unmaps differs from one which does not.
    #[test]
    fn of_files() {
        let this = ElfFile::open(&std::env::current_exe().unwrap()).unwrap();
        assert!(Wrappers::of_file(&this).unwrap().may_ask(Cause::Munmap));
        let shell = ElfFile::open(std::path::Path::new("/bin/true")).unwrap();
        assert!(!Wrappers::of_file(&shell).unwrap().may_ask(Cause::Munmap));
    }
}
