//! The account as text: the time by mechanism, with the code that caused it and the holders of locks.

use std::fmt::Write as _;

use quell_event::account::{AccountSummary, HolderShare, MechanismRow, TlbMisses, WhoRow};
use quell_event::{HolderRole, Mechanism};
use quell_remedy::advice::Advised;

use super::style::{BOLD, DIM, heading};
use super::symbol;
use super::table::{Table, say_how_many_more};
use super::units::{count, percent, plural, share_of, time, time_or_dash};

/// Below this share of CPU time and of the time that passed there is nothing to win.
const NOTICEABLE_SHARE: f64 = 0.01;

/// The most functions and holders for each mechanism.
const MAX_ROWS_EACH: usize = 3;

fn is_below_notice(a: &AccountSummary) -> bool {
    a.ceiling.cpu < NOTICEABLE_SHARE && a.ceiling.wall < NOTICEABLE_SHARE
}

/// Whether it is certain enough that there is nothing to win: the program ran long enough for samples, and even the upper
/// end of the interval is tiny.
pub(crate) fn is_nothing_to_win(a: &AccountSummary) -> bool {
    let [_, most] = a.memory_cpu_ci95;
    a.samples > 0 && is_below_notice(a) && share_of(most, a.cpu_ns) < 3.0 * NOTICEABLE_SHARE
}

/// The first line, with the share of time that is at stake, or that the program was too short for a sample.
pub(crate) fn account_headline(a: &AccountSummary) -> String {
    let [low, high] = a.memory_cpu_ci95.map(|ns| share_of(ns, a.cpu_ns).min(1.0));
    let slept = match a.blocked_ns {
        0 => "no thread slept for it".to_owned(),
        ns => format!("it made threads sleep for {}", time(ns)),
    };
    let told = format!(
        "{} of {} of CPU time is memory management ({} to {}), and {slept}",
        percent(share_of(a.memory_cpu_ns, a.cpu_ns).min(1.0)),
        time(a.cpu_ns),
        percent(low),
        percent(high),
    );
    if a.samples == 0 {
        return format!(
            "too short to tell: no sample of {} of CPU time",
            time(a.cpu_ns)
        );
    }
    if is_below_notice(a) {
        return format!("nothing to win here: {told}");
    }
    told
}

/// The whole text; each table has at most `top` rows.
pub(crate) fn write_account(out: &mut String, a: &AccountSummary, top: usize) {
    advised_text(out, a, &[], top);
}

/// The same with advice. It comes before the tables, because a reader can act on it.
pub(super) fn advised_text(out: &mut String, a: &AccountSummary, advice: &[Advised], top: usize) {
    let _ = writeln!(out, "{BOLD}{}{BOLD:#}", account_headline(a));
    if !advice.is_empty() {
        let _ = writeln!(out, "{}", super::advice::advice_text(advice, a.cpu_ns));
    }
    if a.mechanisms.is_empty() {
        return;
    }
    let mut t = Table::new(&[
        ">CPU time",
        ">of CPU",
        ">blocked",
        ">longest",
        "mechanism",
        "who",
    ]);
    for m in a.mechanisms.iter().take(top) {
        t.row(mechanism_row(a, m));
        for who in m.who.iter().skip(1).take(MAX_ROWS_EACH - 1) {
            // A function with too little time to matter takes no line.
            if (who.cpu_ns + who.blocked_ns) * 10 < m.cpu_ns + m.blocked_ns {
                break;
            }
            let mut cells = vec![String::new(); 5];
            cells.push(who_text(m, who));
            t.row(cells);
        }
    }
    out.push_str(&t.text());
    say_how_many_more(out, a.mechanisms.len(), top);
    write_holders(out, a);
    if let Some(line) = a.tlb_misses.as_ref().and_then(walks_line) {
        let _ = writeln!(out, "\n{line}");
    }
    write_footer(out, a);
}

fn mechanism_row(a: &AccountSummary, m: &MechanismRow) -> Vec<String> {
    vec![
        time_or_dash(m.cpu_ns),
        match m.cpu_ns {
            0 => "-".to_owned(),
            ns => percent(share_of(ns, a.cpu_ns)),
        },
        time_or_dash(m.blocked_ns),
        time_or_dash(m.longest_ns),
        match time_each(m).or_else(|| given_advice(m)) {
            Some(more) => format!("{}, {more}", m.mechanism),
            None => m.mechanism.name().to_owned(),
        },
        m.who.first().map(|w| who_text(m, w)).unwrap_or_default(),
    ]
}

