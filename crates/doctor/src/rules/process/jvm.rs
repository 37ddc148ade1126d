//! ALLOC-JVM: the heap of a Java virtual machine grows, shrinks, and is touched as it is used.

use crate::rules::prelude::*;

use super::common::{self, AllocatorInputs, StartEnvironment};

pub(super) const ALLOC_JVM: AuditRule = AuditRule {
    id: "ALLOC-JVM",
    title: "a Java heap that grows and shrinks",
    severity: Severity::Medium,
    why: "A heap that shrinks is unmapped or punched full of holes, which are shootdowns, and one that grows or \
          was not touched at the start takes page faults beside running threads.",
    risk: "The whole heap is resident from the start, and the start takes longer.",
    source: "man java(1), -Xms, AlwaysPreTouch, ZUncommit; measured on Java 17 G1: 2,687 shootdowns to 29",
    causes: &[Cause::Mmap, Cause::Munmap, Cause::Truncate],
    check: RuleCheck::Process(check_alloc_jvm),
};

/// Options of the launcher whose value is the next word.
const OPTIONS_WITH_VALUE: [&str; 13] = [
    "-cp",
    "-classpath",
    "--class-path",
    "-p",
    "--module-path",
    "--upgrade-module-path",
    "--add-modules",
    "--limit-modules",
    "--add-reads",
    "--add-exports",
    "--add-opens",
    "--patch-module",
    "--source",
];

fn check_alloc_jvm(_: &SystemView<'_>, process: &AuditedProcess) -> CheckResult {
    common::judge_allocators(process, &[SoftwareKind::Jvm], judge_java_heap)
}

fn judge_java_heap(_found: &FoundSoftware, seen: &AllocatorInputs<'_>) -> CheckResult {
    let Some(arguments) = &seen.arguments else {
        return CheckResult::unknown("its arguments can't be read");
    };
    let options = JavaOptions::of(arguments, seen.env);
    let (fixed, touched) = (
        options.is_fixed(),
        options.is_on("AlwaysPreTouch") == Some(true),
    );
    let uncommits = |collector, option| {
        // both take memory back by default, and none from a heap of fixed size
        options.is_on(collector) == Some(true) && options.is_on(option) != Some(false) && !fixed
    };
    let mut wrong = Vec::new();
    if !fixed {
        wrong.push("its heap may grow and shrink (-Xms is not -Xmx)");
    }
    if !touched {
        wrong.push("its heap is not touched at the start (no AlwaysPreTouch)");
    }
    if uncommits("UseZGC", "ZUncommit") || uncommits("UseShenandoahGC", "ShenandoahUncommit") {
        wrong.push("its collector gives memory back");
    }
    let read = [FileReading::new("options of Java", options.shown())];
    if wrong.is_empty() {
        return CheckResult::ok("a heap of fixed size, touched at the start").with_reads(read);
    }
    if let Some(elsewhere) = options.elsewhere() {
        return CheckResult::unknown(format!("there may be more options in {elsewhere}"))
            .with_reads(read);
    }
    CheckResult::hazard(wrong.join("; "))
        .with_reads(read)
        .with_fix(options.fix(fixed, seen.env))
}

/// Options of the virtual machine, later ones win.
struct JavaOptions {
    words: Vec<String>,
    /// Of these the first ones are from JAVA_TOOL_OPTIONS, and may be set anew there.
    ours: usize,
}

