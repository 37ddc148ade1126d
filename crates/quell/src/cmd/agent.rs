//! `quell agent`: keeps watch, and tells a fleet's tools.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use quell_agent::cgroups::Names;
use quell_agent::config::{self, Config, Influx, Otlp};
use quell_agent::figures::Figures;
use quell_agent::push::{Pusher, To};
use quell_agent::serve::{self, Page};
use quell_agent::tls::Tls;
use quell_agent::totals::Totals;
use quell_agent::trigger::{Seen, Triggers};
use quell_agent::{influx, openmetrics, otlp};
use quell_host::cpus::{self, Isolation};

use crate::agent::figures::{Host, Own, hazards};
use crate::agent::recorder::Recorder;
use crate::agent::source::Source;
use crate::cli::{AgentArgs, AgentVerb};
use crate::clock::wall_ns;
use crate::cmd::{agent_traces, usage};
use crate::launch::signals;

const USUAL: &str = "/etc/quell/agent.toml";
/// Whoever asks for health is told that all is well for so many intervals after the last look.
const LATE: u32 = 3;

pub(crate) fn run(args: &AgentArgs) -> anyhow::Result<ExitCode> {
    if let Some(AgentVerb::Traces(args)) = &args.verb {
        return agent_traces::run(args);
    }
    let config = configured(args).map_err(|err| usage(format!("{err:#}")))?;
    signals::install()?;
    let guarded = Isolation::read(Path::new("/")).all();
    let mut source = Source::start(args.backend, guarded)?;
    let mut agent = Agent::start(&config, source.backend())?;
    let guarded = if source.guarded.is_empty() {
        String::new()
    } else {
        format!(", isolated CPUs {}", cpus::text(&source.guarded))
    };
    say!(
        "quell: watches by {}{guarded}, every {} s; tells {}",
        source.backend(),
        config.interval,
        agent.told()
    );
    if args.check {
        return Ok(ExitCode::SUCCESS);
    }
    let mut due = Instant::now();
    loop {
        agent.look(&mut source)?;
        // by the clock that never jumps; looks that were missed, while the machine slept, are not made up for
        let now = Instant::now();
        while due <= now {
            due += config.every();
        }
        if signals::sleep(due - now)?.is_some() {
            agent.look(&mut source)?;
            return Ok(ExitCode::SUCCESS);
        }
    }
}

/// The file, then what the command line says.
fn configured(args: &AgentArgs) -> anyhow::Result<Config> {
    let mut config = match file(args.config.as_deref()) {
        Some(path) => Config::read(path)?,
        None => Config::default(),
    };
    config.listen = args.listen.or(config.listen);
    config.interval = args.interval.unwrap_or(config.interval);
    if let Some(to) = &args.influx {
        let token_file = config.influx.take().and_then(|i| i.token_file);
        config.influx = Some(Influx {
            to: to.clone(),
            token_file,
        });
    }
    if let Some(to) = &args.otlp {
        let token_file = config.otlp.take().and_then(|o| o.token_file);
        config.otlp = Some(Otlp {
            to: to.clone(),
            token_file,
        });
    }
    config.check()?;
    Ok(config)
}

/// The configuration: what was named, or the usual one if there is one.
pub(super) fn file(named: Option<&Path>) -> Option<&Path> {
    named.or_else(|| Some(Path::new(USUAL)).filter(|path| path.exists()))
}

struct Agent {
    host: String,
    every: Duration,
    doctor_every: Option<Duration>,
    at: Option<std::net::SocketAddr>,
    scheme: &'static str,
    page: Arc<Page>,
    pushers: Vec<Pusher>,
    totals: Totals,
    /// What hit guarded CPUs.
    hits: Totals,
    names: Names,
    hazards: (Vec<(&'static str, &'static str)>, u64),
    doctor_last: Option<Instant>,
    /// When traces are recorded, and by whom.
    traces: Option<(Triggers, Recorder)>,
    last: Option<Instant>,
    own: Own,
}