/// The time of one event, for mechanisms whose events are counted. Not of a shootdown: samples of its mechanism are also of
/// flushes that found no CPU to interrupt, which may be a thousand for each shootdown, and the waits are timed exactly.
fn time_each(m: &MechanismRow) -> Option<String> {
    let counted = matches!(m.mechanism, Mechanism::Fork | Mechanism::ShootdownHit);
    if let Some(dearest) = dearest_fork(m) {
        return Some(dearest);
    }
    // One sample or two say nothing of four events: the lower end of the interval has to be half of the figure or more.
    let is_sure = m.ci95[0].saturating_mul(2) >= m.cpu_ns;
    let each = m.cpu_ns.checked_div(m.count)?;
    (counted && is_sure).then(|| format!("{} each", time(each)))
}

/// The process with the largest forks, where several fork: an average over all would hide a large fork among a shell's
/// small ones.
fn dearest_fork(m: &MechanismRow) -> Option<String> {
    // A process with a fork or two that a sample hit by chance is passed over.
    let matters = |w: &&WhoRow| (w.cpu_ns + w.blocked_ns) * 10 >= m.cpu_ns + m.blocked_ns;
    let dearest = m
        .who
        .iter()
        .filter(matters)
        .max_by_key(|w| w.each_ns.unwrap_or(0))?;
    let each = dearest.each_ns?;
    let is_alone = dearest.forks == Some(m.count);
    Some(match is_alone {
        true => format!("{} each", time(each)),
        false => format!("{} each in {}", time(each), dearest.comm),
    })
}

/// The madvise advice with most of the time, and its share where there were others.
fn given_advice(m: &MechanismRow) -> Option<String> {
    let first = m.advice.first()?;
    let of = share_of(first.cpu_ns + first.blocked_ns, m.cpu_ns + m.blocked_ns);
    Some(match m.advice.len() {
        1 => first.advice.to_string(),
        _ => format!("{} {}", percent(of), first.advice),
    })
}

/// A function and its file, as far as they are known.
pub(crate) fn with_file(function: &str, file: &str) -> String {
    match (function, file) {
        (_, "") => function.to_owned(),
        ("", _) => file.to_owned(),
        _ => format!("{function} ({file})"),
    }
}

/// The function that caused it and its file, with the allocator's function that it called.
pub(crate) fn function_label(w: &WhoRow) -> String {
    let code = with_file(&symbol::shorten_symbol(&w.function), &w.file);
    match w.allocator.as_str() {
        "" => code,
        // `file` ends with the closing bracket.
        allocator => match allocator.rsplit_once(" (") {
            Some((function, file)) => {
                format!("{code} by {} ({file}", symbol::shorten_symbol(function))
            }
            None => format!("{code} by {allocator}"),
        },
    }
}

/// The work of a holder, and how it held the lock.
pub(crate) fn holder_label(h: &HolderShare) -> String {
    match h.role {
        HolderRole::Alone => h.doing.to_string(),
        HolderRole::Reader => format!("{}, with others that read", h.doing),
        HolderRole::Queued => format!("{}, which waited to have it alone", h.doing),
        HolderRole::Unknown => "not known: it was handed on".to_owned(),
    }
}

/// The function and its file, the share of the mechanism, and the process.
fn who_text(m: &MechanismRow, w: &WhoRow) -> String {
    let of = share_of(w.cpu_ns + w.blocked_ns, m.cpu_ns + m.blocked_ns);
    let code = match function_label(w) {
        code if code.is_empty() => code,
        code => code + ", ",
    };
    let process = match w.processes {
        0 | 1 => format!("{} {}", w.comm, w.pid),
        n => format!("{n} processes {}", w.comm),
    };
    format!("{} {code}{process}", percent(of))
}