impl JavaOptions {
    /// In the order in which HotSpot reads them (arguments.cpp, Arguments::parse).
    fn of(arguments: &[String], env: &StartEnvironment<'_>) -> Self {
        let variable = |name: &str| {
            let text = env(name).unwrap_or_default();
            text.split_ascii_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let mut words = variable("JAVA_TOOL_OPTIONS");
        let ours = words.len();
        words.extend(variable("JDK_JAVA_OPTIONS"));
        let mut rest = arguments.iter().skip(1);
        while let Some(word) = rest.next() {
            let is_option = word.starts_with(['-', '@']);
            // behind the program's name the arguments are its own
            if !is_option || ["-jar", "-m", "--module"].contains(&word.as_str()) {
                break;
            }
            words.push(word.clone());
            if OPTIONS_WITH_VALUE.contains(&word.as_str()) {
                rest.next();
            }
        }
        words.extend(variable("_JAVA_OPTIONS"));
        Self { words, ours }
    }

    /// A switch; `None` if it is not set.
    fn is_on(&self, name: &str) -> Option<bool> {
        let is = |word: &String| match word.strip_prefix("-XX:")?.split_at_checked(1)? {
            ("+", rest) if rest == name => Some(true),
            ("-", rest) if rest == name => Some(false),
            _ => None,
        };
        self.words.iter().rev().find_map(is)
    }

    /// The value of an option with two names.
    fn value(&self, short: &str, long: &str) -> Option<&str> {
        let mut words = self.words.iter().rev();
        words.find_map(|w| w.strip_prefix(short).or_else(|| w.strip_prefix(long)))
    }

    fn is_fixed(&self) -> bool {
        // -Xms sets the least size as well as the first; InitialHeapSize only the first
        let least = self
            .value("-Xms", "-XX:MinHeapSize=")
            .and_then(parse_java_size);
        let most = self
            .value("-Xmx", "-XX:MaxHeapSize=")
            .and_then(parse_java_size);
        least.is_some() && least == most
    }

    /// A file with more options.
    fn elsewhere(&self) -> Option<&str> {
        let names = ["@", "-XX:Flags=", "-XX:VMOptionsFile="];
        let is = |word: &&String| names.iter().any(|name| word.starts_with(name));
        self.words.iter().find(is).map(String::as_str)
    }

    /// Those that matter here.
    fn shown(&self) -> String {
        let names = [
            "-Xm",
            "PreTouch",
            "Uncommit",
            "HeapSize",
            "UseZGC",
            "UseShenandoahGC",
        ];
        let matters = |word: &&String| names.iter().any(|name| word.contains(name));
        let words: Vec<&str> = self
            .words
            .iter()
            .filter(matters)
            .map(String::as_str)
            .collect();
        if words.is_empty() {
            return "(none about the heap)".to_owned();
        }
        words.join(" ")
    }

    /// The options that are missing, where none overrules them.
    fn fix(&self, fixed: bool, env: &StartEnvironment<'_>) -> Fix {
        let Some(most) = self.value("-Xmx", "-XX:MaxHeapSize=") else {
            return Fix::Advice(
                "start java with -Xms and -Xmx equal, to what it needs at most, and -XX:+AlwaysPreTouch".to_owned(),
            );
        };
        let mut words = Vec::new();
        if !fixed {
            words.push(format!("-Xms{most}"));
        }
        if self.is_on("AlwaysPreTouch") != Some(true) {
            words.push("-XX:+AlwaysPreTouch".to_owned());
        }
        let words = words.join(" ");
        let overrules = |word: &String| {
            let names = ["-Xms", "-XX:MinHeapSize=", "-XX:-AlwaysPreTouch"];
            names.iter().any(|name| word.starts_with(name))
        };
        if self.words.iter().skip(self.ours).any(overrules) {
            return Fix::Advice(format!(
                "start java with {words}, in place of what it is started with"
            ));
        }
        common::add_java_options(env, &words)
    }
}

/// A size such as 4g.
fn parse_java_size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match &text[digits.len()..] {
        "" => 0,
        "k" | "K" => 10,
        "m" | "M" => 20,
        "g" | "G" => 30,
        "t" | "T" => 40,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::{Finding, FindingStatus};
    use crate::rules::fixture::assert_hazard;
    use crate::rules::process::common::made::ask_about_program;

    fn java(environ: &str, arguments: &str) -> Finding {
        ask_about_program(
            &ALLOC_JVM,
            "libjvm.so",
            "",
            &format!("A=b\0{environ}"),
            &arguments.replace(' ', "\0"),
        )
    }

    /// Check that a heap that may grow is a hazard, with the size that was stated, and a fixed one is none.
    #[test]
    fn a_heap_that_grows_is_a_hazard() {
        let grows = java("", "java -Xmx4g -cp a.jar Main ");
        assert_hazard(
            &grows,
            "",
            "environment: JAVA_TOOL_OPTIONS=-Xms4g -XX:+AlwaysPreTouch",
        );
        let fixed = java("", "java -Xms4096m -Xmx4g -XX:+AlwaysPreTouch -jar a.jar ");
        assert_eq!(fixed.status, FindingStatus::Ok);
        let half = java("JAVA_TOOL_OPTIONS=-ea -Xms4g\0", "java -Xmx4g Main ");
        assert_eq!(
            half.fix_lasting(),
            "environment: JAVA_TOOL_OPTIONS=-ea -Xms4g -XX:+AlwaysPreTouch"
        );
        let unsized_ = java("", "java Main ");
        assert!(
            unsized_
                .fix_lasting()
                .starts_with("start java with -Xms and -Xmx")
        );
    }

    /// Check that options behind the program are not Java's, and that later ones win.
    #[test]
    fn options_are_read_as_java_reads_them() {
        let behind = java("", "java -Xmx4g -cp x Main -Xms4g -XX:+AlwaysPreTouch ");
        assert_eq!(behind.status, FindingStatus::Hazard);
        let later = "java -Xms1g -Xmx4g -Xms4g -XX:-AlwaysPreTouch -XX:+AlwaysPreTouch Main ";
        assert_eq!(java("", later).status, FindingStatus::Ok);
        let last = java("_JAVA_OPTIONS=-Xms1g\0", later);
        assert_eq!(last.status, FindingStatus::Hazard);
        assert!(
            last.fix_lasting().contains("in place of"),
            "{}",
            last.fix_lasting()
        );
        assert_eq!(
            java("", "java -Xmx4g @more Main ").status,
            FindingStatus::Unknown
        );
    }

    /// Check that a collector that gives memory back is said, unless told not to or the heap is fixed.
    #[test]
    fn collectors_give_back() {
        let gives = |arguments: &str| java("", arguments).said.contains("collector");
        assert!(gives("java -XX:+UseZGC -Xmx4g Main "));
        assert!(!gives("java -XX:+UseZGC -XX:-ZUncommit -Xmx4g Main "));
        assert!(!gives("java -XX:+UseZGC -Xms4g -Xmx4g Main "));
        assert!(gives("java -XX:+UseShenandoahGC -Xmx4g Main "));
        assert!(!gives("java -Xmx4g Main "));
    }

    /// Check that sizes are read as Java reads them.
    #[test]
    fn sizes() {
        let all = ["4g", "4096M", "10", "x", "4x"].map(parse_java_size);
        assert_eq!(all, [Some(4 << 30), Some(4 << 30), Some(10), None, None]);
    }
}
