//! The budget of memory for a plan.

use std::str::FromStr;

use quell_remedy::PlanOptions;

/// The share of its maximum resident memory by which the program may grow. The default is a quarter, and some megabytes for
/// a small program.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Budget(Option<f64>);

impl Budget {
    /// The options for choosing a plan within this budget, with the preload library allowed.
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
    fn percent_are_read() {
        assert_eq!("10%".parse(), Ok(Budget(Some(0.1))));
        assert_eq!("25".parse(), Ok(Budget(Some(0.25))));
        for bad in ["", "%", "-1", "nan", "1001%", "a%", "inf"] {
            assert!(bad.parse::<Budget>().is_err(), "{bad}");
        }
    }

    /// Check that a budget of the user's is exact, and that the default gives small programs a little more.
    #[test]
    fn small_programs() {
        assert!(Budget::default().options().at_least > 0);
        let asked: Budget = "25%".parse().unwrap();
        let options = asked.options();
        assert_eq!((options.at_least, options.budget), (0, 0.25));
    }
}
