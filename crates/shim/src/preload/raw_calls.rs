//! Ways past the functions about memory: syscall(2), prctl(2), shmat(2), posix_madvise(3), process_madvise(2), vmsplice(2),
//! setsockopt(2), ioctl(2) of userfaultfd, and limits.
//!
//! Programs call them where libc had no function when they were written, and their effect on a range would be unknown:
//! it would be served later with an attribute that nobody asked for.

use core::arch::naked_asm;
use core::ffi::{c_int, c_long, c_void};

use super::{
    change_unfollowed_for_c, madvise, mbind, mlockall, mmap, mprotect, mremap, munmap,
    pkey_mprotect, shim_of_process, to_c_status,
};
use crate::Part;
use crate::kernel::{Errno, Kernel};
use crate::os::{nr, syscall as raw};

/// Those of syscall(2) that are looked at, a bit each.
static LOOKED_AT: [u64; 8] = {
    use nr::*;
    let all = [
        MMAP,
        MPROTECT,
        IOCTL,
        MUNMAP,
        MREMAP,
        MADVISE,
        SHMAT,
        SETSOCKOPT,
        SETRLIMIT,
        IO_SETUP,
        PRLIMIT64,
        IO_URING_SETUP,
        IO_URING_REGISTER,
        PROCESS_MADVISE,
        MLOCK,
        MLOCKALL,
        PRCTL,
        REMAP_FILE_PAGES,
        MBIND,
        SET_MEMPOLICY,
        VMSPLICE,
        SECCOMP,
        USERFAULTFD,
        MLOCK2,
        PKEY_MPROTECT,
        SET_MEMPOLICY_HOME_NODE,
        MSEAL,
    ];
    let mut bits = [0; 8];
    let mut n = 0;
    while n < all.len() {
        bits[all[n] / 64] |= 1 << (all[n] % 64);
        n += 1;
    }
    bits
};

/// syscall(2). In the C library it has no frame of its own, and some calls need that it has none:
/// vfork(2) returns twice to the caller. So all others are made here as there. Whoever unwinds the stack of a thread that waits
/// in one, as pthread_cancel(3), backtrace(3) and exceptions from signal handlers do, finds its way by the `.cfi` directives.
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn syscall() {
    naked_asm!(
        ".cfi_startproc",
        "endbr64",
        "cmp rdi, 511",
        "ja 2f",
        "lea rax, [rip + {looked_at}]",
        "bt qword ptr [rax], rdi",
        "jc {ours}",
        "2:",
        "mov rax, rdi",
        "mov rdi, rsi",
        "mov rsi, rdx",
        "mov rdx, rcx",
        "mov r10, r8",
        "mov r8, r9",
        "mov r9, [rsp + 8]",
        "syscall",
        "cmp rax, -4095",
        "jae 3f",
        "ret",
        "3:",
        "neg eax",
        "push rax",
        ".cfi_adjust_cfa_offset 8",
        "call {errno}@PLT",
        "pop rcx",
        ".cfi_adjust_cfa_offset -8",
        "mov dword ptr [rax], ecx",
        "mov rax, -1",
        "ret",
        ".cfi_endproc",
        looked_at = sym LOOKED_AT,
        ours = sym handle_syscall,
        errno = sym super::__errno_location,
    )
}

/// Nothing more is kept from now on: the kernel may read or write pages of the program's also after they are unmapped.
fn keep_nothing() {
    // Once is enough, and a server may do it for each connection.
    if let Some(shim) = shim_of_process().filter(|shim| !shim.is_retired()) {
        shim.stop_keeping();
    }
}

/// As if a filter of system calls had come, which may kill for a call that it does not expect: nothing is kept any
/// more, and the kernel is asked for no more than the program asks for.
fn step_back() {
    if let Some(shim) = shim_of_process() {
        // Before it comes the kernel can still be asked whose kept memory is, which is then given back.
        shim.stop_keeping();
        shim.kernel().filter_comes();
    }
}

