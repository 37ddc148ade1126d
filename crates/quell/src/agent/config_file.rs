//! The path of the agent's configuration, which `quell agent` and its verbs look for alike.

use std::path::Path;

/// A package installs the configuration here, and it is read without being named.
const DEFAULT_CONFIG_FILE: &str = "/etc/quell/agent.toml";

/// The file that the command line names, or else the default one where it exists.
pub(crate) fn config_file(named: Option<&Path>) -> Option<&Path> {
    named.or_else(|| Some(Path::new(DEFAULT_CONFIG_FILE)).filter(|path| path.exists()))
}
