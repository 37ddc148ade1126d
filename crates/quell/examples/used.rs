//! Runs a command and writes into a file what the kernel says that it and its children used of the CPUs (getrusage(2)), ns:
//! `used FILE COMMAND...`.

use std::process::Command;

fn main() {
    let mut args = std::env::args().skip(1);
    let file = args.next().expect("usage: used FILE COMMAND...");
    let command = args.next().expect("usage: used FILE COMMAND...");
    let status = Command::new(command).args(args).status();
    let status = status.expect("the command starts");
    let ns = |t: libc::timeval| t.tv_sec * 1_000_000_000 + t.tv_usec * 1000;
    let used = [libc::RUSAGE_SELF, libc::RUSAGE_CHILDREN].map(|who| {
        // SAFETY: the kernel fills it.
        let told = unsafe {
            let mut told: libc::rusage = std::mem::zeroed();
            libc::getrusage(who, &raw mut told);
            told
        };
        ns(told.ru_utime) + ns(told.ru_stime)
    });
    let used: i64 = used.iter().sum();
    std::fs::write(file, used.to_string()).expect("the file is written");
    std::process::exit(status.code().unwrap_or(1));
}
