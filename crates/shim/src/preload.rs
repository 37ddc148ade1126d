//! The functions of libc that the library takes the place of, and how it starts.

use core::arch::global_asm;
use core::cell::UnsafeCell;
use core::ffi::{c_char, c_int, c_void};
use core::mem::MaybeUninit;

use crate::counters::Counters;
use crate::kernel::{Errno, Map};
use crate::nodes::Node;
use crate::once::Once;
use crate::os::{Linux, nr, syscall};
use crate::scratch::Scratch;
use crate::settings::Settings;
use crate::shim::Shim;

/// The program's calls. Each is libc's function of that name, and its man page is the documentation.
///
/// # Safety
///
/// As each of those man pages says.
macro_rules! exported {
    ($(fn $name:ident($($arg:ident: $type:ty),*) -> $out:ty $body:block)*) => {
        $(
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C" fn $name($($arg: $type),*) -> $out {
                // SAFETY: the caller keeps to the man page.
                unsafe { $body }
            }
        )*
    };
}

mod heap;
mod next_function;
mod raw_calls;

/// Room for so many regions, 1 MB of addresses; memory comes as it is used.
const REGION_PLACES: usize = 16_384;

/// The counts of the library's work; quell finds them by this name.
#[unsafe(no_mangle)]
pub static quell_shim_counters: Counters = Counters::new();

static SHIM: Once<MaybeUninit<Shim<Linux>>> = Once::new(MaybeUninit::uninit());

struct StaticMemory<T>(UnsafeCell<T>);
// SAFETY: only `make_shim` looks at it, which runs once.
unsafe impl<T> Sync for StaticMemory<T> {}

// Zeros, as the linker leaves them out of the file.
static NODES: StaticMemory<[Node; REGION_PLACES]> =
    StaticMemory(UnsafeCell::new([Node::EMPTY; REGION_PLACES]));
static SCRATCH: StaticMemory<Scratch> = StaticMemory(UnsafeCell::new(Scratch::EMPTY));

/// The library. It is there from the first call on, and that may be the loader's, before any constructor: mimalloc and
/// google/tcmalloc map their first memory at once. Until `start_library` it only takes note. While another thread makes
/// it, or this one below a signal handler, calls go to the kernel, and their mappings are not known.
fn shim_of_process() -> Option<&'static Shim<Linux>> {
    // SAFETY: `make_shim` has written it.
    SHIM.get(make_shim)
        .map(|shim| unsafe { shim.assume_init_ref() })
}

#[cold]
fn make_shim(place: &mut MaybeUninit<Shim<Linux>>) -> bool {
    // SAFETY: we come here once, so these are the only references.
    let (nodes, scratch) = unsafe { (&mut *NODES.0.get(), &mut *SCRATCH.0.get()) };
    let linux = Linux::new();
    place.write(Shim::new_without_settings(
        linux,
        &quell_shim_counters,
        nodes,
        scratch,
    ));
    true
}

unsafe extern "C" {
    static environ: *const *const c_char;
    fn __errno_location() -> *mut c_int;
}

// Whichever of the two the C library has: glibc exports the first, musl the second.
global_asm!(
    ".weak __register_atfork",
    ".weak pthread_atfork",
    ".local quell_glibc_atfork",
    "quell_glibc_atfork:",
    "mov rax, [rip + __register_atfork@GOTPCREL]",
    "ret",
    ".local quell_musl_atfork",
    "quell_musl_atfork:",
    "mov rax, [rip + pthread_atfork@GOTPCREL]",
    "ret",
);
unsafe extern "C" {
    fn quell_glibc_atfork() -> usize;
    fn quell_musl_atfork() -> usize;
}

type ForkHandler = unsafe extern "C" fn();

/// Registers the handlers for fork(2). False if the C library has neither way.
unsafe fn at_fork(before: ForkHandler, parent: ForkHandler, child: ForkHandler) -> bool {
    // SAFETY: both only load an address; it is null or a function of that type.
    unsafe {
        let glibc = quell_glibc_atfork();
        if glibc != 0 {
            type RegisterAtFork =
                unsafe extern "C" fn(ForkHandler, ForkHandler, ForkHandler, *mut c_void) -> c_int;
            let register: RegisterAtFork = core::mem::transmute(glibc);
            return register(before, parent, child, core::ptr::null_mut()) == 0;
        }
        let musl = quell_musl_atfork();
        if musl != 0 {
            type RegisterAtFork =
                unsafe extern "C" fn(ForkHandler, ForkHandler, ForkHandler) -> c_int;
            let register: RegisterAtFork = core::mem::transmute(musl);
            return register(before, parent, child) == 0;
        }
    }
    false
}

