//! Names of functions, short enough for a line: C++ and Rust spell out every parameter.

/// A name that is no longer stays as it is.
const LONG: usize = 60;

/// What stands between brackets is left out if it is longer.
const INNER: usize = 12;

/// The name, where it is long without what its brackets have, and cut where it is longer still. JSON has it whole.
pub(crate) fn short(name: &str) -> String {
    if name.chars().count() <= LONG {
        return name.to_owned();
    }
    let mut out = String::new();
    let mut rest = name;
    while let Some(at) = rest.find(['<', '(']) {
        let (before, group) = rest.split_at(at);
        out.push_str(before);
        // `operator<` and the like are no brackets
        let end = if before.ends_with("operator") {
            None
        } else {
            closing(group)
        };
        let Some(end) = end else {
            let first = group.chars().next().map_or(0, char::len_utf8);
            out.push_str(&group[..first]);
            rest = &group[first..];
            continue;
        };
        let (inner, after) = group.split_at(end + 1);
        // one that begins a name of Rust's has the type that the function is of
        if inner.chars().count() > INNER && !out.is_empty() {
            out.push_str(if inner.starts_with('<') {
                "<…>"
            } else {
                "(…)"
            });
        } else {
            out.push_str(inner);
        }
        rest = after;
    }
    out.push_str(rest);
    if out.chars().count() > 2 * LONG {
        out = out.chars().take(2 * LONG - 1).collect();
        out.push('…');
    }
    out
}

/// Where the bracket is closed with which the text begins, bytes. An arrow is none.
fn closing(text: &str) -> Option<usize> {
    let mut open = Vec::new();
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        match c {
            '<' => open.push('>'),
            '(' => open.push(')'),
            '>' if before == '-' => {}
            '>' | ')' => {
                if open.pop() != Some(c) {
                    return None;
                }
                if open.is_empty() {
                    return Some(at);
                }
            }
            _ => {}
        }
        before = c;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Check that long names lose what is in their brackets, and short ones and operators nothing.
    #[test]
    fn long_names_are_short() {
        let append = "unsigned long duckdb::FixedSizeAppend<double, duckdb::StandardFixedSizeAppend>\
                      (duckdb::CompressionAppendState&, unsigned long)";
        assert_eq!(short(append), "unsigned long duckdb::FixedSizeAppend<…>(…)");
        assert_eq!(short("f<int>(a, b)"), "f<int>(a, b)");
        let compared = format!(
            "bool {}::operator<(T const&, another::type const&)",
            "n".repeat(50)
        );
        assert_eq!(
            short(&compared),
            format!("bool {}::operator<(…)", "n".repeat(50))
        );
        assert!(short("<alloc::vec::Vec<T> as core::iter::FromIterator<T, Another>>::from_iter::h0123456789abcdef").starts_with("<alloc::vec"));
        assert_eq!(short(&"x".repeat(500)).chars().count(), 2 * LONG);
    }

    proptest! {
        /// Check that no name is made longer, or fails.
        #[test]
        fn any_name(name in "[a-z<>()é:& -]{0,300}") {
            prop_assert!(short(&name).chars().count() <= name.chars().count().min(2 * LONG));
        }
    }
}
