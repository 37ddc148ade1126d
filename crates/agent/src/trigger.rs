//! When a trace is worth its cost: rules over what was counted between two looks.

use std::collections::VecDeque;
use std::time::Duration;

use serde::Deserialize;

/// A day is remembered in so many slots; one number each.
const SLOTS: usize = 288;
const SLOT: Duration = Duration::from_secs(300);
/// Before so many slots are known there is no day to compare with.
const KNOWN: usize = 12;
/// Fewer a second are no regression, whatever they were before: a host that did nothing would always have one.
const FEWEST: f64 = 10.0;
/// A p99 of fewer waits is one of them.
const WAITS: u64 = 20;

/// One rule: exactly one of its conditions is written.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rule {
    /// What its traces are called after.
    pub name: String,
    /// So many shootdowns a second, over one look.
    pub rate: Option<f64>,
    /// The wait that 99 % don't exceed, us.
    pub wait_p99_us: Option<f64>,
    /// Whether any hit on an isolated CPU is one too many.
    pub isolated: Option<bool>,
    /// So many times what 95 % of the last day's slots of five minutes had.
    pub regression: Option<f64>,
}

impl Rule {
    /// What is wrong with it.
    #[must_use]
    pub fn mistake(&self) -> Option<String> {
        let usual = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if self.name.is_empty() || self.name.len() > 32 || !self.name.chars().all(usual) {
            return Some(format!(
                "name = \"{}\": write up to 32 letters, digits, - and _",
                self.name
            ));
        }
        let numbers = [
            self.rate,
            self.wait_p99_us,
            self.isolated.map(|is| if is { 1.0 } else { 0.0 }),
            self.regression,
        ];
        let mut written = numbers.iter().flatten();
        let (Some(first), None) = (written.next(), written.next()) else {
            return Some(format!(
                "rule \"{}\": write one of rate, wait_p99_us, isolated = true and regression",
                self.name
            ));
        };
        let least = if self.regression.is_some() { 1.0 } else { 0.0 };
        (!first.is_finite() || *first <= least)
            .then(|| format!("rule \"{}\": write more than {least}", self.name))
    }
}

/// What one look saw.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Seen {
    /// Since the look before, by a clock that never jumps.
    pub over: Duration,
    /// Shootdowns.
    pub shootdowns: u64,
    /// How many waits were timed at most, not for how many they stand, and what 99 % of them didn't exceed, ns.
    pub waits: u64,
    /// See `waits`.
    pub wait_p99_ns: u64,
    /// Hits on isolated CPUs.
    pub isolated_hits: u64,
}

/// The last day: the rates of its slots. Of always the same size.
#[derive(Debug, Default)]
struct Day {
    slots: VecDeque<f64>,
    shootdowns: u64,
    over: Duration,
}

impl Day {
    /// The rate of the slot that has just ended, and what 95 % of those before it had.
    fn add(&mut self, seen: &Seen) -> Option<(f64, f64)> {
        self.shootdowns += seen.shootdowns;
        self.over += seen.over;
        if self.over < SLOT {
            return None;
        }
        let rate = self.shootdowns as f64 / self.over.as_secs_f64();
        (self.shootdowns, self.over) = (0, Duration::ZERO);
        let mut sorted: Vec<f64> = self.slots.iter().copied().collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let usual = sorted
            .get((sorted.len() * 95).div_ceil(100).saturating_sub(1))
            .copied();
        if self.slots.len() == SLOTS {
            self.slots.pop_front();
        }
        self.slots.push_back(rate);
        usual
            .filter(|_| sorted.len() >= KNOWN)
            .map(|usual| (rate, usual))
    }
}

/// The rules, and what they remember.
#[derive(Debug, Default)]
pub struct Triggers {
    rules: Vec<Rule>,
    day: Day,
    /// Until then each is quiet, by the sum of all looks.
    quiet: Vec<Duration>,
    pause: Duration,
    now: Duration,
}

impl Triggers {
    /// A rule that [rests](Self::rest) is quiet for the pause.
    #[must_use]
    pub fn new(rules: Vec<Rule>, pause: Duration) -> Self {
        Self {
            quiet: vec![Duration::ZERO; rules.len()],
            rules,
            pause,
            ..Self::default()
        }
    }

    /// The rules that what was seen breaks, by number, and why; those that are quiet are left out.
    pub fn look(&mut self, seen: &Seen) -> Vec<(usize, String)> {
        self.now += seen.over;
        let slot = self.day.add(seen);
        let rules = self.rules.iter().enumerate();
        let rules = rules.filter(|(n, _)| self.quiet[*n] <= self.now);
        rules
            .filter_map(|(n, rule)| Some((n, broken(rule, seen, slot)?)))
            .collect()
    }

    /// What a rule is called.
    #[must_use]
    pub fn name(&self, n: usize) -> &str {
        &self.rules[n].name
    }

    /// It has begun a trace, or could not: it is quiet now.
    pub fn rest(&mut self, n: usize) {
        self.quiet[n] = self.now + self.pause;
    }
}

