use super::*;
use crate::Rng;
use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};

/// A machine with a program on it: candidates with known gains, noise, and a drift from run to run.
struct Machine {
    rng: Rng,
    noise: f64,
    drift: f64,
    now: f64,
    /// Of the logarithm: less is quicker.
    gains: Vec<f64>,
    /// Those that take twice the time in every third run.
    wild: Vec<usize>,
    broken: Vec<usize>,
}

impl Machine {
    fn new(seed: u64, noise: f64, gains: &[f64]) -> Self {
        Self {
            rng: Rng::new(seed),
            noise,
            drift: 0.0,
            now: 0.0,
            gains: gains.to_vec(),
            wild: Vec::new(),
            broken: Vec::new(),
        }
    }

    fn bell(&mut self) -> f64 {
        (0..12).map(|_| self.rng.next_unit()).sum::<f64>() - 6.0
    }

    fn run(&mut self, runner: Runner) -> Option<f64> {
        self.now += self.drift * self.bell();
        let noise = self.noise * self.bell();
        let gain = match runner {
            Runner::Baseline => 0.0,
            Runner::Candidate(n) if self.broken.contains(&n) => return None,
            Runner::Candidate(n) if self.wild.contains(&n) && self.rng.below(3) == 0 => 0.7,
            Runner::Candidate(n) => self.gains[n],
        };
        Some((self.now + noise + gain).exp())
    }

    /// Runs a race to its end; how many runs that took.
    fn race(&mut self, rules: RaceRules) -> (Race, usize) {
        let seed = self.rng.next_u64();
        let mut race = Race::new(self.gains.len(), rules, seed);
        let mut runs = 0;
        while let Some(group) = race.next_group() {
            runs += group.len();
            let ran: Vec<_> = group.into_iter().map(|r| (r, self.run(r))).collect();
            race.record_group(&ran);
        }
        (race, runs)
    }
}

/// Check that a planted gain of 10 % in noise of 2 % wins nearly always, that the largest of several is first, and that a
/// candidate that loses or changes nothing hardly ever wins.
#[test]
fn gains_win() {
    let gains = [0.0, -0.1, 0.05, -0.2, 0.0, 0.0];
    let (mut right, mut wrong) = (0, 0);
    for seed in 0..300 {
        let (race, _) = Machine::new(seed, 0.02, &gains).race(RaceRules::default());
        let winners = race.winners();
        right += usize::from(winners.starts_with(&[3, 1]));
        wrong += winners.iter().filter(|n| ![1, 3].contains(*n)).count();
    }
    assert!(right >= 290, "{right} of 300");
    // of 1,200 that can't win
    assert!(wrong <= 60, "{wrong}");
}

/// Check that a slow drift of the machine, ten times as much over the race as a gain of 5 %, hides no winner and makes none.
#[test]
fn drift_is_shared() {
    let (mut right, mut wrong) = (0, 0);
    for seed in 0..200 {
        let mut machine = Machine::new(seed, 0.01, &[-0.05, 0.0, 0.0]);
        machine.drift = 0.01;
        let (race, _) = machine.race(RaceRules {
            most_rounds: 12,
            ..RaceRules::default()
        });
        right += usize::from(race.winners().contains(&0));
        wrong += race.winners().iter().filter(|n| **n != 0).count();
    }
    assert!(right >= 170, "{right} of 200");
    assert!(wrong <= 40, "{wrong} of 400");
}

/// Check that short races with open rounds find a third more gains of 5 % in noise of 5 % than without, let hardly more through
/// that does nothing, and take two thirds of the runs of a race that is as long for all.
#[test]
fn open_gains_race_on() {
    let tally = |most_rounds, open_rounds| {
        let rules = RaceRules {
            most_rounds,
            open_rounds,
            ..RaceRules::default()
        };
        let (mut right, mut wrong, mut runs) = (0, 0, 0);
        for seed in 0..300 {
            let mut machine = Machine::new(seed, 0.05, &[-0.05, 0.0, 0.0, 0.0]);
            let (race, made) = machine.race(rules);
            let winners = race.winners();
            right += usize::from(winners.contains(&0));
            wrong += winners.iter().filter(|n| **n != 0).count();
            runs += made;
        }
        println!(
            "{most_rounds} rounds and {open_rounds} open: {right} right of 300, {wrong} wrong of 900, {runs} runs"
        );
        (right, wrong, runs)
    };
    let short = tally(4, 0);
    let open = tally(4, 8);
    let long = tally(12, 0);
    assert!(3 * open.0 >= 4 * short.0, "{short:?} {open:?}");
    assert!(4 * open.1 <= 5 * short.1, "{short:?} {open:?}");
    assert!(3 * open.2 <= 2 * long.2, "{open:?} {long:?}");
}

