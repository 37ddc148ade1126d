//! The screen and the text, as they are.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::{Color, Modifier};

use super::close_up::ProcessCloseUp;
use super::draw::{ScreenStyle, draw_view};
use super::filter::RowFilter;
use super::fixture::{close_up_interval, overview_interval};
use super::grid::SortOrder;
use super::state::{KeyAction, Pane, ViewState, sorted_grid};
use super::{json, text};

fn state_of_overview(guarded: bool) -> ViewState {
    let mut state = ViewState::new("everything: where the time goes".to_owned());
    for _ in 0..12 {
        state.take_interval(overview_interval(guarded));
    }
    state
}

fn press_keys(state: &mut ViewState, keys: &str) {
    for c in keys.chars() {
        let code = match c {
            '\t' => KeyCode::Tab,
            c => KeyCode::Char(c),
        };
        state.handle_key(KeyEvent::new(code, KeyModifiers::NONE));
    }
}

fn drawn_terminal(
    state: &ViewState,
    width: u16,
    height: u16,
    color: bool,
) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal
        .draw(|f| draw_view(f, state, ScreenStyle { color }))
        .unwrap();
    terminal
}

/// The lines, without spaces at their ends.
fn screen_text(state: &ViewState, width: u16, height: u16) -> String {
    let terminal = drawn_terminal(state, width, height, true);
    let buffer = terminal.backend().buffer();
    let line = |y| {
        let cells = (0..width).map(|x| buffer[(x, y)].symbol());
        cells.collect::<String>().trim_end().to_owned() + "\n"
    };
    (0..height).map(line).collect()
}

