//! The agent at work: counts, judges, and tells whom it was told to.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use quell_agent::cgroups::Names;
use quell_agent::config::Config;
use quell_agent::figures::Figures;
use quell_agent::look_back::{Line, LookBack};
use quell_agent::push::{Ca, Pusher, To};
use quell_agent::secret::Secret;
use quell_agent::serve::{self, Page};
use quell_agent::tls::Tls;
use quell_agent::totals::Totals;
use quell_agent::trigger::{Seen, Triggers};
use quell_agent::{influx, openmetrics, otlp};
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_reuseaddr;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};

use crate::agent::figures::{Hazard, Host, hazards};
use crate::agent::own::{Own, boot_ns, probe_bytes};
use crate::agent::recorder::Recorder;
use crate::agent::source::{Interval, Source};
use crate::clock::{monotonic_ns, wall_ns};
use crate::host_name::host_name;

/// Whoever asks for health is told that all is well for so many intervals after the last look.
const LATE: u32 = 3;
/// How often the ring of traces is kept within its limits, and the probe's memory is looked up.
const SELDOM: Duration = Duration::from_secs(60);

/// All that was asked for and can be checked before anything begins.
pub(crate) struct Wanted {
    listen: Option<(SocketAddr, Option<Secret>, Option<Tls>)>,
    push: Vec<To>,
}

impl Wanted {
    /// Reads tokens, certificates and keys.
    ///
    /// # Errors
    ///
    /// One of them can't be read.
    pub(crate) fn of(config: &Config) -> anyhow::Result<Self> {
        let secret = |file: &Option<_>| file.as_deref().map(Secret::read).transpose();
        let listen = match config.listen {
            None => None,
            Some(at) => {
                let tls = config.tls_cert.as_deref().zip(config.tls_key.as_deref());
                let tls = tls.map(|(cert, key)| Tls::read(cert, key)).transpose()?;
                Some((at, secret(&config.token_file)?, tls))
            }
        };
        let to =
            |name, url: &str, scheme, token_file, ca_file: &Option<std::path::PathBuf>, kind| {
                let ca = ca_file.as_deref().map(Ca::read).transpose()?;
                let token = secret(token_file)?.map(|token| (scheme, Arc::new(token)));
                Ok::<_, anyhow::Error>(To {
                    name,
                    url: url.to_owned(),
                    token,
                    ca: ca.map(Arc::new),
                    content_type: kind,
                })
            };
        let mut push = Vec::new();
        if let Some(c) = &config.influx {
            const KIND: &str = "text/plain; charset=utf-8";
            push.push(to(
                "influx",
                &c.to,
                "Token",
                &c.token_file,
                &c.ca_file,
                KIND,
            )?);
        }
        if let Some(c) = &config.otlp {
            let kind = otlp::CONTENT_TYPE;
            push.push(to(
                "otlp",
                &c.to,
                "Bearer",
                &c.token_file,
                &c.ca_file,
                kind,
            )?);
        }
        Ok(Self { listen, push })
    }

    /// Whether it could be listened at. Some: it is taken, as it is while an agent is at work.
    ///
    /// # Errors
    ///
    /// It could not, whoever is at work.
    pub(crate) fn check(&self) -> anyhow::Result<Option<SocketAddr>> {
        let Some((at, ..)) = self.listen else {
            return Ok(None);
        };
        match bound(at) {
            Ok(()) => Ok(None),
            Err(Errno::ADDRINUSE) => Ok(Some(at)),
            Err(err) => Err(err).with_context(|| format!("listen at {at}")),
        }
    }

    /// Whom it would tell.
    pub(crate) fn told(&self) -> String {
        let listen = self
            .listen
            .as_ref()
            .map(|(at, _, tls)| (*at, tls.is_some()));
        told(listen, self.push.iter())
    }
}

/// Binds a socket and lets go of it. It does not listen, so that nobody is answered by it; and as the listener's it may
/// reuse the address, so that it keeps no agent from starting (of such sockets only one that
/// listens is in the way: inet_csk_bind_conflict in net/ipv4/inet_connection_sock.c, Linux 6.12).
fn bound(at: SocketAddr) -> rustix::io::Result<()> {
    let family = match at {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &at)
}

/// Whom is told: at that address, by TLS or not, and by pushes.
fn told<'a>(listen: Option<(SocketAddr, bool)>, push: impl Iterator<Item = &'a To>) -> String {
    let scheme = |tls| if tls { "https" } else { "http" };
    let at = listen.map(|(at, tls)| format!("{}://{at}/metrics", scheme(tls)));
    let told: Vec<String> = at
        .into_iter()
        .chain(push.map(|to| to.name.to_owned()))
        .collect();
    if told.is_empty() {
        return "nobody".to_owned();
    }
    told.join(", ")
}

