//! Causes that take a change of the system: swap, two NUMA nodes, KSM, khugepaged, memory that is taken
//! offline. For a virtual machine that is thrown away, and only there.

use std::fs;
use std::path::Path;
use std::process;
use std::time::{Duration, Instant};

use crate::memory::{HUGE, PAGE, SIZE, advise, aligned, check, map, touch, touch_read, unmap};
use crate::peer::Peer;

/// include/uapi/linux/mempolicy.h
const MPOL_MF_MOVE: i32 = 2;

/// How long is waited for what a kernel thread does.
const WHILE: Duration = Duration::from_secs(8);

/// Writes to a file of the kernel's that has to be there.
pub(crate) fn set(path: &str, value: &str) {
    fs::write(path, value).unwrap_or_else(|err| panic!("{path}: {err}"));
}

/// The same, where the kernel may say that it could not do all of it.
fn ask(path: &str, value: &str) {
    let _ = fs::write(path, value);
}

/// Does `what` until enough time has passed.
fn for_a_while(mut what: impl FnMut()) {
    let end = Instant::now() + WHILE;
    while Instant::now() < end {
        what();
    }
}

fn nap() {
    std::thread::sleep(Duration::from_millis(100));
}

/// A cgroup of our own, of which memory can be reclaimed.
const GROUP: &str = "/sys/fs/cgroup/causes";

fn enter_group() {
    ask("/sys/fs/cgroup/cgroup.subtree_control", "+memory");
    let _ = fs::create_dir(GROUP);
    set(&format!("{GROUP}/cgroup.procs"), &process::id().to_string());
}

/// Has 128 KiB of the group reclaimed, or less. Linux 5.19 has a file for that; before it, whoever sets a limit
/// has what is above it reclaimed (Documentation/admin-guide/cgroup-v2.rst).
fn reclaim_some() {
    const BYTES: u64 = 128 << 10;
    let file = format!("{GROUP}/memory.reclaim");
    if Path::new(&file).exists() {
        // EAGAIN where it was less than asked for
        ask(&file, &BYTES.to_string());
        return;
    }
    let used = fs::read_to_string(format!("{GROUP}/memory.current")).expect("memory.current");
    let used: u64 = used.trim().parse().expect("bytes");
    let limit = format!("{GROUP}/memory.high");
    set(&limit, &used.saturating_sub(BYTES).to_string());
    set(&limit, "max");
}

/// Does what is asked for, some `count` times; false if there is no way here. An `Err` says what this
/// kernel lacks for it.
pub(crate) fn make(cause: &str, count: usize, peer: Peer) -> Result<bool, &'static str> {
    match cause {
        "reclaim" => reclaim(count, peer),
        "migrate.demote" => {
            if !Path::new("/sys/devices/system/node/node2").exists() || tiers() < 2 {
                return Err("this kernel puts all memory into one tier");
            }
            set("/sys/kernel/mm/numa/demotion_enabled", "1");
            demote(count, peer);
            set("/sys/kernel/mm/numa/demotion_enabled", "0");
        }
        "migrate.move" => move_pages(count, peer),
        "migrate.numa" => numa(peer),
        "migrate.other" => offline(),
        "compaction" => compaction(count, peer),
        "ksm" => ksm(),
        "thp.collapse" => collapse(),
        "thp.split" => split(count, peer),
        "madvise.other" => return poison(count, peer),
        "kernel" => kernel(count),
        _ => return Ok(false),
    }
    Ok(true)
}

fn tiers() -> usize {
    let tiers = fs::read_dir("/sys/devices/virtual/memory_tiering");
    let names = tiers.into_iter().flatten().flatten();
    names
        .filter(|e| e.file_name().to_string_lossy().starts_with("memory_tier"))
        .count()
}

fn reclaim(count: usize, peer: Peer) {
    enter_group();
    let p = map(64 * PAGE, None);
    for _ in 0..count {
        touch(p, 64 * PAGE, 1);
        peer.wait();
        reclaim_some();
    }
}

/// New pages each time: those that lie in the slow tier already are swapped.
fn demote(count: usize, peer: Peer) {
    enter_group();
    for _ in 0..count {
        let p = map(64 * PAGE, None);
        touch(p, 64 * PAGE, 1);
        peer.wait();
        reclaim_some();
        unmap(p, 64 * PAGE);
    }
}

