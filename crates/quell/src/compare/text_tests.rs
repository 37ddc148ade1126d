//! The text and the JSON of a comparison.

use anstream::adapter::strip_str;

use super::fixture::before_and_after;
use super::{Comparison, comparison_json, comparison_text};

fn plain_text_of(c: &Comparison, top: usize) -> String {
    strip_str(&comparison_text(c, top)).to_string()
}

/// Check the whole text: changes, vanished and new names, rows that are left out, and notes on missing data.
#[test]
fn whole_text() {
    insta::assert_snapshot!(plain_text_of(&before_and_after(), 2), @r"
    A  t.quell, 'program': where its time goes (raw_tp, 10.0 s)
    B  after.quell, 'program': where its time goes (raw_tp, 5.00 s)

    Where the time goes
      A CPU time  B CPU time  change  A asleep  B asleep  change  mechanism
          4.00 s      3.00 s   −25 %         -         -          all that the program did
          1.30 s      297 ms   −77 %    700 ms         -    gone  memory management
         5.00 ms           -    gone    700 ms         -    gone  lock.mmap
          900 ms      200 ms   −78 %         -         -          fault.anon
      and 2 more

    How much
                              A        B  change  A a second  B a second  change
      shootdowns         91,200    1,107   −99 %       9,120         221   −98 %
      victims            91,200    1,107   −99 %       9,120         221   −98 %
      wait of culprits   274 ms  3.32 ms   −99 %     27.4 ms      664 µs   −98 %
      stall of victims  36.5 ms   443 µs   −99 %     3.65 ms     88.6 µs   −98 %

    How long each
                    p50      p99    p99.9      max
      wait   A  3.00 µs  12.0 µs  27.0 µs  60.0 µs
             B  3.00 µs  12.0 µs  27.0 µs  60.0 µs
                   same     same     same     same
      delay  A  2.00 µs  8.00 µs  18.0 µs  40.0 µs
             B  2.00 µs  8.00 µs  18.0 µs  40.0 µs
                   same     same     same     same
      stall  A   400 ns  1.60 µs  3.60 µs  8.00 µs
             B   400 ns  1.60 µs  3.60 µs  8.00 µs
                   same     same     same     same

    Why: causes
           A      B  A a second  B a second  change  cause
      90,000      0       9,000           0    gone  madvise.dontneed
       1,000  1,000         100         200  +100 %  munmap
      and 2 more: A 200, B 107

    Who: culprits, all processes of a name together
           A      B  A a second  B a second  change  name
      91,000  1,000       9,100         200   −98 %  python3
           0    107           0          21     new  make
      and 1 more: A 200, B 0

    Who: threads, all of a name together
           A    B  A a second  B a second  change  name
      70,000  900       7,000         180   −97 %  polars-0
      10,000  100       1,000          20   −98 %  python3

    Where: regions
           A      B  A a second  B a second  change  region
      90,000      0       9,000           0    gone  anonymous memory of jemalloc (polars.so)
       1,200  1,107         120         221   +84 %  [heap] (brk)

    From which code: user stacks, innermost first
      A 90,000 (9,000 a second), B 0 (0 a second): gone
          __madvise (libc.so.6)
          pages_purge (polars.so)
      and 1 more: A 1,000, B 1,000

    B: lost 12: figures from records are too low by as many.
    One recording of each is no proof of better or worse: 'quell prove' runs in pairs and gives intervals.
    ");
}

/// Check that a note names each difference between two traces, and that a trace has none with itself.
#[test]
fn unlike_traces_are_told() {
    let Comparison { a, mut b, .. } = before_and_after();
    assert!(Comparison::of_sides(a.clone(), a.clone()).notes.is_empty());
    b.summary.backend = "fentry".into();
    b.scope = "of everything".into();
    b.sampled = "100".into();
    let notes = Comparison::of_sides(a, b).notes.join("\n");
    for part in [
        "backend (raw_tp, fentry)",
        "scope (the command, of everything)",
        "(all, 100)",
        "B: lost 12",
    ] {
        assert!(notes.contains(part), "{part}: {notes}");
    }
}

/// Check the keys of the object, which scripts rely on.
#[test]
fn whole_object() {
    let text = comparison_json(&before_and_after());
    let object: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(object["schema"], "quell/compare/1");
    assert_eq!(object["shootdowns"]["a"], 91_200);
    assert_eq!(object["shootdowns"]["b_per_s"], 221.4);
    assert_eq!(object["causes"][0]["cause"], "madvise.dontneed");
    assert_eq!(object["causes"][0]["state"], "gone");
    assert_eq!(object["causes"][0]["stall_ns"]["change"], -1.0);
    assert_eq!(object["culprits"][0]["comm"], "python3");
    assert_eq!(object["culprits"][0]["shootdowns"]["a"], 91_000);
    let new = |line: &&serde_json::Value| line["state"] == "new";
    let causes = object["causes"].as_array().expect("causes");
    let new: Vec<_> = causes.iter().filter(new).collect();
    assert_eq!(new.len(), 1);
    assert_eq!(new[0]["cause"], "mprotect");
    assert!(new[0]["shootdowns"]["change"].is_null());
    assert_eq!(object["stacks"][0]["frames"][1], "pages_purge (polars.so)");
    assert_eq!(object["wait_each"]["a"]["p99"], 12_000);
    assert_eq!(object["b"]["lost"], 12);
}
