//! The agent's configuration, which `quell agent` and its verbs read alike.

use std::path::Path;

use quell_agent::config::AgentConfig;

/// A package installs the configuration here, and it is read without being named.
const DEFAULT_CONFIG_FILE: &str = "/etc/quell/agent.toml";

/// Reads the file that the command line names, or else the default one where it exists. Without either the defaults hold.
///
/// # Errors
///
/// The file can't be read, or has a mistake.
pub(crate) fn read_config_file(named: Option<&Path>) -> anyhow::Result<AgentConfig> {
    let default = Path::new(DEFAULT_CONFIG_FILE);
    match named.or_else(|| Some(default).filter(|path| path.exists())) {
        Some(path) => AgentConfig::read(path),
        None => Ok(AgentConfig::default()),
    }
}
