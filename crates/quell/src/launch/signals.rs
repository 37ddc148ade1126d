//! Ctrl-C and its kin: noted by a handler, answered by whoever waits.
//!
//! quell must finish its output whatever interrupts it, so the handlers only note the signal and
//! wake a poll. The consequence is decided where a command is waited for ([`super::Running`])
//! or where quell sleeps ([`sleep_until_signal`]).

use std::os::fd::{AsFd, BorrowedFd, IntoRawFd as _};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd};

/// The signals that ask quell to stop.
pub(super) const STOP_SIGNALS: [i32; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// The first signal that came since [`install_handlers`], or 0.
static FIRST_SIGNAL: AtomicI32 = AtomicI32::new(0);
/// The first SIGTERM or SIGHUP that came, or 0.
static LEAVE_SIGNAL: AtomicI32 = AtomicI32::new(0);
/// How many signals came.
static SIGNAL_COUNT: AtomicU32 = AtomicU32::new(0);
/// The last signal that was sent to quell alone, so that the command has not had it; or 0.
static UNSHARED_SIGNAL: AtomicI32 = AtomicI32::new(0);
/// The eventfd that the handler writes to, or -1.
static WAKE_FD: AtomicI32 = AtomicI32::new(-1);
/// Whether SIGINT was ignored when quell was started, as `&` in a script does it.
static INT_WAS_IGNORED: AtomicBool = AtomicBool::new(false);
/// Whether SIGHUP was ignored when quell was started, as nohup does it.
static HUP_WAS_IGNORED: AtomicBool = AtomicBool::new(false);
static HANDLERS_INSTALLED: Mutex<bool> = Mutex::new(false);

extern "C" fn note_signal(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: only what signal-safety(7) allows: atomics, write(2), and errno kept as it was.
    // The kernel hands a SA_SIGINFO handler a valid siginfo.
    unsafe {
        let errno = libc::__errno_location();
        let kept = *errno;
        let _ = FIRST_SIGNAL.compare_exchange(0, signal, Ordering::Relaxed, Ordering::Relaxed);
        if signal == libc::SIGTERM || signal == libc::SIGHUP {
            let _ = LEAVE_SIGNAL.compare_exchange(0, signal, Ordering::Relaxed, Ordering::Relaxed);
        }
        // The terminal sends to the whole foreground group, the command included, as the kernel.
        let from_terminal = !info.is_null() && (*info).si_code == libc::SI_KERNEL;
        if !from_terminal {
            UNSHARED_SIGNAL.store(signal, Ordering::Relaxed);
        }
        SIGNAL_COUNT.fetch_add(1, Ordering::Release);
        let one = 1_u64.to_ne_bytes();
        libc::write(
            WAKE_FD.load(Ordering::Relaxed),
            one.as_ptr().cast(),
            one.len(),
        );
        *errno = kept;
    }
}

/// Takes over INT, TERM and HUP, once; more calls do nothing. HUP stays ignored under nohup. INT is
/// taken also where a script's `&` made it ignored, so that `kill -INT` ends a recording, as it
/// does with perf.
pub(crate) fn install_handlers() -> anyhow::Result<()> {
    let mut done = HANDLERS_INSTALLED
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    if *done {
        return Ok(());
    }
    let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
        .context("making an eventfd for signals")?;
    // Never closed: the handler may write to it until the very end.
    WAKE_FD.store(wake.into_raw_fd(), Ordering::Relaxed);
    for signal in STOP_SIGNALS {
        let ignored = is_ignored_now(signal);
        match signal {
            libc::SIGINT => INT_WAS_IGNORED.store(ignored, Ordering::Relaxed),
            libc::SIGHUP => HUP_WAS_IGNORED.store(ignored, Ordering::Relaxed),
            _ => {}
        }
        if signal == libc::SIGHUP && ignored {
            continue;
        }
        take_over(signal)?;
    }
    *done = true;
    Ok(())
}

/// Takes QUIT over as well, where quell has the screen, which dying would leave as it is. Elsewhere it is
/// the command's: a JVM answers it by a list of its threads.
pub(crate) fn install_quit_handler() -> anyhow::Result<()> {
    install_handlers()?;
    if is_ignored_now(libc::SIGQUIT) {
        return Ok(());
    }
    take_over(libc::SIGQUIT)
}

/// Whether this process ignores a signal at this moment. Only before our handler is installed does that say how quell was
/// started; later [`was_ignored`] does.
fn is_ignored_now(signal: i32) -> bool {
    // SAFETY: sigaction(2) that only reads, into a zeroed struct.
    unsafe {
        let mut old: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut old);
        old.sa_sigaction == libc::SIG_IGN
    }
}

