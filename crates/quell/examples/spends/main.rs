//! Spends time by one mechanism of memory management on purpose, for the tests: `spends MECHANISM MILLISECONDS`.
//!
//! All of it happens in one function, `spend_…`, so that the account has a function to name, and in a process of its own.
//! When that has ended, the first prints what both used of the CPUs, as the kernel tells it (getrusage(2)), ns. Changes nothing on the system; its files are nameless. Ends with
//! status 77 and a reason where this kernel or this place can't have the mechanism.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it is a program")]

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const PAGE: usize = 4096;
const MIB: usize = 1 << 20;
/// The status of a test that could not run, as in automake.
const ABSENT: i32 = 77;

fn absent(why: &str) -> ! {
    eprintln!("{why}");
    std::process::exit(ABSENT);
}

fn map(bytes: usize, flags: i32, file: Option<&File>) -> *mut u8 {
    let (kind, fd) = match file {
        Some(file) => (0, file.as_raw_fd()),
        None => (libc::MAP_ANONYMOUS, -1),
    };
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping, where the kernel likes.
    let p = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags | kind, fd, 0) };
    assert!(
        p != libc::MAP_FAILED,
        "mmap: {}",
        std::io::Error::last_os_error()
    );
    p.cast()
}

fn private(bytes: usize) -> *mut u8 {
    let p = map(bytes, libc::MAP_PRIVATE, None);
    advise(p, bytes, libc::MADV_NOHUGEPAGE);
    p
}

fn unmap(p: *mut u8, bytes: usize) {
    // SAFETY: a mapping of this program's that nobody uses any more.
    unsafe { libc::munmap(p.cast(), bytes) };
}

fn advise(p: *mut u8, bytes: usize, advice: i32) -> bool {
    // SAFETY: a mapping of this program's whose contents nobody needs.
    unsafe { libc::madvise(p.cast(), bytes, advice) == 0 }
}

#[inline(always)]
fn write_each(p: *mut u8, bytes: usize, step: usize) {
    for at in (0..bytes).step_by(step) {
        // SAFETY: within the mapping.
        unsafe { p.add(at).write_volatile(1) };
    }
}

#[inline(always)]
fn read_each(p: *const u8, bytes: usize, step: usize) {
    for at in (0..bytes).step_by(step) {
        // SAFETY: within the mapping.
        unsafe { p.add(at).read_volatile() };
    }
}

fn memfd(bytes: usize) -> File {
    // SAFETY: a new file without a name; nobody else has its descriptor.
    let file = unsafe {
        let fd = libc::memfd_create(c"spends".as_ptr(), 0);
        assert!(fd >= 0, "memfd_create: {}", std::io::Error::last_os_error());
        File::from_raw_fd(fd)
    };
    file.set_len(bytes as u64).expect("room in memory");
    file
}

/// A nameless file on a disk, of so many bytes, all written.
fn on_disk(bytes: usize) -> File {
    let folder = std::env::var("QUELL_TEST_DISK").unwrap_or_else(|_| "/var/tmp".to_owned());
    let path = std::path::Path::new(&folder).join(format!("spends.{}", std::process::id()));
    let mut options = File::options();
    let opened = options.read(true).write(true).create_new(true).open(&path);
    let Ok(mut file) = opened else {
        absent("no folder for a file")
    };
    let _ = std::fs::remove_file(&path);
    // SAFETY: the kernel fills it.
    let kind = unsafe {
        let mut told: libc::statfs = std::mem::zeroed();
        libc::fstatfs(file.as_raw_fd(), &raw mut told);
        told.f_type
    };
    const RAMFS: i64 = 0x8584_58f6;
    if kind == RAMFS || kind == libc::TMPFS_MAGIC {
        absent("no disk: the folder is in memory");
    }
    let piece = vec![1_u8; MIB];
    for _ in 0..bytes / MIB {
        file.write_all(&piece).expect("room on the disk");
    }
    file.sync_all().expect("the disk takes it");
    file
}

/// Is it still to go on?
struct Until(Instant);

impl Until {
    fn goes_on(&self) -> bool {
        Instant::now() < self.0
    }
}

