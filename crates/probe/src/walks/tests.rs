//! Counters that a test lends.

use std::cell::RefCell;
use std::io::Result;

use super::*;

/// Lends counters but of what it refuses, and counts 10 for each event with the time that it was told.
#[derive(Default)]
struct Fake {
    refuse: Vec<(CounterEvent, i32)>,
    lent: RefCell<Vec<(CounterEvent, EventTarget)>>,
    running_ns: u64,
}

impl CounterLender for Fake {
    type Counter = ();

    fn lend(&self, event: CounterEvent, on: EventTarget) -> Result<()> {
        if let Some((_, err)) = self.refuse.iter().find(|(e, _)| *e == event) {
            return Err(Error::from_raw_os_error(*err));
        }
        self.lent.borrow_mut().push((event, on));
        Ok(())
    }

    fn read(&self, (): &()) -> Result<CounterReading> {
        Ok(CounterReading {
            value: 10,
            enabled_ns: 100,
            running_ns: self.running_ns,
        })
    }
}

fn machine(vendor: &str, family: u32, model: u32) -> CounterSupport {
    CounterSupport {
        model: ProcessorModel {
            vendor: vendor.into(),
            family,
            model,
        },
        is_virtual: false,
        is_hybrid: false,
        paranoid: Some(2),
        most_threads: 10,
    }
}

fn skylake(refuse: Vec<(CounterEvent, i32)>) -> LentCounters<Fake> {
    let fake = Fake {
        refuse,
        running_ns: 100,
        ..Fake::default()
    };
    LentCounters::new(fake, machine("GenuineIntel", 6, 0x55))
}

/// Check that each CPU gets all events once, and that their counts are summed by figure.
#[test]
fn counts_on_each_cpu() {
    let mut lent = skylake(Vec::new());
    lent.add_cpus(&[0, 1]);
    lent.add_cpus(&[1, 2]);
    assert_eq!(lent.counters.lent.borrow().len(), 3 * EVENT_COUNT);
    let counts = lent.counts();
    assert_eq!(counts.cycles.value, 30);
    assert!(
        counts
            .walk_cycles
            .iter()
            .chain(&counts.misses)
            .all(|c| c.value == 30)
    );
    assert!(counts.why.is_empty());
}

/// Check that of a CPU which goes the count stays, and that one which comes or comes back is counted.
#[test]
fn cpus_come_and_go() {
    let mut lent = skylake(Vec::new());
    lent.follow_cpus(&[0, 1]);
    lent.follow_cpus(&[0]);
    assert_eq!(lent.counts().cycles.value, 20);
    lent.follow_cpus(&[0, 1, 2]);
    assert_eq!(lent.counts().cycles.value, 40);
    assert_eq!(lent.counters.lent.borrow().len(), 4 * EVENT_COUNT);
}

/// Check that of a processor whose walks can't be timed misses are counted, and that it is said; and that an event which
/// it lacks is left out.
#[test]
fn processors_without_an_event() {
    let fake = Fake {
        refuse: vec![(MISS_EVENTS[1], libc::EINVAL)],
        running_ns: 50,
        ..Fake::default()
    };
    let mut lent = LentCounters::new(fake, machine("AuthenticAMD", 26, 2));
    lent.add_threads(&[7]);
    let counts = lent.counts();
    let scaled = counts.misses.map(CounterReading::scaled_count);
    assert_eq!(scaled, [Some(20), None, Some(20)]);
    assert_eq!(counts.walk_cycles, [CounterReading::default(); 3]);
    assert!(counts.why.contains("how long walks take"), "{}", counts.why);
}

/// Check that where counters are refused nothing is counted, and it is said why.
#[test]
fn refusals_are_said() {
    let refused = |err: i32, is_virtual: bool| {
        let mut lent = skylake(vec![(CYCLES_EVENT, err)]);
        lent.support.is_virtual = is_virtual;
        lent.check_cycles(EventTarget::Thread(1));
        lent.add_threads(&[7]);
        assert!(lent.lent.is_empty() && lent.counters.lent.borrow().is_empty());
        lent.counts().why
    };
    for (err, is_virtual, why) in [
        (libc::EACCES, false, "kernel.perf_event_paranoid is 2"),
        (
            libc::ENOENT,
            true,
            "this virtual machine has no such counters",
        ),
        (
            libc::EOPNOTSUPP,
            false,
            "no such counters of this processor",
        ),
        (libc::EMFILE, true, "the kernel refuses a counter"),
    ] {
        let said = refused(err, is_virtual);
        assert!(said.contains(why), "{said}");
    }
}

/// Check that a thread which ended, or too many threads, or cores of two kinds never make a part look like all.
#[test]
fn no_part_is_taken_for_all() {
    let mut ended = skylake(vec![(CYCLES_EVENT, libc::ESRCH)]);
    ended.add_threads(&[7]);
    assert!(ended.lent.is_empty() && ended.why.is_none());

    let mut many = skylake(Vec::new());
    many.add_threads(&[1, 2, 3]);
    many.add_threads(&(4..20).collect::<Vec<_>>());
    let counts = many.counts();
    assert_eq!(counts.cycles, CounterReading::default());
    assert!(counts.why.contains("so many threads"), "{}", counts.why);

    let two_kinds = CounterSupport {
        is_hybrid: true,
        ..machine("GenuineIntel", 6, 0x97)
    };
    let mut hybrid = LentCounters::new(Fake::default(), two_kinds);
    hybrid.add_cpus(&[0]);
    assert!(hybrid.counters.lent.borrow().is_empty());
    assert!(hybrid.counts().why.contains("two kinds"));
}

/// Check that it is said where there was never a counter free.
#[test]
fn counters_that_others_have() {
    let mut lent = skylake(Vec::new());
    lent.counters.running_ns = 0;
    lent.add_cpus(&[0]);
    let counts = lent.counts();
    assert_eq!(counts.cycles.scaled_count(), None);
    assert!(counts.why.contains("others"), "{}", counts.why);
}

/// Check on this machine that the kernel's counters count a thread that computes, or that it is said why they don't.
#[test]
fn this_machine() {
    let mut walks = PageWalkCounters::start(&Scope::Tree);
    walks.add_process(std::process::id());
    let mut sum = 0u64;
    for n in 0..10_000_000u64 {
        sum = std::hint::black_box(sum.wrapping_add(n * n));
    }
    let counts = walks.counts();
    match counts.cycles.scaled_count() {
        Some(cycles) => assert!(cycles > 1_000_000, "{counts:?}"),
        None => assert!(!counts.why.is_empty(), "{counts:?}"),
    }
}
