//! A comparison as the object `quell/compare/1`. Its keys never change, more may be added.

use quell_event::TallySummary;
use quell_event::tally_summary::Quantiles;
use serde::Serialize;
use serde_json::{Value, json};

use super::Comparison;
use super::accounts::ComparedAccounts;
use super::change::{ComparedRow, relative_change};
use super::side::TraceSide;
use crate::show::units::rate_per_second;

const COMPARE_SCHEMA: &str = "quell/compare/1";

/// The durations of both traces.
type Durations = (u64, u64);

/// The object, in one line.
pub(crate) fn comparison_json(c: &Comparison) -> String {
    let durations = (c.a.summary.duration_ns, c.b.summary.duration_ns);
    let mut object = json!({
        "schema": COMPARE_SCHEMA,
        "a": trace_json(&c.a),
        "b": trace_json(&c.b),
    });
    add_figures(&mut object, &c.total, durations);
    // Absent where only one trace has an account.
    if let Some(accounts) = ComparedAccounts::of_sides(&c.a, &c.b) {
        object["account"] = accounts_json(&accounts, durations);
    }
    let both =
        |of: fn(&TallySummary) -> Quantiles| json!({"a": of(&c.a.summary), "b": of(&c.b.summary)});
    object["wait_each"] = both(|s| s.wait_ns);
    object["delay_each"] = both(|s| s.delay_ns);
    object["stall_each"] = both(|s| s.stall_ns);
    object["causes"] = rows_json("cause", &c.causes, durations);
    object["culprits"] = rows_json("comm", &c.culprits, durations);
    object["threads"] = rows_json("comm", &c.threads, durations);
    object["regions"] = rows_json("region", &c.regions, durations);
    object["stacks"] = rows_json("frames", &c.stacks, durations);
    object["notes"] = json!(c.notes);
    object.to_string()
}

/// One of the traces. `sampled` is as in `meta.json`: `all`, `none`, or a number N for one in N.
fn trace_json(side: &TraceSide) -> Value {
    let s = &side.summary;
    json!({
        "trace": side.path,
        "title": side.title,
        "backend": s.backend,
        "scope": side.scope,
        "kernel": side.kernel,
        "host": side.host,
        "cpus": s.cpus,
        "duration_ns": s.duration_ns,
        "lost": s.lost,
        "lost_known": s.lost_known,
        "lost_stacks": s.lost_stacks,
        "sampled": side.sampled,
        "cut_short": side.cut_short,
    })
}

/// A figure of both traces. A change is a share of A; null where A has none and B has some.
fn pair_json(a: u64, b: u64, durations: Durations) -> Value {
    let a_per_s = rate_per_second(a, durations.0);
    let b_per_s = rate_per_second(b, durations.1);
    json!({
        "a": a,
        "b": b,
        "a_per_s": a_per_s,
        "b_per_s": b_per_s,
        "change": relative_change(a as f64, b as f64),
        "change_per_s": relative_change(a_per_s, b_per_s),
    })
}

/// Adds the figures of a row to its object. One that neither side has is left out.
fn add_figures<K>(object: &mut Value, row: &ComparedRow<K>, durations: Durations) {
    let (a, b) = (&row.a, &row.b);
    for (name, a, b) in [
        ("shootdowns", Some(a.shootdowns), Some(b.shootdowns)),
        ("victims", a.victims, b.victims),
        ("wait_ns", a.wait_ns, b.wait_ns),
        ("stall_ns", a.stall_ns, b.stall_ns),
    ] {
        if a.is_some() || b.is_some() {
            object[name] = pair_json(a.unwrap_or(0), b.unwrap_or(0), durations);
        }
    }
}

/// Rows whose key is named `name`; `state` is `both`, `gone` or `new`.
fn rows_json<K: Serialize>(name: &str, rows: &[ComparedRow<K>], durations: Durations) -> Value {
    let row_json = |row: &ComparedRow<K>| {
        let mut object = json!({name: row.key, "state": row.state.name()});
        add_figures(&mut object, row, durations);
        object
    };
    rows.iter().map(row_json).collect()
}

/// Both accounts. The CPU times are within `a_ci95` and `b_ci95` in 95 of 100 recordings; `apart` says whether these don't
/// overlap: sampling alone makes no such difference.
fn accounts_json(accounts: &ComparedAccounts<'_>, durations: Durations) -> Value {
    let (a, b) = (accounts.a, accounts.b);
    let pair = |a, b| pair_json(a, b, durations);
    let mechanisms = accounts.mechanisms.iter().map(|m| {
        json!({
            "mechanism": m.mechanism.name(),
            "cpu_ns": pair(m.a.cpu_ns, m.b.cpu_ns),
            "blocked_ns": pair(m.a.blocked_ns, m.b.blocked_ns),
            "a_ci95": m.a.ci95,
            "b_ci95": m.b.ci95,
            "apart": m.is_apart(),
        })
    });
    json!({
        "cpu_ns": pair(a.cpu_ns, b.cpu_ns),
        "memory_cpu_ns": pair(a.memory_cpu_ns, b.memory_cpu_ns),
        "blocked_ns": pair(a.blocked_ns, b.blocked_ns),
        "mechanisms": mechanisms.collect::<Value>(),
    })
}
