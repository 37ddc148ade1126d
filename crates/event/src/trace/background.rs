//! Work that must not disturb the program that is measured.

use std::ffi::c_int;

#[repr(C)]
struct SchedParam {
    sched_priority: c_int,
}

const SCHED_IDLE: c_int = 5;
const PRIO_PROCESS: c_int = 0;

// Two functions of the C library that the standard library links anyway.
unsafe extern "C" {
    fn sched_setscheduler(pid: c_int, policy: c_int, param: *const SchedParam) -> c_int;
    fn setpriority(which: c_int, who: c_int, priority: c_int) -> c_int;
}

/// Gives this thread the least share of a CPU that there is (sched(7), SCHED_IDLE); where that is refused, that of nice 19.
/// Where both are refused it runs as it did, which costs time and nothing else.
pub(super) fn step_back() {
    let param = SchedParam { sched_priority: 0 };
    // SAFETY: 0 is the calling thread, and `param` outlives the call, which only reads it.
    let refused = unsafe { sched_setscheduler(0, SCHED_IDLE, &raw const param) } != 0;
    if refused {
        // SAFETY: Takes numbers only; on Linux 0 is the calling thread.
        unsafe { setpriority(PRIO_PROCESS, 0, 19) };
    }
}

#[cfg(test)]
mod tests {
    /// Check that a thread that steps back is in SCHED_IDLE, or at nice 19 where that is refused.
    #[test]
    fn steps_back() {
        let stat = std::thread::spawn(|| {
            super::step_back();
            std::fs::read_to_string("/proc/thread-self/stat").unwrap()
        });
        let stat = stat.join().unwrap();
        // Counted after the name, which may have spaces: nice is field 19 and policy field 41.
        let fields: Vec<&str> = stat
            .rsplit_once(')')
            .unwrap()
            .1
            .split_whitespace()
            .collect();
        assert!(fields[41 - 3] == "5" || fields[19 - 3] == "19", "{stat}");
    }
}