/// A call that is looked at, with the arguments of syscall(2).
unsafe extern "C" fn handle_syscall(
    number: usize,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    let args = [a, b, c, d, e, f];
    let int = |n: usize| n as c_int;
    // SAFETY: the program's own call.
    unsafe {
        match number {
            nr::MMAP => mmap(a, b, int(c), int(d), int(e), f as i64) as c_long,
            nr::MPROTECT => c_long::from(mprotect(a, b, int(c))),
            nr::MUNMAP => c_long::from(munmap(a, b)),
            nr::MREMAP => mremap(a, b, c, int(d), e) as c_long,
            nr::MADVISE => c_long::from(madvise(a, b, int(c))),
            nr::SHMAT => shmat(int(a), b, int(c)) as c_long,
            nr::PKEY_MPROTECT => c_long::from(pkey_mprotect(a, b, int(c), int(d))),
            nr::SETSOCKOPT => c_long::from(setsockopt(int(a), int(b), int(c), d, e as u32)),
            nr::VMSPLICE => vmsplice(int(a), b as *const Part, c, d as u32) as c_long,
            nr::PRCTL => c_long::from(prctl(int(a), b, c, d, e)),
            nr::MBIND => mbind(a, b, int(c), d, e, f as u32) as c_long,
            nr::SET_MEMPOLICY => {
                // Kept memory may be of another node than the program wants from now on.
                if a != 0
                    && let Some(shim) = shim_of_process()
                {
                    shim.stop_keeping();
                }
                number_or_error(raw(number, args))
            }
            nr::SETRLIMIT => c_long::from(with_limit(number, args, is_of_mappings(int(a)))),
            nr::PRLIMIT64 => c_long::from(prlimit(int(a), int(b), c, d)),
            nr::PROCESS_MADVISE => {
                process_madvise(int(a), b as *const Part, c, int(d), e as u32) as c_long
            }
            nr::IO_SETUP | nr::IO_URING_SETUP | nr::IO_URING_REGISTER => {
                // It reads and writes pages then, also such as are unmapped meanwhile.
                keep_nothing();
                number_or_error(raw(number, args))
            }
            nr::IOCTL => c_long::from(ioctl(int(a), b, c)),
            nr::MLOCKALL => c_long::from(mlockall(int(a))),
            nr::SECCOMP | nr::USERFAULTFD => {
                step_back();
                number_or_error(raw(number, args))
            }
            // These are of an address and a length and return 0: mlock(2), mlock2(2), mseal(2), remap_file_pages(2) and
            // set_mempolicy_home_node(2).
            _ => c_long::from(change_unfollowed_for_c(number, args)),
        }
    }
}

unsafe fn number_or_error(done: Result<usize, Errno>) -> c_long {
    match done {
        Ok(number) => number as c_long,
        // SAFETY: this thread's errno.
        Err(why) => c_long::from(unsafe { to_c_status(Err(why)) }),
    }
}

/// A call that sets a limit of the process, if it does.
unsafe fn with_limit(number: usize, args: [usize; 6], sets: bool) -> c_int {
    // SAFETY: the program's own call.
    let call = || unsafe { raw(number, args) };
    let done = match shim_of_process() {
        Some(shim) if sets => shim.with_limit_set(call),
        _ => call(),
    };
    // SAFETY: this thread's errno.
    unsafe { to_c_status(done.map(drop)) }
}

/// Limits of mappings, of getrlimit(2).
fn is_of_mappings(resource: c_int) -> bool {
    const RLIMIT_DATA: c_int = 2;
    const RLIMIT_AS: c_int = 9;
    matches!(resource, RLIMIT_DATA | RLIMIT_AS)
}

/// Forgets the ranges of an array of the program's, as they are about to be changed or lent, and has kept memory there unmapped.
/// False if one can't be. With more of them than the kernel takes nothing is done, as it refuses the call.
unsafe fn forget_parts(parts: *const Part, count: usize) -> bool {
    /// No more are taken (UIO_MAXIOV).
    const MAX_PARTS: usize = 1024;
    // Under a filter nothing is kept or zeroed, so the table's knowledge does not matter; nor can the array be read
    // then without a fault where it is not there.
    let Some(shim) =
        shim_of_process().filter(|shim| count <= MAX_PARTS && !shim.kernel().is_filtered())
    else {
        return true;
    };
    for n in 0..count {
        // Where there is nothing to read the kernel says so.
        let Some(part) = shim
            .kernel()
            .part_at(parts as usize + n * size_of::<Part>())
        else {
            break;
        };
        if shim
            .change_unfollowed(part.start, part.len, || Ok(()))
            .is_err()
        {
            return false;
        }
    }
    true
}

