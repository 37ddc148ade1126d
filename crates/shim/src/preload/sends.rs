//! What is sent with MSG_ZEROCOPY: the kernel reads it from the program's pages until it is on its way, also after they are
//! unmapped and the socket is closed. From the first such call on nothing is kept any more.
//!
//! These functions are cancellation points (pthread_cancel(3)), which a system call of the library's is not. So the call is
//! left to the next library's function of that name, which finds stack and arguments as the caller has left them.

use core::arch::{global_asm, naked_asm};
use core::ffi::{CStr, c_char, c_int, c_long, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};

use super::past::{keep_nothing, number_or_error};
use crate::os::syscall as raw;

/// The flag by which the kernel sends from the program's pages instead of copying them.
const MSG_ZEROCOPY: usize = 0x400_0000;

/// Numbers of system calls (arch/x86/entry/syscalls/syscall_64.tbl, Linux 6.18).
pub(super) const SENDTO: usize = 44;
pub(super) const SENDMSG: usize = 46;
pub(super) const SENDMMSG: usize = 307;

/// One of the functions.
#[repr(C)]
struct Sends {
    /// The next library's; 0 until it is looked up. At the start, as [`pass_on`] reads it there.
    next: AtomicUsize,
    name: &'static CStr,
    /// The library's own, which is never the next.
    own: Entry,
    instead: Function,
}

type Entry = unsafe extern "C" fn();
type Function = unsafe extern "C" fn(usize, usize, usize, usize, usize, usize) -> c_long;

impl Sends {
    const fn new(name: &'static CStr, own: Entry, instead: Function) -> Self {
        Self {
            next: AtomicUsize::new(0),
            name,
            own,
            instead,
        }
    }

    /// The next library's function, or what does the same where none is found: before glibc 2.34 dlsym(3) is in a library that
    /// not every program has. And a program's own dlsym may pass the question on, so that "next" is counted from the program
    /// and not from here: the first after it is ours.
    fn next(&self) -> usize {
        let known = self.next.load(Ordering::Relaxed);
        if known != 0 {
            return known;
        }
        let found = match function(quell_dlsym) {
            0 => 0,
            dlsym => {
                type Dlsym = unsafe extern "C" fn(*const c_void, *const c_char) -> usize;
                /// Of the libraries after the one that asks.
                const RTLD_NEXT: *const c_void = usize::MAX as *const c_void;
                // SAFETY: dlsym(3) with a name that ends with NUL. It gives an address or null.
                unsafe {
                    core::mem::transmute::<usize, Dlsym>(dlsym)(RTLD_NEXT, self.name.as_ptr())
                }
            }
        };
        let next = match found {
            found if found == 0 || found == self.own as usize => self.instead as usize,
            found => found,
        };
        self.next.store(next, Ordering::Relaxed);
        next
    }
}

static ALL: [Sends; 5] = [
    Sends::new(c"send", quell_own_send, send_here),
    Sends::new(c"__send", quell_own___send, send_here),
    Sends::new(c"sendto", quell_own_sendto, sendto_here),
    Sends::new(c"sendmsg", quell_own_sendmsg, sendmsg_here),
    Sends::new(c"sendmmsg", quell_own_sendmmsg, sendmmsg_here),
];

/// Looks up the next library's functions, so that later no call has to, which may be in a signal handler. What a constructor
/// before the library's own sends is looked up then.
pub(super) fn find_next() {
    for sends in &ALL {
        let _ = sends.next();
    }
}

/// Whether one of these system calls sends from the program's pages.
pub(super) fn is_without_copy(number: usize, args: [usize; 6]) -> bool {
    let flags = match number {
        SENDMSG => args[2],
        _ => args[3],
    };
    flags & MSG_ZEROCOPY != 0
}

macro_rules! entries {
    ($($name:ident, $own:ident, $which:literal, flags in $flags:literal;)*) => {
        $(
            /// The label is this function's address whoever else has one of its name: what is exported may be replaced.
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name() {
                naked_asm!(
                    concat!(stringify!($own), ":"),
                    "endbr64",
                    "lea rax, [rip + {all} + {which}]",
                    concat!("mov r11d, ", $flags),
                    "jmp {pass_on}",
                    all = sym ALL,
                    which = const $which * size_of::<Sends>(),
                    pass_on = sym pass_on,
                )
            }
        )*
        unsafe extern "C" {
            $( fn $own(); )*
        }
    };
}