/// What is under way.
pub(crate) struct Agent {
    host: String,
    every: Duration,
    doctor_every: Option<Duration>,
    /// Where scrapes are answered, and whether by TLS.
    at: Option<(SocketAddr, bool)>,
    page: Arc<Page>,
    pushers: Vec<Pusher>,
    totals: Totals,
    /// What hit guarded CPUs.
    hits: Totals,
    names: Names,
    hazards: (Vec<Hazard>, u64),
    doctor_last: Option<Instant>,
    seldom_last: Option<Instant>,
    /// When traces are recorded, and by whom.
    traces: Option<(Triggers, Recorder)>,
    /// What was counted lately, for those traces.
    look_back: Option<LookBack>,
    /// The last look: by the clock that never jumps, and ns since 1970.
    last: Option<(Instant, u64)>,
    /// The last look, ns of CLOCK_MONOTONIC.
    looked_ns: Option<u64>,
    own: Own,
}

impl Agent {
    /// Listens, and starts what pushes.
    ///
    /// # Errors
    ///
    /// An address is taken, or a directory can't be written to.
    pub(crate) fn start(
        config: &Config,
        wanted: Wanted,
        backend: &'static str,
    ) -> anyhow::Result<Self> {
        let host = config.host.clone().unwrap_or_else(host_name);
        let page = Arc::new(Page::default());
        let at = match wanted.listen {
            None => None,
            Some((at, token, tls)) => {
                let by_tls = tls.is_some();
                Some((serve::start(at, token, tls, Arc::clone(&page))?, by_tls))
            }
        };
        let pushers = wanted.push.into_iter().map(Pusher::start);
        let traces = config.traces.as_ref().map(|traces| {
            let triggers = Triggers::new(traces.rules.clone(), Duration::from_secs(traces.pause));
            Ok::<_, anyhow::Error>((triggers, Recorder::new(traces, &host)?))
        });
        let doctor_every = Duration::from_secs(config.doctor_interval);
        let looks_back = config.traces.as_ref().filter(|traces| traces.looks_back());
        Ok(Self {
            host,
            look_back: looks_back.map(|t| LookBack::new(Duration::from_secs(t.look_back))),
            looked_ns: None,
            traces: traces.transpose()?,
            every: config.every(),
            doctor_every: (!doctor_every.is_zero()).then_some(doctor_every),
            at,
            page,
            pushers: pushers.collect::<Result<_, _>>()?,
            totals: Totals::default(),
            hits: Totals::default(),
            names: Names::new(Path::new("/")),
            hazards: (Vec::new(), 0),
            doctor_last: None,
            seldom_last: None,
            last: None,
            own: Own {
                started_ns: wall_ns(),
                boot_ns: boot_ns(),
                backend,
                ..Own::default()
            },
        })
    }

    /// Whom it tells.
    pub(crate) fn told(&self) -> String {
        told(self.at, self.pushers.iter().map(|pusher| &pusher.to))
    }

    /// Counts, and tells. False: nobody is left to be told, as who reads stdout has gone.
    ///
    /// # Errors
    ///
    /// The counts can't be read.
    pub(crate) fn look(&mut self, source: &mut Source) -> anyhow::Result<bool> {
        self.look_and(source, true)
    }

    /// The last time: no trace begins, which would end at once, and older ones would have given way for it.
    ///
    /// # Errors
    ///
    /// As [`Self::look`].
    pub(crate) fn last_look(&mut self, source: &mut Source) -> anyhow::Result<()> {
        self.look_and(source, false).map(drop)
    }