/// Check that losers leave early: races without a gain end in half of the runs that they may take.
#[test]
fn losers_leave_early() {
    let rules = RaceRules {
        most_rounds: 20,
        ..RaceRules::default()
    };
    let all = 20 * (4 + 1);
    let runs: usize = (0..100)
        .map(|seed| {
            Machine::new(seed, 0.03, &[0.02, 0.1, 0.0, 0.0])
                .race(rules)
                .1
        })
        .sum();
    assert!(runs < 100 * all / 2, "{} of {all}", runs / 100);
}

/// Check that one that wins in the middle and doubles the time in every third run is not a winner, and that one whose run
/// fails is out at once.
#[test]
fn wild_and_broken_lose() {
    let mut won = 0;
    for seed in 0..100 {
        let mut machine = Machine::new(seed, 0.01, &[-0.1, -0.1, -0.1]);
        machine.wild = vec![0];
        machine.broken = vec![1];
        let (race, _) = machine.race(RaceRules::default());
        let fates: Vec<Fate> = race.standings().iter().map(|s| s.fate).collect();
        assert_eq!(fates[1], Fate::Out(Elimination::Failed));
        assert_eq!(race.standings()[1].rounds, 0);
        won += usize::from(fates[0] == Fate::Won);
        assert_eq!(fates[2], Fate::Won);
    }
    // where it was quick in all of its first rounds: (2/3)^6 and more
    assert!(won <= 25, "{won} of 100");
}

/// Check that of a throughput more is better, and that the ratio is that of the values.
#[test]
fn more_may_be_better() {
    let rules = RaceRules {
        higher_is_better: true,
        ..RaceRules::default()
    };
    let (race, _) = Machine::new(1, 0.005, &[0.2, -0.2]).race(rules);
    assert_eq!(race.winners(), [0]);
    let standing = &race.standings()[0];
    assert!(
        (standing.ratio - 0.2_f64.exp()).abs() < 0.02,
        "{standing:?}"
    );
    assert!(standing.ci95.0 < standing.ratio && standing.ratio < standing.ci95.1);
}

/// Check that a race without candidates is over before it begins.
#[test]
fn nobody_races() {
    let mut race = Race::new(0, RaceRules::default(), 1);
    assert_eq!(race.next_group(), None);
    assert_eq!(race.runs_left(), 0);
}

proptest! {
    /// Check that every race ends within the runs that it said at its start, that each group has the baseline once and no runner
    /// twice, and that no result makes it fail.
    #[test]
    fn races_end(
        candidates in 1_usize..12,
        most_rounds in 0_usize..8,
        open_rounds in 0_usize..8,
        values in prop::collection::vec(prop::option::of(any::<f64>()), 1..50),
    ) {
        let rules = RaceRules { most_rounds, open_rounds, ..RaceRules::default() };
        let mut race = Race::new(candidates, rules, 5);
        let left = race.runs_left();
        let (mut runs, mut next) = (0, values.iter().cycle());
        while let Some(group) = race.next_group() {
            runs += group.len();
            prop_assert!(group.len() <= MAX_GROUP_CANDIDATES + 1);
            let baselines = group.iter().filter(|r| **r == Runner::Baseline).count();
            prop_assert_eq!(baselines, 1);
            let mut apart = group.clone();
            apart.sort_by_key(|r| format!("{r:?}"));
            apart.dedup();
            prop_assert_eq!(apart.len(), group.len());
            let ran: Vec<_> = group.into_iter().map(|r| (r, *next.next().unwrap())).collect();
            race.record_group(&ran);
        }
        prop_assert!(runs <= left, "{} of {}", runs, left);
        prop_assert!(race.standings().iter().all(|s| s.fate != Fate::Racing));
    }
}
