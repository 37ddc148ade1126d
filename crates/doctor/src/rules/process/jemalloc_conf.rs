//! ALLOC-JE-CONF: settings that jemalloc does not read.

use crate::rules::prelude::*;

use super::common::{self, AllocatorInputs};

pub(super) const ALLOC_JE_CONF: AuditRule = AuditRule {
    id: "ALLOC-JE-CONF",
    title: "settings that jemalloc does not read",
    severity: Severity::High,
    why: "jemalloc stops reading at a blank before a key, drops a key that its version does not know, and \
          listens to one variable only: it says so in a line of stderr at most, and goes on with its defaults.",
    risk: "The settings that were meant take effect.",
    source: "jemalloc src/jemalloc.c, malloc_conf_next, tried with 5.3.0; ByteDance 2020, jemalloc and TLB shootdown",
    causes: &[],
    check: RuleCheck::Process(check_alloc_je_conf),
};

/// The names that builds listen to: plain, Redis' and Valkey's, Rust's.
const CONF_VARIABLES: [&str; 3] = ["MALLOC_CONF", "JE_MALLOC_CONF", "_RJEM_MALLOC_CONF"];

type JemallocVersion = (u32, u32, u32);

/// Keys that not every version knows: the first that does, and the first that no longer does (jemalloc's ChangeLog).
const KEY_VERSIONS: &[(&str, JemallocVersion, Option<JemallocVersion>)] = &[
    ("lg_dirty_mult", (3, 0, 0), Some((5, 0, 0))),
    ("lg_chunk", (3, 0, 0), Some((5, 0, 0))),
    ("quarantine", (3, 0, 0), Some((5, 0, 0))),
    ("redzone", (3, 0, 0), Some((5, 0, 0))),
    ("purge", (4, 1, 0), Some((5, 0, 0))),
    ("decay_time", (4, 1, 0), Some((5, 0, 0))),
    ("dirty_decay_ms", (5, 0, 0), None),
    ("muzzy_decay_ms", (5, 0, 0), None),
    ("background_thread", (5, 0, 0), None),
    ("percpu_arena", (5, 0, 0), None),
    ("retain", (5, 0, 0), None),
    ("abort_conf", (5, 0, 0), None),
    ("metadata_thp", (5, 1, 0), None),
    ("oversize_threshold", (5, 2, 0), None),
    ("calloc_madvise_threshold", (5, 3, 1), None),
];

fn check_alloc_je_conf(_: &SystemView<'_>, process: &AuditedProcess) -> CheckResult {
    common::judge_allocators(process, &[SoftwareKind::Jemalloc], judge_conf)
}

fn judge_conf(found: &FoundSoftware, seen: &AllocatorInputs<'_>) -> CheckResult {
    let Some((name, text)) = given_conf(found, seen) else {
        return CheckResult::ok("no settings are given");
    };
    let read = [common::read_variable(seen.env, &name).1];
    let Some(variable) = &found.conf_env else {
        return CheckResult::unknown(format!("which variable {found} reads can't be told"))
            .with_reads(read);
    };
    let mut wrong = Vec::new();
    if name != *variable {
        wrong.push(format!("{name} is set, and it reads {variable}"));
    }
    let conf = ParsedConf::of(&text);
    if let Some(rest) = conf.unread {
        wrong.push(if rest.starts_with([' ', '\t', '\n']) {
            format!(
                "it reads nothing from the blank before '{}' on",
                rest.trim()
            )
        } else {
            format!("it reads nothing from '{rest}' on, which is no key and value")
        });
    }
    for (key, value) in &conf.pairs {
        if is_foreign(found, key) {
            wrong.push(format!("version {} has no '{key}'", version_text(found)));
        } else if value.trim() != *value && *key != "prof_prefix" {
            wrong.push(format!("the value of '{key}' has a blank in it"));
        }
    }
    if wrong.is_empty() {
        return CheckResult::ok("all settings are read").with_reads(read);
    }
    with_wanted_conf(CheckResult::hazard(wrong.join("; ")), found, seen).with_reads(read)
}