/// From one node to the other and back.
fn move_pages(count: usize, peer: Peer) {
    let p = map(SIZE, None);
    touch(p, SIZE, 1);
    let pages: Vec<*mut u8> = (0..SIZE / PAGE).map(|i| p.wrapping_add(i * PAGE)).collect();
    for i in 0..count {
        touch_read(p, SIZE);
        peer.wait();
        let nodes = vec![i32::try_from(1 - i % 2).expect("0 or 1"); pages.len()];
        let mut status = vec![0_i32; pages.len()];
        // SAFETY: three arrays of so many entries; the pages are our own.
        let ret = unsafe {
            libc::syscall(
                libc::SYS_move_pages,
                0,
                pages.len(),
                pages.as_ptr(),
                nodes.as_ptr(),
                status.as_mut_ptr(),
                MPOL_MF_MOVE,
            )
        };
        assert!(ret >= 0, "move_pages: {}", std::io::Error::last_os_error());
    }
}

/// Memory lies on node 1 and is used from node 0, until the kernel moves it.
fn numa(peer: Peer) {
    const MANY: usize = 1024 * PAGE;
    let knobs = "/sys/kernel/debug/sched/numa_balancing";
    ask(&format!("{knobs}/scan_delay_ms"), "0");
    ask(&format!("{knobs}/scan_period_min_ms"), "50");
    ask(&format!("{knobs}/scan_period_max_ms"), "100");
    set("/proc/sys/kernel/numa_balancing", "1");
    for_a_while(|| {
        let p = map(MANY, None);
        bind(p, MANY, Some(1));
        touch(p, MANY, 1);
        bind(p, MANY, None);
        let end = Instant::now() + WHILE / 4;
        while Instant::now() < end {
            touch_read(p, MANY);
            peer.wait();
        }
        unmap(p, MANY);
    });
    set("/proc/sys/kernel/numa_balancing", "0");
}

/// Binds memory to a node, or frees it to lie anywhere.
fn bind(p: *mut u8, size: usize, node: Option<u32>) {
    let mask = node.map_or(0_u64, |n| 1 << n);
    let mode = if node.is_some() {
        libc::MPOL_BIND
    } else {
        libc::MPOL_DEFAULT
    };
    // SAFETY: the call reads one word of 64 bits.
    let ret = unsafe { libc::syscall(libc::SYS_mbind, p, size, mode, &raw const mask, 64, 0) };
    assert_eq!(ret, 0, "mbind: {}", std::io::Error::last_os_error());
}

/// Blocks of node 1, which holds our memory, are asked to go offline: what can move is moved away.
fn offline() {
    // Blocks have to be ours as a whole, so it is much; and a node of the virtual machines has 1 GB, on which their files may lie.
    const MOST: usize = 512 << 20;
    const LEFT: usize = 128 << 20;
    let many = (free_on_node_1().saturating_sub(LEFT) & !(PAGE - 1)).clamp(PAGE, MOST);
    let p = map(many, None);
    advise(p, many, libc::MADV_NOHUGEPAGE);
    bind(p, many, Some(1));
    touch(p, many, 1);
    bind(p, many, None);
    let entries = fs::read_dir("/sys/devices/system/node/node1").expect("node 1");
    let paths = entries.flatten().map(|e| e.path().join("state"));
    for state in paths.filter(|p| p.exists()) {
        let state = state.display().to_string();
        // refused where something of the kernel's own lies there
        ask(&state, "offline");
        ask(&state, "online");
    }
}

/// Bytes.
fn free_on_node_1() -> usize {
    let all = fs::read_to_string("/sys/devices/system/node/node1/meminfo").expect("node 1");
    let free = all.lines().find(|line| line.contains("MemFree:"));
    let kb = free.and_then(|line| line.split_whitespace().nth(3)?.parse::<usize>().ok());
    kb.expect("its free memory") << 10
}

/// Memory with a hole after every page, of which blocks are to be made.
fn compaction(count: usize, peer: Peer) {
    const MANY: usize = 96 << 20;
    for _ in 0..count.min(10) {
        let (p, q) = (map(MANY, None), map(MANY, None));
        for r in [p, q] {
            advise(r, MANY, libc::MADV_NOHUGEPAGE);
        }
        for at in (0..MANY).step_by(PAGE) {
            touch(p.wrapping_add(at), PAGE, 1);
            touch(q.wrapping_add(at), PAGE, 1);
        }
        unmap(q, MANY);
        peer.wait();
        set("/proc/sys/vm/compact_memory", "1");
        unmap(p, MANY);
    }
}