fn fork_and_wait() {
    // SAFETY: the child ends at once, by a call that is safe after fork.
    unsafe {
        let pid = libc::fork();
        assert!(pid >= 0, "fork: {}", std::io::Error::last_os_error());
        if pid == 0 {
            libc::_exit(0);
        }
        libc::waitpid(pid, ptr::null_mut(), 0);
    }
}

/// Anonymous memory: huge pages or small ones, copied ones, and what calls do with them.
#[inline(never)]
fn spend_memory(mechanism: &str, until: &Until) -> bool {
    let bytes = 32 * MIB;
    match mechanism {
        "fault.anon" => {
            while until.goes_on() {
                let p = private(bytes);
                write_each(p, bytes, PAGE);
                unmap(p, bytes);
            }
        }
        "zeroing" => {
            while until.goes_on() {
                let p = map(4 * bytes, libc::MAP_PRIVATE, None);
                advise(p, 4 * bytes, libc::MADV_HUGEPAGE);
                write_each(p, 4 * bytes, 2 * MIB);
                unmap(p, 4 * bytes);
            }
        }
        "fault.cow" => {
            let file = memfd(bytes);
            write_each(map(bytes, libc::MAP_SHARED, Some(&file)), bytes, PAGE);
            while until.goes_on() {
                let p = map(bytes, libc::MAP_PRIVATE, Some(&file));
                read_each(p, bytes, PAGE);
                write_each(p, bytes, PAGE);
                unmap(p, bytes);
            }
        }
        "fault.file" => {
            let file = memfd(bytes);
            write_each(map(bytes, libc::MAP_SHARED, Some(&file)), bytes, PAGE);
            while until.goes_on() {
                let p = map(bytes, libc::MAP_SHARED, Some(&file));
                // one at a time, and not its neighbours as well
                advise(p, bytes, libc::MADV_RANDOM);
                read_each(p, bytes, PAGE);
                unmap(p, bytes);
            }
        }
        "map" => {
            while until.goes_on() {
                for _ in 0..100 {
                    unmap(map(PAGE, libc::MAP_PRIVATE, None), PAGE);
                }
            }
        }
        "advise" => {
            let p = private(bytes);
            while until.goes_on() {
                write_each(p, bytes, PAGE);
                advise(p, bytes, libc::MADV_DONTNEED);
            }
        }
        "protect" => {
            let p = private(bytes);
            write_each(p, bytes, PAGE);
            while until.goes_on() {
                for protection in [libc::PROT_READ, libc::PROT_READ | libc::PROT_WRITE] {
                    // SAFETY: this program's own memory, that nobody uses meanwhile.
                    unsafe { libc::mprotect(p.cast(), bytes, protection) };
                }
            }
        }
        "remap" => {
            let mut p = private(bytes);
            let free = map(2 * bytes, libc::MAP_PRIVATE | libc::MAP_NORESERVE, None);
            write_each(p, bytes, PAGE);
            let mut odd = 0;
            while until.goes_on() {
                // not by whole page tables, which would be quick
                odd = (odd + 1) % 2;
                // SAFETY: from memory of this program's to a place that it keeps free.
                p = unsafe {
                    let to = free.add(odd * bytes + (odd + 1) * PAGE);
                    let fixed = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
                    libc::mremap(p.cast(), bytes - 4 * PAGE, bytes - 4 * PAGE, fixed, to).cast()
                };
                assert!(
                    p.cast() != libc::MAP_FAILED,
                    "mremap: {}",
                    std::io::Error::last_os_error()
                );
            }
        }
        "brk" => {
            while until.goes_on() {
                // SAFETY: nothing else of this program uses the heap meanwhile.
                unsafe {
                    libc::sbrk(16 * PAGE as isize);
                    libc::sbrk(-16 * PAGE as isize);
                }
            }
        }
        "populate" => {
            let p = private(bytes);
            write_each(p, bytes, PAGE);
            while until.goes_on() {
                // SAFETY: this program's own memory.
                unsafe {
                    if libc::mlock(p.cast(), 4 * MIB) != 0 {
                        absent("no memory may be locked here");
                    }
                    libc::munlock(p.cast(), 4 * MIB);
                }
            }
        }
        "fork" => {
            let p = private(8 * bytes);
            write_each(p, 8 * bytes, PAGE);
            while until.goes_on() {
                fork_and_wait();
            }
        }
        "inspect" => {
            let p = private(4 * bytes);
            write_each(p, 4 * bytes, PAGE);
            let mut text = Vec::new();
            while until.goes_on() {
                text.clear();
                let mut file = File::open("/proc/self/smaps").expect("/proc is there");
                file.read_to_end(&mut text).expect("its smaps can be read");
            }
        }
        _ => return false,
    }
    true
}

