//! Does the account add up, for programs that others wrote? Against what the kernel says of them: getrusage(2), and of each
//! thread taskstats(7).

use std::process::Command;

use serde_json::Value;

use crate::account::{ns, of_mechanism};
use crate::common::{QUELL, alone, example, root_only};
use crate::perf;
use crate::taskstats::Taskstats;

/// A program, as a script for `sh` in a folder of its own; what it needs besides; and its work.
struct Program {
    name: &'static str,
    needs: &'static [&'static str],
    script: &'static str,
}

const PROGRAMS: &[Program] = &[
    Program {
        name: "python3",
        needs: &["python3"],
        script: r#"python3 -c "
import json
for n in range(6):
    rows = [{'id': i, 'name': 'n%d' % i, 'tags': [i, i + 1]} for i in range(100000)]
    rows = json.loads(json.dumps(rows))
""#,
    },
    Program {
        name: "node",
        needs: &["node"],
        script: r#"node -e "
let kept = 0;
for (let n = 0; n < 60; n++) {
  const parts = [];
  for (let i = 0; i < 60000; i++) parts.push({ id: i, text: 'x' + i });
  kept += Buffer.alloc(1 << 22, n).length + JSON.stringify(parts).length;
}
""#,
    },
    Program {
        name: "gcc",
        needs: &["gcc"],
        script: r#"i=0
while [ $i -lt 1500 ]; do echo "int f$i(int *a, int n) { int s = $i; for (int k = 0; k < n; k++) s += a[k] * (k ^ $i); return s; }"; i=$((i+1)); done >many.c
gcc -O2 -c many.c -o many.o"#,
    },
    Program {
        name: "sort",
        needs: &["sort"],
        script: "seq 1500000 | sort -R >mixed; sort -n -S 64M mixed | tail -n 1",
    },
    Program {
        name: "tar, gzip",
        needs: &["tar", "gzip"],
        script: "seq 9000000 >a; cp a b; tar -cf - a b | gzip -1 | wc -c",
    },
    Program {
        name: "sqlite3",
        needs: &["sqlite3"],
        script: r#"sqlite3 :memory: "
create table t as with recursive n(i) as (select 1 union all select i + 1 from n where i < 1200000)
  select i, i * 7919 % 1000 as k, hex(i) as text from n;
create index by_k on t(k);
select k, count(*), max(text) from t group by k order by 2 desc limit 1;""#,
    },
    Program {
        name: "redis",
        needs: &["redis-server", "redis-benchmark"],
        script: r#"redis-server --port 0 --unixsocket "$PWD/r" --save '' >log &
until [ -S r ]; do sleep 0.02; done
redis-benchmark -s "$PWD/r" -n 60000 -d 2000 -r 20000 -t set,get -q >out
kill $!; wait $! || true"#,
    },
    Program {
        name: "perl",
        needs: &["perl"],
        script: r#"perl -e '
for my $n (1 .. 8) { my %h; $h{$_ * 7919 % 300007} .= "x$_" for 1 .. 250000; my @k = sort { $a <=> $b } keys %h; }
'"#,
    },
    Program {
        name: "git",
        needs: &["git"],
        script: r#"git init -q r; cd r
i=0; while [ $i -lt 400 ]; do seq $i $((i + 3000)) >f$i; i=$((i+1)); done
git add . && git -c user.name=n -c user.email=e commit -q -m m
git gc -q --aggressive; git fsck"#,
    },
    Program {
        name: "openssl",
        needs: &["openssl"],
        script: "head -c 400000000 /dev/zero | openssl enc -aes-128-ctr -K 00 -iv 00 | openssl dgst -sha256",
    },
    Program {
        name: "find",
        needs: &["find", "xargs"],
        script: "for n in 1 2 3; do find /usr -type f -name '*.h' -print0 2>/dev/null | head -z -n 6000 | xargs -0 -P 2 -n 100 cat | wc -c; done",
    },
    Program {
        name: "xz",
        needs: &["xz"],
        script: "seq 1500000 | xz -T 2 -3 | wc -c",
    },
];

