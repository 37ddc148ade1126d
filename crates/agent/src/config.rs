//! The configuration, as TOML. Defaults are right for most hosts.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use serde::Deserialize;

use crate::small_file;
use crate::trigger::TriggerRule;

/// The whole configuration file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AgentConfig {
    /// Address where Prometheus finds `/metrics`; `off` for none.
    #[serde(deserialize_with = "deserialize_listen")]
    pub listen: Option<SocketAddr>,
    /// File with the token that a scrape has to send: `Authorization: Bearer TOKEN`.
    pub token_file: Option<PathBuf>,
    /// Certificate for scrapes (PEM, the chain from the host's own). With it scrapes are answered by TLS only.
    pub tls_cert: Option<PathBuf>,
    /// The certificate's key.
    pub tls_key: Option<PathBuf>,
    /// Seconds from one look at the counts to the next.
    pub interval: u64,
    /// Seconds from one run of `doctor` to the next; 0 for never.
    pub doctor_interval: u64,
    /// Whether the time is counted that threads sleep because of memory management, for which each switch of a CPU is looked at.
    pub blocked: bool,
    /// The name of this host; without it, the kernel's.
    pub host: Option<String>,
    /// InfluxDB, or another server that speaks its protocol.
    pub influx: Option<PushConfig>,
    /// OpenTelemetry.
    pub otlp: Option<PushConfig>,
    /// When traces are recorded; without it, never.
    pub traces: Option<TraceConfig>,
}

/// Traces that a rule begins.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TraceConfig {
    /// Folder that keeps them.
    pub dir: PathBuf,
    /// Size that they may have together, MB: the oldest give way.
    pub limit_mb: u64,
    /// Space that stays free on the file system, MB, if need be without any trace.
    pub reserve_mb: u64,
    /// Length of a trace, seconds.
    pub seconds: u64,
    /// Length of the time before a trace whose counts are kept with it, seconds; 0 for none.
    pub look_back: u64,
    /// Seconds that a rule is quiet after it has begun a trace.
    pub pause: u64,
    /// The rules that begin a trace.
    #[serde(rename = "rule")]
    pub rules: Vec<TriggerRule>,
}

impl Default for TraceConfig {
    fn default() -> Self {
        Self {
            dir: PathBuf::from(DEFAULT_TRACE_DIR),
            limit_mb: 512,
            reserve_mb: 1024,
            seconds: 10,
            look_back: 30,
            pause: 600,
            rules: Vec::new(),
        }
    }
}

/// Folder of traces where the configuration names none.
pub const DEFAULT_TRACE_DIR: &str = "/var/lib/quell/traces";

impl TraceConfig {
    /// Whether counts from before a trace are kept.
    #[must_use]
    pub fn looks_back(&self) -> bool {
        self.look_back > 0
    }

    fn check_traces(&self) -> anyhow::Result<()> {
        if !(1..=600).contains(&self.seconds) {
            bail!("traces.seconds = {}: write 1 to 600 seconds", self.seconds);
        }
        if self.look_back > 300 {
            bail!(
                "traces.look_back = {}: write 0, or up to 300 seconds",
                self.look_back
            );
        }
        if self.dir.as_os_str().is_empty() || (self.dir.exists() && !self.dir.is_dir()) {
            bail!("traces.dir = \"{}\": write a folder", self.dir.display());
        }
        if self.limit_mb < 2 {
            bail!("traces.limit_mb = {}: a trace needs more", self.limit_mb);
        }
        if self.rules.is_empty() {
            bail!(
                "traces: no rule says when; write a [[traces.rule]] with a name and one of rate, wait_p99_us, isolated and regression"
            );
        }
        for rule in &self.rules {
            if let Some(mistake) = rule.first_mistake() {
                bail!("traces: {mistake}");
            }
        }
        let names: HashSet<_> = self.rules.iter().map(|rule| &rule.name).collect();
        if names.len() < self.rules.len() {
            bail!("traces: two rules have the same name");
        }
        Ok(())
    }
}

