//! Makes another CPU run a function of the kernel, for the tests: `calls membarrier|perf COUNT`.
//!
//! membarrier(2), private and expedited, interrupts the CPUs that run a thread of this process: a peer
//! thread spins on one. A performance counter of another CPU is switched on there, whatever it runs.
//! Changes nothing on the system.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

static STOP: AtomicBool = AtomicBool::new(false);
/// Grows while the peer runs.
static BEATS: AtomicU64 = AtomicU64::new(0);

/// Nobody waits longer for anything here.
const LONGEST: Duration = Duration::from_secs(20);

fn pin(cpu: usize) {
    // SAFETY: a zeroed cpu_set_t is an empty one; the call reads it only.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &set);
    }
}

fn membarrier(command: libc::c_int) {
    // SAFETY: a plain system call without memory.
    let ret = unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) };
    assert_eq!(ret, 0, "membarrier: {}", std::io::Error::last_os_error());
}

/// Waits until the peer runs: one that is off its CPU is not interrupted.
fn wait_for_peer(deadline: Instant) {
    let before = BEATS.load(Ordering::Relaxed);
    while BEATS.load(Ordering::Relaxed) < before + 10 && Instant::now() < deadline {
        std::hint::spin_loop();
    }
}

fn membarriers(count: u64, deadline: Instant) {
    membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
    let peer = std::thread::spawn(move || {
        pin(1);
        while !STOP.load(Ordering::Relaxed) && Instant::now() < deadline {
            BEATS.fetch_add(1, Ordering::Relaxed);
        }
    });
    for _ in 0..count {
        wait_for_peer(deadline);
        membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED);
    }
    STOP.store(true, Ordering::Relaxed);
    peer.join().expect("the peer");
}

/// struct perf_event_attr, first version (include/uapi/linux/perf_event.h): PERF_ATTR_SIZE_VER0.
#[repr(C)]
#[derive(Default)]
struct Attr {
    kind: u32,
    size: u32,
    config: u64,
    rest: [u64; 6],
}

fn counters(count: u64) {
    const SOFTWARE: u32 = 1;
    let attr = Attr {
        kind: SOFTWARE,
        size: u32::try_from(size_of::<Attr>()).expect("64 bytes"),
        ..Attr::default()
    };
    for _ in 0..count {
        // SAFETY: the call reads `attr` only, whose size stands in it. CPU 1, whatever runs there.
        let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, &raw const attr, -1, 1, -1, 0) };
        assert!(
            fd >= 0,
            "perf_event_open: {}",
            std::io::Error::last_os_error()
        );
        // SAFETY: our own descriptor, used nowhere else.
        unsafe { libc::close(libc::c_int::try_from(fd).expect("a descriptor")) };
    }
}

fn main() {
    let usage = "usage: calls membarrier|perf COUNT";
    let mut args = std::env::args().skip(1);
    let what = args.next().expect(usage);
    let count = args.next().and_then(|n| n.parse().ok()).expect(usage);
    pin(0);
    match what.as_str() {
        "membarrier" => membarriers(count, Instant::now() + LONGEST),
        "perf" => counters(count),
        _ => panic!("{usage}"),
    }
}
