//! Makes shootdowns by one cause on purpose, for the tests: `causes CAUSE COUNT`.
//!
//! A peer spins in the same address space on CPU 1, so that there is somebody to interrupt. Changes nothing
//! on the system, and its files are temporary and nameless; but for causes that can't be had so, which
//! are made only where `QUELL_TEST_VM` says that this is a virtual machine of the tests. Ends with status
//! 77 and a reason where this kernel can't have the cause.

#![expect(clippy::print_stderr, reason = "it is a program")]

mod calls;
mod machine;
mod memory;
mod others;
mod peer;

use memory::{SIZE, file, map, pin, touch};
use peer::Peer;

/// The status of a test that could not run, as in automake.
const ABSENT: i32 = 77;

fn absent(why: &str) -> ! {
    eprintln!("{why}");
    std::process::exit(ABSENT);
}

/// Those that change the system.
fn on_a_machine_of_its_own(cause: &str, count: usize) {
    assert!(
        std::env::var_os("QUELL_TEST_VM").is_some(),
        "'{cause}' can't be made without changing the system: for a virtual machine of the tests only"
    );
    if cause == "hugetlb" {
        let knob = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";
        return others::hugetlb(count, |n| machine::set(knob, &n.to_string()));
    }
    let peer = Peer::thread();
    let made = machine::make(cause, count, peer);
    peer.end();
    match made {
        Ok(true) => {}
        Ok(false) => panic!("no way to make '{cause}' here"),
        Err(why) => absent(why),
    }
}

/// Those that are a call, or a few, on the program's own memory.
fn by_calls(cause: &str, count: usize) {
    let peer = Peer::thread();
    let shared = file(SIZE);
    let p = map(SIZE, None);
    if let Some(why) = calls::lacks(cause, p) {
        absent(why);
    }
    for _ in 0..count {
        peer.wait();
        touch(p, SIZE, 1);
        calls::once(cause, p, &shared);
    }
    peer.end();
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let (cause, count) = match args.as_slice() {
        [_, cause, count] => (cause.as_str(), count.parse::<usize>().expect("a count")),
        _ => panic!("usage: causes CAUSE COUNT"),
    };
    pin(0);
    match cause {
        "nothing" => {}
        "debugger" => others::debugger(count),
        "exit" => others::ends(count, false),
        "exec" => others::ends(count, true),
        "userfaultfd" => {
            let peer = Peer::thread();
            others::userfaultfd(count, peer);
            peer.end();
        }
        _ if calls::CAUSES.contains(&cause) => by_calls(cause, count),
        _ => on_a_machine_of_its_own(cause, count),
    }
}