exported! {
    // glibc has these names twice, for programs of different ages.
    fn setrlimit(resource: c_int, limit: usize) -> c_int {
        // By the call that glibc and musl make: a filter may allow only that.
        prlimit(0, resource, limit, 0)
    }
    fn setrlimit64(resource: c_int, limit: usize) -> c_int {
        setrlimit(resource, limit)
    }
    fn prlimit(pid: c_int, resource: c_int, new: usize, old: usize) -> c_int {
        // Of another process, too: it may be this one by its number, and is rare.
        let sets = new != 0 && is_of_mappings(resource);
        with_limit(nr::PRLIMIT64, [pid as usize, resource as usize, new, old, 0, 0], sets)
    }
    fn prlimit64(pid: c_int, resource: c_int, new: usize, old: usize) -> c_int {
        prlimit(pid, resource, new, old)
    }
    // Of this process or another: its ranges are forgotten here, which is safe.
    fn process_madvise(process: c_int, parts: *const Part, count: usize, advice: c_int, flags: u32) -> isize {
        if !forget_parts(parts, count) {
            return number_or_error(Err(Errno::ENOMEM)) as isize;
        }
        let args = [process as usize, parts as usize, count, advice as usize, flags as usize, 0];
        number_or_error(raw(nr::PROCESS_MADVISE, args)) as isize
    }
    fn prctl(option: c_int, a: usize, b: usize, c: usize, d: usize) -> c_int {
        const SET_SECCOMP: c_int = 22;
        const SET_VMA: c_int = 0x5356_4d41;
        let args = [option as usize, a, b, c, d, 0];
        match option {
            // Our own calls to the kernel may be forbidden from now on, on pain of death.
            SET_SECCOMP => step_back(),
            // A name for a range.
            SET_VMA => {
                let done = match shim_of_process() {
                    Some(shim) => shim.name_range(b, c, || raw(nr::PRCTL, args)),
                    None => raw(nr::PRCTL, args),
                };
                return number_or_error(done) as c_int;
            }
            _ => {}
        }
        number_or_error(raw(nr::PRCTL, args)) as c_int
    }
    // Where the program names an address the segment is to come there, whose size only the kernel knows.
    fn shmat(id: c_int, addr: usize, flags: c_int) -> *mut c_void {
        const IPC_STAT: usize = 2;
        /// `shm_segsz` of `struct shmid_ds`, in words.
        const SHM_SIZE_WORD: usize = 6;
        let args = [id as usize, addr, flags as usize, 0, 0, 0];
        let call = || raw(nr::SHMAT, args);
        let Some(shim) = shim_of_process().filter(|shim| addr != 0 && !shim.kernel().is_filtered()) else {
            return super::to_c_address(call());
        };
        let mut about = [0_usize; 32];
        let known = raw(nr::SHMCTL, [id as usize, IPC_STAT, (&raw mut about) as usize, 0, 0, 0]);
        super::to_c_address(match known {
            Ok(_) => shim.change_unfollowed(addr, about[SHM_SIZE_WORD], call),
            Err(_) => call(),
        })
    }
    // The pipe has the pages then, and not their content: they must be the program's alone until it is read, so they
    // are unmapped and given back as they are.
    fn vmsplice(fd: c_int, parts: *const Part, count: usize, flags: u32) -> isize {
        let args = [fd as usize, parts as usize, count, flags as usize, 0, 0];
        if !forget_parts(parts, count) {
            return number_or_error(Err(Errno::ENOMEM)) as isize;
        }
        number_or_error(raw(nr::VMSPLICE, args)) as isize
    }
    fn setsockopt(fd: c_int, level: c_int, name: c_int, value: usize, len: u32) -> c_int {
        const SOL_SOCKET: c_int = 1;
        const SO_ZEROCOPY: c_int = 60;
        // Data sent with MSG_ZEROCOPY is read from the program's pages until it is on its way, also after they are
        // unmapped.
        if (level, name) == (SOL_SOCKET, SO_ZEROCOPY) {
            keep_nothing();
        }
        number_or_error(raw(nr::SETSOCKOPT, [fd as usize, level as usize, name as usize, value, len as usize, 0])) as c_int
    }
    fn ioctl(fd: c_int, request: usize, arg: usize) -> c_int {
        // Of /dev/userfaultfd, and of the descriptor that it gives, which may have come from another process.
        const USERFAULTFD_IOC_NEW: u32 = 0xaa00;
        const UFFDIO_API: u32 = 0xc018_aa3f;
        // The kernel takes 32 bits.
        if matches!(request as u32, USERFAULTFD_IOC_NEW | UFFDIO_API) {
            step_back();
        }
        number_or_error(raw(nr::IOCTL, [fd as usize, request, arg, 0, 0, 0])) as c_int
    }
    fn posix_madvise(addr: usize, len: usize, advice: c_int) -> c_int {
        /// Which libc answers by itself: POSIX does not mean it to destroy anything.
        const POSIX_MADV_DONTNEED: c_int = 4;
        if advice == POSIX_MADV_DONTNEED {
            return 0;
        }
        let call = || raw(nr::MADVISE, [addr, len, advice as usize, 0, 0, 0]).map(drop);
        let done = match shim_of_process() {
            Some(shim) => shim.change_unfollowed(addr, len, call),
            None => call(),
        };
        match done {
            Ok(()) => 0,
            Err(Errno(number)) => number,
        }
    }
}