impl Agent {
    fn start(config: &Config, backend: &'static str) -> anyhow::Result<Self> {
        let host = config.host.clone().unwrap_or_else(|| {
            rustix::system::uname()
                .nodename()
                .to_string_lossy()
                .into_owned()
        });
        let page = Arc::new(Page::default());
        let token =
            |file: &Option<std::path::PathBuf>| file.as_deref().map(config::token).transpose();
        let at = match config.listen {
            Some(listen) => {
                let tls = config.tls_cert.as_deref().zip(config.tls_key.as_deref());
                let tls = tls.map(|(cert, key)| Tls::read(cert, key)).transpose()?;
                Some(serve::start(
                    listen,
                    token(&config.token_file)?,
                    tls,
                    Arc::clone(&page),
                )?)
            }
            None => None,
        };
        let mut pushers = Vec::new();
        if let Some(influx) = &config.influx {
            pushers.push(Pusher::start(To {
                name: "influx",
                url: influx.to.clone(),
                authorization: token(&influx.token_file)?.map(|t| format!("Token {t}")),
                content_type: "text/plain; charset=utf-8",
            })?);
        }
        if let Some(to) = &config.otlp {
            pushers.push(Pusher::start(To {
                name: "otlp",
                url: to.to.clone(),
                authorization: token(&to.token_file)?.map(|t| format!("Bearer {t}")),
                content_type: otlp::CONTENT_TYPE,
            })?);
        }
        let traces = config.traces.as_ref().map(|traces| {
            let triggers = Triggers::new(traces.rules.clone(), Duration::from_secs(traces.pause));
            Ok::<_, anyhow::Error>((triggers, Recorder::new(traces)?))
        });
        Ok(Self {
            host,
            scheme: if config.tls_cert.is_some() {
                "https"
            } else {
                "http"
            },
            traces: traces.transpose()?,
            last: None,
            every: config.every(),
            doctor_every: (config.doctor_interval > 0)
                .then(|| Duration::from_secs(config.doctor_interval)),
            at,
            page,
            pushers,
            totals: Totals::default(),
            hits: Totals::default(),
            names: Names::new(Path::new("/")),
            hazards: (Vec::new(), 0),
            doctor_last: None,
            own: Own {
                started_ns: wall_ns(),
                backend,
                ..Own::default()
            },
        })
    }

    /// Whom it tells.
    fn told(&self) -> String {
        let mut told: Vec<String> = self
            .at
            .iter()
            .map(|at| format!("{}://{at}/metrics", self.scheme))
            .collect();
        told.extend(self.pushers.iter().map(|p| p.to.name.to_owned()));
        if told.is_empty() {
            return "nobody".to_owned();
        }
        told.join(", ")
    }

    /// Counts, and tells.
    fn look(&mut self, source: &mut Source) -> anyhow::Result<()> {
        let began = Instant::now();
        let hits_before = self.hits.sum().victims;
        let interval = source
            .look(&mut self.totals, &mut self.hits)
            .context("read the counts")?;
        self.trigger(&Seen {
            over: self.last.map_or(Duration::ZERO, |last| began - last),
            shootdowns: interval.totals().shootdowns,
            waits: interval.wait.count(),
            wait_p99_ns: interval.wait.quantile(0.99),
            isolated_hits: self.hits.sum().victims - hits_before,
        });
        self.last = Some(began);
        if let Some(every) = self.doctor_every
            && self.doctor_last.is_none_or(|at| at.elapsed() >= every)
        {
            self.hazards = hazards();
            self.doctor_last = Some(Instant::now());
        }
        self.own.looks += 1;
        self.own.renewals = source.renewals;
        self.own.scrapes = self.page.counts();
        self.own.pushes.clear();
        for pusher in &self.pushers {
            let (counts, wrong) = pusher.look();
            if let Some(wrong) = wrong {
                say!("quell: {wrong}; it is tried again");
            }
            self.own.pushes.push((pusher.to.name, counts));
        }
        let figures = Host {
            totals: &self.totals,
            guarded: (!source.guarded.is_empty()).then_some(&self.hits),
            hazards: &self.hazards.0,
            unknown_rules: self.hazards.1,
            own: &self.own,
        }
        .figures(&mut self.names);
        self.own.series = figures.series() as u64;
        self.own.left_out = figures.left_out;
        self.tell(&figures)?;
        self.own.look_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Ok(())
    }

    /// Begins a trace, if what was seen is worth one.
    fn trigger(&mut self, seen: &Seen) {
        let Some((triggers, recorder)) = &mut self.traces else {
            return;
        };
        if let Some((rule, why)) = triggers.look(seen) {
            recorder.begin(rule, &why);
        }
        let (counts, said) = recorder.look();
        for line in said {
            say!("quell: {line}");
        }
        self.own.traces = Some(counts);
    }

    fn tell(&self, figures: &Figures) -> anyhow::Result<()> {
        if self.at.is_some() {
            self.page
                .set(openmetrics::text(figures)?, self.every * LATE);
        }
        for pusher in &self.pushers {
            pusher.push(match pusher.to.name {
                "influx" => influx::lines(figures, &self.host).into_bytes(),
                _ => otlp::request(figures, &self.host, env!("CARGO_PKG_VERSION")),
            });
        }
        Ok(())
    }
}
