//! When a trace is worth its cost: rules over the counts between two looks.

use std::collections::VecDeque;
use std::time::Duration;

use serde::Deserialize;

/// The last day is kept as so many slots, one number each.
const DAY_SLOTS: usize = 288;
const SLOT_DURATION: Duration = Duration::from_secs(300);
/// With fewer slots there is no day to compare with.
const MIN_KNOWN_SLOTS: usize = 12;
/// A lower rate is no regression, however low it was before: an idle host would have one at every start of a program.
const MIN_REGRESSION_RATE: f64 = 10.0;
/// A 99 % quantile of fewer waits would be one of them by chance.
const MIN_P99_WAITS: u64 = 20;

/// One rule: exactly one of its conditions is written.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TriggerRule {
    /// Its name, which is part of its traces' names.
    pub name: String,
    /// Fires at so many shootdowns a second, over one look.
    pub rate: Option<f64>,
    /// Fires if the 99 % quantile of the waits is so long, us.
    pub wait_p99_us: Option<f64>,
    /// Whether it fires at any hit on an isolated CPU.
    pub isolated: Option<bool>,
    /// Fires at so many times the rate that 95 % of the last day's slots of five minutes stay below.
    pub regression: Option<f64>,
}

impl TriggerRule {
    /// The first mistake in it, in one line; `None` where there is none.
    #[must_use]
    pub fn first_mistake(&self) -> Option<String> {
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
            // `false` counts as 0, which is refused below: such a rule would never fire.
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

/// Figures of one look that rules need.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LookSummary {
    /// Time since the look before, by a clock that never jumps.
    pub duration: Duration,
    /// Shootdowns.
    pub shootdowns: u64,
    /// Upper bound for the number of waits that were timed, not of those that they stand for.
    pub waits: u64,
    /// The 99 % quantile of these waits, ns.
    pub wait_p99_ns: u64,
    /// Hits on isolated CPUs.
    pub isolated_hits: u64,
}

/// The rates of the last day's slots, of which there are never more.
#[derive(Debug, Default)]
struct LastDay {
    slots: VecDeque<f64>,
    shootdowns: u64,
    over: Duration,
}

impl LastDay {
    /// At the end of a slot its rate in shootdowns a second, and the rate that 95 % of the slots before it don't exceed. `None`
    /// within a slot, and while fewer than [`MIN_KNOWN_SLOTS`] lie before it.
    fn add_look(&mut self, seen: &LookSummary) -> Option<(f64, f64)> {
        self.shootdowns += seen.shootdowns;
        self.over += seen.duration;
        if self.over < SLOT_DURATION {
            return None;
        }
        let rate = self.shootdowns as f64 / self.over.as_secs_f64();
        (self.shootdowns, self.over) = (0, Duration::ZERO);
        let mut sorted: Vec<f64> = self.slots.iter().copied().collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let usual = sorted
            .get((sorted.len() * 95).div_ceil(100).saturating_sub(1))
            .copied();
        if self.slots.len() == DAY_SLOTS {
            self.slots.pop_front();
        }
        self.slots.push_back(rate);
        usual
            .filter(|_| sorted.len() >= MIN_KNOWN_SLOTS)
            .map(|usual| (rate, usual))
    }
}

/// The rules, and their state.
#[derive(Debug, Default)]
pub struct Triggers {
    rules: Vec<TriggerRule>,
    day: LastDay,
    /// The end of each rule's pause, by the sum of all looks' time.
    quiet: Vec<Duration>,
    pause: Duration,
    now: Duration,
}

impl Triggers {
    /// A rule that [has been rested](Self::rest_rule) is quiet for the pause.
    #[must_use]
    pub fn new(rules: Vec<TriggerRule>, pause: Duration) -> Self {
        Self {
            quiet: vec![Duration::ZERO; rules.len()],
            rules,
            pause,
            ..Self::default()
        }
    }

    /// The rules that fire at this look, by number, with the reason; rules that are quiet are left out.
    pub fn broken_rules(&mut self, seen: &LookSummary) -> Vec<(usize, String)> {
        self.now += seen.duration;
        let slot = self.day.add_look(seen);
        let rules = self.rules.iter().enumerate();
        let rules = rules.filter(|(n, _)| self.quiet[*n] <= self.now);
        rules
            .filter_map(|(n, rule)| Some((n, broken_reason(rule, seen, slot)?)))
            .collect()
    }

    /// The rule's name.
    #[must_use]
    pub fn rule_name(&self, n: usize) -> &str {
        &self.rules[n].name
    }

