//! The choice of traces for a question, and the period of each.

use quell_fleet::{DAY_NS, FoundTrace, Since};

/// The default period.
const DEFAULT_PERIOD_NS: u64 = 7 * DAY_NS;

/// The chosen traces.
pub(crate) struct TraceChoice {
    /// Each with its period: 0 is the last one.
    pub(crate) traces: Vec<(FoundTrace, u64)>,
    /// The chosen time begins here and ends before `to_ns`, both in ns since 1970.
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
    /// The length of a period, in ns.
    pub(crate) period_ns: u64,
}

impl TraceChoice {
    /// The number of hosts that they come from.
    pub(crate) fn host_count(&self) -> u64 {
        let mut hosts: Vec<&str> = self.traces.iter().map(|(t, _)| &*t.meta.host).collect();
        hosts.sort_unstable();
        hosts.dedup();
        hosts.len() as u64
    }

    /// The recorded time of all together, in ns.
    pub(crate) fn traced_ns(&self) -> u64 {
        self.traces.iter().map(|(t, _)| t.traced_ns()).sum()
    }

    /// Whether any trace belongs to this period.
    pub(crate) fn has_period(&self, period: u64) -> bool {
        self.traces.iter().any(|(_, p)| *p == period)
    }
}

/// Takes out the traces that began more than a day after `now_ns`: their host's clock is wrong, and one of them would make
/// all others look old. A day is allowed, because clocks differ a little.
pub(crate) fn of_the_future(traces: &mut Vec<FoundTrace>, now_ns: u64) -> Vec<FoundTrace> {
    let latest = now_ns.saturating_add(DAY_NS);
    traces
        .extract_if(.., |t| t.meta.start_wall_ns > latest)
        .collect()
}

/// Chooses the traces for a question by the time at which they began; with `before` also those of the period before, to compare
/// with. Without `since` all are chosen, in periods of a week that count back from the newest.
pub(crate) fn choose_traces(
    traces: Vec<FoundTrace>,
    since: Option<Since>,
    before: bool,
) -> TraceChoice {
    let begun = |t: &FoundTrace| t.meta.start_wall_ns;
    let newest = traces.iter().map(begun).max().unwrap_or(0);
    let oldest = traces.iter().map(begun).min().unwrap_or(0);
    let (from_ns, to_ns, period_ns) = match since {
        None => (oldest, newest.saturating_add(1), DEFAULT_PERIOD_NS),
        Some(since) => {
            let (from, to) = since.moment_range(newest);
            let period = to.saturating_sub(from).max(1);
            let first = if before {
                from.saturating_sub(period)
            } else {
                from
            };
            (first, to, period)
        }
    };
    let period = |t: &FoundTrace| to_ns.saturating_sub(1).saturating_sub(begun(t)) / period_ns;
    TraceChoice {
        traces: traces
            .into_iter()
            .filter(|t| (from_ns..to_ns).contains(&begun(t)))
            .map(|t| {
                let period = period(&t);
                (t, period)
            })
            .collect(),
        from_ns,
        to_ns,
        period_ns,
    }
}

#[cfg(test)]
mod tests {
    use quell_event::trace::TraceMeta;

    use super::*;

    fn traces_of_days(days: &[u64]) -> Vec<FoundTrace> {
        let found = |day: &u64| FoundTrace {
            dir: "t".into(),
            meta: TraceMeta {
                host: format!("h{day}").into(),
                start_wall_ns: day * DAY_NS,
                ..TraceMeta::default()
            },
            files: Vec::new(),
        };
        days.iter().map(found).collect()
    }

    fn days_of_periods(choice: &TraceChoice) -> Vec<(u64, u64)> {
        let of = |(t, p): &(FoundTrace, u64)| (t.meta.start_wall_ns / DAY_NS, *p);
        choice.traces.iter().map(of).collect()
    }

    /// Check that weeks are counted back from the newest trace, and that no trace is left out without `--since`.
    #[test]
    fn periods_go_back() {
        let all = choose_traces(traces_of_days(&[1, 94, 100, 86, 87, 93]), None, false);
        assert_eq!(
            days_of_periods(&all),
            [(1, 14), (94, 0), (100, 0), (86, 2), (87, 1), (93, 1)]
        );
        assert_eq!(all.host_count(), 6);
        assert!(all.has_period(1) && !all.has_period(3));
    }

    /// Check that traces of a host whose clock is far ahead are taken out, and no others.
    #[test]
    fn the_future_is_taken_out() {
        let mut all = traces_of_days(&[99, 130, 100, 101, 102]);
        let out = of_the_future(&mut all, 100 * DAY_NS);
        let days = |of: &[FoundTrace]| -> Vec<u64> {
            of.iter().map(|t| t.meta.start_wall_ns / DAY_NS).collect()
        };
        assert_eq!(
            (days(&out), days(&all)),
            (vec![130, 102], vec![99, 100, 101])
        );
    }

    /// Check that `--since` leaves older traces out, but keeps those of the period before where the two are compared.
    #[test]
    fn since_is_kept() {
        let three = choose_traces(
            traces_of_days(&[94, 97, 98, 100]),
            Some(Since::Days(3)),
            false,
        );
        assert_eq!(days_of_periods(&three), [(98, 0), (100, 0)]);
        let six = choose_traces(
            traces_of_days(&[94, 95, 97, 98, 100]),
            Some(Since::Days(3)),
            true,
        );
        assert_eq!(days_of_periods(&six), [(95, 1), (97, 1), (98, 0), (100, 0)]);
        let dates = choose_traces(
            traces_of_days(&[94, 97, 98, 100]),
            Some(Since::Dates(97, Some(98))),
            false,
        );
        assert_eq!(days_of_periods(&dates), [(97, 0), (98, 0)]);
        assert!(choose_traces(Vec::new(), None, false).traces.is_empty());
    }
}
