//! Foreign files of /proc: one text as each of them.
#![no_main]

use std::path::Path;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use quell_host::proc::Proc;
use quell_host::{interrupts, vmstat};

const FILES: [&str; 8] =
    ["interrupts", "vmstat", "7/stat", "7/comm", "7/cmdline", "7/environ", "7/maps", "7/task/7/stat"];

fn root() -> &'static Path {
    static DIR: OnceLock<tempfile::TempDir> = OnceLock::new();
    DIR.get_or_init(|| {
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::create_dir_all(dir.path().join("proc/7/task/7")).expect("a folder");
        dir
    })
    .path()
}

fuzz_target!(|bytes: &[u8]| {
    for name in FILES {
        std::fs::write(root().join("proc").join(name), bytes).expect("a file");
    }
    let proc = Proc::new(root());
    let _ = (interrupts::read_flush_interrupts_by_cpu(root()), interrupts::read_flush_interrupts(root()), vmstat::read_vmstat(root()));
    let _ = (proc.stat(7), proc.comm(7), proc.cmdline(7), proc.environ(7), proc.process_tree(7), proc.thread_stats(7));
    let _ = quell_host::maps::read_maps(root(), 7);
});
