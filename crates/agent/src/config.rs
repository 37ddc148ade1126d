//! The configuration, as TOML: what is not there has the value that is right for most hosts.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde::Deserialize;

use crate::small;
use crate::trigger::Rule;

/// All of it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Where Prometheus finds `/metrics`; `off`: nowhere.
    #[serde(deserialize_with = "off_or_address")]
    pub listen: Option<SocketAddr>,
    /// Whoever scrapes has to say what stands in this file: `Authorization: Bearer TOKEN`.
    pub token_file: Option<PathBuf>,
    /// Scrapes are answered by TLS only, with this certificate (PEM, the chain from the host's own) and key.
    pub tls_cert: Option<PathBuf>,
    /// See `tls_cert`.
    pub tls_key: Option<PathBuf>,
    /// How often is counted, seconds.
    pub interval: u64,
    /// How often `doctor` looks at the machine, seconds; 0: never.
    pub doctor_interval: u64,
    /// Whether it is counted how long memory management makes threads sleep, which looks at each switch of a CPU.
    pub blocked: bool,
    /// The name of this host; without, the kernel's.
    pub host: Option<String>,
    /// InfluxDB, or what speaks its protocol.
    pub influx: Option<Influx>,
    /// OpenTelemetry.
    pub otlp: Option<Otlp>,
    /// When traces are recorded.
    pub traces: Option<Traces>,
}

/// Traces that a rule begins.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Traces {
    /// Where they are kept.
    pub dir: PathBuf,
    /// What they may take together, MB: the oldest give way.
    pub limit_mb: u64,
    /// What stays free of the file system, MB, if need be without any trace.
    pub reserve_mb: u64,
    /// How long each is, seconds.
    pub seconds: u64,
    /// What of the time before a trace is kept with it, seconds; 0: nothing.
    pub look_back: u64,
    /// After a rule has begun one it is quiet for so many seconds.
    pub pause: u64,
    /// When.
    #[serde(rename = "rule")]
    pub rules: Vec<Rule>,
}

impl Default for Traces {
    fn default() -> Self {
        Self {
            dir: PathBuf::from(TRACES),
            limit_mb: 512,
            reserve_mb: 1024,
            seconds: 10,
            look_back: 30,
            pause: 600,
            rules: Vec::new(),
        }
    }
}

/// Where traces are kept if nothing else is said.
pub const TRACES: &str = "/var/lib/quell/traces";

impl Traces {
    /// Whether anything of the time before a trace is kept.
    #[must_use]
    pub fn looks_back(&self) -> bool {
        self.look_back > 0
    }

    fn check(&self) -> anyhow::Result<()> {
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
            if let Some(mistake) = rule.mistake() {
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

/// Where lines go.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Influx {
    /// `http://HOST:PORT/write?db=NAME`, `https://…`, or `-` for stdout, as Telegraf's execd has it.
    pub to: String,
    /// InfluxDB 2 asks for `Authorization: Token TOKEN`: the file with it.
    pub token_file: Option<PathBuf>,
    /// Who may have signed the server's certificate (PEM); without, those that browsers trust.
    pub ca_file: Option<PathBuf>,
}

/// Where OpenTelemetry's requests go.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Otlp {
    /// `http://HOST:4318/v1/metrics`, or `https://…`.
    pub to: String,
    /// A file with `Authorization: Bearer TOKEN`'s token.
    pub token_file: Option<PathBuf>,
    /// Who may have signed the server's certificate (PEM); without, those that browsers trust.
    pub ca_file: Option<PathBuf>,
}

impl Default for Config {
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

impl Config {
    /// Of a file.
    ///
    /// # Errors
    ///
    /// It can't be read, or is not as it should be: the line is told.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        small::check(path)?;
        let text =
            std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("in {}", path.display()))
    }

    /// Of a text.
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let config: Self = toml::from_str(text)?;
        config.check()?;
        Ok(config)
    }

    /// Whether all can be done.
    ///
    /// # Errors
    ///
    /// A line that says what can't.
    pub fn check(&self) -> anyhow::Result<()> {
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
            traces.check()?;
            if self.interval > 300 && traces.rules.iter().any(|rule| rule.regression.is_some()) {
                bail!(
                    "interval = {}: a regression is told in slots of 300 seconds",
                    self.interval
                );
            }
        }
        let influx = self.influx.as_ref().map(|i| (&i.to, "influx"));
        let otlp = self.otlp.as_ref().map(|o| (&o.to, "otlp"));
        for (to, what) in influx.into_iter().chain(otlp) {
            let is_stdout = what == "influx" && to == "-";
            if !is_url(to) && !is_stdout {
                bail!(
                    "{what}.to = \"{}\": write http://HOST:PORT/PATH or https://…",
                    shown(to)
                );
            }
        }
        Ok(())
    }

    /// How often is counted.
    #[must_use]
    pub fn every(&self) -> Duration {
        Duration::from_secs(self.interval)
    }
}

/// Whether it is `http` or `https`, a host, and a port if one is written.
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

/// An address, or `off`.
fn off_or_address<'de, D: serde::Deserializer<'de>>(
    from: D,
) -> Result<Option<SocketAddr>, D::Error> {
    let text = String::deserialize(from)?;
    listen(&text).map_err(serde::de::Error::custom)
}

/// Where to listen, of `ADDR:PORT` or `off`.
///
/// # Errors
///
/// It is neither.
pub fn listen(text: &str) -> Result<Option<SocketAddr>, String> {
    if text == "off" {
        return Ok(None);
    }
    let address = text.parse().map(Some);
    address.map_err(|_| format!("\"{text}\": write ADDR:PORT, such as 127.0.0.1:9469, or off"))
}

/// As it may be shown: what is before the server or after the path may be a password.
#[must_use]
pub fn shown(url: &str) -> &str {
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
        assert_eq!(Config::parse("").unwrap(), Config::default());
        let all = "listen = '[::1]:1'\ninterval = 60\n[influx]\nto = '-'\n[otlp]\nto = 'http://a:4318/v1/metrics'\n\
                   [traces]\nseconds = 5\n[[traces.rule]]\nname = 'storm'\nrate = 1000";
        assert_eq!(Config::parse(all).unwrap().interval, 60);
        assert_eq!(Config::parse("listen = 'off'").unwrap().listen, None);
        let secret = Config::parse("[otlp]\nto = 'ftp://me:secret@a'").unwrap_err();
        assert!(!format!("{secret:#}").contains("secret"), "{secret:#}");
        let wrong = [
            ("interval = 0", "interval = 0"),
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
            let err = format!("{:#}", Config::parse(text).unwrap_err());
            assert!(err.contains(told), "{text}: {err}");
        }
    }
}
