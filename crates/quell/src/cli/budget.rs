//! How much memory a plan may take.

use std::str::FromStr;

use quell_remedy::PlanOptions;

/// A share of the program's most resident memory, by which it may grow. Without being asked for one, quell takes
/// a quarter, and of a small program some megabytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Budget(Option<f64>);

impl Budget {
    /// What a plan may be chosen of, where the preload library can be found.
    pub(crate) fn options(self) -> PlanOptions {
        let default = PlanOptions::default();
        PlanOptions {
            budget: self.0.unwrap_or(default.budget),
            at_least: if self.0.is_some() {
                0
            } else {
                default.at_least
            },
            preload: true,
            without_gain: default.without_gain,
        }
    }
}

impl FromStr for Budget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.strip_suffix('%').unwrap_or(text).trim();
        match number.parse::<f64>() {
            Ok(percent) if (0.0..=1000.0).contains(&percent) => Ok(Self(Some(percent / 100.0))),
            _ => Err("write percent from 0 to 1000, such as 25%".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that percent are read with and without their sign, and nothing else is.
    #[test]
    fn percent() {
        assert_eq!("10%".parse(), Ok(Budget(Some(0.1))));
        assert_eq!("25".parse(), Ok(Budget(Some(0.25))));
        for bad in ["", "%", "-1", "nan", "1001%", "a%", "inf"] {
            assert!(bad.parse::<Budget>().is_err(), "{bad}");
        }
    }

    /// Check that a budget that was asked for is exact, and the default gives small programs a little more.
    #[test]
    fn small_programs() {
        assert!(Budget::default().options().at_least > 0);
        let asked: Budget = "25%".parse().unwrap();
        let options = asked.options();
        assert_eq!((options.at_least, options.budget), (0, 0.25));
    }
}