fn write_holders(out: &mut String, a: &AccountSummary) {
    for m in a.mechanisms.iter().filter(|m| !m.holders.is_empty()) {
        let all: u64 = m.holders.iter().map(|h| h.blocked_ns).sum();
        heading(out, &format!("Who held it: {}", m.mechanism));
        let mut t = Table::new(&[
            ">blocked", ">of it", ">waits", ">longest", ">pid", "name", "doing",
        ]);
        for h in m.holders.iter().take(MAX_ROWS_EACH) {
            t.row(vec![
                time(h.blocked_ns),
                percent(share_of(h.blocked_ns, all)),
                count(h.waits),
                time(h.longest_ns),
                match h.pid {
                    0 => "-".to_owned(),
                    pid => pid.to_string(),
                },
                h.comm.to_string(),
                holder_label(h),
            ]);
        }
        out.push_str(&t.text());
        say_how_many_more(out, m.holders.len(), MAX_ROWS_EACH);
    }
}

/// The cost of page walks, where it is counted. It stands apart from all sums, because it is the program's own time.
pub(crate) fn walks_line(t: &TlbMisses) -> Option<String> {
    let misses = t.misses.map(|n| plural(n, "miss"));
    let line = match (t.walk_share, misses) {
        (Some(of), misses) => format!(
            "TLB misses: page walks take {} of its cycles in user mode{}",
            percent(of),
            misses.map(|m| format!(", {m}")).unwrap_or_default(),
        ),
        (None, Some(misses)) => format!("TLB misses: {misses} in user mode"),
        (None, None) => return None,
    };
    // Events take turns where a CPU has too few counters for all (perf_event_open(2)).
    let scaled = t.counted.filter(|&share| share < 0.995);
    let scaled = scaled.map(|share| format!("; scaled up from {} of the time", percent(share)));
    let apart = "; that is its own time, and no part of the above";
    Some(format!("{line}{apart}{}", scaled.unwrap_or_default()))
}