unsafe extern "C" fn before_fork() {
    if let Some(shim) = shim_of_process() {
        shim.before_fork();
    }
}

unsafe extern "C" fn in_parent() {
    if let Some(shim) = shim_of_process() {
        shim.after_fork(false);
    }
}

unsafe extern "C" fn in_child() {
    if let Some(shim) = shim_of_process() {
        shim.after_fork(true);
    }
}

/// The value of a variable of the environment.
unsafe fn environment_variable(name: &[u8]) -> Option<&'static [u8]> {
    // SAFETY: an array of C strings that ends with a null (environ(7)); nobody changes it before main.
    unsafe {
        let mut at = environ;
        while !at.is_null() && !(*at).is_null() {
            let text = core::ffi::CStr::from_ptr(*at).to_bytes();
            if let Some(rest) = text.strip_prefix(name)
                && let Some(value) = rest.strip_prefix(b"=")
            {
                return Some(value);
            }
            at = at.add(1);
        }
    }
    None
}

fn write_to_stderr(parts: &[&[u8]]) {
    for part in parts {
        // SAFETY: write(2) to standard error of bytes that live.
        let _ = unsafe { syscall(nr::WRITE, [2, part.as_ptr() as usize, part.len(), 0, 0, 0]) };
    }
}

/// Starts the library, by its settings in the environment. Runs once, before main.
unsafe extern "C" fn start_library() {
    let mut settings = Settings::default();
    // SAFETY: before main.
    let text = unsafe { environment_variable(b"QUELL_SHIM") }.unwrap_or_default();
    if let Err(bad) = settings.read_over(text) {
        write_to_stderr(&[
            b"libquell.so: QUELL_SHIM has '",
            &text[bad.0..bad.1],
            b"', which is no setting, or no value of it; it is left out\n",
        ]);
    }
    let Some(shim) = shim_of_process() else {
        return;
    };
    // SAFETY: registering handlers that live as long as the library: the loader never unloads a file that it loaded at
    // the start.
    if !unsafe { at_fork(before_fork, in_parent, in_child) } {
        write_to_stderr(&[b"libquell.so: this C library has no pthread_atfork, so it stays off\n"]);
        shim.turn_off();
        return;
    }
    shim.start_with(settings);
    if settings.lock && !settings.off {
        // SAFETY: mlockall(2) of present and later mappings.
        if unsafe { syscall(nr::MLOCKALL, [3, 0, 0, 0, 0, 0]) }.is_err() {
            write_to_stderr(&[
                b"libquell.so: memory could not be locked: the limit (ulimit -l) is too low\n",
            ]);
        }
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static START_ENTRY: unsafe extern "C" fn() = start_library;

/// Nothing here is meant to panic. If it does, the program must not go on with half of a table.
#[cfg(not(test))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    write_to_stderr(&[
        b"libquell.so: a mistake in the library; please report it. The program is ended\n",
    ]);
    // SAFETY: getpid(2), and kill(2) of this process by SIGABRT.
    unsafe {
        let pid = syscall(nr::GETPID, [0; 6]).unwrap_or(0);
        let _ = syscall(nr::KILL, [pid, 6, 0, 0, 0, 0]);
    }
    loop {
        // SAFETY: exit_group(2).
        let _ = unsafe { syscall(nr::EXIT_GROUP, [134, 0, 0, 0, 0, 0]) };
    }
}

/// As libc returns it: errno is set on failure, and left alone otherwise.
unsafe fn to_c_status(done: Result<(), Errno>) -> c_int {
    match done {
        Ok(()) => 0,
        Err(Errno(number)) => {
            // SAFETY: this thread's errno.
            unsafe { *__errno_location() = number };
            -1
        }
    }
}

unsafe fn to_c_address(done: Result<usize, Errno>) -> *mut c_void {
    match done {
        Ok(at) => at as *mut c_void,
        Err(Errno(number)) => {
            // SAFETY: this thread's errno.
            unsafe { *__errno_location() = number };
            usize::MAX as *mut c_void
        }
    }
}

unsafe fn map_for_c(map: &Map) -> *mut c_void {
    // SAFETY: the program's own call.
    unsafe {
        to_c_address(match shim_of_process() {
            Some(shim) => shim.mmap(map),
            None => crate::os::mmap(map),
        })
    }
}

