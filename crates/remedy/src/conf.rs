//! Environment variables that hold several settings: reading one, and adding ours to the user's.

mod shim;

/// How the settings in a variable are written.
enum Syntax {
    /// `key:value,key:value` (jemalloc), `key=value:key=value` (glibc), `key=value,…` (Go, libquell).
    Pairs { between: char, inside: char },
    /// Words, where a later one wins: Java's, Node's, and Erlang's if value and option are one word.
    Words,
    /// Libraries, of which the first one that has a function gives it to all. Colons or blanks part them (ld.so(8)).
    Libraries,
    /// One value.
    Whole,
}

/// The preload library, as a plan names it: without a folder, for who starts the program knows where it
/// is.
pub const SHIM_LIBRARY: &str = "libquell.so";
/// The variable that the preload library reads.
pub const SHIM_VARIABLE: &str = "QUELL_SHIM";

fn variable_syntax(variable: &str) -> Syntax {
    match variable {
        "GLIBC_TUNABLES" => Syntax::Pairs {
            between: ':',
            inside: '=',
        },
        "GODEBUG" | SHIM_VARIABLE => Syntax::Pairs {
            between: ',',
            inside: '=',
        },
        "LD_PRELOAD" => Syntax::Libraries,
        "JAVA_TOOL_OPTIONS" | "JDK_JAVA_OPTIONS" | "NODE_OPTIONS" | "ERL_FLAGS" => Syntax::Words,
        // jemalloc puts the prefix of its functions before the name: `_RJEM_MALLOC_CONF`.
        name if name.ends_with("MALLOC_CONF") => Syntax::Pairs {
            between: ',',
            inside: ':',
        },
        _ => Syntax::Whole,
    }
}

/// The settings in a value, as (key, setting). A blank around a setting is dropped: jemalloc refuses everything that follows a
/// blank, so such a user's setting has no effect.
fn keyed_settings<'a>(variable: &str, value: &'a str) -> Vec<(&'a str, &'a str)> {
    match variable_syntax(variable) {
        Syntax::Pairs { between, inside } => value
            .split(between)
            .map(str::trim)
            .filter(|s| !s.is_empty())
            .map(|s| (s.split(inside).next().unwrap_or(s), s))
            .collect(),
        // A word is its own key: `-Xms1g` and `-Xms2g` both stay, and their reader takes the later one.
        Syntax::Words => value.split_ascii_whitespace().map(|w| (w, w)).collect(),
        // By file name: one library is one, whichever folder it is taken from.
        Syntax::Libraries => value
            .split([':', ' ', '\t', '\n'])
            .filter(|w| !w.is_empty())
            .map(|w| (w.rsplit('/').next().unwrap_or(w), w))
            .collect(),
        // A whole value is one setting, whatever it is.
        Syntax::Whole => vec![("value", value)],
    }
}

/// The single settings in the value of a variable, as its reader takes them.
#[must_use]
pub fn single_settings<'a>(variable: &str, value: &'a str) -> Vec<&'a str> {
    let all = keyed_settings(variable, value);
    all.into_iter().map(|(_, setting)| setting).collect()
}

/// Whether the user's setting stays, because it states a larger need to the preload library than ours does. Not where it is
/// the bound of memory, which the budget decides.
fn asks_for_more(variable: &str, theirs: &str, ours: &str) -> bool {
    variable == SHIM_VARIABLE
        && !ours.starts_with("rss=")
        && shim::setting_need(theirs) > shim::setting_need(ours)
}

/// The setting with this key that counts: the later one of two.
fn last_setting<'a>(all: &[(&str, &'a str)], key: &str) -> Option<&'a str> {
    let of_key = all.iter().rev().find(|(other, _)| *other == key);
    of_key.map(|(_, setting)| *setting)
}

