//! For how long, and what the first thread did with that time as the kernel has it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Is it still to go on?
pub(crate) struct Until {
    end: Instant,
    lasts: Duration,
}

/// A moment of a thread, and its time until then: on a CPU, and waiting for one, ns.
#[derive(Clone, Copy)]
struct Moment {
    at: Instant,
    ran: u64,
    waited: u64,
}

/// With a number in it the process stops itself (SIGSTOP) before it begins for the so many-th time, and when the time is over:
/// who begins to watch then, and ends then, sees what it does in between and nothing else.
const STOPS: &str = "QUELL_TEST_STOPS";

static BEGINNINGS: AtomicU32 = AtomicU32::new(0);
static BEGAN: Mutex<Option<Moment>> = Mutex::new(None);
static ENDED: Mutex<Option<Moment>> = Mutex::new(None);

impl Moment {
    fn now() -> Self {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        let mut numbers = text
            .split_whitespace()
            .map(|w| w.parse().unwrap_or_default());
        Self {
            at: Instant::now(),
            ran: numbers.next().unwrap_or_default(),
            waited: numbers.next().unwrap_or_default(),
        }
    }
}

fn set(moment: &Mutex<Option<Moment>>) {
    *moment.lock().expect("nobody panics with it") = Some(Moment::now());
}

fn get(moment: &Mutex<Option<Moment>>) -> Option<Moment> {
    *moment.lock().expect("nobody panics with it")
}

/// Until somebody lets it go on (SIGCONT).
fn stop() {
    // SAFETY: a signal to itself, which no handler can take.
    unsafe { libc::raise(libc::SIGSTOP) };
}

/// The beginning before which it has to stop.
fn stops_before() -> Option<u32> {
    std::env::var(STOPS).ok()?.parse().ok()
}

impl Until {
    pub(crate) fn over_in(lasts: Duration) -> Self {
        let nth = BEGINNINGS.fetch_add(1, Ordering::Relaxed) + 1;
        if stops_before() == Some(nth) {
            stop();
        }
        set(&BEGAN);
        Self {
            end: Instant::now() + lasts,
            lasts,
        }
    }

    /// The same time anew: what is prepared before may take long.
    pub(crate) fn begun_now(&self) -> Self {
        Self::over_in(self.lasts)
    }

    pub(crate) fn left(&self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }

    pub(crate) fn goes_on(&self) -> bool {
        let goes_on = !self.left().is_zero();
        if !goes_on && get(&ENDED).is_none() {
            set(&ENDED);
            if stops_before().is_some() {
                stop();
            }
        }
        goes_on
    }
}

/// From when it began in earnest until the time was over: how long, of that on a CPU, and waiting for one; and how long it had
/// waited for one before, and had one before, ns.
pub(crate) fn told() -> String {
    let (Some(began), Some(ended)) = (get(&BEGAN), get(&ENDED)) else {
        return "0 0 0 0 0".to_owned();
    };
    let all = (ended.at - began.at).as_nanos();
    let (ran, waited) = (ended.ran - began.ran, ended.waited - began.waited);
    format!("{all} {ran} {waited} {} {}", began.waited, began.ran)
}
