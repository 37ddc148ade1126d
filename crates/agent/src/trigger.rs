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
    /// How many waits were timed, and what 99 % of them didn't exceed, ns.
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
    /// After a rule has fired it is quiet for the pause.
    #[must_use]
    pub fn new(rules: Vec<Rule>, pause: Duration) -> Self {
        Self {
            quiet: vec![Duration::ZERO; rules.len()],
            rules,
            pause,
            ..Self::default()
        }
    }

    /// The first rule that what was seen breaks, and why.
    pub fn look(&mut self, seen: &Seen) -> Option<(&str, String)> {
        self.now += seen.over;
        let slot = self.day.add(seen);
        let n = (0..self.rules.len()).find(|n| {
            self.quiet[*n] <= self.now && broken(&self.rules[*n], seen, slot).is_some()
        })?;
        self.quiet[n] = self.now + self.pause;
        let rule = &self.rules[n];
        broken(rule, seen, slot).map(|why| (rule.name.as_str(), why))
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
        return (seen.waits >= WAITS && p99 >= most)
            .then(|| format!("99 % of {} waits took up to {p99:.0} us", seen.waits));
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

    /// Check that each condition fires at its bound and not below, and then is quiet for the pause.
    #[test]
    fn each_fires() {
        let mut rate = Triggers::new(vec![rule("rate = 100")], Duration::from_secs(60));
        assert_eq!(rate.look(&seen(999)), None);
        assert_eq!(
            rate.look(&seen(1000)),
            Some(("a", "100 shootdowns a second".to_owned()))
        );
        for _ in 0..5 {
            assert_eq!(rate.look(&seen(5000)), None);
        }
        assert!(rate.look(&seen(5000)).is_some());
        // without time before it there is no rate
        assert_eq!(
            Triggers::new(vec![rule("rate = 1")], SLOT).look(&Seen {
                shootdowns: 9,
                ..Seen::default()
            }),
            None
        );

        let mut wait = Triggers::new(vec![rule("wait_p99_us = 50")], SLOT);
        assert_eq!(
            wait.look(&Seen {
                waits: 19,
                wait_p99_ns: 60_000,
                ..seen(1)
            }),
            None
        );
        assert!(
            wait.look(&Seen {
                waits: 20,
                wait_p99_ns: 60_000,
                ..seen(1)
            })
            .is_some()
        );
        let mut isolated = Triggers::new(vec![rule("isolated = true")], SLOT);
        assert_eq!(isolated.look(&seen(9)), None);
        assert!(
            isolated
                .look(&Seen {
                    isolated_hits: 1,
                    ..seen(1)
                })
                .is_some()
        );
    }

    /// Check that a regression is told against the last day, once there is an hour of it, and that busy hours of that day
    /// are no regression.
    #[test]
    fn regressions() {
        let mut day = Triggers::new(vec![rule("regression = 3")], SLOT);
        let mut slot = |rate: u64| {
            let fired: Vec<_> = (0..30)
                .filter(|_| day.look(&seen(rate * 10)).is_some())
                .collect();
            !fired.is_empty()
        };
        assert!((0..12).all(|_| !slot(100)));
        assert!(slot(301));
        assert!(!slot(299));
        for _ in 0..20 {
            slot(1000);
        }
        assert!(!slot(2000), "a tenth of the day had 1000 a second");
    }

    proptest! {
        /// Check that whatever is seen no rule fires twice within its pause, and that the day stays as small as it is.
        #[test]
        fn pauses_hold(rates in prop::collection::vec(0_u64..10_000, 0..600)) {
            let mut triggers = Triggers::new(vec![rule("rate = 100"), rule("regression = 2")], Duration::from_secs(600));
            let mut last = [None::<Duration>; 2];
            for rate in rates {
                let seen = Seen { over: Duration::from_secs(100), shootdowns: rate * 100, ..Seen::default() };
                let why = triggers.look(&seen).map(|(_, why)| why);
                let Some(why) = why else { continue };
                let n = usize::from(why.contains("five minutes"));
                let now = triggers.now;
                prop_assert!(last[n].is_none_or(|at| now - at >= Duration::from_secs(600)));
                last[n] = Some(now);
            }
            prop_assert!(triggers.day.slots.len() <= SLOTS);
        }
    }
}
