//! Quotes values, so that each reader gets back exactly the value.

use quell_event::text::{self, is_plain};

/// A word for a POSIX shell. Characters that are not plain are left to printf(1), so that the line is safe to look at and to
/// paste; `$'…'` is not known to every shell.
#[must_use]
pub fn shell_word(value: &str) -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
    if value.chars().all(is_plain) {
        return quoted(value);
    }
    // $(…) takes the ends of lines at its end away
    let text = value.trim_end_matches('\n');
    let mut format = String::new();
    for c in text.chars() {
        match c {
            '%' => format.push_str("%%"),
            '\\' => format.push_str(r"\\"),
            // printf would take it for an option.
            '-' if format.is_empty() => format.push_str(r"\055"),
            c if is_plain(c) => format.push(c),
            c => format.extend(utf8_bytes(c).map(|b| format!("\\{b:03o}"))),
        }
    }
    let mut out = format!("\"$(printf {})\"", quoted(&format));
    if text.len() < value.len() {
        out.push_str(&quoted(&value[text.len()..]));
    }
    out
}

/// A character in UTF-8.
fn utf8_bytes(c: char) -> impl Iterator<Item = u8> {
    let mut buffer = [0; 4];
    let n = c.encode_utf8(&mut buffer).len();
    buffer.into_iter().take(n)
}

/// A line of a systemd service that sets a variable: `%` begins a specifier there, `\` an escape, and `"` ends the value
/// (systemd.exec(5)). The end of a line within a value would begin another directive, so it is written as an escape too.
#[must_use]
pub fn systemd_line(name: &str, value: &str) -> String {
    let mut text = String::new();
    for c in value.chars() {
        match c {
            '\\' | '"' => text.extend(['\\', c]),
            '%' => text.push_str("%%"),
            // `\xNN`, as systemd.syntax(7) has it
            c if is_plain(c) => text.push(c),
            c => text.extend(utf8_bytes(c).map(|b| format!("\\x{b:02x}"))),
        }
    }
    format!("Environment=\"{name}={text}\"")
}

/// A word of a Dockerfile's ENV, where `\` takes the meaning from `"`, `$` and itself; none where the value has a line's end or
/// another character that cannot be written there.
#[must_use]
pub fn dockerfile_word(value: &str) -> Option<String> {
    if !value.chars().all(is_plain) {
        return None;
    }
    let mut text = String::from("\"");
    for c in value.chars() {
        if matches!(c, '\\' | '"' | '$') {
            text.push('\\');
        }
        text.push(c);
    }
    text.push('"');
    Some(text)
}

/// A string of YAML: JSON's are.
#[must_use]
pub fn yaml_string(value: &str) -> String {
    // A string is always a JSON value.
    let json = serde_json::to_string(value).unwrap_or_default();
    text::escape_json(&json).into_owned()
}

/// The value of a variable in a pod, as YAML: Kubernetes takes `$(NAME)` for another variable and `$$` for `$`.
#[must_use]
pub fn kubernetes_value(value: &str) -> String {
    yaml_string(&value.replace('$', "$$"))
}

/// Whether shells, Docker and systemd take it for the name of a variable.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && name.chars().all(inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reads a quoted assignment as systemd does (config_parse_environ() in src/core/load-fragment.c: quotes and escapes first,
    /// then specifiers).
    fn systemd_reads(line: &str) -> String {
        let text = line.strip_prefix("Environment=\"").unwrap();
        let text = text.strip_suffix('"').unwrap();
        let mut out = Vec::new();
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            assert_ne!(c, '"', "ends early: {line}");
            if c != '\\' {
                out.extend(utf8_bytes(c));
                continue;
            }
            match chars.next().unwrap() {
                'x' => {
                    let hex: String = chars.by_ref().take(2).collect();
                    out.push(u8::from_str_radix(&hex, 16).unwrap());
                }
                c @ ('\\' | '"') => out.extend(utf8_bytes(c)),
                c => panic!("no escape of ours: {c}"),
            }
        }
        String::from_utf8(out).unwrap().replace("%%", "%")
    }

    /// Reads a word in double quotes as Docker does (processDoubleQuote() of BuildKit's shell/lex.go).
    fn docker_reads(word: &str) -> String {
        let text = word.strip_prefix('"').unwrap().strip_suffix('"').unwrap();
        let mut out = String::new();
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            assert!(c != '"' && c != '$', "not a plain word: {word}");
            let escapes = chars.peek().is_some_and(|n| matches!(n, '"' | '$' | '\\'));
            out.push(if c == '\\' && escapes {
                chars.next().unwrap()
            } else {
                c
            });
        }
        out
    }

    /// Reads a value as Kubernetes does, where no variable is known (Expand() of its third_party/forked/golang/expansion).
    fn kubernetes_reads(yaml: &str) -> String {
        let text: String = serde_json::from_str(yaml).unwrap();
        let mut out = String::new();
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            out.push(c);
            if c == '$' {
                match chars.peek() {
                    Some('$') => drop(chars.next()),
                    next => assert_ne!(next, Some(&'('), "names a variable: {yaml}"),
                }
            }
        }
        out
    }

    proptest! {
        /// Check for any value that each reader gets back exactly the value.
        #[test]
        fn comes_back(value in "(?s)([^\0]|[\\\\\"'$%()`]){0,20}") {
            prop_assert_eq!(systemd_reads(&systemd_line("A", &value)), format!("A={value}"));
            prop_assert_eq!(kubernetes_reads(&kubernetes_value(&value)), value.as_str());
            match dockerfile_word(&value) {
                Some(word) => prop_assert_eq!(docker_reads(&word), value.as_str()),
                None => prop_assert!(!value.chars().all(is_plain)),
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Check for any value that a real shell gets back exactly the value.
        #[test]
        fn shell_reads(value in "(?s)([^\0]|[\\\\\"'$%()`]){0,20}") {
            let out = std::process::Command::new("sh")
                .args(["-c", &format!("printf %s {}", shell_word(&value))])
                .output()
                .unwrap();
            prop_assert_eq!(String::from_utf8(out.stdout).unwrap(), &*value);
            let looked_at = shell_word(&value);
            prop_assert!(looked_at.chars().all(|c| c == '\n' || is_plain(c)), "{:?}", looked_at);
        }
    }

    /// Check that names are as every reader takes them.
    #[test]
    fn names() {
        assert!(is_name("_RJEM_MALLOC_CONF") && is_name("A1"));
        assert!(!is_name("") && !is_name("1A") && !is_name("A-B") && !is_name("A B"));
    }
}
