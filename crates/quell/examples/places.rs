//! Shoots from code that has its name in an odd place, for the tests of symbols.
//!
//! `places COUNT PLACE` calls madvise(MADV_DONTNEED) so often, or for 0.7 s, from a function that is in
//! PLACE: `jit` writes it into anonymous memory, `jit-map` says so in /tmp/perf-PID.map too, and a path
//! loads the library there, which has it as `quell_shoot`. Prints its process's number, and stays a second
//! after that, for quell must come to look while it lives, on a busy machine too.
//!
//! With `orphan` as the last word, a thread named `quell-orphan` does all that, and the first one ends before.
//!
//! The peer that is hit spins on another CPU as real-time, for under a second.

#![expect(clippy::print_stdout, reason = "it is a program")]

use std::ffi::CString;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const PAGE: usize = 4096;

static DONE: AtomicBool = AtomicBool::new(false);
/// Grows while the peer runs.
static BEATS: AtomicU64 = AtomicU64::new(0);

/// `long shoot(void *range, size_t bytes)`, with a frame of its own.
type Shoot = extern "C" fn(*mut libc::c_void, usize) -> i64;

/// push %rbp; mov %rsp,%rbp; mov $28 (madvise),%eax; mov $4 (MADV_DONTNEED),%edx; syscall; pop %rbp; ret
const CODE: &[u8] = &[
    0x55, 0x48, 0x89, 0xe5, 0xb8, 28, 0, 0, 0, 0xba, 4, 0, 0, 0, 0x0f, 0x05, 0x5d, 0xc3,
];

fn map(protection: i32) -> *mut libc::c_void {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: new memory, which takes nothing away from anybody.
    let p = unsafe { libc::mmap(ptr::null_mut(), PAGE, protection, flags, -1, 0) };
    assert_ne!(
        p,
        libc::MAP_FAILED,
        "mmap: {}",
        std::io::Error::last_os_error()
    );
    p
}

/// Writes the function into new memory, as a JIT does.
fn made(with_map: bool) -> Shoot {
    let code = map(libc::PROT_READ | libc::PROT_WRITE);
    // SAFETY: a page was mapped, and the code is shorter; then it is made executable.
    unsafe {
        ptr::copy_nonoverlapping(CODE.as_ptr(), code.cast(), CODE.len());
        assert_eq!(
            libc::mprotect(code, PAGE, libc::PROT_READ | libc::PROT_EXEC),
            0
        );
    }
    if with_map {
        let line = format!(
            "{:x} {:x} quell_jit::shoot /made.js:1\n",
            code.addr(),
            CODE.len()
        );
        let name = format!("/tmp/perf-{}.map", std::process::id());
        std::fs::write(name, line).expect("the perf map");
    }
    // SAFETY: the code is a function of this type, and stays mapped.
    unsafe { std::mem::transmute::<*mut libc::c_void, Shoot>(code) }
}

fn loaded(path: &str) -> Shoot {
    let path = CString::new(path).expect("a path");
    // SAFETY: the library is the test's own; its function has this type.
    unsafe {
        let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW);
        assert!(!library.is_null(), "can't load {path:?}");
        let function = libc::dlsym(library, c"quell_shoot".as_ptr());
        assert!(!function.is_null(), "no quell_shoot in {path:?}");
        std::mem::transmute::<*mut libc::c_void, Shoot>(function)
    }
}

fn pin(cpu: usize) {
    // SAFETY: a zeroed cpu_set_t is an empty one; the call reads it only.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &set);
    }
}

fn peer() {
    pin(1);
    let param = libc::sched_param { sched_priority: 1 };
    // SAFETY: the call reads `param` only. Without the right to it the peer stays an ordinary thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &param) };
    let deadline = Instant::now() + Duration::from_millis(800);
    while !DONE.load(Ordering::Acquire) && Instant::now() < deadline {
        BEATS.fetch_add(1, Ordering::Relaxed);
    }
}

/// Waits until the peer runs: one that is off its CPU is not hit.
fn wait_for_peer() {
    let deadline = Instant::now() + Duration::from_millis(20);
    let before = BEATS.load(Ordering::Relaxed);
    while BEATS.load(Ordering::Relaxed) < before + 10 && Instant::now() < deadline {
        std::hint::spin_loop();
    }
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let (count, place) = match args.as_slice() {
        [_, count, place] => (count.clone(), place.clone()),
        [_, count, place, last] if last == "orphan" => {
            let (count, place) = (count.clone(), place.clone());
            let orphan = std::thread::Builder::new().name("quell-orphan".into());
            let all = move || {
                std::thread::sleep(Duration::from_millis(50));
                shoot_from(&count, &place);
                std::process::exit(0);
            };
            orphan.spawn(all).expect("a thread");
            // SAFETY: ends this thread alone; nobody borrows what is on its stack.
            unsafe { libc::syscall(libc::SYS_exit, 0) };
            unreachable!("it has ended");
        }
        _ => panic!("usage: places COUNT jit|jit-map|LIBRARY [orphan]"),
    };
    shoot_from(&count, &place);
}

fn shoot_from(count: &str, place: &str) {
    let count: u32 = count.parse().expect("a count");
    let shoot = match place {
        "jit" => made(false),
        "jit-map" => made(true),
        path => loaded(path),
    };
    // SAFETY: seconds, after which the kernel ends this process, whatever happens here.
    unsafe { libc::alarm(10) };
    println!("{}", std::process::id());
    pin(0);
    let thread = std::thread::spawn(peer);
    let range = map(libc::PROT_READ | libc::PROT_WRITE);
    let began = Instant::now();
    for _ in 0..count {
        // On a busy machine the peer is gone before the count is full, and the alarm doesn't end the first
        // process of a PID namespace (pid_namespaces(7)).
        if began.elapsed() > Duration::from_millis(700) {
            break;
        }
        // SAFETY: a page was mapped, readable and writable.
        unsafe { range.cast::<u8>().write_volatile(1) };
        wait_for_peer();
        assert_eq!(shoot(range, PAGE), 0, "madvise");
    }
    DONE.store(true, Ordering::Release);
    thread.join().expect("the peer");
    std::thread::sleep(Duration::from_secs(1));
}
