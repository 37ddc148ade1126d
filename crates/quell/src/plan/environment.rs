//! The environment that a plan makes.

use std::collections::BTreeMap;

use quell_remedy::{Plan, quote};

use crate::launch::Setup;

/// Variables and their values, in the order of their names.
pub(crate) type Environment = BTreeMap<String, String>;

/// A variable of quell's own environment, which the program inherits.
pub(crate) fn own_variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// How a command starts with a plan: with these variables, and with what the plan asks of the kernel for its process.
pub(crate) fn setup_of(environment: &Environment, plan: &Plan) -> Setup {
    let pairs = environment.iter();
    Setup {
        env: pairs
            .map(|(name, value)| (name.into(), value.into()))
            .collect(),
        starts: plan.starts(),
    }
}

/// Lines for a shell.
pub(crate) fn shell_exports(environment: &Environment) -> String {
    let line =
        |(name, value): (&String, &String)| format!("export {name}={}\n", quote::shell_word(value));
    environment.iter().map(line).collect()
}

/// A note for every variable that the user has set to another value than the plan. An empty one counts as not set.
pub(crate) fn overridden_settings(
    environment: &Environment,
    env: &impl Fn(&str) -> Option<String>,
) -> Vec<String> {
    let note = |(name, value): (&String, &String)| {
        let theirs = env(name).filter(|t| !t.is_empty() && t != value)?;
        Some(format!(
            "{name} is set already, to '{theirs}': the plan makes it '{value}'"
        ))
    };
    environment.iter().filter_map(note).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that a shell gets back exactly the value of the plan, quotes and all.
    #[test]
    fn shells_read_exports() {
        let value = "a'b \"$c\" `d`\\";
        let environment = BTreeMap::from([("QUELL_T".to_owned(), value.to_owned())]);
        let script = format!("{}printf %s \"$QUELL_T\"", shell_exports(&environment));
        let out = std::process::Command::new("sh")
            .arg("-c")
            .arg(script)
            .output()
            .unwrap();
        assert_eq!(String::from_utf8(out.stdout).unwrap(), value);
    }

    /// Check that there is a note for a variable that both set, and none where the value stays.
    #[test]
    fn merging_is_said() {
        let environment =
            BTreeMap::from([("A".into(), "x:1,y:2".into()), ("B".into(), "1".into())]);
        let env = |name: &str| (name == "A").then(|| "x:1".to_owned());
        assert_eq!(
            overridden_settings(&environment, &env),
            ["A is set already, to 'x:1': the plan makes it 'x:1,y:2'"]
        );
    }
}