fn version_text(found: &FoundSoftware) -> String {
    found
        .version
        .map_or("unknown".to_owned(), |v| v.to_string())
}

/// A string of settings as jemalloc reads it, all versions from 3 on alike.
struct ParsedConf<'a> {
    pairs: Vec<(&'a str, &'a str)>,
    /// From here on it reads no more.
    unread: Option<&'a str>,
}

impl<'a> ParsedConf<'a> {
    fn of(mut text: &'a str) -> Self {
        let mut pairs = Vec::new();
        while !text.is_empty() {
            let is_key = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let end = text.find(|c| !is_key(c)).unwrap_or(text.len());
            let Some(rest) = text[end..].strip_prefix(':') else {
                return Self {
                    pairs,
                    unread: Some(text),
                };
            };
            let (value, next) = rest.split_once(',').unwrap_or((rest, ""));
            pairs.push((&text[..end], value));
            text = next;
        }
        Self {
            pairs,
            unread: None,
        }
    }
}

/// All that a jemalloc reads, in its order: built in, of /etc, of the environment. Later ones win.
pub(super) struct JemallocSettings(Vec<String>);

impl JemallocSettings {
    /// `None` if the version or the variable is not known.
    pub(super) fn of(found: &FoundSoftware, seen: &AllocatorInputs<'_>) -> Option<Self> {
        found.version?;
        let variable = found.conf_env.as_ref()?;
        Some(Self::with(found, seen, (seen.env)(variable)))
    }

    fn with(found: &FoundSoftware, seen: &AllocatorInputs<'_>, own: Option<String>) -> Self {
        // the name that a link points to is the string: /etc/malloc.conf, /etc/je_malloc.conf
        let name = found.conf_env.clone().unwrap_or_default();
        let name = name
            .to_ascii_lowercase()
            .replace("malloc_conf", "malloc.conf");
        let link = std::fs::read_link(seen.root.join("etc").join(name)).ok();
        let link = link.map(|to| to.to_string_lossy().into_owned());
        Self(
            [found.built_in.clone(), link, own]
                .into_iter()
                .flatten()
                .collect(),
        )
    }

    pub(super) fn last<T>(&self, key: &str, read: impl Fn(&str) -> Option<T>) -> Option<T> {
        let of = |text: &String| {
            let pairs = ParsedConf::of(text).pairs.into_iter().rev();
            pairs
                .filter(|(k, _)| *k == key)
                .find_map(|(_, value)| read(value))
        };
        self.0.iter().rev().find_map(of)
    }

    /// A number; one that is none, or below -1, is not read.
    pub(super) fn number(&self, key: &str) -> Option<i64> {
        self.last(key, |value| value.parse().ok().filter(|n| *n >= -1))
    }

    /// Whether freed memory is never given back.
    pub(super) fn keeps(&self, found: &FoundSoftware) -> bool {
        if found.at_least(5, 0, 0) {
            return self.number("dirty_decay_ms") == Some(-1);
        }
        let purge = self.last("purge", |value| Some(value.to_owned()));
        let decays = found.at_least(4, 1, 0) && purge.as_deref() == Some("decay");
        let key = if decays {
            "decay_time"
        } else {
            "lg_dirty_mult"
        };
        found.is_below(5, 0, 0) && self.number(key) == Some(-1)
    }
}

/// The settings that the user meant for it: its own variable, or where that is not set, one that no jemalloc in the process reads.
pub(super) fn given_conf(
    found: &FoundSoftware,
    seen: &AllocatorInputs<'_>,
) -> Option<(String, String)> {
    let with = |name: &str| Some((name.to_owned(), (seen.env)(name)?));
    let read = |name: &str| seen.all.iter().any(|f| f.conf_env.as_deref() == Some(name));
    let own = found.conf_env.as_deref().and_then(with);
    own.or_else(|| {
        CONF_VARIABLES
            .iter()
            .filter(|n| !read(n))
            .find_map(|n| with(n))
    })
}

