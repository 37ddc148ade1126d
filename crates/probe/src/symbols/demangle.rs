//! Demangles the names of functions, and makes them safe to print.

use std::fmt::{self, Write};

/// The most bytes of a demangled name; where it would have more, the name is shown as it is in the file, cut at as many characters. A C++ name of a few hundred bytes can
/// stand for gigabytes, because parts of it may be repeated by number.
const MAX_DEMANGLED_BYTES: usize = 4096;

/// The name of a C++ or Rust function as its programmer wrote it; others stay as they are. Without
/// control characters, because it goes to terminals and anybody can write a symbol table.
pub(super) fn readable_name(name: &str) -> String {
    let demangled = demangle_rust(name).or_else(|| demangle_cpp(name));
    clean_name(demangled.as_deref().unwrap_or(name))
}

/// A name without control characters, and not endless.
pub(super) fn clean_name(name: &str) -> String {
    let visible = |c: char| if c.is_control() { '?' } else { c };
    name.chars()
        .take(MAX_DEMANGLED_BYTES)
        .map(visible)
        .collect()
}

fn demangle_rust(name: &str) -> Option<String> {
    let parsed = rustc_demangle::try_demangle(name).ok()?;
    let mut text = BoundedName(String::new());
    // The hash at the end is left out, because it tells nobody anything.
    write!(text, "{parsed:#}").ok()?;
    Some(text.0)
}

fn demangle_cpp(name: &str) -> Option<String> {
    // As in c++filt only these are names; otherwise `f` would be taken for the type float.
    let mangled = name.starts_with("_Z") || name.starts_with("__Z");
    let parsed = cpp_demangle::Symbol::new(mangled.then_some(name)?).ok()?;
    let mut text = BoundedName(String::new());
    let options = cpp_demangle::DemangleOptions::default();
    parsed.structured_demangle(&mut text, &options).ok()?;
    Some(text.0)
}

/// Text that fails when too much is written to it.
struct BoundedName(String);

impl Write for BoundedName {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > MAX_DEMANGLED_BYTES {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Check that names of C++ and of both manglings of Rust are readable, and C's stay as they are.
    #[test]
    fn names_are_readable() {
        for (mangled, name) in [
            ("_ZN3foo3BarIiE3bazEv", "foo::Bar<int>::baz()"),
            (
                "_ZN4core3ptr13drop_in_place17h0123456789abcdefE",
                "core::ptr::drop_in_place",
            ),
            (
                "_RNvCskwGfYPst2Cb_3foo16example_function",
                "foo::example_function",
            ),
            ("madvise", "madvise"),
            ("f", "f"),
            ("main.(*T).Free", "main.(*T).Free"),
            ("red\x1b[31m\n", "red?[31m?"),
        ] {
            assert_eq!(readable_name(mangled), name);
        }
    }

    /// Check that a short name that stands for an endless one is not written out.
    #[test]
    fn bombs_stay_as_they_are() {
        // each pair refers twice to the one before
        let mut name = String::from("_Z1fSt4pairIiiE");
        for n in 0..30 {
            let before = if n == 0 {
                "S_".to_owned()
            } else {
                format!("S{}_", n - 1)
            };
            name += &format!("St4pairI{before}{before}E");
        }
        assert!(readable_name(&name).len() <= 4 * MAX_DEMANGLED_BYTES);
    }

    proptest! {
        /// Check that no name makes the demanglers panic or write without end.
        #[test]
        fn any_name(start in "(_ZN?|_R|)", tail in "[A-Za-z0-9_$.]{0,200}") {
            let name = start + &tail;
            prop_assert!(readable_name(&name).len() <= 4 * MAX_DEMANGLED_BYTES);
        }
    }
}