fn broken(rule: &Rule, seen: &Seen, slot: Option<(f64, f64)>) -> Option<String> {
    if let Some(most) = rule.rate {
        let rate = seen.shootdowns as f64 / seen.over.as_secs_f64();
        // the first look has no time before it
        return (rate.is_finite() && rate >= most)
            .then(|| format!("{rate:.0} shootdowns a second"));
    }
    if let Some(most) = rule.wait_p99_us {
        let p99 = seen.wait_p99_ns as f64 / 1e3;
        return (seen.waits >= WAITS && p99 >= most).then(|| {
            format!(
                "99 % of the {} waits that were timed took up to {p99:.0} µs",
                seen.waits
            )
        });
    }
    if rule.isolated == Some(true) {
        return (seen.isolated_hits > 0)
            .then(|| format!("{} hits on isolated CPUs", seen.isolated_hits));
    }
    let (rate, usual) = slot?;
    let factor = rule.regression?;
    (rate >= FEWEST && rate > factor * usual).then(|| format!("{rate:.0} shootdowns a second for five minutes; 95 % of the last day had up to {usual:.0}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rule(text: &str) -> Rule {
        toml::from_str(&format!("name = 'a'\n{text}")).unwrap()
    }

    fn seen(shootdowns: u64) -> Seen {
        Seen {
            over: Duration::from_secs(10),
            shootdowns,
            ..Seen::default()
        }
    }

    /// Check that a rule has a name for a file and one condition that can be broken and kept.
    #[test]
    fn mistakes() {
        for right in [
            "rate = 1000",
            "wait_p99_us = 200.5",
            "isolated = true",
            "regression = 3",
        ] {
            assert_eq!(rule(right).mistake(), None, "{right}");
        }
        for wrong in [
            "",
            "rate = 1\nisolated = true",
            "rate = 0",
            "rate = nan",
            "isolated = false",
            "regression = 1",
        ] {
            assert!(rule(wrong).mistake().is_some(), "{wrong}");
        }
        for name in ["", "a/b", "..", "a b", &"a".repeat(33)] {
            let rule = Rule {
                name: name.to_owned(),
                rate: Some(1.0),
                ..Rule::default()
            };
            assert!(rule.mistake().is_some(), "{name}");
        }
    }

    /// What fires now; all of it rests then.
    fn fires(triggers: &mut Triggers, seen: &Seen) -> Vec<String> {
        let broken = triggers.look(seen);
        broken.iter().for_each(|(n, _)| triggers.rest(*n));
        broken.into_iter().map(|(_, why)| why).collect()
    }

    /// Check that each condition fires at its bound and not below, and then is quiet for the pause, unless nothing came of it.
    #[test]
    fn each_fires() {
        let new = |text, pause| Triggers::new(vec![rule(text)], Duration::from_secs(pause));
        let mut rate = new("rate = 100", 60);
        assert!(rate.look(&seen(999)).is_empty());
        assert_eq!(
            rate.look(&seen(1000)),
            [(0, "100 shootdowns a second".to_owned())]
        );
        assert_eq!(fires(&mut rate, &seen(1000)).len(), 1);
        for _ in 0..5 {
            assert!(fires(&mut rate, &seen(5000)).is_empty());
        }
        assert_eq!(fires(&mut rate, &seen(5000)).len(), 1);
        // without time before it there is no rate
        let first = Seen {
            shootdowns: 9,
            ..Seen::default()
        };
        assert!(new("rate = 1", 1).look(&first).is_empty());

        let waits = |waits| Seen {
            waits,
            wait_p99_ns: 60_000,
            ..seen(1)
        };
        let mut wait = new("wait_p99_us = 50", 300);
        assert!(wait.look(&waits(19)).is_empty());
        assert_eq!(wait.look(&waits(20)).len(), 1);
        let hits = |isolated_hits| Seen {
            isolated_hits,
            ..seen(1)
        };
        let mut isolated = new("isolated = true", 300);
        assert!(isolated.look(&hits(0)).is_empty());
        assert_eq!(isolated.look(&hits(1)).len(), 1);
    }

    /// Check that a regression is told against the last day, once there is an hour of it, that busy hours of that day are no
    /// regression, and that another rule does not hide it.
    #[test]
    fn regressions() {
        let rules = vec![rule("rate = 1"), rule("regression = 3")];
        let mut day = Triggers::new(rules, Duration::from_secs(300));
        let mut slot = |rate: u64| {
            let fired = (0..30).flat_map(|_| fires(&mut day, &seen(rate * 10)));
            fired.filter(|why| why.contains("five minutes")).count()
        };
        assert!((0..12).all(|_| slot(100) == 0));
        assert_eq!(slot(301), 1);
        assert_eq!(slot(299), 0);
        for _ in 0..20 {
            slot(1000);
        }
        assert_eq!(slot(2000), 0, "a tenth of the day had 1000 a second");
    }

    proptest! {
        /// Check that whatever is seen no rule fires twice within its pause, and that the day stays as small as it is.
        #[test]
        fn pauses_hold(rates in prop::collection::vec(0_u64..10_000, 0..600)) {
            let rules = vec![rule("rate = 100"), rule("regression = 2")];
            let mut triggers = Triggers::new(rules, Duration::from_secs(600));
            let mut last = [None::<Duration>; 2];
            for rate in rates {
                let seen = Seen { over: Duration::from_secs(100), shootdowns: rate * 100, ..Seen::default() };
                for (n, _) in triggers.look(&seen) {
                    triggers.rest(n);
                    let now = triggers.now;
                    prop_assert!(last[n].is_none_or(|at| now - at >= Duration::from_secs(600)));
                    last[n] = Some(now);
                }
            }
            prop_assert!(triggers.day.slots.len() <= SLOTS);
        }
    }
}