/// Adds settings that keep memory: the user's own, corrected, where those do, and otherwise with quell's
/// remedy behind it. Every rule about jemalloc comes to the same, so that no two contradict each other.
pub(super) fn with_wanted_conf(
    checked: CheckResult,
    found: &FoundSoftware,
    seen: &AllocatorInputs<'_>,
) -> CheckResult {
    let Some(variable) = &found.conf_env else {
        return checked;
    };
    let text = given_conf(found, seen).map(|(_, text)| corrected_conf(found, &text));
    let text = text.unwrap_or_default();
    if !text.is_empty() && JemallocSettings::with(found, seen, Some(text.clone())).keeps(found) {
        return checked.with_fix(Fix::set_variable(variable.clone(), text));
    }
    let env = |name: &str| {
        if name == variable {
            return Some(text.clone()).filter(|t| !t.is_empty());
        }
        (seen.env)(name)
    };
    common::with_remedy(checked, found, &env)
}

/// The same settings, without blanks, and in the words of this version.
fn corrected_conf(found: &FoundSoftware, text: &str) -> String {
    let pairs = text.split(',').filter_map(|pair| pair.split_once(':'));
    let (mut known, mut told) = (Vec::new(), Vec::new());
    for (key, value) in pairs.map(|(key, value)| (key.trim(), value.trim())) {
        if is_foreign(found, key) {
            told.extend(translated_key(found, key, value));
        } else {
            known.push(format!("{key}:{value}"));
        }
    }
    // behind, so that keys in its own words win
    told.extend(known);
    told.join(",")
}

fn is_foreign(found: &FoundSoftware, key: &str) -> bool {
    KEY_VERSIONS.iter().any(|(name, since, until)| {
        let old = found.is_below(since.0, since.1, since.2);
        let new = until.is_some_and(|u| found.at_least(u.0, u.1, u.2));
        *name == key && (old || new)
    })
}