/// A server that figures are pushed to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PushConfig {
    /// `http://HOST:PORT/PATH` or `https://…`: InfluxDB's with `/write?db=NAME`, OpenTelemetry's with `/v1/metrics`. For InfluxDB
    /// also `-` for stdout, as Telegraf's execd has it.
    pub to: String,
    /// File with the token of `Authorization`: `Token TOKEN` for InfluxDB 2, `Bearer TOKEN` for OpenTelemetry.
    pub token_file: Option<PathBuf>,
    /// File with the authorities that may have signed the server's certificate (PEM); without it, those that browsers trust.
    pub ca_file: Option<PathBuf>,
}

impl Default for AgentConfig {
    fn default() -> Self {
        Self {
            listen: Some(SocketAddr::from(([127, 0, 0, 1], 9469))),
            token_file: None,
            tls_cert: None,
            tls_key: None,
            interval: 10,
            doctor_interval: 600,
            blocked: true,
            host: None,
            influx: None,
            otlp: None,
            traces: None,
        }
    }
}

impl AgentConfig {
    /// Reads and checks a configuration file.
    ///
    /// # Errors
    ///
    /// The file can't be read, or has a mistake; the error names the line.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        small_file::ensure_small_file(path)?;
        let text =
            std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
        Self::from_toml(&text).with_context(|| format!("in {}", path.display()))
    }

    /// Reads and checks the text of a configuration.
    ///
    /// # Errors
    ///
    /// A mistake of TOML, with its line, or the first setting that does not fit, by its key.
    pub fn from_toml(text: &str) -> anyhow::Result<Self> {
        let config: Self = toml::from_str(text).map_err(|error| {
            // Its own text has several lines, with the line of the file drawn below.
            let before = error
                .span()
                .map_or("", |s| &text[..s.start.min(text.len())]);
            let line = 1 + before.matches('\n').count();
            let message = error.message().trim().replace('\n', ", ");
            anyhow!("line {line}: {message}")
        })?;
        config.check_settings()?;
        Ok(config)
    }

    /// Checks that the settings fit each other and lie within their bounds.
    ///
    /// # Errors
    ///
    /// The first setting that does not, in one line.
    pub fn check_settings(&self) -> anyhow::Result<()> {
        if !(1..=3600).contains(&self.interval) {
            bail!("interval = {}: write 1 to 3600 seconds", self.interval);
        }
        if self.doctor_interval != 0 && self.doctor_interval < 10 {
            bail!(
                "doctor_interval = {}: write 0, or at least 10 seconds",
                self.doctor_interval
            );
        }
        if let Some(listen) = self.listen
            && !listen.ip().is_loopback()
            && self.token_file.is_none()
        {
            bail!(
                "listen = \"{listen}\": anybody could read the figures there; write a token_file, or a loopback address"
            );
        }
        if self.host.as_deref() == Some("") {
            bail!("host = \"\": write a name, or leave it out");
        }
        if self.tls_cert.is_some() != self.tls_key.is_some() {
            bail!("TLS takes both tls_cert and tls_key");
        }
        if let Some(traces) = &self.traces {
            traces.check_traces()?;
            if self.interval > 300 && traces.rules.iter().any(|rule| rule.regression.is_some()) {
                bail!(
                    "interval = {}: a regression is told in slots of 300 seconds",
                    self.interval
                );
            }
        }
        for (server, what) in [(&self.influx, "influx"), (&self.otlp, "otlp")] {
            let Some(PushConfig { to, .. }) = server else {
                continue;
            };
            let is_stdout = what == "influx" && to == "-";
            if !is_url(to) && !is_stdout {
                bail!(
                    "{what}.to = \"{}\": write http://HOST:PORT/PATH or https://…",
                    url_without_secrets(to)
                );
            }
        }
        Ok(())
    }

    /// Time from one look at the counts to the next.
    #[must_use]
    pub fn look_interval(&self) -> Duration {
        Duration::from_secs(self.interval)
    }
}

/// Whether the text is a URL of `http` or `https` with a host, and a valid port if one is written.
fn is_url(text: &str) -> bool {
    let Ok(uri) = text.parse::<ureq::http::Uri>() else {
        return false;
    };
    let (Some(authority), Some(host)) = (uri.authority(), uri.host()) else {
        return false;
    };
    let at = authority.as_str().rsplit('@').next().unwrap_or_default();
    let port = at.strip_prefix(host).unwrap_or_default();
    let is_port = |port: &str| port.parse::<u16>().is_ok();
    matches!(uri.scheme_str(), Some("http" | "https"))
        && !host.is_empty()
        && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port))
}