/// For calls that may change a range in a way that is not followed.
unsafe fn change_unfollowed_for_c(number: usize, args: [usize; 6]) -> c_int {
    // SAFETY: the program's own call.
    let call = || unsafe { syscall(number, args) }.map(drop);
    let done = match shim_of_process() {
        Some(shim) => shim.change_unfollowed(args[0], args[1], call),
        None => call(),
    };
    // SAFETY: this thread's errno.
    unsafe { to_c_status(done) }
}

exported! {
    fn mmap(addr: usize, len: usize, prot: c_int, flags: c_int, fd: c_int, offset: i64) -> *mut c_void {
        map_for_c(&Map { addr, len, prot, flags, fd, offset })
    }
    fn mmap64(addr: usize, len: usize, prot: c_int, flags: c_int, fd: c_int, offset: i64) -> *mut c_void {
        map_for_c(&Map { addr, len, prot, flags, fd, offset })
    }
    fn munmap(addr: usize, len: usize) -> c_int {
        to_c_status(match shim_of_process() {
            Some(shim) => shim.munmap(addr, len),
            None => syscall(nr::MUNMAP, [addr, len, 0, 0, 0, 0]).map(drop),
        })
    }
    fn mprotect(addr: usize, len: usize, prot: c_int) -> c_int {
        to_c_status(match shim_of_process() {
            Some(shim) => shim.mprotect(addr, len, prot),
            None => syscall(nr::MPROTECT, [addr, len, prot as usize, 0, 0, 0]).map(drop),
        })
    }
    fn madvise(addr: usize, len: usize, advice: c_int) -> c_int {
        to_c_status(match shim_of_process() {
            Some(shim) => shim.madvise(addr, len, advice),
            None => syscall(nr::MADVISE, [addr, len, advice as usize, 0, 0, 0]).map(drop),
        })
    }
    // The fifth argument is there with MREMAP_FIXED only; a caller that passes four leaves a register
    // with anything in it, which nobody looks at then.
    fn mremap(old: usize, old_len: usize, new_len: usize, flags: c_int, new: usize) -> *mut c_void {
        to_c_address(match shim_of_process() {
            Some(shim) => shim.mremap(old, old_len, new_len, flags, new),
            None => syscall(nr::MREMAP, [old, old_len, new_len, flags as usize, new, 0]),
        })
    }
    fn mlock(addr: usize, len: usize) -> c_int {
        change_unfollowed_for_c(nr::MLOCK, [addr, len, 0, 0, 0, 0])
    }
    fn mlock2(addr: usize, len: usize, flags: u32) -> c_int {
        // As in glibc: without a flag it is mlock.
        if flags == 0 {
            return mlock(addr, len);
        }
        change_unfollowed_for_c(nr::MLOCK2, [addr, len, flags as usize, 0, 0, 0])
    }
    fn pkey_mprotect(addr: usize, len: usize, prot: c_int, key: c_int) -> c_int {
        // As in glibc: without a key it is mprotect.
        if key == -1 {
            return mprotect(addr, len, prot);
        }
        change_unfollowed_for_c(nr::PKEY_MPROTECT, [addr, len, prot as usize, key as usize, 0, 0])
    }
    fn mbind(addr: usize, len: usize, mode: c_int, mask: usize, bits: usize, flags: u32) -> isize {
        const MPOL_MF_MOVE: u32 = 2;
        // Served memory has pages, while to the program it is a mapping without any: they move.
        let served = shim_of_process().is_some_and(|shim| shim.may_have_served(addr, len));
        let flags = if served { flags | MPOL_MF_MOVE } else { flags };
        change_unfollowed_for_c(nr::MBIND, [addr, len, mode as usize, mask, bits, flags as usize]) as isize
    }
    fn remap_file_pages(addr: usize, len: usize, prot: c_int, page: usize, flags: c_int) -> c_int {
        change_unfollowed_for_c(nr::REMAP_FILE_PAGES, [addr, len, prot as usize, page, flags as usize, 0])
    }
    fn mlockall(flags: c_int) -> c_int {
        // Kept memory would be locked too, and MADV_DONTNEED of locked memory must fail.
        if let Some(shim) = shim_of_process() {
            shim.stop_keeping();
        }
        to_c_status(syscall(nr::MLOCKALL, [flags as usize, 0, 0, 0, 0, 0]).map(drop))
    }
}
