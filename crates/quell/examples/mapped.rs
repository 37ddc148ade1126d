//! Maps one page of a file, shared and writable, and writes to it, for the tests: `mapped FILE`.
//!
//! Says "mapped" when it is done, and ends when its output has no reader any more, a minute later at
//! the latest.

use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::mm::{MapFlags, ProtFlags, mmap};

const PAGE: usize = 4096;
const LONGEST: Duration = Duration::from_secs(60);

fn main() -> std::io::Result<()> {
    let path = std::env::args_os()
        .nth(1)
        .ok_or_else(|| std::io::Error::other("usage: mapped FILE"))?;
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(path)?;
    file.set_len(PAGE as u64)?;
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping, placed by the kernel, of a file that has this page and that nobody cuts.
    unsafe {
        let page = mmap(
            std::ptr::null_mut(),
            PAGE,
            protection,
            MapFlags::SHARED,
            &file,
            0,
        )?;
        page.cast::<u8>().write_volatile(1);
    }
    let out = std::io::stdout();
    writeln!(&out, "mapped")?;
    // A pipe whose reader has gone shows POLLERR, asked for or not (poll(2)).
    let deadline = Instant::now() + LONGEST;
    let wait = Timespec {
        tv_sec: 1,
        tv_nsec: 0,
    };
    while Instant::now() < deadline {
        let fd = out.as_fd();
        if poll(&mut [PollFd::new(&fd, PollFlags::empty())], Some(&wait)).is_ok_and(|n| n > 0) {
            break;
        }
    }
    Ok(())
}