/// What came out of the runs of a program.
#[derive(Default)]
struct Row {
    name: &'static str,
    runs: usize,
    /// By getrusage(2), ns.
    used: u64,
    cpu: u64,
    /// Of that memory management by samples, and what is of no thread any more.
    memory: u64,
    ends: u64,
    samples: u64,
    /// The time that all threads lived, by the account and by taskstats, ns.
    lived: u64,
    told_lived: u64,
    /// Of that they ran, by taskstats, ns.
    told_ran: u64,
    threads: usize,
    perf: perf::Shares,
}

fn has(program: &str) -> bool {
    let sh = Command::new("sh")
        .args(["-c", &format!("command -v {program}")])
        .output();
    sh.is_ok_and(|out| out.status.success())
}

/// Runs it once more.
fn run(program: &Program, taskstats: &Taskstats, row: &mut Row) {
    let dir = tempfile::tempdir_in("/var/tmp").expect("a folder");
    let at = |name: &str| dir.path().join(name);
    let perf = perf::Recording::start(
        &at("perf.data"),
        &["-e", "cpu-clock", "-F", "1997", "-g", "--kernel-callchains"],
    );
    let child = Command::new(QUELL)
        .args(["stat", "--json", "-o"])
        .arg(at("stat.json"))
        .arg("--")
        .arg(example("used"))
        .arg(at("used"))
        .args(["sh", "-e", "-c", program.script])
        .current_dir(dir.path())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("quell starts");
    let quell = child.id();
    let out = child.wait_with_output().expect("quell ends");
    if let Some(shares) = perf.map(|perf| perf.stop().shares(quell)) {
        row.perf.samples += shares.samples;
        row.perf.memory += shares.memory;
    }
    assert!(out.status.success(), "{}: {out:?}", program.name);
    let read = |name: &str| std::fs::read_to_string(at(name)).expect("what was written");
    let stat: Value = serde_json::from_str(&read("stat.json")).expect("an object");
    let account = &stat["account"];
    let of = |key| ns(account, key);
    let by = |mechanism| of_mechanism(account, mechanism, "cpu_ns");
    row.name = program.name;
    row.runs += 1;
    row.used += read("used").trim().parse::<u64>().expect("a number");
    row.cpu += of("cpu_ns");
    // hits are counted by another way, and come on top
    row.memory += of("memory_cpu_ns").saturating_sub(by("shootdown.hit"));
    row.ends += by("exit");
    row.samples += of("samples");
    let threads = taskstats.descendants(quell);
    if let Some((first, others)) = threads.split_first() {
        let told: u64 = others.iter().map(|t| t.lived_ns).sum();
        // the first waited until it was watched
        row.told_lived += told + first.lived_ns.min(ns(&stat, "duration_ns"));
        row.lived += of("on_cpu_ns") + of("ready_ns") + of("sleep_ns");
        row.told_ran += threads.iter().map(|t| t.run_ns).sum::<u64>();
        row.threads += threads.len();
    }
}

/// How far apart two shares by sampling may be, per cent of CPU time.
const POINTS: f64 = 2.0;
/// A program that runs no more often than this has to show it.
const MOST_RUNS: usize = 40;

impl Row {
    fn share(&self) -> f64 {
        percent(self.memory, self.cpu)
    }

    fn share_by_perf(&self) -> f64 {
        percent(self.perf.memory, self.perf.samples)
    }

    /// The standard error of the difference of both shares, in per cent of CPU time.
    fn error(&self) -> f64 {
        let all = self.samples + self.perf.samples;
        let ours = self.share() / 100.0 * self.samples as f64;
        // one more of each kind: without any there is still an error
        let p = (ours + self.perf.memory as f64 + 1.0) / (all as f64 + 2.0);
        let each = |n: u64| 1.0 / n.max(1) as f64;
        100.0 * (p * (1.0 - p) * (each(self.samples) + each(self.perf.samples))).sqrt()
    }

    /// How far apart both shares may be, by what was seen and two standard errors.
    fn most_apart(&self) -> f64 {
        (self.share() - self.share_by_perf()).abs() + 2.0 * self.error()
    }
}

/// As often as it takes to say that both shares are as near as that: two samplings of one run differ by chance.
fn row(program: &Program, taskstats: &Taskstats) -> Row {
    let mut row = Row::default();
    loop {
        run(program, taskstats, &mut row);
        if row.perf.samples == 0 || row.most_apart() <= POINTS || row.runs == MOST_RUNS {
            return row;
        }
    }
}