/// Check what is seen at 80x24.
#[test]
fn small_screen() {
    insta::assert_snapshot!(screen_text(&state_of_overview(false), 80, 24), @r"
    quell top  everything: where the time goes  every 1.00 s
    shootdowns    9,483/s  18,966 victims, 2.00 each                    ████████████
    wait        38.2 ms/s  p50 4.00 µs, p99 4.05 µs, max 4.05 µs        ████████████
    stall       11.8 ms/s  p50 632 ns, p99 648 ns, max 649 ns           ████████████

    ▸ Culprits 4  by shoot/s ▼
    shoot/s  victims/s   wait/s     each    pid  name             mostly by
      9,345     18,690  37.4 ms  4.00 µs   4711  polars           madvise.dontneed
        120        240   480 µs  4.00 µs    812  postgres         munmap
         17         34  68.0 µs  4.00 µs     95  kswapd0          reclaim
          1          2  4.00 µs  4.00 µs      1  systemd          other



      Victims 3, * bystanders  by hits/s ▼     Causes 4  by shoot/s ▼
     hits/s  stall/s    pid  *  name         shoot/s   wait/s  cause
     18,000  10.8 ms   4711     polars         9,000  36.0 ms  madvise.dontneed
        900   540 µs   2000  *  game-loop        465  1.86 ms  munmap
         66  39.6 µs      0  *  (idle)            17  68.0 µs  reclaim
                                                   1  4.00 µs  other: do_something



    q quit  ? help  Enter open  Tab pane  ←→ r sort  z zoom  p pause  / filter
    ");
}

/// Check what is seen at 120x40, with an isolated CPU that was hit.
#[test]
fn large_with_an_alarm() {
    insta::assert_snapshot!(screen_text(&state_of_overview(true), 120, 40), @r"
    quell top  everything: where the time goes  every 1.00 s
    ISOLATED CPU 3 HIT 266/s by postgres (812): munmap
    shootdowns    9,483/s  18,966 victims, 2.00 each                                                            ████████████
    wait        38.2 ms/s  p50 4.00 µs, p99 4.05 µs, max 4.05 µs                                                ████████████
    stall       11.8 ms/s  p50 632 ns, p99 648 ns, max 649 ns                                                   ████████████

    ▸ Culprits 4  by shoot/s ▼                                           Causes 4  by shoot/s ▼
    shoot/s   wait/s    pid  name             mostly by                shoot/s  victims/s   wait/s  cause
      9,345  37.4 ms   4711  polars           madvise.dontneed           9,000     18,000  36.0 ms  madvise.dontneed
        120   480 µs    812  postgres         munmap                       465        930  1.86 ms  munmap
         17  68.0 µs     95  kswapd0          reclaim                       17         34  68.0 µs  reclaim
          1  4.00 µs      1  systemd          other                          1          2  4.00 µs  other: do_something





                                                                         Regions 3  by shoot/s ▼  about, of 243 seen, one in
                                                                       shoot/s  name             region
                                                                         9,230  polars           anonymous memory of jemall…
                                                                           120  postgres         file /data/base/16384/2619
                                                                           115  polars           [heap] (brk)

      Victims 3, * bystanders  by hits/s ▼
     hits/s  stall/s     each    pid  *  name
     18,000  10.8 ms   600 ns   4711     polars
        900   540 µs   600 ns   2000  *  game-loop
         66  39.6 µs   600 ns      0  *  (idle)
                                                                         Hits/s from CPU ↓ at CPU →  whole machine
                                                                                 0     1     2    !3
                                                                           0     · 9.00k 8.50k     ·
                                                                           1 1.20k     ·     ·     ·
                                                                           2     ·     ·     ·   266
                                                                           3     ·     ·     ·     ·





    q quit  ? help  Enter open  Tab pane  ←→ r sort  z zoom  p pause  / filter
    ");
}

/// Check that the regions have the lower half at 80x24, and that it is said where they can't be known.
#[test]
fn region_panes() {
    let mut state = state_of_overview(false);
    press_keys(&mut state, "5");
    insta::assert_snapshot!(screen_text(&state, 80, 24), @r"
    quell top  everything: where the time goes  every 1.00 s
    shootdowns    9,483/s  18,966 victims, 2.00 each                    ████████████
    wait        38.2 ms/s  p50 4.00 µs, p99 4.05 µs, max 4.05 µs        ████████████
    stall       11.8 ms/s  p50 632 ns, p99 648 ns, max 649 ns           ████████████

      Culprits 4  by shoot/s ▼
    shoot/s  victims/s   wait/s     each    pid  name             mostly by
      9,345     18,690  37.4 ms  4.00 µs   4711  polars           madvise.dontneed
        120        240   480 µs  4.00 µs    812  postgres         munmap
         17         34  68.0 µs  4.00 µs     95  kswapd0          reclaim
          1          2  4.00 µs  4.00 µs      1  systemd          other



    ▸ Regions 3  by shoot/s ▼  about, of 243 seen, one in 39
    shoot/s    pid  name             region
      9,230   4711  polars           anonymous memory of jemalloc (polars.abi3.so)
        120    812  postgres         file /data/base/16384/2619
        115   4711  polars           [heap] (brk)




    q quit  ? help  Enter open  Tab pane  ←→ r sort  z zoom  p pause  / filter
    ");
    state.interval.regions = None;
    assert!(screen_text(&state, 80, 24).contains("not known with --cpu"));
    let open = KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE);
    assert_eq!(state.handle_key(open), KeyAction::None);
}

/// Check what is seen of one process.
#[test]
fn one_process() {
    let mut state = state_of_overview(false);
    state.open_process(4711, "polars".to_owned());
    state.take_interval(close_up_interval());
    insta::assert_snapshot!(screen_text(&state, 120, 30), @r"
    quell top  everything: where the time goes  every 1.00 s  › polars (4711)
    shootdowns    9,483/s  18,966 victims, 2.00 each                                                           █████████████
    wait        38.2 ms/s  p50 4.00 µs, p99 4.05 µs, max 4.05 µs                                               █████████████
    stall       11.8 ms/s  p50 632 ns, p99 648 ns, max 649 ns                                                  █████████████

    ▸ Threads 2  by shoot/s ▼                                      Causes 2  by shoot/s ▼
    shoot/s  victims/s   wait/s    tid  name                     shoot/s  victims/s   wait/s  stall/s  cause
      6,000     12,000  24.0 ms   4720  polars-3                   9,000     18,000  36.0 ms  4.50 ms  madvise.dontneed
      3,345      6,690  13.4 ms   4711  polars                       345        690  1.38 ms   172 µs  munmap








      Regions 1  by share ▼  of 1,000 seen, one in     Stacks 2    of 1,000 seen, one in 9
      share  region                                    share  frames
      100 %  anonymous memory of jemalloc (polars.…     90 %  by madvise.dontneed, innermost first
                                                                __madvise (libc.so.6)
                                                                _rjem_je_pages_purge_forced (polars.abi3.so)
                                                                main (python3)
                                                        10 %  by munmap, innermost first
                                                                __munmap (libc.so.6)




    q quit  ? help  Esc back  Tab pane  ←→ r sort  z zoom  p pause  / filter
    ");
    assert!(!screen_text(&state, 120, 30).contains("has ended"));
    if let Some(close_up) = &mut state.interval.close_up {
        close_up.ended = true;
    }
    assert!(screen_text(&state, 120, 30).contains("polars (4711) has ended"));
    let text = text::interval_text(&state.interval, "", 1, 10);
    assert!(text.contains("Process 4711, which has ended"), "{text}");
}

/// Check that a process which was just opened has no causes until an interval has looked at it, and not those of pid 0.
#[test]
fn a_process_without_an_interval() {
    let mut interval = close_up_interval();
    interval.tally.culprits[0].pid = 0;
    interval.close_up = None;
    let filter = RowFilter::default();
    let grid = sorted_grid(&interval, Pane::Reasons, &filter, SortOrder::default());
    assert!(grid.lines.is_empty(), "{:?}", grid.lines.len());
    interval.close_up = Some(ProcessCloseUp::default());
    let grid = sorted_grid(&interval, Pane::Reasons, &filter, SortOrder::default());
    assert!(!grid.lines.is_empty());
}

/// Check that the matrix takes the place of the lower tables where there is little room, and a filter says what passes.
#[test]
fn matrix_and_filter() {
    let mut state = state_of_overview(false);
    press_keys(&mut state, "/munmap");
    state.handle_key(KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE));
    press_keys(&mut state, "m");
    insta::assert_snapshot!(screen_text(&state, 80, 24), @r"
    quell top  everything: where the time goes  every 1.00 s
    shootdowns    9,483/s  18,966 victims, 2.00 each                    ████████████
    wait        38.2 ms/s  p50 4.00 µs, p99 4.05 µs, max 4.05 µs        ████████████
    stall       11.8 ms/s  p50 632 ns, p99 648 ns, max 649 ns           ████████████

      Culprits 2  by shoot/s ▼  465 of 9,483 shootdowns/s pass the filter
    shoot/s  victims/s   wait/s     each    pid  name             mostly by
        345        690  1.38 ms  4.00 µs   4711  polars           munmap
        120        240   480 µs  4.00 µs    812  postgres         munmap





    ▸ Hits/s from CPU ↓ at CPU →  whole machine
              0     1     2     3
        0     · 9.00k 8.50k     ·
        1 1.20k     ·     ·     ·
        2     ·     ·     ·   266
        3     ·     ·     ·     ·



    filter 'munmap' (Esc drops it)  q quit  ? help  Enter open  Tab pane  ←→ r sort
    ");
}

/// Check the help.
#[test]
fn help_screen() {
    let mut state = state_of_overview(false);
    press_keys(&mut state, "?");
    insta::assert_snapshot!(screen_text(&state, 80, 24), @r"
    quell top  everything: where the time goes  every 1.00 s
    shootdowns    9,483/s  18,966 victims, 2.00 each                    ████████████
    wait      ┌ Help ────────────────────────────────────────────────────┐██████████
    stall     │ Tab 1-8   choose a pane           q    quit              │██████████
              │ ↑ ↓ j k   choose a row            p    pause, also space │
    ▸ Culprits│ ← →       choose what to sort by  z    zoom the pane     │
    shoot/s  v│ r         the other way round     m    the matrix        │y
      9,345   │ Enter     open a process; of a cause: who has it         │dontneed
        120   │ t         where the time goes, and who holds locks       │
         17   │ 5         regions: what lies at the ranges               │
          1   │ i         other function calls, with --ipi               │
              │ Esc       back; drop the filter   /    filter            │
              │                                                          │
              │ shoot/s   shootdowns a second: requests to flush         │
      Victims │ victims/s CPUs interrupted by them                       │
     hits/s  s│ wait      time culprits waited for their victims         │
     18,000  1│ each      wait or stall of one, on average               │tneed
        900   │ stall     time victims spent in the handler              │
         66  3│ * hit for memory that is not its own, or idle            │
              │ ! an isolated CPU: nobody should disturb it              │omething
              │ Any key closes this. More: docs/top.md                   │
              └──────────────────────────────────────────────────────────┘

    q quit  ? help  Enter open  Tab pane  ←→ r sort  z zoom  p pause  / filter
    ");
}

/// Check that a terminal that is too small is told so.
#[test]
fn too_small() {
    insta::assert_snapshot!(screen_text(&state_of_overview(false), 30, 5), @r"
    quell top: too small
    30x5 of 50x14
    q quits
    ");
}

/// Check that a hit on an isolated CPU stands out, with colours and without, and that without none is used.
#[test]
fn alarms_are_loud() {
    for color in [true, false] {
        let terminal = drawn_terminal(&state_of_overview(true), 120, 40, color);
        let buffer = terminal.backend().buffer();
        let alarm = &buffer[(0, 1)];
        assert!(alarm.modifier.contains(Modifier::REVERSED | Modifier::BOLD));
        assert_eq!(alarm.fg == Color::Red, color);
        let loud = |y: u16| {
            buffer[(0, y)]
                .modifier
                .contains(Modifier::REVERSED | Modifier::BOLD)
        };
        // the alarm's line, and the row of the culprit
        assert_eq!((0..40).filter(|&y| loud(y)).count(), 2);
        if !color {
            assert!(
                buffer
                    .content
                    .iter()
                    .all(|c| c.fg == Color::Reset && c.bg == Color::Reset)
            );
        }
    }
}

/// Check the text of an interval.
#[test]
fn batch_text() {
    let mut interval = close_up_interval();
    interval.summary.lost = 3;
    let text = text::interval_text(&interval, "everything: where the time goes", 2, 3);
    insta::assert_snapshot!(anstream::adapter::strip_str(&text).to_string(), @r"
    everything: where the time goes (raw_tp, interval 2, 1.00 s)
      shootdowns    9,483/s  18,966 victims/s, 2.00 each
      wait        38.2 ms/s  p50 4.00 µs, p99 4.05 µs, max 4.05 µs
      delay       57.4 ms/s  p50 3.04 µs, p99 3.04 µs, max 3.05 µs
      stall       11.8 ms/s  p50 632 ns, p99 648 ns, max 649 ns

    Culprits 4
      shoot/s  victims/s   wait/s     each   pid  name      mostly by
        9,345     18,690  37.4 ms  4.00 µs  4711  polars    madvise.dontneed
          120        240   480 µs  4.00 µs   812  postgres  munmap
           17         34  68.0 µs  4.00 µs    95  kswapd0   reclaim
      and 1 more

    Victims 3, * bystanders
      hits/s  stall/s    each   pid  *  name
      18,000  10.8 ms  600 ns  4711     polars
         900   540 µs  600 ns  2000  *  game-loop
          66  39.6 µs  600 ns     0  *  (idle)

    Causes 4
      shoot/s  victims/s   wait/s  stall/s  cause
        9,000     18,000  36.0 ms  4.50 ms  madvise.dontneed
          465        930  1.86 ms   232 µs  munmap
           17         34  68.0 µs  8.50 µs  reclaim
      and 1 more

    Regions 3 about, of 243 seen, one in 39
      shoot/s   pid  name      region
        9,230  4711  polars    anonymous memory of jemalloc (polars.abi3.so)
          120   812  postgres  file /data/base/16384/2619
          115  4711  polars    [heap] (brk)

    Hits/s from CPU ↓ at CPU → whole machine
              0     1     2     3
        0     · 9.00k 8.50k     ·
        1 1.20k     ·     ·     ·
        2     ·     ·     ·   266
        3     ·     ·     ·     ·

    Process 4711

    Threads 2
      shoot/s  victims/s   wait/s     each   tid  name
        6,000     12,000  24.0 ms  4.00 µs  4720  polars-3
        3,345      6,690  13.4 ms  4.00 µs  4711  polars

    Causes 2
      shoot/s  victims/s   wait/s  stall/s  cause
        9,000     18,000  36.0 ms  4.50 ms  madvise.dontneed
          345        690  1.38 ms   172 µs  munmap

    Regions 1 of 1,000 seen, one in 9
      share  region
      100 %  anonymous memory of jemalloc (polars.abi3.so)

    Stacks 2 of 1,000 seen, one in 9
      share  frames
       90 %  by madvise.dontneed, innermost first
               __madvise (libc.so.6)
               _rjem_je_pages_purge_forced (polars.abi3.so)
               main (python3)
       10 %  by munmap, innermost first
               __munmap (libc.so.6)

    lost 3; quell used 0 ns of CPU time so far
    ");
}

/// Check that the object has the keys of `quell/tally/1`, and the matrix a row for each culprit's CPU.
#[test]
fn batch_json() {
    let object: serde_json::Value =
        serde_json::from_str(&json::interval_json(&overview_interval(true)).unwrap()).unwrap();
    assert_eq!(object["schema"], "quell/tally/1");
    assert_eq!(object["shootdowns"], 9483);
    assert_eq!(object["culprits"][0]["pid"], 4711);
    assert_eq!(object["victims_by"][1]["bystander"], true);
    assert_eq!(object["matrix"]["cpus"], serde_json::json!([0, 1, 2, 3]));
    assert_eq!(
        object["matrix"]["hits"][0],
        serde_json::json!([0, 9000, 8500, 0])
    );
    assert_eq!(object["isolated"]["hits"], 266);
    assert_eq!(object["isolated"]["culprits"][0]["comm"], "postgres");
}