fn write_footer(out: &mut String, a: &AccountSummary) {
    let mut notes = vec![format!(
        "settings could touch {} of CPU time, {} of the time that passed",
        percent(a.ceiling.cpu),
        percent(a.ceiling.wall)
    )];
    notes.push(plural(a.samples, "sample"));
    if a.hit_ns > 0 {
        notes.push(format!("a hit takes {} here", time(a.hit_ns)));
    }
    let waits = a
        .mechanisms
        .iter()
        .any(|m| m.mechanism == Mechanism::LockMmap && m.blocked_ns > 0);
    if waits && !a.sees_holders {
        notes.push("this kernel does not report who holds a lock: Linux 5.19 does".to_owned());
    }
    // One in ten is worth a note.
    if a.early_ends * 10 > a.with_stack {
        notes.push(format!(
            "of {} stacks {} end early: their callers are not known",
            count(a.with_stack),
            count(a.early_ends)
        ));
    }
    let why = a
        .tlb_misses
        .as_ref()
        .and_then(|t| t.why.as_ref().zip(Some(t)));
    if let Some((why, t)) = why {
        notes.push(match t.misses {
            None => format!("TLB misses: not counted here ({why})"),
            Some(_) => why.to_string(),
        });
    }
    if a.lost > 0 {
        notes.push(format!(
            "{} lost: figures are too low by so much",
            count(a.lost)
        ));
    }
    let _ = writeln!(out, "\n{DIM}{}{DIM:#}\n", notes.join("; "));
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_event::account::AccountCeiling;

    fn account() -> AccountSummary {
        AccountSummary {
            cpu_ns: 1_000_000_000,
            memory_cpu_ns: 300_000_000,
            memory_cpu_ci95: [270_000_000, 330_000_000],
            blocked_ns: 50_000_000,
            samples: 1000,
            mechanisms: vec![MechanismRow {
                mechanism: Mechanism::LockMmap,
                cpu_ns: 300_000_000,
                ci95: [270_000_000, 330_000_000],
                blocked_ns: 50_000_000,
                count: 4,
                longest_ns: 20_000_000,
                who: vec![WhoRow {
                    pid: 7,
                    processes: 1,
                    comm: "p".into(),
                    function: "f".into(),
                    file: "lib.so".into(),
                    allocator: "free (libc.so.6)".into(),
                    cpu_ns: 300_000_000,
                    blocked_ns: 50_000_000,
                    ..WhoRow::default()
                }],
                parts: Vec::new(),
                advice: Vec::new(),
                holders: vec![HolderShare {
                    pid: 9,
                    comm: "monitor".into(),
                    doing: "write /proc/7/clear_refs".into(),
                    blocked_ns: 50_000_000,
                    waits: 4,
                    longest_ns: 20_000_000,
                    role: HolderRole::Alone,
                }],
            }],
            ceiling: AccountCeiling {
                cpu: 0.3,
                wall: 0.35,
            },
            ..AccountSummary::default()
        }
    }

    /// Check that mechanism, function, holder and its work are on the first screen, and that the first line says so
    /// where nothing can be won.
    #[test]
    fn tells_who_and_whom_for() {
        let mut out = String::new();
        let mut a = account();
        write_account(&mut out, &a, 10);
        for part in [
            "30 % of 1",
            "lock.mmap",
            "f (lib.so) by free (libc.so.6), p 7",
            "monitor",
            "write /proc/7/clear_refs",
        ] {
            assert!(out.contains(part), "{part}: {out}");
        }
        assert!(!account_headline(&a).contains("nothing to win"));
        assert!(!out.contains("TLB misses"), "{out}");
        a.ceiling = AccountCeiling {
            cpu: 0.002,
            wall: 0.001,
        };
        assert!(
            account_headline(&a).starts_with("nothing to win here: "),
            "{}",
            account_headline(&a)
        );
    }

    /// Check that the cost of walks stands apart from the sums, where it is counted, and else shortly in the last line;
    /// and that it changes no other figure.
    #[test]
    fn walks_are_told_apart() {
        let told = |tlb_misses: TlbMisses| {
            let mut out = String::new();
            let account = AccountSummary {
                tlb_misses: Some(tlb_misses),
                ..account()
            };
            write_account(&mut out, &account, 10);
            let plain = anstream::adapter::strip_str(&out).to_string();
            assert!(plain.starts_with("30 % of 1"), "{plain}");
            plain
        };
        let counted = TlbMisses {
            walk_share: Some(0.12),
            misses: Some(34_000),
            counted: Some(0.5),
            ..TlbMisses::default()
        };
        let line = "\nTLB misses: page walks take 12 % of its cycles in user mode, 34,000 misses; that is its own time, and no \
                    part of the above; scaled up from 50 % of the time\n";
        let out = told(counted.clone());
        assert!(out.contains(line), "{out}");
        let only_misses = TlbMisses {
            walk_share: None,
            counted: Some(1.0),
            why: Some("no event for walks".into()),
            ..counted
        };
        let out = told(only_misses);
        assert!(
            out.contains("\nTLB misses: 34,000 misses in user mode; that"),
            "{out}"
        );
        assert!(out.contains("; no event for walks\n"), "{out}");
        let out = told(TlbMisses {
            why: Some("this virtual machine has no such counters".into()),
            ..TlbMisses::default()
        });
        let last = out.trim_end().lines().last().unwrap_or_default();
        assert!(
            last.ends_with(
                "; TLB misses: not counted here (this virtual machine has no such counters)"
            ),
            "{out}"
        );
        assert_eq!(out.matches("TLB").count(), 1, "{out}");
    }

    /// Check that the largest forks are named with their process, and those of a single process without it.
    #[test]
    fn the_largest_forks_are_told() {
        let who = |comm: &str, ms: u64, forks, each_ms: u64| WhoRow {
            comm: comm.into(),
            cpu_ns: ms * 1_000_000,
            forks: Some(forks),
            each_ns: Some(each_ms * 1_000_000),
            ..WhoRow::default()
        };
        let row = |count, who: Vec<WhoRow>| MechanismRow {
            mechanism: Mechanism::Fork,
            cpu_ns: who.iter().map(|w| w.cpu_ns).sum(),
            count,
            who,
            ..account().mechanisms.swap_remove(0)
        };
        let several = [
            who("sh", 100, 200, 0),
            who("redis-server", 82, 2, 41),
            who("grep", 2, 1, 99),
        ];
        let text = |row: &MechanismRow| time_each(row).unwrap_or_default();
        let row_of_all = MechanismRow {
            blocked_ns: 0,
            ..row(203, several.to_vec())
        };
        assert_eq!(text(&row_of_all), "41.0 ms each in redis-server");
        let alone = row(2, vec![who("redis-server", 82, 2, 41)]);
        assert_eq!(text(&alone), "41.0 ms each");
    }
}
