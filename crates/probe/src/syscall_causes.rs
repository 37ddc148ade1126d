//! Which system call stands for which cause.
//!
//! Numbers from arch/x86/entry/syscalls/syscall_64.tbl and syscall_32.tbl: user ABI, never changed.

use quell_event::Cause;

use crate::layout::{self, CulpritKey};

/// The cause by the advice that `madvise(2)` got, by include/uapi/asm-generic/mman-common.h.
fn advice_cause(advice: u8) -> Cause {
    match advice {
        4 | 24 => Cause::MadviseDontneed,
        8 => Cause::MadviseFree,
        9 => Cause::MadviseRemove,
        20 => Cause::MadviseCold,
        21 => Cause::MadvisePageout,
        25 => Cause::MadviseCollapse,
        102 | 103 => Cause::MadviseGuard,
        _ => Cause::MadviseOther,
    }
}

/// The cause, as far as the system call alone decides it; `None` for calls that flush only in passing.
pub(crate) fn syscall_cause(key: &CulpritKey) -> Option<Cause> {
    if key.flags & layout::CULPRIT_EXITING != 0 {
        return Some(Cause::Exit);
    }
    if key.nr == layout::NR_FAULT || key.nr == layout::NR_KTHREAD {
        return None;
    }
    let compat = key.flags & layout::CULPRIT_COMPAT != 0;
    let cause = match (compat, key.nr) {
        (false, 11) | (true, 91) => Cause::Munmap,
        (false, 28) | (true, 219) | (_, 440) => advice_cause(key.advice),
        (false, 10 | 329) | (true, 125 | 380) => Cause::Mprotect,
        (false, 25) | (true, 163) => Cause::Mremap,
        (false, 9) | (true, 90 | 192) => Cause::Mmap,
        (false, 12) | (true, 45) => Cause::Brk,
        (false, 67) | (true, 398) => Cause::Shm,
        (false, 56..=58) | (true, 2 | 120 | 190) | (_, 435) => Cause::Fork,
        (false, 59 | 322) | (true, 11 | 358) => Cause::Exec,
        (false, 60 | 231) | (true, 1 | 252) => Cause::Exit,
        (false, 26) | (true, 144) => Cause::Writeback,
        (false, 76 | 77 | 285) | (true, 92 | 93 | 193 | 194 | 324) => Cause::Truncate,
        (false, 237 | 256 | 279) | (true, 274 | 294 | 317) => Cause::MigrateMove,
        _ => return None,
    };
    Some(cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(nr: i16, advice: u8, flags: u8) -> CulpritKey {
        CulpritKey {
            nr,
            advice,
            flags,
            ..CulpritKey::default()
        }
    }

    /// Check that the same number means what its own table says.
    #[test]
    fn tables_are_apart() {
        assert_eq!(syscall_cause(&key(11, 0, 0)), Some(Cause::Munmap));
        assert_eq!(
            syscall_cause(&key(11, 0, layout::CULPRIT_COMPAT)),
            Some(Cause::Exec)
        );
        assert_eq!(
            syscall_cause(&key(91, 0, layout::CULPRIT_COMPAT)),
            Some(Cause::Munmap)
        );
    }

    /// Check that advice is told apart, and that an exit wins over the call it happened in.
    #[test]
    fn advice_and_exit() {
        assert_eq!(syscall_cause(&key(28, 4, 0)), Some(Cause::MadviseDontneed));
        assert_eq!(syscall_cause(&key(28, 8, 0)), Some(Cause::MadviseFree));
        assert_eq!(syscall_cause(&key(440, 21, 0)), Some(Cause::MadvisePageout));
        assert_eq!(
            syscall_cause(&key(28, 4, layout::CULPRIT_EXITING)),
            Some(Cause::Exit)
        );
        assert_eq!(syscall_cause(&key(layout::NR_FAULT, 0, 0)), None);
        assert_eq!(syscall_cause(&key(0, 0, 0)), None);
    }
}