    /// Makes the rule quiet for the pause. It is called when a trace was begun or could not be.
    pub fn rest_rule(&mut self, n: usize) {
        self.quiet[n] = self.now + self.pause;
    }
}

/// Why the rule fires at this look; `None` where it does not. `slot` comes from [`LastDay::add_look`]: within a slot no
/// regression is found.
fn broken_reason(
    rule: &TriggerRule,
    seen: &LookSummary,
    slot: Option<(f64, f64)>,
) -> Option<String> {
    if let Some(most) = rule.rate {
        let rate = seen.shootdowns as f64 / seen.duration.as_secs_f64();
        // The first look has no time before it.
        return (rate.is_finite() && rate >= most)
            .then(|| format!("{rate:.0} shootdowns a second"));
    }
    if let Some(most) = rule.wait_p99_us {
        let p99 = seen.wait_p99_ns as f64 / 1e3;
        return (seen.waits >= MIN_P99_WAITS && p99 >= most).then(|| {
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
    (rate >= MIN_REGRESSION_RATE && rate > factor * usual).then(|| format!("{rate:.0} shootdowns a second for five minutes; 95 % of the last day had up to {usual:.0}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rule(text: &str) -> TriggerRule {
        toml::from_str(&format!("name = 'a'\n{text}")).unwrap()
    }

    fn seen(shootdowns: u64) -> LookSummary {
        LookSummary {
            duration: Duration::from_secs(10),
            shootdowns,
            ..LookSummary::default()
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
            assert_eq!(rule(right).first_mistake(), None, "{right}");
        }
        for wrong in [
            "",
            "rate = 1\nisolated = true",
            "rate = 0",
            "rate = nan",
            "isolated = false",
            "regression = 1",
        ] {
            assert!(rule(wrong).first_mistake().is_some(), "{wrong}");
        }
        for name in ["", "a/b", "..", "a b", &"a".repeat(33)] {
            let rule = TriggerRule {
                name: name.to_owned(),
                rate: Some(1.0),
                ..TriggerRule::default()
            };
            assert!(rule.first_mistake().is_some(), "{name}");
        }
    }

    /// What fires now; all of it rests then.
    fn fires(triggers: &mut Triggers, seen: &LookSummary) -> Vec<String> {
        let broken = triggers.broken_rules(seen);
        broken.iter().for_each(|(n, _)| triggers.rest_rule(*n));
        broken.into_iter().map(|(_, why)| why).collect()
    }

    /// Check that each condition fires at its bound and not below, and then is quiet for the pause, unless nothing came of it.
    #[test]
    fn each_fires() {
        let new = |text, pause| Triggers::new(vec![rule(text)], Duration::from_secs(pause));
        let mut rate = new("rate = 100", 60);
        assert!(rate.broken_rules(&seen(999)).is_empty());
        assert_eq!(
            rate.broken_rules(&seen(1000)),
            [(0, "100 shootdowns a second".to_owned())]
        );
        assert_eq!(fires(&mut rate, &seen(1000)).len(), 1);
        for _ in 0..5 {
            assert!(fires(&mut rate, &seen(5000)).is_empty());
        }
        assert_eq!(fires(&mut rate, &seen(5000)).len(), 1);
        // without time before it there is no rate
        let first = LookSummary {
            shootdowns: 9,
            ..LookSummary::default()
        };
        assert!(new("rate = 1", 1).broken_rules(&first).is_empty());

        let waits = |waits| LookSummary {
            waits,
            wait_p99_ns: 60_000,
            ..seen(1)
        };
        let mut wait = new("wait_p99_us = 50", 300);
        assert!(wait.broken_rules(&waits(19)).is_empty());
        assert_eq!(wait.broken_rules(&waits(20)).len(), 1);
        let hits = |isolated_hits| LookSummary {
            isolated_hits,
            ..seen(1)
        };
        let mut isolated = new("isolated = true", 300);
        assert!(isolated.broken_rules(&hits(0)).is_empty());
        assert_eq!(isolated.broken_rules(&hits(1)).len(), 1);
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
                let seen = LookSummary { duration: Duration::from_secs(100), shootdowns: rate * 100, ..LookSummary::default() };
                for (n, _) in triggers.broken_rules(&seen) {
                    triggers.rest_rule(n);
                    let now = triggers.now;
                    prop_assert!(last[n].is_none_or(|at| now - at >= Duration::from_secs(600)));
                    last[n] = Some(now);
                }
            }
            prop_assert!(triggers.day.slots.len() <= DAY_SLOTS);
        }
    }
}
