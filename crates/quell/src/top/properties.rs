//! What holds for any keys and any interval.

use std::collections::BTreeMap;

use proptest::prelude::*;
use quell_event::{CallTally, Cause, FunctionCalls, Tally, TallySummary};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::calls;
use super::draw::{ScreenStyle, draw_view};
use super::filter::RowFilter;
use super::fixture::{close_up_interval, culprit_tally, overview_interval, victim_tally};
use super::grid::{Grid, SortOrder};
use super::interval::LiveInterval;
use super::regions::{self, RegionShootdowns, SampledRegions};
use super::state::{CLOSE_UP_PANES, KeyAction, OVERVIEW_PANES, ViewState};
use super::tables::TallyTables;

fn any_key() -> impl Strategy<Value = KeyEvent> {
    let codes = prop_oneof![
        any::<char>().prop_map(KeyCode::Char),
        proptest::sample::select(" ?/pqrzmjkh123456<>cu".chars().collect::<Vec<_>>())
            .prop_map(KeyCode::Char),
        proptest::sample::select(vec![
            KeyCode::Tab,
            KeyCode::BackTab,
            KeyCode::Enter,
            KeyCode::Esc,
            KeyCode::Backspace,
            KeyCode::Up,
            KeyCode::Down,
            KeyCode::Left,
            KeyCode::Right,
            KeyCode::PageUp,
            KeyCode::PageDown,
            KeyCode::Home,
            KeyCode::End,
            KeyCode::F(1),
            KeyCode::Null,
        ]),
    ];
    (
        codes,
        prop_oneof![Just(KeyModifiers::NONE), Just(KeyModifiers::CONTROL)],
    )
        .prop_map(|(code, modifiers)| KeyEvent::new(code, modifiers))
}

prop_compose! {
    fn any_interval()(
        culprits in proptest::collection::vec((0u32..50, "[a-c/\u{1b}\u{4e2d}]{0,8}", 0usize..Cause::ALL.len(), 1u64..1_000_000), 0..40),
        victims in proptest::collection::vec((0u32..50, any::<bool>(), 1u64..1_000_000), 0..40),
        places in proptest::collection::vec((0u32..5, "[a-c]{0,2}", 0usize..Cause::ALL.len(), 1u64..1_000), 0..40),
        called in proptest::collection::vec((0u32..5, "[a-c]{0,2}", 0u32..4, 1u64..1_000), 0..40),
        duration in prop_oneof![Just(0u64), 1u64..100_000_000_000],
    ) -> LiveInterval {
        let victims: BTreeMap<_, _> = victims.iter().map(|&(pid, bystander, hits)| ((pid, bystander), hits)).collect();
        let tally = Tally {
            duration_ns: duration,
            culprits: culprits.iter().map(|(pid, comm, cause, n)| culprit_tally(*pid, comm, Cause::ALL[*cause], *n)).collect(),
            victims: victims.iter().map(|(&(pid, bystander), &hits)| victim_tally(pid, "v", bystander, hits)).collect(),
            calls: Some(calls_of(&called)),
            ..Tally::default()
        };
        let regions = places.into_iter().map(|(pid, region, cause, shootdowns)| RegionShootdowns {
            pid,
            comm: format!("p{pid}"),
            cause: Cause::ALL[cause].name(),
            region,
            shootdowns,
        });
        let regions = SampledRegions { regions: regions.collect(), ..SampledRegions::default() };
        LiveInterval { summary: TallySummary::new(&tally, "raw_tp", 2), tally, regions: Some(regions), ..overview_interval(true) }
    }
}

/// Function calls of these processes, functions and victims' CPUs.
fn calls_of(called: &[(u32, String, u32, u64)]) -> FunctionCalls {
    let call = |(pid, function, cpu, calls): &(u32, String, u32, u64)| CallTally {
        function: function.clone(),
        pid: *pid,
        cpu: *cpu,
        calls: *calls,
        ..CallTally::default()
    };
    FunctionCalls {
        by: called.iter().map(call).collect(),
        ..FunctionCalls::default()
    }
}

/// What the probe does if it is asked.
fn do_action(state: &mut ViewState, action: &KeyAction) {
    if let KeyAction::Open(pid) = *action {
        state.open_process(pid, "x".to_owned());
        state.take_interval(close_up_interval());
    }
}

