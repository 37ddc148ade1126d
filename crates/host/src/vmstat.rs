//! `/proc/vmstat`: the kernel's counts of its memory management.

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context, Result};

use crate::under;

/// Every counter by its name, such as `pgfault`. Which there are depends on the kernel's version and
/// configuration (mm/vmstat.c).
///
/// # Errors
///
/// If the file can't be read.
pub fn read_vmstat(root: &Path) -> Result<HashMap<String, u64>> {
    let path = under(root, Path::new("/proc/vmstat"));
    let text = std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
    Ok(parse_vmstat(&String::from_utf8_lossy(&text)))
}

/// A line is `NAME NUMBER`; one that is not is left out.
fn parse_vmstat(text: &str) -> HashMap<String, u64> {
    let pair = |line: &str| {
        let (name, number) = line.split_once(' ')?;
        Some((name.to_owned(), number.trim().parse().ok()?))
    };
    text.lines().filter_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that counters are read by their names, and that lines of another kind are left out.
    #[test]
    fn counters_have_names() {
        let read = parse_vmstat("pgfault 12\nnr_odd -3\n\nalone\npgmajfault 7");
        assert_eq!(read.get("pgfault"), Some(&12));
        assert_eq!(read.get("pgmajfault"), Some(&7));
        assert_eq!(read.len(), 2);
    }

    proptest::proptest! {
        /// Check that any text is read without failing.
        #[test]
        fn any_text(text in ".{0,200}") {
            parse_vmstat(&text);
        }
    }
}