// By their places in `ALL`.
entries! {
    send, quell_own_send, 0, flags in "ecx";
    __send, quell_own___send, 1, flags in "ecx";
    sendto, quell_own_sendto, 2, flags in "ecx";
    sendmsg, quell_own_sendmsg, 3, flags in "edx";
    sendmmsg, quell_own_sendmmsg, 4, flags in "ecx";
}

/// Goes on to the next library's function, with stack and arguments as the caller has left them. In rax is the address of one of
/// `ALL`, in r11d are the call's flags. Both, and r10, belong to nobody where a function begins (System V ABI for AMD64, 3.2.3).
#[unsafe(naked)]
unsafe extern "C" fn pass_on() {
    naked_asm!(
        "test r11d, {zero_copy}",
        "jnz 2f",
        "mov r10, [rax]",
        "test r10, r10",
        "jz 2f",
        "jmp r10",
        // The arguments are kept, and the stack is at a multiple of 16 for the call.
        "2:",
        "push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "push r8",
        "push r9",
        "sub rsp, 8",
        "mov rdi, rax",
        "mov esi, r11d",
        "call {prepare}",
        "add rsp, 8",
        "pop r9",
        "pop r8",
        "pop rcx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "jmp rax",
        zero_copy = const MSG_ZEROCOPY,
        prepare = sym prepare,
    )
}

/// The function to go on to. What is about to be sent from memory is not kept then.
unsafe extern "C" fn prepare(sends: &Sends, flags: usize) -> usize {
    if flags & MSG_ZEROCOPY != 0 {
        keep_nothing();
    }
    sends.next()
}

unsafe extern "C" fn send_here(
    socket: usize,
    at: usize,
    len: usize,
    flags: usize,
    _: usize,
    _: usize,
) -> c_long {
    // SAFETY: the program's own call. Without an address sendto(2) is send.
    unsafe { cancellable(SENDTO, [socket, at, len, flags, 0, 0]) }
}

unsafe extern "C" fn sendto_here(
    socket: usize,
    at: usize,
    len: usize,
    flags: usize,
    to: usize,
    to_len: usize,
) -> c_long {
    // SAFETY: the program's own call.
    unsafe { cancellable(SENDTO, [socket, at, len, flags, to, to_len]) }
}

unsafe extern "C" fn sendmsg_here(
    socket: usize,
    message: usize,
    flags: usize,
    _: usize,
    _: usize,
    _: usize,
) -> c_long {
    // SAFETY: the program's own call.
    unsafe { cancellable(SENDMSG, [socket, message, flags, 0, 0, 0]) }
}

unsafe extern "C" fn sendmmsg_here(
    socket: usize,
    messages: usize,
    count: usize,
    flags: usize,
    _: usize,
    _: usize,
) -> c_long {
    // SAFETY: the program's own call.
    unsafe { cancellable(SENDMMSG, [socket, messages, count, flags, 0, 0]) }
}

/// A call during which the thread may be ended at any moment, as glibc made its own before 2.41.
unsafe fn cancellable(number: usize, args: [usize; 6]) -> c_long {
    type Set = unsafe extern "C" fn(c_int, *mut c_int) -> c_int;
    const ASYNCHRONOUS: c_int = 1;
    let (set, mut before) = (function(quell_setcanceltype), 0);
    let change = |to: c_int, before: &mut c_int| {
        if set != 0 {
            // SAFETY: pthread_setcanceltype(3), into our own place.
            let _ = unsafe { core::mem::transmute::<usize, Set>(set)(to, before) };
        }
    };
    change(ASYNCHRONOUS, &mut before);
    // SAFETY: the program's own call.
    let done = unsafe { raw(number, args) };
    change(before, &mut 0);
    // SAFETY: this thread's errno.
    unsafe { number_or_error(done) }
}

// What the C library may have.
global_asm!(
    ".weak dlsym",
    ".weak pthread_setcanceltype",
    ".local quell_dlsym",
    "quell_dlsym:",
    "mov rax, [rip + dlsym@GOTPCREL]",
    "ret",
    ".local quell_setcanceltype",
    "quell_setcanceltype:",
    "mov rax, [rip + pthread_setcanceltype@GOTPCREL]",
    "ret",
);
unsafe extern "C" {
    fn quell_dlsym() -> usize;
    fn quell_setcanceltype() -> usize;
}

fn function(which: unsafe extern "C" fn() -> usize) -> usize {
    // SAFETY: it only loads an address, null where the C library has no such function.
    unsafe { which() }
}