/// Pages that have to come from the disk.
#[inline(never)]
fn spend_reading(until: &Until) {
    let bytes = 64 * MIB;
    let file = on_disk(bytes);
    while until.goes_on() {
        // SAFETY: advice about a file of this program's.
        unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
        let p = map(bytes, libc::MAP_PRIVATE, Some(&file));
        advise(p, bytes, libc::MADV_RANDOM);
        read_each(p, bytes, 16 * PAGE);
        unmap(p, bytes);
    }
}

/// One thread frees pages, and another one on another CPU has to flush its TLB.
#[inline(never)]
fn spend_shooting(until: &Until) {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let p = private(PAGE);
        while until.goes_on() {
            for _ in 0..100 {
                write_each(p, PAGE, PAGE);
                advise(p, PAGE, libc::MADV_DONTNEED);
            }
        }
        over.store(true, Ordering::Relaxed);
    });
}

/// Another process looks at all pages again and again, and this one can map nothing meanwhile.
#[inline(never)]
fn spend_waiting(until: &Until) {
    let bytes = 256 * MIB;
    let p = private(bytes);
    write_each(p, bytes, PAGE);
    let own = std::process::id();
    let path = format!("/proc/{own}/clear_refs");
    // SAFETY: the child calls nothing but what the kernel does, and allocates nothing that a thread could have locked: there
    // is only one thread.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork: {}", std::io::Error::last_os_error());
    if child == 0 {
        while until.goes_on() {
            if std::fs::write(&path, "1").is_err() {
                std::process::exit(ABSENT);
            }
        }
        std::process::exit(0);
    }
    while until.goes_on() {
        unmap(map(PAGE, libc::MAP_PRIVATE, None), PAGE);
        std::thread::sleep(Duration::from_micros(200));
    }
    // SAFETY: its own child.
    unsafe { libc::waitpid(child, ptr::null_mut(), 0) };
}

/// No memory management at all.
#[inline(never)]
fn spend_nothing(until: &Until) {
    while until.goes_on() {}
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let (mechanism, ms) = match args.as_slice() {
        [own, mechanism, ms] => return watch(own, mechanism, ms),
        [_, mechanism, ms, _] => (mechanism, ms),
        _ => absent("usage: spends MECHANISM MILLISECONDS"),
    };
    let ms = Duration::from_millis(ms.parse().expect("milliseconds"));
    let until = Until(Instant::now() + ms);
    match mechanism.as_str() {
        "nothing" => spend_nothing(&until),
        "fault.major" => spend_reading(&until),
        "shootdown.wait" => spend_shooting(&until),
        "lock.mmap" => spend_waiting(&until),
        other if spend_memory(other, &until) => {}
        other => absent(&format!("no way to make '{other}'")),
    }
}

/// Runs the rest in a child, and prints what both used.
fn watch(own: &str, mechanism: &str, ms: &str) {
    let child = std::process::Command::new(own)
        .args([mechanism, ms, "itself"])
        .status()
        .expect("it starts itself");
    if !child.success() {
        std::process::exit(child.code().unwrap_or(1));
    }
    // SAFETY: the kernel fills it.
    let (own, children) = unsafe {
        let mut own: libc::rusage = std::mem::zeroed();
        let mut children: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut own);
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut children);
        (own, children)
    };
    let ns = |t: libc::timeval| t.tv_sec * 1_000_000_000 + t.tv_usec * 1000;
    let sum = |u: &libc::rusage| ns(u.ru_utime) + ns(u.ru_stime);
    println!("{}", sum(&own) + sum(&children));
}