/// The user's value with ours put behind it, where later settings win. In `LD_PRELOAD` the first library wins, and ours comes
/// last all the same: a library that takes the place of a function passes its calls on to the next one, and ours passes none
/// on. A setting of the user's with the same key as one of ours is replaced, unless it asks the preload library for more; all
/// others stay, in order.
#[must_use]
pub fn merge_setting(variable: &str, base: Option<&str>, ours: &str) -> String {
    let new = keyed_settings(variable, ours);
    let theirs = keyed_settings(variable, base.unwrap_or_default());
    let stays = |key: &str| {
        let both = last_setting(&theirs, key).zip(last_setting(&new, key));
        both.is_some_and(|(their, our)| asks_for_more(variable, their, our))
    };
    let kept = theirs.iter().filter(|(key, setting)| {
        last_setting(&new, key).is_none()
            || (stays(key) && last_setting(&theirs, key) == Some(*setting))
    });
    let kept: Vec<&str> = kept.map(|(_, s)| *s).filter(|s| !s.is_empty()).collect();
    let new = new.iter().filter(|(key, _)| !stays(key));
    let new: Vec<&str> = new.map(|(_, s)| *s).collect();
    let mut all = [kept, new].concat();
    if matches!(variable_syntax(variable), Syntax::Libraries) {
        all.sort_by_key(|path| preload_rank(path));
    }
    match variable_syntax(variable) {
        Syntax::Libraries => all.join(":"),
        Syntax::Pairs { between, .. } => all.join(&between.to_string()),
        Syntax::Words | Syntax::Whole => all.join(" "),
    }
}

/// Whether a path in `LD_PRELOAD` is that of the preload library.
pub(crate) fn is_shim_library(path: &str) -> bool {
    path.rsplit('/').next() == Some(SHIM_LIBRARY)
}

/// In which order libraries stand in `LD_PRELOAD`: the user's, ours, and a C library. ld.so(8) readies the last one first, and
/// the C library must be ready when ours asks it for memset(3). Otherwise it says "Relink", and SIGSEGV ends the program.
fn preload_rank(path: &str) -> usize {
    const C_LIBRARIES: [&str; 3] = ["libc.so", "libc-2.", "libc.musl"];
    let name = path.rsplit('/').next().unwrap_or(path);
    if C_LIBRARIES.iter().any(|begin| name.starts_with(begin)) {
        2
    } else {
        usize::from(is_shim_library(path))
    }
}

/// The values of two remedies for one variable, as one. Of the preload library's settings the larger need of the two counts;
/// elsewhere the later setting counts.
pub(crate) fn merge_values(variable: &str, one: &str, other: &str) -> String {
    if variable == SHIM_VARIABLE {
        shim::merge_needs(one, other)
    } else {
        merge_setting(variable, Some(one), other)
    }
}

/// Whether every setting of ours is already in the user's value.
pub(crate) fn is_set_already(variable: &str, base: Option<&str>, ours: &str) -> bool {
    let Some(base) = base else { return false };
    let theirs = keyed_settings(variable, base);
    // Of libraries the order counts too: the user's must stand as the merged value has them.
    if matches!(variable_syntax(variable), Syntax::Libraries) {
        let merged = merge_setting(variable, Some(base), ours);
        let names = |list| {
            keyed_settings(variable, list)
                .into_iter()
                .map(|(name, _)| name)
        };
        return names(base).eq(names(&merged));
    }
    // The preload library may have a larger need already: of two remedies at once, or of the user.
    let enough = |their: &str, our: &str| {
        let need = shim::setting_need(our).filter(|_| variable == SHIM_VARIABLE);
        their == our || need.is_some_and(|n| shim::setting_need(their) >= Some(n))
    };
    keyed_settings(variable, ours)
        .iter()
        .all(|(key, our)| last_setting(&theirs, key).is_some_and(|their| enough(their, our)))
}