/// Installs our handler for a signal. System calls that it interrupts begin again (SA_RESTART), but poll(2), which never does
/// (signal(7)): so a wait in [`poll_until_signal`] ends.
fn take_over(signal: i32) -> anyhow::Result<()> {
    // SAFETY: plain sigaction(2) with a zeroed struct filled in; the handler is async-signal-safe.
    let done = unsafe {
        let mut new: libc::sigaction = std::mem::zeroed();
        new.sa_sigaction = note_signal as *const () as usize;
        new.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        libc::sigemptyset(&raw mut new.sa_mask);
        libc::sigaction(signal, &raw const new, std::ptr::null_mut())
    };
    if done != 0 {
        let err = std::io::Error::last_os_error();
        return Err(err).context("installing the handlers of signals");
    }
    Ok(())
}

/// The first signal that asked quell to stop, from when it came until quell ends.
pub(crate) fn first_signal() -> Option<i32> {
    match FIRST_SIGNAL.load(Ordering::Acquire) {
        0 => None,
        signal => Some(signal),
    }
}

/// The first signal that asked quell to end, and not the user's command: SIGTERM or SIGHUP. None where quell is a
/// container's first process, with which all others end.
pub(crate) fn leave_signal() -> Option<i32> {
    match LEAVE_SIGNAL.load(Ordering::Acquire) {
        0 => None,
        _ if rustix::process::getpid().is_init() => None,
        signal => Some(signal),
    }
}

/// How many signals asked quell to stop.
pub(super) fn signal_count() -> u32 {
    SIGNAL_COUNT.load(Ordering::Acquire)
}

/// Whether a signal's disposition was "ignore" when quell was started: the command inherits that.
pub(super) fn was_ignored(signal: i32) -> bool {
    match signal {
        libc::SIGINT => INT_WAS_IGNORED.load(Ordering::Relaxed),
        libc::SIGHUP => HUP_WAS_IGNORED.load(Ordering::Relaxed),
        _ => false,
    }
}

/// A signal that was sent to quell alone and is to be handed on; each only once.
pub(super) fn take_unshared() -> Option<i32> {
    match UNSHARED_SIGNAL.swap(0, Ordering::AcqRel) {
        0 => None,
        // A command that ignores INT, because quell was started by `&`, is asked by TERM.
        libc::SIGINT if was_ignored(libc::SIGINT) => Some(libc::SIGTERM),
        signal => Some(signal),
    }
}

/// The eventfd that is readable once a signal came since [`poll_until_signal`] read it last; nothing before [`install_handlers`].
fn wake_fd() -> Option<BorrowedFd<'static>> {
    let fd = WAKE_FD.load(Ordering::Relaxed);
    // SAFETY: the descriptor is never closed once it is stored.
    (fd >= 0).then(|| unsafe { BorrowedFd::borrow_raw(fd) })
}

/// Waits until `fd` is readable, a signal comes, or the time is over. True if `fd` is readable, or has nobody at its other end
/// any more. A signal ends one wait only: who has to stop asks [`first_signal`].
pub(crate) fn poll_until_signal(
    fd: Option<BorrowedFd<'_>>,
    timeout: Duration,
) -> anyhow::Result<bool> {
    let mut fds = Vec::with_capacity(2);
    // It comes first, so that its index is known.
    if let Some(fd) = &fd {
        fds.push(PollFd::new(fd, PollFlags::IN));
    }
    let wake = wake_fd();
    if let Some(wake) = &wake {
        fds.push(PollFd::new(wake, PollFlags::IN));
    }
    let timeout = Timespec::try_from(timeout).ok();
    match rustix::event::poll(&mut fds, timeout.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(err) => return Err(err).context("waiting for a command or a signal"),
    }
    let ready = fd.is_some() && fds.first().is_some_and(|f| !f.revents().is_empty());
    if let Some(wake) = &wake {
        let _ = rustix::io::read(wake.as_fd(), &mut [0; 8]);
    }
    Ok(ready)
}

/// Sleeps for so long, but ends at once when a signal has come, also one that came before the call: then it returns the first
/// that ever came, and nothing after a whole sleep.
pub(crate) fn sleep_until_signal(time: Duration) -> anyhow::Result<Option<i32>> {
    let end = Instant::now().checked_add(time);
    loop {
        if first_signal().is_some() {
            return Ok(first_signal());
        }
        let left = match end {
            Some(end) => end.saturating_duration_since(Instant::now()),
            None => time,
        };
        if left.is_zero() {
            return Ok(None);
        }
        poll_until_signal(None, left)?;
    }
}

/// The name of a signal, such as `SIGSEGV`; `signal 40` for one without.
pub(crate) fn signal_name(signal: i32) -> String {
    let name = match signal {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGUSR1 => "SIGUSR1",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGUSR2 => "SIGUSR2",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGALRM => "SIGALRM",
        libc::SIGTERM => "SIGTERM",
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGXFSZ => "SIGXFSZ",
        libc::SIGSYS => "SIGSYS",
        other => return format!("signal {other}"),
    };
    name.to_owned()
}