fn sum_of_culprits(s: &TallySummary) -> u64 {
    s.culprits.iter().map(|c| c.shootdowns).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Check that no keys, at any size of the terminal and with any interval, make it panic, and that the focus is always on a pane of the view.
    #[test]
    fn any_keys(keys in proptest::collection::vec(any_key(), 0..60), first in any_interval(), then in any_interval(), size in (0u16..200, 0u16..70)) {
        let mut state = ViewState::new("of everything".to_owned());
        let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).unwrap();
        state.take_interval(first);
        for (i, key) in keys.iter().enumerate() {
            let action = state.handle_key(*key);
            do_action(&mut state, &action);
            prop_assert!(state.panes().contains(&state.focus()));
            if i % 8 == 0 {
                terminal.draw(|f| draw_view(f, &state, ScreenStyle { color: i % 16 == 0 })).unwrap();
            }
        }
        state.take_interval(then);
        terminal.draw(|f| draw_view(f, &state, ScreenStyle { color: false })).unwrap();
    }

    /// Check that no two rows of a table are about the same: the choice of one would jump to the other.
    #[test]
    fn ids_are_unique(any in any_interval(), filter in "[a-c]{0,2}") {
        let filter = RowFilter::new(&filter);
        let tables = TallyTables::new(&any, &filter);
        let near = close_up_interval();
        let close_up = near.close_up.clone().unwrap_or_default();
        let mut grids = vec![
            tables.culprits,
            tables.victims,
            tables.causes,
            regions::grid_of_regions(any.regions.as_ref(), any.duration_ns(), &filter),
            close_up.thread_grid(&filter),
            close_up.cause_grid(&near.tally, &filter),
            close_up.region_grid(&filter),
            close_up.stack_grid(&filter),
        ];
        grids.extend(any.tally.calls.as_ref().map(|c| calls::call_grid(&any, c, &filter)));
        for grid in grids {
            let mut ids: Vec<_> = grid.lines.iter().map(|l| &l.id).collect();
            ids.sort();
            let n = ids.len();
            ids.dedup();
            prop_assert_eq!(ids.len(), n, "{}", grid.title);
        }
    }

    /// Check that sorting keeps every row, doesn't depend on the order before, and that the other way round the column is the other way round.
    #[test]
    fn sorting_is_total(interval in any_interval(), column in 0usize..8, seed in any::<u64>()) {
        let tables = TallyTables::new(&interval, &RowFilter::default());
        for grid in [tables.culprits, tables.victims, tables.causes] {
            let sorted = |grid: &Grid, reverse| {
                let mut grid = grid.clone();
                grid.sort_rows(SortOrder { column, reverse });
                grid
            };
            let mut other = grid.clone();
            let n = other.lines.len();
            if n > 0 && column < grid.columns.len() {
                other.lines.rotate_left(seed as usize % n);
                prop_assert_eq!(sorted(&other, false), sorted(&grid, false));
                let keys = |g: Grid| g.lines.into_iter().map(|l| l.keys[column].clone()).collect::<Vec<_>>();
                let mut back = keys(sorted(&grid, true));
                back.reverse();
                prop_assert_eq!(keys(sorted(&grid, false)), back);
            }
            prop_assert_eq!(sorted(&grid, false).lines.len(), n);
        }
    }

    /// Check that a filter leaves no more than there is, that its culprits and its causes add up to the same, and that the totals on top stay those of everything.
    #[test]
    fn filters_are_honest(interval in any_interval(), text in "[a-c0-9.]{0,3}") {
        let filter = RowFilter::new(&text);
        let passed = TallySummary::new(&filter.passing_tally(&interval.tally), "", 2);
        let causes: u64 = passed.causes.iter().map(|c| c.shootdowns).sum();
        prop_assert_eq!(sum_of_culprits(&passed), causes);
        prop_assert!(sum_of_culprits(&passed) <= interval.summary.shootdowns);
        if text.is_empty() {
            prop_assert_eq!(sum_of_culprits(&passed), interval.summary.shootdowns);
        }
        let mut state = ViewState::new(String::new());
        state.take_interval(interval);
        let all = state.interval.summary.clone();
        for c in std::iter::once('/').chain(text.chars()) {
            state.handle_key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE));
        }
        prop_assert_eq!(&state.interval.summary, &all);
        let rest = sum_of_rest(&state.interval.tally, &filter);
        prop_assert_eq!(rest + sum_of_culprits(&passed), all.shootdowns);
    }
}

/// Shootdowns that don't pass.
fn sum_of_rest(tally: &Tally, filter: &RowFilter) -> u64 {
    let rest = tally.culprits.iter().filter(|c| !filter.passes_culprit(c));
    rest.map(|c| c.counts.shootdowns).sum()
}

fn press_keys(state: &mut ViewState, keys: &[KeyCode]) -> KeyAction {
    let mut last = KeyAction::None;
    for &code in keys {
        last = state.handle_key(KeyEvent::new(code, KeyModifiers::NONE));
    }
    last
}

/// Check that Enter opens the process of the chosen row, whatever it is sorted by, and Esc leads back to everything.
#[test]
fn enter_opens_the_chosen_process() {
    let mut state = ViewState::new(String::new());
    state.take_interval(overview_interval(false));
    assert_eq!(
        press_keys(&mut state, &[KeyCode::Enter]),
        KeyAction::Open(4711)
    );
    assert_eq!(
        press_keys(&mut state, &[KeyCode::Down, KeyCode::Enter]),
        KeyAction::Open(812)
    );
    // by name, and the row stays chosen
    assert_eq!(
        press_keys(&mut state, &[KeyCode::Left, KeyCode::Left, KeyCode::Enter]),
        KeyAction::Open(812)
    );
    assert_eq!(
        press_keys(&mut state, &[KeyCode::Home, KeyCode::Enter]),
        KeyAction::Open(95)
    );
    state.open_process(95, "x".to_owned());
    assert_eq!(state.panes(), &CLOSE_UP_PANES);
    assert_eq!(press_keys(&mut state, &[KeyCode::Esc]), KeyAction::Close);
    assert_eq!(state.panes(), &OVERVIEW_PANES[..7]);
}

/// Check that while paused nothing moves, and after it things go on.
#[test]
fn pause_holds_everything() {
    let mut state = ViewState::new(String::new());
    state.take_interval(overview_interval(false));
    press_keys(&mut state, &[KeyCode::Char('p')]);
    let before = (state.interval.summary.clone(), state.history.len());
    state.take_interval(LiveInterval::default());
    assert_eq!(
        (state.interval.summary.clone(), state.history.len()),
        before
    );
    press_keys(&mut state, &[KeyCode::Char(' ')]);
    state.take_interval(LiveInterval::default());
    assert_eq!(
        (state.interval.summary.shootdowns, state.history.len()),
        (0, 2)
    );
}
