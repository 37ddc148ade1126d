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
        if out.is_empty() && inner.starts_with('<') {
            out.push_str(&of_type(inner));
        } else if inner.chars().count() > INNER {
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

/// `<module::Type<T> as module::Trait>` without the modules, and without what the types are made of where that is long.
fn of_type(group: &str) -> String {
    let inner = group.strip_prefix('<').and_then(|g| g.strip_suffix('>'));
    let Some(inner) = inner else {
        return group.to_owned();
    };
    // types within types
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
    // of a reference, or a `dyn Trait`, what stands before the path
    let before = path.len() - path.trim_start_matches(['&', '*', ' ']).len();
    let before = if name.len() < path.len() {
        &path[..before]
    } else {
        ""
    };
    match parameters.chars().count() {
        0..=INNER => format!("{before}{name}{parameters}"),
        _ => format!("{before}{name}<…>"),
    }
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
        let gather = "<polars_arrow::array::PrimitiveArrayBuilder<i32> as polars_arrow::array::ArrayBuilder>::gather";
        assert_eq!(
            short(gather),
            "<PrimitiveArrayBuilder<i32> as ArrayBuilder>::gather"
        );
        let sorted = "<&alloc::collections::BTreeMap<alloc::string::String, u64> as core::iter::IntoIterator>::into_iter";
        assert_eq!(short(sorted), "<&BTreeMap<…> as IntoIterator>::into_iter");
        // types within types: which belongs to which is not for this to say
        let deep =
            "<a::Long<<b::Kind as c::Some>::Output> as d::Trait<e::Other>>::work_on_it_for_a_while";
        assert_eq!(short(deep), "<…>::work_on_it_for_a_while");
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
