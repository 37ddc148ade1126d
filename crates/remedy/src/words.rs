//! Numbers in sentences.

/// `1 shootdown`, `2 shootdowns`.
pub(crate) fn count_noun(n: u64, word: &str) -> String {
    format!("{n} {word}{}", if n == 1 { "" } else { "s" })
}

/// A share in percent. All but a few are not 100, and a few are not 0.
pub(crate) fn percent_text(part: u64, total: u64) -> String {
    let p = 100.0 * part as f64 / total.max(1) as f64;
    match p {
        p if part < total && p >= 99.5 => format!("{:.1}", (p * 10.0).floor() / 10.0),
        p if part > 0 && p < 0.5 => "<1".to_owned(),
        p => format!("{p:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that one is one, and that nearly all and nearly none are said as such.
    #[test]
    fn reads_well() {
        assert_eq!(count_noun(1, "shootdown"), "1 shootdown");
        assert_eq!(count_noun(2, "shootdown"), "2 shootdowns");
        let shares = [
            (0, 9),
            (1, 999),
            (1, 3),
            (700, 703),
            (9_999, 10_000),
            (5, 5),
        ];
        let shown = shares.map(|(part, total)| percent_text(part, total));
        assert_eq!(shown, ["0", "<1", "33", "99.5", "99.9", "100"]);
        assert_eq!(percent_text(0, 0), "0");
    }
}