fn percent(n: u64, of: u64) -> f64 {
    100.0 * n as f64 / of.max(1) as f64
}

fn apart(a: u64, b: u64) -> f64 {
    percent(a.abs_diff(b), b)
}

/// What is wrong with it.
fn problems(row: &Row) -> Vec<String> {
    let mut wrong = Vec::new();
    let name = row.name;
    let runs = row.runs as u64;
    // where the first process starts nobody looks
    if row.cpu.abs_diff(row.used) > row.used / 50 + runs * 10_000_000 {
        wrong.push(format!(
            "{name}: {} ns of CPU time, and getrusage says {}",
            row.cpu, row.used
        ));
    }
    // taskstats are told before the address space is torn down, and a thread that ends on a busy machine ends late
    let late = row.ends + runs * 200_000_000;
    if row.lived.abs_diff(row.told_lived) > row.told_lived / 100 + late {
        wrong.push(format!(
            "{name}: threads lived for {} ns, and taskstats say {}",
            row.lived, row.told_lived
        ));
    }
    let (ours, theirs) = (row.share(), row.share_by_perf());
    if row.perf.samples > 0 && row.most_apart() > POINTS {
        wrong.push(format!(
            "{name}: memory management is {ours:.2} %, and perf says {theirs:.2} %, with an error of {:.2}",
            row.error()
        ));
    }
    wrong
}

/// Check that for ten programs and more CPU time is what getrusage(2) says within 2 %, that running, waiting for a CPU and
/// sleeping make up the life of all threads as taskstats(7) tell it within 1 %, and that the share of memory management is
/// what `perf record` says by a table of its own within 2 points: of each, and of all.
#[test]
fn programs_add_up() {
    if !root_only("programs_add_up") {
        return;
    }
    if crate::common::emulated() {
        eprintln!("SKIPPED programs_add_up: the virtual machine has none of these programs");
        return;
    }
    let _alone = alone();
    let taskstats = match Taskstats::listen() {
        Ok(taskstats) => taskstats,
        Err(err) => {
            eprintln!("SKIPPED programs_add_up: {err}");
            return;
        }
    };
    let rows: Vec<Row> = PROGRAMS
        .iter()
        .filter(|program| {
            let lacks = program.needs.iter().find(|n| !has(n));
            if let Some(lacks) = lacks {
                eprintln!(
                    "SKIPPED {} in programs_add_up: there is no {lacks}",
                    program.name
                );
            }
            lacks.is_none()
        })
        .map(|program| row(program, &taskstats))
        .collect();
    eprintln!(
        "program    runs  CPU time  getrusage   apart       ran     lived   taskstats   apart  threads  memory    perf"
    );
    let mut wrong = Vec::new();
    let (mut ours, mut theirs, mut all) = (0.0, 0.0, 0.0);
    let ms = |n: u64| n as f64 / 1e6;
    for row in &rows {
        eprintln!(
            "{:10} {:4} {:6.0} ms {:7.0} ms {:5.2} % {:6.0} ms {:6.0} ms {:8.0} ms {:5.2} % {:8} {:5.1} % {:5.1} % of {}, error {:.2}",
            row.name,
            row.runs,
            ms(row.cpu),
            ms(row.used),
            apart(row.cpu, row.used),
            ms(row.told_ran),
            ms(row.lived),
            ms(row.told_lived),
            apart(row.lived, row.told_lived),
            row.threads,
            row.share(),
            row.share_by_perf(),
            row.perf.samples,
            row.error(),
        );
        wrong.extend(problems(row));
        if row.perf.samples > 0 {
            // a program's part in all is that of one run
            let each = row.cpu as f64 / row.runs as f64;
            ours += row.share() * each;
            theirs += row.share_by_perf() * each;
            all += each;
        }
    }
    if all == 0.0 {
        eprintln!("SKIPPED perf in programs_add_up: there is no perf");
    } else {
        let (ours, theirs) = (ours / all, theirs / all);
        eprintln!("memory management of all: {ours:.2} %, by perf {theirs:.2} %");
        if (ours - theirs).abs() > POINTS {
            wrong.push(format!(
                "memory management is {ours:.2} %, and perf says {theirs:.2} %"
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    if rows.len() < 10 {
        eprintln!(
            "SKIPPED a part of programs_add_up: only {} of ten programs are here",
            rows.len()
        );
    }
}