/// The settings of the user's that ours replace with other values.
pub(crate) fn replaced_settings(variable: &str, base: Option<&str>, ours: &str) -> Vec<String> {
    let new = keyed_settings(variable, ours);
    keyed_settings(variable, base.unwrap_or_default())
        .into_iter()
        .filter(|(key, setting)| {
            let over = |s: &str| s != *setting && !asks_for_more(variable, setting, s);
            !setting.is_empty() && last_setting(&new, key).is_some_and(over)
        })
        // The same library from another folder is no setting that is lost.
        .filter(|_| !matches!(variable_syntax(variable), Syntax::Libraries))
        .map(|(_, setting)| setting.to_owned())
        .collect()
}

/// The fault in a value that the user set, if its reader would refuse it.
pub(crate) fn value_complaint(variable: &str, value: &str) -> Option<String> {
    let Syntax::Pairs { between, inside } = variable_syntax(variable) else {
        return None;
    };
    if variable.ends_with("MALLOC_CONF")
        && value
            .split(between)
            .skip(1)
            .any(|s| s.starts_with([' ', '\t']))
    {
        return Some(format!(
            "{variable} has a blank behind a comma: jemalloc calls that malformed and ignores the rest; the plan writes it without"
        ));
    }
    if variable == SHIM_VARIABLE {
        return shim::shim_complaint(value);
    }
    let bad = value
        .split(between)
        .map(str::trim)
        .find(|s| !s.is_empty() && !s.contains(inside))?;
    Some(format!("{variable} holds '{bad}', which is no setting"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Check that the user's own settings stay, in order, and ours come last and win.
    #[test]
    fn merges() {
        let je = "_RJEM_MALLOC_CONF";
        assert_eq!(merge_setting(je, None, "a:1,b:2"), "a:1,b:2");
        assert_eq!(
            merge_setting(je, Some("x:1, a:9,,"), "a:1,b:2"),
            "x:1,a:1,b:2"
        );
        assert_eq!(
            merge_setting("GLIBC_TUNABLES", Some("glibc.malloc.check=1"), "g.t=2"),
            "glibc.malloc.check=1:g.t=2"
        );
        assert_eq!(
            merge_setting("GODEBUG", Some("gctrace=1"), "x=0"),
            "gctrace=1,x=0"
        );
        assert_eq!(
            merge_setting("JAVA_TOOL_OPTIONS", Some("-Xmx1g  -ea"), "-Xms1g"),
            "-Xmx1g -ea -Xms1g"
        );
        assert_eq!(merge_setting("GOGC", Some("100"), "400"), "400");
    }

    /// Check that the preload library comes last, once, but before a C library, and that the user's own stay in their order.
    #[test]
    fn libraries() {
        let ld = |base, ours| merge_setting("LD_PRELOAD", base, ours);
        assert_eq!(ld(None, "libquell.so"), "libquell.so");
        assert_eq!(
            ld(Some("/a/libx.so liby.so:/z/libquell.so"), "libquell.so"),
            "/a/libx.so:liby.so:libquell.so"
        );
        assert_eq!(
            ld(Some("/x/libc.so.6:liby.so"), "libquell.so"),
            "liby.so:libquell.so:/x/libc.so.6"
        );
        let at = |base| is_set_already("LD_PRELOAD", Some(base), "libquell.so");
        assert!(at("liby.so:/opt/libquell.so:libc.so.6"));
        assert!(!at("/opt/libquell.so:libx.so") && at("libx.so:/opt/libquell.so") && !at(""));
        assert!(!at("libquell.so:libx.so:libquell.so"));
        assert_eq!(
            ld(Some("libquell.so"), "/a/libx.so"),
            "/a/libx.so:libquell.so"
        );
        let replaced = replaced_settings("LD_PRELOAD", Some("/opt/libquell.so"), "libquell.so");
        assert!(replaced.is_empty());
    }

    /// Check that the user's own settings of the preload library stay where their need is as large, that settings they lose are
    /// named, that the bound is the plan's, and that unknown settings are named.
    #[test]
    fn shim_settings() {
        let shim = "QUELL_SHIM";
        let both = |base, ours| merge_setting(shim, Some(base), ours);
        assert_eq!(
            both("cache=64M,lock", "zero=auto,cache=128M"),
            "lock,zero=auto,cache=128M"
        );
        assert_eq!(
            both("cache=512M,rss=2G,keep=5", "cache=0,rss=1G,zero=off"),
            "cache=512M,keep=5,rss=1G,zero=off"
        );
        assert_eq!(both("cache=1G,cache=4M", "cache=8M"), "cache=8M");
        assert_eq!(
            replaced_settings(
                shim,
                Some("cache=1G,rss=2G,zero=off"),
                "cache=8M,rss=1G,zero=64M"
            ),
            ["rss=2G", "zero=off"]
        );
        let set = |theirs| is_set_already(shim, Some(theirs), "cache=8M,zero=auto");
        assert!(set("zero=64M,cache=1G") && set("cache=8192K,zero=auto"));
        assert!(!set("cache=8M") && !set("cache=4M,zero=auto") && !set("cache=8M,zero=off"));
        assert!(!set("cache=huge,zero=auto"));
        for good in ["off", "on", "cache=400M,rss=480M,zero=auto"] {
            assert_eq!(value_complaint("QUELL_SHIM", good), None);
        }
        for bad in ["cash=1M", "cache", "off=1", "cache=", "zero=never"] {
            let why = value_complaint("QUELL_SHIM", bad).unwrap();
            assert!(why.contains(&format!("'{bad}'")), "{why}");
        }
    }

    /// Check that settings which are there already, differ, or are malformed, are noticed.
    #[test]
    fn notices() {
        assert!(is_set_already(
            "MALLOC_CONF",
            Some("x:1,a:1,b:2"),
            "a:1,b:2"
        ));
        assert!(!is_set_already(
            "MALLOC_CONF",
            Some("a:1,b:2,a:3"),
            "a:1,b:2"
        ));
        assert!(!is_set_already("MALLOC_CONF", None, "a:1"));
        assert!(is_set_already("GOGC", Some("400"), "400"));
        assert_eq!(
            replaced_settings("MALLOC_CONF", Some("a:3,c:1"), "a:1"),
            ["a:3"]
        );
        assert!(value_complaint("MALLOC_CONF", "a:1, b:2").is_some_and(|c| c.contains("blank")));
        assert!(value_complaint("GLIBC_TUNABLES", "a=1:b").is_some_and(|c| c.contains("'b'")));
        assert_eq!(value_complaint("MALLOC_CONF", "a:1,b:2"), None);
    }

    proptest! {
        /// Check for any settings that merging loses no key of either side, that ours win, and that
        /// merging twice changes nothing.
        #[test]
        fn loses_nothing(
            theirs in proptest::collection::vec(("[a-e]", 0..9u8), 0..6),
            ours in proptest::collection::vec(("[c-g]", 0..9u8), 1..4),
        ) {
            let write = |v: &[(String, u8)]| v.iter().map(|(k, n)| format!("{k}:{n}")).collect::<Vec<_>>().join(",");
            let (base, new) = (write(&theirs), write(&ours));
            let merged = merge_setting("MALLOC_CONF", Some(&base), &new);
            prop_assert!(merged.ends_with(&new));
            for (key, _) in theirs.iter().chain(&ours) {
                prop_assert!(keyed_settings("MALLOC_CONF", &merged).iter().any(|(k, _)| k == key));
            }
            prop_assert_eq!(merge_setting("MALLOC_CONF", Some(&merged), &new), merged.clone());
        }

        /// Check that no text makes any syntax panic.
        #[test]
        fn any_text(base in ".{0,60}", ours in ".{0,60}") {
            for name in ["MALLOC_CONF", "GLIBC_TUNABLES", "NODE_OPTIONS", "GOGC", "LD_PRELOAD", "QUELL_SHIM"] {
                let _ = (merge_setting(name, Some(&base), &ours), is_set_already(name, Some(&base), &ours));
                let _ = (replaced_settings(name, Some(&base), &ours), value_complaint(name, &base));
            }
        }
    }
}
