//! How much memory a plan may take.

use std::fmt;
use std::str::FromStr;

use quell_remedy::Options;

/// A share of the program's most resident memory, by which it may grow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Budget(f64);

impl Budget {
    /// What a plan may be chosen of, where the preload library can be found.
    pub(crate) fn options(self) -> Options {
        Options {
            budget: self.0,
            preload: true,
        }
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self(Options::default().budget)
    }
}

impl FromStr for Budget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.strip_suffix('%').unwrap_or(text).trim();
        match number.parse::<f64>() {
            Ok(percent) if (0.0..=1000.0).contains(&percent) => Ok(Self(percent / 100.0)),
            _ => Err("write percent from 0 to 1000, such as 25%".to_owned()),
        }
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", (self.0 * 1000.0).round() / 10.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Check that percent are read with and without their sign, and nothing else is.
    #[test]
    fn percent() {
        assert_eq!("10%".parse(), Ok(Budget(0.1)));
        assert_eq!("25".parse(), Ok(Budget::default()));
        assert_eq!(Budget::default().to_string(), "25%");
        for bad in ["", "%", "-1", "nan", "1001%", "a%", "inf"] {
            assert!(bad.parse::<Budget>().is_err(), "{bad}");
        }
    }

    proptest! {
        /// Check that what is shown is read back.
        #[test]
        fn round_trip(tenths in 0..10_000u32) {
            let budget: Budget = format!("{}%", f64::from(tenths) / 10.0).parse().unwrap();
            prop_assert_eq!(budget.to_string().parse(), Ok(budget));
        }
    }
}
