//! Does the account add up, for programs that others wrote? Against what the kernel says of them: getrusage(2), and of each
//! thread taskstats(7).

use std::process::Command;

use serde_json::Value;

use crate::account::{ns, of_mechanism};
use crate::common::{QUELL, alone, example, root_only};
use crate::perf;
use crate::taskstats::{Ended, Taskstats};

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

/// What came out of a program.
struct Row {
    name: &'static str,
    /// By getrusage(2), ns.
    used: u64,
    account: Value,
    threads: Vec<Ended>,
    watched_ns: u64,
    perf: Option<perf::Shares>,
}

fn has(program: &str) -> bool {
    let sh = Command::new("sh")
        .args(["-c", &format!("command -v {program}")])
        .output();
    sh.is_ok_and(|out| out.status.success())
}

fn row(program: &Program, taskstats: &Taskstats) -> Row {
    let dir = tempfile::tempdir_in("/var/tmp").expect("a folder");
    let at = |name: &str| dir.path().join(name);
    let perf = perf::Recording::start(
        &at("perf.data"),
        &["-e", "cpu-clock", "-F", "997", "-g", "--kernel-callchains"],
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
    let perf = perf.map(|perf| perf.stop().shares(quell));
    assert!(out.status.success(), "{}: {out:?}", program.name);
    let read = |name: &str| std::fs::read_to_string(at(name)).expect("what was written");
    let stat: Value = serde_json::from_str(&read("stat.json")).expect("an object");
    Row {
        name: program.name,
        used: read("used").trim().parse().expect("a number"),
        account: stat["account"].clone(),
        threads: taskstats.descendants(quell),
        watched_ns: ns(&stat, "duration_ns"),
        perf,
    }
}

impl Row {
    fn by(&self, mechanism: &str) -> u64 {
        of_mechanism(&self.account, mechanism, "cpu_ns")
    }

    /// Memory management by samples: hits are counted by another way, and come on top.
    fn memory(&self) -> u64 {
        let of = |key| ns(&self.account, key);
        of("memory_cpu_ns").saturating_sub(self.by("shootdown.hit"))
    }

    /// The time that all threads lived, by the account and by taskstats, ns.
    fn lived(&self) -> Option<(u64, u64)> {
        let of = |key| ns(&self.account, key);
        let lived = of("on_cpu_ns") + of("ready_ns") + of("sleep_ns");
        // the first waited until it was watched
        let (first, others) = self.threads.split_first()?;
        let told: u64 = others.iter().map(|t| t.lived_ns).sum();
        Some((lived, told + first.lived_ns.min(self.watched_ns)))
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
    let cpu = ns(&row.account, "cpu_ns");
    // where the first process starts nobody looks
    if cpu.abs_diff(row.used) > row.used / 50 + 10_000_000 {
        wrong.push(format!(
            "{}: {cpu} ns of CPU time, and getrusage says {}",
            row.name, row.used
        ));
    }
    if let Some((lived, told)) = row.lived() {
        // taskstats are told before the address space is torn down
        let end = row.by("exit");
        // and a thread that ends on a busy machine ends late
        if lived.abs_diff(told) > told / 100 + end + 200_000_000 {
            wrong.push(format!(
                "{}: threads lived for {lived} ns, and taskstats say {told}",
                row.name
            ));
        }
    }
    wrong
}

/// Check that for ten programs and more CPU time is what getrusage(2) says within 2 %, that running, waiting for a CPU and
/// sleeping make up the life of all threads as taskstats(7) tell it within 1 %, and that the share of memory management is
/// what `perf record` says by a table of its own within 2 points, all told.
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
        "program     CPU time  getrusage   apart    lived  taskstats   apart  threads  memory    perf"
    );
    let mut wrong = Vec::new();
    let (mut ours, mut theirs) = ((0, 0), (0, 0));
    for row in &rows {
        let cpu = ns(&row.account, "cpu_ns");
        let ms = |n: u64| n as f64 / 1e6;
        let lived = row.lived().map_or("no thread".to_owned(), |(lived, told)| {
            format!(
                "{:6.0} ms {:6.0} ms {:6.2} % {:8}",
                ms(lived),
                ms(told),
                apart(lived, told),
                row.threads.len()
            )
        });
        let ran: u64 = row.threads.iter().map(|t| t.run_ns).sum();
        let memory = percent(row.memory(), cpu);
        let by_perf = row.perf.as_ref().map_or("      -".to_owned(), |p| {
            ours.0 += row.memory();
            ours.1 += cpu;
            // a program's part in all is that of its CPU time
            theirs.0 += (p.share() * cpu as f64) as u64;
            theirs.1 += cpu;
            format!("{:5.1} % of {}", 100.0 * p.share(), p.samples)
        });
        eprintln!(
            "{:10} {:6.0} ms {:7.0} ms {:5.2} % {:7.0} ms {lived} {memory:6.1} % {by_perf}",
            row.name,
            ms(cpu),
            ms(row.used),
            apart(cpu, row.used),
            ms(ran),
        );
        wrong.extend(problems(row));
    }
    if theirs.1 == 0 {
        eprintln!("SKIPPED perf in programs_add_up: there is no perf");
    } else {
        let (ours, theirs) = (percent(ours.0, ours.1), percent(theirs.0, theirs.1));
        eprintln!("memory management of all: {ours:.2} %, by perf {theirs:.2} %");
        if (ours - theirs).abs() > 2.0 {
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