/// Reads an address, or `off`, where serde asks for one.
fn deserialize_listen<'de, D: serde::Deserializer<'de>>(
    from: D,
) -> Result<Option<SocketAddr>, D::Error> {
    let text = String::deserialize(from)?;
    parse_listen(&text).map_err(serde::de::Error::custom)
}

/// The address to listen at, from `ADDR:PORT`; none for `off`.
///
/// # Errors
///
/// The text is neither.
pub fn parse_listen(text: &str) -> Result<Option<SocketAddr>, String> {
    if text == "off" {
        return Ok(None);
    }
    let address = text.parse().map(Some);
    address.map_err(|_| format!("\"{text}\": write ADDR:PORT, such as 127.0.0.1:9469, or off"))
}

/// The part of a URL that may be shown. A password may stand before the server, and then only the part from the server on is
/// shown; or in the query, which never is.
#[must_use]
pub fn url_without_secrets(url: &str) -> &str {
    let url = url.split('?').next().unwrap_or_default();
    match url.rsplit_once('@') {
        Some((_, server)) => server,
        None => url,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check what is taken for an address to push to.
    #[test]
    fn addresses() {
        for right in [
            "http://a",
            "https://a.b:4318/v1/metrics",
            "http://u:p@a:1/write?db=x",
            "http://[::1]:8086/",
        ] {
            assert!(is_url(right), "{right}");
        }
        for wrong in [
            "",
            "-",
            "a",
            "a:1",
            "ftp://a",
            "http://",
            "http://a b/",
            "http://a:99999/",
            "http://:80/",
        ] {
            assert!(!is_url(wrong), "{wrong}");
        }
    }

    /// Check that nothing is needed, that what is written counts, and that each mistake is told with its key.
    #[test]
    fn mistakes_are_told() {
        assert_eq!(AgentConfig::from_toml("").unwrap(), AgentConfig::default());
        let all = "listen = '[::1]:1'\ninterval = 60\n[influx]\nto = '-'\n[otlp]\nto = 'http://a:4318/v1/metrics'\n\
                   [traces]\nseconds = 5\n[[traces.rule]]\nname = 'storm'\nrate = 1000";
        assert_eq!(AgentConfig::from_toml(all).unwrap().interval, 60);
        assert_eq!(
            AgentConfig::from_toml("listen = 'off'").unwrap().listen,
            None
        );
        let wrong_text = AgentConfig::from_toml("listen = 'off'\nfoo = ").unwrap_err();
        assert!(!format!("{wrong_text:#}").contains('\n'), "{wrong_text:#}");
        let secret = AgentConfig::from_toml("[otlp]\nto = 'ftp://me:secret@a'").unwrap_err();
        assert!(!format!("{secret:#}").contains("secret"), "{secret:#}");
        let wrong = [
            ("interval = 0", "interval = 0"),
            ("\ninterval = x", "line 2: "),
            ("doctor_interval = 3", "doctor_interval = 3"),
            ("listen = '0.0.0.0:1'", "token_file"),
            ("listen = 'here'", "or off"),
            (
                "interval = 600\n[[traces.rule]]\nname = 'a'\nregression = 2",
                "interval",
            ),
            ("intervall = 3", "intervall"),
            ("[influx]\nto = 'ftp://a'", "influx.to"),
            ("[otlp]\nto = '-'", "otlp.to"),
            ("tls_cert = 'a'", "tls_key"),
            ("[traces]", "no rule"),
            (
                "[traces]\nseconds = 0\n[[traces.rule]]\nname = 'a'\nrate = 1",
                "traces.seconds",
            ),
            (
                "[traces]\nlook_back = 301\n[[traces.rule]]\nname = 'a'\nrate = 1",
                "traces.look_back",
            ),
            ("[[traces.rule]]\nname = 'a'", "rule \"a\""),
            (
                "[[traces.rule]]\nname = 'a'\nrate = 1\n[[traces.rule]]\nname = 'a'\nrate = 2",
                "same name",
            ),
        ];
        for (text, told) in wrong {
            let err = format!("{:#}", AgentConfig::from_toml(text).unwrap_err());
            assert!(err.contains(told), "{text}: {err}");
        }
    }
}
