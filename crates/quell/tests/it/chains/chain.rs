//! The same in Rust: closures and trait objects.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

trait Work {
    fn work(&self, n: usize) -> usize;
}

unsafe extern "C" {
    fn mmap(at: *mut u8, len: usize, prot: i32, flags: i32, fd: i32, offset: i64) -> *mut u8;
    fn munmap(at: *mut u8, len: usize) -> i32;
}

const LEN: usize = 1 << 16;

struct Fill(u8);

impl Work for Fill {
    #[inline(never)]
    fn work(&self, n: usize) -> usize {
        let touch = |value: u8| {
            // SAFETY: private anonymous memory, readable and writable, of which nobody else knows.
            unsafe {
                let page = mmap(std::ptr::null_mut(), LEN, 3, 0x22, -1, 0);
                assert_ne!(page.addr(), usize::MAX, "mmap");
                page.write_bytes(value, LEN);
                munmap(page, LEN)
            }
        };
        black_box(touch)(self.0).unsigned_abs() as usize + n
    }
}

#[inline(never)]
fn deeper(work: &dyn Work, n: usize) -> usize {
    let room = black_box([n; 12]);
    work.work(room[3]) + room[n % 12]
}

#[inline(never)]
fn odd(work: &dyn Work, n: usize) -> usize {
    deeper(work, n + 1) + 1
}

#[inline(never)]
fn even(work: &dyn Work, n: usize) -> usize {
    deeper(work, n + 2) + 2
}

fn main() {
    let count: usize = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(1);
    let done = Arc::new(AtomicBool::new(false));
    let theirs = Arc::clone(&done);
    let spins = std::thread::spawn(move || {
        while !theirs.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    });
    let works = [Fill(1), Fill(2)];
    let mut sum = 0;
    for n in 0..count {
        let work: &dyn Work = &works[n % 2];
        sum += if n % 2 == 1 { odd(work, n) } else { even(work, n) };
    }
    done.store(true, Ordering::Relaxed);
    let _ended = spins.join();
    black_box(sum);
}
