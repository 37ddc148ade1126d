//! Work for the kernel's own threads. It takes settings of the system, and so a virtual machine that is thrown away.

use std::fs;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Duration;

use crate::memory::{MIB, PAGE, advise, map, on_disk, private, unmap, write_each};
use crate::system::{bytes_of, in_pieces, is_thrown_away, read_at, set};
use crate::{Until, absent};

const NAP: Duration = Duration::from_millis(50);

/// Has the thread of that name work; false if there is none.
pub(crate) fn employ(thread: &str, until: &Until) -> bool {
    if thread == "flusher" {
        employ_flusher(until);
        return true;
    }
    let work = match thread {
        "kswapd" => employ_kswapd,
        "kcompactd" => employ_kcompactd,
        "khugepaged" => employ_khugepaged,
        "ksmd" => employ_ksmd,
        "kdamond" => employ_kdamond,
        _ => return false,
    };
    if !is_thrown_away() {
        absent("changes settings of the system: for a virtual machine of the tests only");
    }
    work(until);
    true
}

/// Pages are written to a file, and the kernel's thread takes them to the disk.
fn employ_flusher(until: &Until) {
    let file = on_disk(0);
    let piece = vec![1_u8; MIB];
    while until.goes_on() {
        for at in 0..16 {
            file.write_all_at(&piece, at << 20)
                .expect("room on the disk");
        }
        // SAFETY: a file of this program's.
        unsafe { libc::syncfs(file.as_raw_fd()) };
    }
}

/// More of a file is read than there is free memory, of which the kernel keeps two thirds back, so that it comes to the end of it soon.
fn employ_kswapd(until: &Until) {
    let file = on_disk(0);
    let bytes = 8 << 30;
    file.set_len(bytes as u64).expect("room for a number");
    let (kept_back, share) = (
        "/proc/sys/vm/min_free_kbytes",
        "/proc/sys/vm/watermark_scale_factor",
    );
    let before = fs::read_to_string(kept_back).expect("a number of kB");
    let free_kb = bytes_of("/proc/meminfo", "MemFree:") >> 10;
    set(kept_back, &(free_kb / 3 * 2).to_string());
    // the thread is woken that far above it, 1 in 10 of all memory, and not only when others wait already
    set(share, "1000");
    let mut piece = vec![0_u8; MIB];
    let mut at = 0;
    while until.goes_on() {
        read_at(&file, &mut piece, at);
        at = (at + MIB) % bytes;
    }
    set(share, "10");
    set(kept_back, before.trim());
}

/// Memory is in pieces, and the kernel is told to mind.
fn employ_kcompactd(until: &Until) {
    let how_much = "/proc/sys/vm/compaction_proactiveness";
    if !Path::new(how_much).exists() {
        absent("this kernel compacts nothing unasked");
    }
    while until.goes_on() {
        let (p, bytes) = in_pieces();
        set(how_much, "100");
        while until.goes_on() {
            std::thread::sleep(NAP);
        }
        unmap(p, bytes);
    }
    set(how_much, "20");
}

/// Small pages, where huge ones are allowed afterwards.
fn employ_khugepaged(until: &Until) {
    let knobs = "/sys/kernel/mm/transparent_hugepage/khugepaged";
    set(format!("{knobs}/scan_sleep_millisecs"), "1");
    set(format!("{knobs}/alloc_sleep_millisecs"), "1");
    set(format!("{knobs}/pages_to_scan"), "100000");
    while until.goes_on() {
        let bytes = 16 * MIB;
        let p = private(bytes);
        write_each(p, bytes, PAGE);
        advise(p, bytes, libc::MADV_HUGEPAGE);
        std::thread::sleep(2 * NAP);
        unmap(p, bytes);
    }
    set(format!("{knobs}/scan_sleep_millisecs"), "10000");
}

/// Pages that are alike.
fn employ_ksmd(until: &Until) {
    let knobs = "/sys/kernel/mm/ksm";
    set(format!("{knobs}/sleep_millisecs"), "1");
    set(format!("{knobs}/pages_to_scan"), "1000");
    let bytes = 8 * MIB;
    let p = private(bytes);
    if !advise(p, bytes, libc::MADV_MERGEABLE) {
        absent("this kernel merges no pages");
    }
    set(format!("{knobs}/run"), "1");
    while until.goes_on() {
        write_each(p, bytes, PAGE);
        std::thread::sleep(4 * NAP);
    }
    set(format!("{knobs}/run"), "0");
}

/// The kernel watches which memory this process uses.
fn employ_kdamond(until: &Until) {
    let admin = Path::new("/sys/kernel/mm/damon/admin/kdamonds");
    if !admin.exists() {
        absent("this kernel has no DAMON, or none with files in sysfs");
    }
    set(admin.join("nr_kdamonds"), "1");
    set(admin.join("0/contexts/nr_contexts"), "1");
    let context = admin.join("0/contexts/0");
    let of_a_process = fs::write(context.join("operations"), "vaddr").is_ok();
    if !of_a_process {
        set(context.join("operations"), "paddr");
    }
    let times = context.join("monitoring_attrs/intervals");
    set(times.join("sample_us"), "500");
    set(times.join("aggr_us"), "5000");
    set(times.join("update_us"), "100000");
    set(context.join("targets/nr_targets"), "1");
    let target = context.join("targets/0");
    if of_a_process {
        set(target.join("pid_target"), &std::process::id().to_string());
    } else {
        set(target.join("regions/nr_regions"), "1");
        set(target.join("regions/0/start"), "0");
        set(target.join("regions/0/end"), &(1_u64 << 30).to_string());
    }
    let bytes = 16 * MIB;
    let p = map(bytes, libc::MAP_PRIVATE, None);
    set(admin.join("0/state"), "on");
    while until.goes_on() {
        write_each(p, bytes, PAGE);
        std::thread::sleep(NAP);
    }
    set(admin.join("0/state"), "off");
}