/// Pages that are alike, and then no longer.
fn ksm() {
    const MANY: usize = 256 * PAGE;
    set("/sys/kernel/mm/ksm/sleep_millisecs", "10");
    set("/sys/kernel/mm/ksm/pages_to_scan", "1000");
    let p = map(MANY, None);
    advise(p, MANY, libc::MADV_NOHUGEPAGE);
    advise(p, MANY, libc::MADV_MERGEABLE);
    set("/sys/kernel/mm/ksm/run", "1");
    for_a_while(|| {
        touch(p, MANY, 7);
        std::thread::sleep(WHILE / 4);
    });
    set("/sys/kernel/mm/ksm/run", "0");
}

/// Small pages, where huge ones are allowed afterwards: khugepaged finds them.
fn collapse() {
    let knobs = "/sys/kernel/mm/transparent_hugepage/khugepaged";
    set(&format!("{knobs}/scan_sleep_millisecs"), "10");
    set(&format!("{knobs}/alloc_sleep_millisecs"), "10");
    set(&format!("{knobs}/pages_to_scan"), "100000");
    for_a_while(|| {
        let p = map(9 * HUGE, None);
        let start = aligned(p);
        advise(start, 8 * HUGE, libc::MADV_NOHUGEPAGE);
        touch(start, 8 * HUGE, 1);
        advise(start, 8 * HUGE, libc::MADV_HUGEPAGE);
        nap();
        nap();
        nap();
        unmap(p, 9 * HUGE);
    });
    set(&format!("{knobs}/scan_sleep_millisecs"), "10000");
}

fn split(count: usize, peer: Peer) {
    for _ in 0..count {
        let p = map(2 * HUGE, None);
        let start = aligned(p);
        advise(start, HUGE, libc::MADV_HUGEPAGE);
        touch(start, PAGE, 1);
        peer.wait();
        let range = format!(
            "{},{:#x},{:#x}",
            process::id(),
            start.addr(),
            start.addr() + HUGE
        );
        set("/sys/kernel/debug/split_huge_pages", &range);
        unmap(p, 2 * HUGE);
    }
}

/// Pages are declared broken, by an advice that has no name of its own here.
fn poison(count: usize, peer: Peer) -> Result<bool, &'static str> {
    if !Path::new("/proc/sys/vm/memory_failure_recovery").exists() {
        return Err("this kernel is built without CONFIG_MEMORY_FAILURE");
    }
    extern "C" fn told(_: libc::c_int) {}
    // whoever has the page is told by a signal, once the call is over
    // SAFETY: the handler does nothing.
    unsafe { libc::signal(libc::SIGBUS, told as *const () as libc::sighandler_t) };
    let p = map(count.min(50) * PAGE, None);
    advise(p, count.min(50) * PAGE, libc::MADV_NOHUGEPAGE);
    for page in 0..count.min(50) {
        let q = p.wrapping_add(page * PAGE);
        touch(q, PAGE, 1);
        peer.wait();
        advise(q, PAGE, libc::MADV_HWPOISON);
    }
    Ok(true)
}

/// The kernel's own mappings come and go: arrays of eBPF that user space may map are made by vmalloc(),
/// whose addresses are used again only after a flush everywhere.
fn kernel(count: usize) {
    /// The part of union bpf_attr that BPF_MAP_CREATE needs (include/uapi/linux/bpf.h).
    #[repr(C)]
    #[derive(Default)]
    struct Create {
        kind: u32,
        key_size: u32,
        value_size: u32,
        max_entries: u32,
        flags: u32,
        rest: [u32; 11],
    }
    const ARRAY: u32 = 2;
    const MMAPABLE: u32 = 1 << 10;
    for _ in 0..count.min(40) {
        let create = Create {
            kind: ARRAY,
            key_size: 4,
            value_size: 4096,
            max_entries: (64 << 20) / 4096,
            flags: MMAPABLE,
            ..Create::default()
        };
        // SAFETY: BPF_MAP_CREATE (0) reads so many bytes; the descriptor that comes back is closed at once.
        unsafe {
            let fd = libc::syscall(libc::SYS_bpf, 0, &raw const create, size_of::<Create>());
            assert!(fd >= 0, "bpf: {}", std::io::Error::last_os_error());
            check(
                "close",
                libc::close(i32::try_from(fd).expect("a descriptor")),
            );
        }
        nap();
    }
}