/// How long freed pages stay, in the words of this version; nothing where it has no words.
fn translated_key(found: &FoundSoftware, key: &str, value: &str) -> Vec<String> {
    let Ok(n) = value.parse::<i64>() else {
        return Vec::new();
    };
    let (decays, never) = (found.at_least(4, 1, 0), n == -1);
    match key {
        // seconds
        "decay_time" if found.at_least(5, 0, 0) => {
            let ms = if never { -1 } else { n.saturating_mul(1000) };
            vec![
                format!("dirty_decay_ms:{ms}"),
                format!("muzzy_decay_ms:{ms}"),
            ]
        }
        "lg_dirty_mult" if never => {
            vec![
                "dirty_decay_ms:-1".to_owned(),
                "muzzy_decay_ms:-1".to_owned(),
            ]
        }
        "dirty_decay_ms" if decays => {
            let s = if never { -1 } else { n / 1000 };
            vec!["purge:decay".to_owned(), format!("decay_time:{s}")]
        }
        "dirty_decay_ms" | "decay_time" if never => vec!["lg_dirty_mult:-1".to_owned()],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::FindingStatus;
    use crate::rules::fixture::assert_hazard;
    use crate::rules::process::common::made::{
        REDIS_JEMALLOC, allocator_of_version, ask_about_program, judge_in_environment,
    };

    fn with(version: JemallocVersion, conf: &str) -> CheckResult {
        let mut found = allocator_of_version(SoftwareKind::Jemalloc, version);
        found.conf_env = Some("MALLOC_CONF".to_owned());
        judge_in_environment(judge_conf, &found, &[("MALLOC_CONF", conf)])
    }

    fn fixed(version: JemallocVersion, conf: &str) -> String {
        let checked = with(version, conf);
        assert_eq!(checked.status, Some(FindingStatus::Hazard), "{conf}");
        match &checked.fixes[..] {
            [Fix::Env { value, .. }] => value.clone(),
            other => panic!("{other:?}"),
        }
    }

    /// Check that a blank is a hazard, wherever jemalloc stumbles over it, and that the string is corrected.
    #[test]
    fn blanks_are_a_hazard() {
        let meant = "dirty_decay_ms:-1,muzzy_decay_ms:-1";
        let blank = with((5, 3, 0), "dirty_decay_ms:-1, muzzy_decay_ms:-1");
        assert!(blank.said.contains("blank before 'muzzy"), "{}", blank.said);
        for conf in [
            "dirty_decay_ms:-1, muzzy_decay_ms:-1",
            " dirty_decay_ms:-1,muzzy_decay_ms:-1",
            "dirty_decay_ms:-1 ,muzzy_decay_ms:-1",
            "dirty_decay_ms :-1,muzzy_decay_ms:-1",
        ] {
            assert_eq!(fixed((5, 3, 0), conf), meant, "{conf}");
        }
        assert_eq!(with((5, 3, 0), meant).status, Some(FindingStatus::Ok));
        assert_eq!(
            with((5, 3, 0), "narenas:2,").status,
            Some(FindingStatus::Ok)
        );
        assert_eq!(
            with((5, 3, 0), "narenas").status,
            Some(FindingStatus::Hazard)
        );
    }

    /// Check that keys of another version are a hazard, and are said in the words of this one.
    #[test]
    fn keys_of_other_versions() {
        let old = "narenas:2,purge:decay,decay_time:-1";
        assert_eq!(
            fixed((5, 3, 0), old),
            "dirty_decay_ms:-1,muzzy_decay_ms:-1,narenas:2"
        );
        assert_eq!(with((4, 5, 0), old).status, Some(FindingStatus::Ok));
        let new = "dirty_decay_ms:-1,muzzy_decay_ms:-1";
        assert_eq!(fixed((4, 5, 0), new), "purge:decay,decay_time:-1");
        assert_eq!(fixed((4, 0, 3), new), "lg_dirty_mult:-1");
        let kept = "dirty_decay_ms:-1,decay_time:5";
        assert_eq!(
            fixed((5, 3, 0), kept),
            "dirty_decay_ms:5000,muzzy_decay_ms:5000,dirty_decay_ms:-1"
        );
        assert_eq!(
            with((5, 1, 0), "oversize_threshold:0").status,
            Some(FindingStatus::Hazard)
        );
        assert_eq!(
            with((5, 3, 0), "oversize_threshold:0").status,
            Some(FindingStatus::Ok)
        );
    }

    /// Check that settings under a name that this build does not read are a hazard, and are put under its own.
    #[test]
    fn names_of_other_builds() {
        let environ = "MALLOC_CONF=dirty_decay_ms:-1\0";
        let found = ask_about_program(
            &ALLOC_JE_CONF,
            "redis-server",
            REDIS_JEMALLOC,
            environ,
            "redis-server\0",
        );
        assert_hazard(&found, "", "environment: JE_MALLOC_CONF=dirty_decay_ms:-1");
        let both = "MALLOC_CONF=x\0JE_MALLOC_CONF=dirty_decay_ms:-1\0";
        assert_eq!(
            ask_about_program(&ALLOC_JE_CONF, "r", REDIS_JEMALLOC, both, "r\0").status,
            FindingStatus::Ok
        );
        assert_eq!(
            ask_about_program(&ALLOC_JE_CONF, "r", REDIS_JEMALLOC, "A=b\0", "r\0").status,
            FindingStatus::Ok
        );
    }

    /// Check that a corrected string that still gives memory back gets quell's remedy, as ALLOC-JE would set it.
    #[test]
    fn what_was_meant_may_not_be_enough() {
        let fixed = fixed((5, 0, 0), "narenas:2, tcache:true");
        assert_eq!(
            fixed,
            "narenas:2,tcache:true,dirty_decay_ms:-1,muzzy_decay_ms:-1"
        );
    }
}
