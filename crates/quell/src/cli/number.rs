//! Parsers for the numbers of options, with errors in plain words.

/// The number of a process.
pub(crate) fn parse_pid(text: &str) -> Result<u32, String> {
    text.parse()
        .map_err(|_| "not the number of a process".to_owned())
}

/// Seconds, in decimal.
pub(crate) fn parse_seconds(text: &str) -> Result<f64, String> {
    let seconds: Result<f64, _> = text.parse();
    seconds.map_err(|_| "not a number of seconds, such as 10 or 0.5".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that numbers are read, and that other text is refused in a user's words.
    #[test]
    fn numbers_and_refusals() {
        assert_eq!((parse_pid("12"), parse_seconds("0.5")), (Ok(12), Ok(0.5)));
        for wrong in ["", "abc", "-1", "1.5", "99999999999", "1 2"] {
            assert_eq!(
                parse_pid(wrong),
                Err("not the number of a process".to_owned())
            );
        }
        for wrong in ["", "abc", "1s", "1,5"] {
            assert!(parse_seconds(wrong).is_err_and(|why| why.contains("0.5")));
        }
    }
}
