//! The lines that `quell --version` adds: the features that were found in the kernel.

use std::fmt::Write as _;
use std::path::Path;

use quell_host::flush;
use quell_probe::Backend;

/// One line for each feature, for the running kernel.
pub(crate) fn kernel_features() -> String {
    let backends = Backend::check_all().map(|(b, found)| (b.name(), found));
    let btf = if Path::new("/sys/kernel/btf/vmlinux").exists() {
        Ok(())
    } else {
        Err("no /sys/kernel/btf/vmlinux (CONFIG_DEBUG_INFO_BTF)".to_owned())
    };
    let silent: Vec<_> = flush::find_silent_flushes()
        .iter()
        .map(ToString::to_string)
        .collect();
    feature_lines(
        &rustix::system::uname().release().to_string_lossy(),
        &[vec![("btf", btf)], backends.to_vec()].concat(),
        &silent,
    )
}

fn feature_lines(
    release: &str,
    features: &[(&str, Result<(), String>)],
    notes: &[String],
) -> String {
    let mut out = format!("kernel {release}, by its symbols\n");
    for (name, found) in features {
        // Writing to a String does not fail.
        let _ = match found {
            Ok(()) => writeln!(out, "  {name:8} yes"),
            Err(why) => writeln!(out, "  {name:8} no: {why}"),
        };
    }
    for note in notes {
        let _ = writeln!(out, "  note     {note}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that each feature has its line, with the reason where it is missing.
    #[test]
    fn each_feature_has_its_line() {
        let features = [("btf", Ok(())), ("raw_tp", Err("no tracepoint".to_owned()))];
        let text = feature_lines("6.1.0", &features, &["flushes silently".to_owned()]);
        assert_eq!(
            text,
            "kernel 6.1.0, by its symbols\n  btf      yes\n  raw_tp   no: no tracepoint\n  note     flushes silently\n"
        );
    }
}