    fn look_and(&mut self, source: &mut Source, begins: bool) -> anyhow::Result<bool> {
        let (now, wall) = (Instant::now(), wall_ns());
        let last = self.last.replace((now, wall));
        self.begun_by(wall);
        let began = last.map_or(wall, |(_, wall)| wall).min(wall);
        let hits_before = self.hits.sum().victims;
        if source.isolation_changed() {
            let isolated = source.isolated();
            say!(
                "quell: {}",
                if isolated.is_empty() {
                    "no isolated CPUs any more"
                } else {
                    &isolated
                }
            );
        }
        let interval = source.look(&mut self.totals, &mut self.hits, began);
        let Interval {
            tally: interval,
            watched,
        } = interval.context("read the counts")?;
        let to_ns = monotonic_ns();
        if let (Some(back), Some(from_ns)) = (&mut self.look_back, self.looked_ns.replace(to_ns)) {
            back.add(from_ns, to_ns, &interval, watched.as_ref());
        }
        let shootdowns = interval.totals().shootdowns;
        let timed = shootdowns.saturating_sub(interval.untimed);
        let seen = Seen {
            over: last.map_or(Duration::ZERO, |(last, _)| now - last),
            shootdowns,
            waits: interval.wait.count().min(timed),
            wait_p99_ns: interval.wait.quantile(0.99),
            isolated_hits: self.hits.sum().victims - hits_before,
        };
        self.trigger(&seen, begins);
        for wrong in quell_agent::renewed::wrong() {
            say!("quell: {wrong}");
        }
        self.seldom();
        self.own.looks += 1;
        self.own.renewals = source.renewals;
        self.own.failed_renewals = source.failed_renewals;
        self.own.scrapes = self.page.counts();
        let goes_on = self.pushed();
        let ids: Vec<u64> = self.totals.groups.seats().map(|(id, _)| id).collect();
        let names = self.names.of(&ids);
        self.totals
            .groups
            .unite(|id| names.get(&id).map(|name| name.path.as_str()));
        let figures = Host {
            totals: &self.totals,
            guarded: (!source.guarded.is_empty()).then_some(&self.hits),
            hazards: &self.hazards.0,
            unknown_rules: self.hazards.1,
            own: &self.own,
        }
        .figures(&names);
        self.own.series = figures.series() as u64;
        self.own.left_out = figures.left_out;
        self.tell(&figures)?;
        self.own.look_ns += u64::try_from(now.elapsed().as_nanos()).unwrap_or(0);
        Ok(goes_on)
    }

    /// Where the clock was set back, what counts began now at the latest, and not in times to come.
    fn begun_by(&mut self, wall: u64) {
        let own = &mut self.own;
        own.started_ns = own.started_ns.min(wall);
        own.boot_ns = own.boot_ns.min(wall);
        self.totals.groups.begun_by(wall);
    }

    fn seldom(&mut self) {
        let due = |last: Option<Instant>, every| last.is_none_or(|at| at.elapsed() >= every);
        if let Some(every) = self.doctor_every
            && due(self.doctor_last, every)
        {
            self.hazards = hazards();
            self.doctor_last = Some(Instant::now());
        }
        if due(self.seldom_last, SELDOM) {
            self.own.probe_bytes = probe_bytes();
            if let Some((_, recorder)) = &self.traces {
                recorder.keep_within();
            }
            self.seldom_last = Some(Instant::now());
        }
    }

    /// What came of pushes.
    fn pushed(&mut self) -> bool {
        self.own.pushes.clear();
        let mut goes_on = true;
        for pusher in &self.pushers {
            let (counts, wrong) = pusher.look();
            if let Some(wrong) = wrong {
                say!("quell: {wrong}; it is tried again");
            }
            self.own.pushes.push((pusher.to.name, counts));
            goes_on &= !pusher.is_over();
        }
        goes_on
    }

    /// Begins a trace, if what was seen is worth one.
    fn trigger(&mut self, seen: &Seen, begins: bool) {
        let Some((triggers, recorder)) = &mut self.traces else {
            return;
        };
        let broken = if begins {
            triggers.look(seen)
        } else {
            Vec::new()
        };
        let (look_back, names) = (&mut self.look_back, &mut self.names);
        let mut before = || {
            look_back
                .as_mut()
                .map_or_else(Vec::new, |back| named(back, names))
        };
        for (rule, why) in broken {
            // one that finds another under way is tried again
            if recorder.begin(triggers.name(rule), &why, &mut before) {
                triggers.rest(rule);
            }
        }
        let (counts, said) = recorder.look();
        for line in said {
            say!("quell: {line}");
        }
        self.own.traces = Some(counts);
    }

    fn tell(&self, figures: &Figures) -> anyhow::Result<()> {
        if self.at.is_some() {
            let text = openmetrics::text(figures)?;
            self.page.set(text, self.every * LATE);
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

/// What was counted lately, with the names of cgroups as far as they are known.
fn named(back: &mut LookBack, names: &mut Names) -> Vec<Line> {
    let known = names.more_of(&back.cgroups());
    let path = |id| known.get(&id).map(|name| name.path.clone());
    back.lines(|id| path(id).filter(|path| !path.is_empty()))
}

impl Drop for Agent {
    /// All that is under way is told to end before any of it is waited for.
    fn drop(&mut self) {
        self.pushers.iter().for_each(Pusher::close);
        if let Some((_, recorder)) = &self.traces {
            recorder.stop();
        }
    }
}
