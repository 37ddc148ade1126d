//! Names of functions, short enough for a line: C++ and Rust spell out every parameter.

/// A name within this length stays as it is, and no shortened one is longer than twice this.
const MAX_NAME_CHARS: usize = 60;

/// Text between brackets is left out if it is longer than this.
const MAX_INNER_CHARS: usize = 12;

/// A name short enough for a line: a long one loses the content of its brackets, and is cut if it is still too long. JSON
/// has it whole.
pub(crate) fn shorten_symbol(name: &str) -> String {
    if name.chars().count() <= MAX_NAME_CHARS {
        return name.to_owned();
    }
    let mut out = String::new();
    let mut rest = name;
    while let Some(at) = rest.find(['<', '(']) {
        let (before, group) = rest.split_at(at);
        out.push_str(before);
        // The `<` of `operator<` and the like is no bracket.
        let end = if before.ends_with("operator") {
            None
        } else {
            closing_bracket(group)
        };
        let Some(end) = end else {
            let first = group.chars().next().map_or(0, char::len_utf8);
            out.push_str(&group[..first]);
            rest = &group[first..];
            continue;
        };
        let (inner, after) = group.split_at(end + 1);
        // At the beginning of a Rust name it holds the type that the function belongs to.
        if out.is_empty() && inner.starts_with('<') {
            out.push_str(&of_type(inner));
        } else if inner.chars().count() > MAX_INNER_CHARS {
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
    if out.chars().count() > 2 * MAX_NAME_CHARS {
        out = out.chars().take(2 * MAX_NAME_CHARS - 1).collect();
        out.push('…');
    }
    out
}

/// `<module::Type<T> as module::Trait>` without the modules, and without long parameters of the types.
fn of_type(group: &str) -> String {
    let inner = group.strip_prefix('<').and_then(|g| g.strip_suffix('>'));
    let Some(inner) = inner else {
        return group.to_owned();
    };
    // Types within types are too much for a line.
    if inner.matches(" as ").count() > 1 {
        return "<…>".to_owned();
    }
    let parts: Vec<String> = inner.split(" as ").map(last_of_path).collect();
    format!("<{}>", parts.join(" as "))
}

/// A path without its modules, and with `<…>` for long parameters.
fn last_of_path(path: &str) -> String {
    let (path, parameters) = match path.find('<') {
        Some(at) => path.split_at(at),
        None => (path, ""),
    };
    let name = path.rsplit("::").next().unwrap_or(path);
    // A reference or a `dyn Trait` has characters before its path, which are kept.
    let before = path.len() - path.trim_start_matches(['&', '*', ' ']).len();
    let before = if name.len() < path.len() {
        &path[..before]
    } else {
        ""
    };
    match parameters.chars().count() {
        0..=MAX_INNER_CHARS => format!("{before}{name}{parameters}"),
        _ => format!("{before}{name}<…>"),
    }
}

/// The byte at which the first bracket of the text is closed. The `>` of an arrow closes none.
fn closing_bracket(text: &str) -> Option<usize> {
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

    /// Check that long names lose the content of their brackets, and short ones and operators nothing.
    #[test]
    fn long_names_are_short() {
        let append = "unsigned long duckdb::FixedSizeAppend<double, duckdb::StandardFixedSizeAppend>\
                      (duckdb::CompressionAppendState&, unsigned long)";
        assert_eq!(
            shorten_symbol(append),
            "unsigned long duckdb::FixedSizeAppend<…>(…)"
        );
        assert_eq!(shorten_symbol("f<int>(a, b)"), "f<int>(a, b)");
        let compared = format!(
            "bool {}::operator<(T const&, another::type const&)",
            "n".repeat(50)
        );
        assert_eq!(
            shorten_symbol(&compared),
            format!("bool {}::operator<(…)", "n".repeat(50))
        );
        let gather = "<polars_arrow::array::PrimitiveArrayBuilder<i32> as polars_arrow::array::ArrayBuilder>::gather";
        assert_eq!(
            shorten_symbol(gather),
            "<PrimitiveArrayBuilder<i32> as ArrayBuilder>::gather"
        );
        let sorted = "<&alloc::collections::BTreeMap<alloc::string::String, u64> as core::iter::IntoIterator>::into_iter";
        assert_eq!(
            shorten_symbol(sorted),
            "<&BTreeMap<…> as IntoIterator>::into_iter"
        );
        // Types within types are left out: this can't tell which bracket belongs to which.
        let deep =
            "<a::Long<<b::Kind as c::Some>::Output> as d::Trait<e::Other>>::work_on_it_for_a_while";
        assert_eq!(shorten_symbol(deep), "<…>::work_on_it_for_a_while");
        assert_eq!(
            shorten_symbol(&"x".repeat(500)).chars().count(),
            2 * MAX_NAME_CHARS
        );
    }

    proptest! {
        /// Check that no name is made longer, or fails.
        #[test]
        fn any_name(name in "[a-z<>()é:& -]{0,300}") {
            prop_assert!(shorten_symbol(&name).chars().count() <= name.chars().count().min(2 * MAX_NAME_CHARS));
        }
    }
}
