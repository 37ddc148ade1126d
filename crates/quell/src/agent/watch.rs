//! The agent at work: it counts, judges, and publishes its figures.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use quell_agent::cgroup_names::CgroupNames;
use quell_agent::config::AgentConfig;
use quell_agent::look_back::{LookBack, LookBackLine};
use quell_agent::metric_families::HostFigures;
use quell_agent::push::{CertificateAuthorities, PushTarget, Pusher};
use quell_agent::serve::{self, ScrapePage};
use quell_agent::tls::TlsFiles;
use quell_agent::token_file::TokenFile;
use quell_agent::totals::HostTotals;
use quell_agent::trigger::{LookSummary, Triggers};
use quell_agent::{influx, openmetrics, otlp};
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_reuseaddr;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};

use crate::agent::figures::{HazardLabels, HostState, find_hazards};
use crate::agent::own::{AgentState, boot_ns, probe_bytes};
use crate::agent::recorder::Recorder;
use crate::agent::source::{CountSource, CountedInterval};
use crate::clock::{monotonic_ns, wall_ns};
use crate::host_name::host_name;

/// The agent counts as healthy for so many intervals after its last look.
const HEALTHY_INTERVALS: u32 = 3;
/// Pause between two checks of the ring's limits and of the probe's memory.
const UPKEEP_PAUSE: Duration = Duration::from_secs(60);

const INFLUX_CONTENT_TYPE: &str = "text/plain; charset=utf-8";

/// Where figures go, as far as it can be checked before anything begins.
pub(crate) struct AgentOutputs {
    listen: Option<(SocketAddr, Option<TokenFile>, Option<TlsFiles>)>,
    push: Vec<PushTarget>,
}

impl AgentOutputs {
    /// Reads tokens, certificates and keys.
    ///
    /// # Errors
    ///
    /// One of them can't be read.
    pub(crate) fn from_config(config: &AgentConfig) -> anyhow::Result<Self> {
        let secret = |file: &Option<_>| file.as_deref().map(TokenFile::read).transpose();
        let listen = match config.listen {
            None => None,
            Some(at) => {
                let tls = config.tls_cert.as_deref().zip(config.tls_key.as_deref());
                let tls = tls
                    .map(|(cert, key)| TlsFiles::read(cert, key))
                    .transpose()?;
                Some((at, secret(&config.token_file)?, tls))
            }
        };
        let servers = [
            ("influx", &config.influx, "Token", INFLUX_CONTENT_TYPE),
            ("otlp", &config.otlp, "Bearer", otlp::OTLP_CONTENT_TYPE),
        ];
        let mut push = Vec::new();
        for (name, server, scheme, content_type) in servers {
            let Some(server) = server else { continue };
            let ca = server.ca_file.as_deref().map(CertificateAuthorities::read);
            push.push(PushTarget {
                name,
                url: server.to.clone(),
                ca: ca.transpose()?.map(Arc::new),
                token: secret(&server.token_file)?.map(|token| (scheme, Arc::new(token))),
                content_type,
            });
        }
        Ok(Self { listen, push })
    }

    /// The address to listen at, if it is taken, as it is while an agent is at work.
    ///
    /// # Errors
    ///
    /// It could not be listened at, whoever is at work.
    pub(crate) fn taken_address(&self) -> anyhow::Result<Option<SocketAddr>> {
        let Some((at, ..)) = self.listen else {
            return Ok(None);
        };
        match try_bind(at) {
            Ok(()) => Ok(None),
            Err(Errno::ADDRINUSE) => Ok(Some(at)),
            Err(err) => Err(err).with_context(|| format!("listen at {at}")),
        }
    }

    /// The receivers of its figures, as text.
    pub(crate) fn receivers(&self) -> String {
        let listen = self
            .listen
            .as_ref()
            .map(|(at, _, tls)| (*at, tls.is_some()));
        receivers_text(listen, self.push.iter())
    }
}

/// Binds a socket and closes it. It does not listen, so that nobody is answered by it; and like the listener's it may
/// reuse the address, so that it keeps no agent from starting (of such sockets only one that
/// listens is in the way: inet_csk_bind_conflict in net/ipv4/inet_connection_sock.c, Linux 6.12).
fn try_bind(at: SocketAddr) -> rustix::io::Result<()> {
    let family = match at {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &at)
}

/// The receivers of figures as text: the address of scrapes, by TLS or not, and the pushes.
fn receivers_text<'a>(
    listen: Option<(SocketAddr, bool)>,
    push: impl Iterator<Item = &'a PushTarget>,
) -> String {
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

/// The running agent.
pub(crate) struct RunningAgent {
    host: String,
    every: Duration,
    doctor_every: Option<Duration>,
    /// Where scrapes are answered, and whether by TLS.
    at: Option<(SocketAddr, bool)>,
    page: Arc<ScrapePage>,
    pushers: Vec<Pusher>,
    totals: HostTotals,
    /// Counts of guarded CPUs.
    hits: HostTotals,
    names: CgroupNames,
    hazards: (Vec<HazardLabels>, u64),
    doctor_last: Option<Instant>,
    seldom_last: Option<Instant>,
    /// The rules that begin traces, and the recorder of those.
    traces: Option<(Triggers, Recorder)>,
    /// Recent counts, for those traces.
    look_back: Option<LookBack>,
    /// The time of the last look: by the clock that never jumps, and in ns since 1970.
    last: Option<(Instant, u64)>,
    /// The time of the last look, ns of CLOCK_MONOTONIC as in traces.
    looked_ns: Option<u64>,
    own: AgentState,
}

impl RunningAgent {
    /// Begins to listen, and starts the threads that push.
    ///
    /// # Errors
    ///
    /// An address is taken, the folder of traces can't be written to or is another agent's, or a thread can't be started.
    pub(crate) fn start(
        config: &AgentConfig,
        wanted: AgentOutputs,
        backend: &'static str,
    ) -> anyhow::Result<Self> {
        let host = config.host.clone().unwrap_or_else(host_name);
        let page = Arc::new(ScrapePage::default());
        let at = match wanted.listen {
            None => None,
            Some((at, token, tls)) => {
                let by_tls = tls.is_some();
                Some((
                    serve::start_server(at, token, tls, Arc::clone(&page))?,
                    by_tls,
                ))
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
            every: config.look_interval(),
            doctor_every: (!doctor_every.is_zero()).then_some(doctor_every),
            at,
            page,
            pushers: pushers.collect::<Result<_, _>>()?,
            totals: HostTotals::default(),
            hits: HostTotals::default(),
            names: CgroupNames::new(Path::new("/")),
            hazards: (Vec::new(), 0),
            doctor_last: None,
            seldom_last: None,
            last: None,
            own: AgentState {
                started_ns: wall_ns(),
                boot_ns: boot_ns(),
                backend,
                ..AgentState::default()
            },
        })
    }

    /// The receivers of its figures, as text.
    pub(crate) fn receivers(&self) -> String {
        receivers_text(self.at, self.pushers.iter().map(|pusher| &pusher.to))
    }

    /// Counts, and publishes the figures. False: the figures go to stdout, and its reader has gone. The agent ends then, whoever
    /// else receives them.
    ///
    /// # Errors
    ///
    /// The counts can't be read.
    pub(crate) fn look_and_publish(&mut self, source: &mut CountSource) -> anyhow::Result<bool> {
        self.look_once(source, true)
    }

    /// Looks for the last time. No trace begins, which would end at once, and for which older ones would give way.
    ///
    /// # Errors
    ///
    /// As [`Self::look_and_publish`].
    pub(crate) fn last_look(&mut self, source: &mut CountSource) -> anyhow::Result<()> {
        self.look_once(source, false).map(drop)
    }

    /// Looks once: counts, judges the rules, and publishes. Rules begin traces only where `begins`. The answer is that of
    /// [`Self::look_and_publish`].
    fn look_once(&mut self, source: &mut CountSource, begins: bool) -> anyhow::Result<bool> {
        let (now, wall) = (Instant::now(), wall_ns());
        let last = self.last.replace((now, wall));
        self.limit_starts(wall);
        // Where the clock was set back, the last look would lie in the future.
        let began = last.map_or(wall, |(_, wall)| wall).min(wall);
        let hits_before = self.hits.all_causes().victims;
        if source.isolation_changed() {
            let isolated = source.isolated_text();
            let isolated = isolated.as_deref().unwrap_or("no isolated CPUs any more");
            say!("quell: {isolated}");
        }
        let interval = source.add_counts(&mut self.totals, &mut self.hits, began);
        let CountedInterval {
            tally: interval,
            watched,
        } = interval.context("read the counts")?;
        let to_ns = monotonic_ns();
        if let (Some(back), Some(from_ns)) = (&mut self.look_back, self.looked_ns.replace(to_ns)) {
            back.add(from_ns, to_ns, &interval, watched.as_ref());
        }
        let shootdowns = interval.total_counts().shootdowns;
        let timed = shootdowns.saturating_sub(interval.untimed);
        let seen = LookSummary {
            duration: last.map_or(Duration::ZERO, |(last, _)| now - last),
            shootdowns,
            // The histogram counts a wait as often as the shootdowns that it stands for, which may be more than were timed.
            waits: interval.wait.count().min(timed),
            wait_p99_ns: interval.wait.quantile(0.99),
            isolated_hits: self.hits.all_causes().victims - hits_before,
        };
        self.begin_traces(&seen, begins);
        for wrong in quell_agent::reloaded_files::take_reload_failures() {
            say!("quell: {wrong}");
        }
        self.do_upkeep();
        self.own.looks += 1;
        self.own.renewals = source.renewals;
        self.own.failed_renewals = source.failed_renewals;
        self.own.scrapes = self.page.request_counts();
        let goes_on = self.collect_push_outcomes();
        let ids: Vec<u64> = self.totals.cgroups.named().map(|(id, _)| id).collect();
        let names = self.names.names_of(&ids);
        self.totals
            .cgroups
            .merge_same_names(|id| names.get(&id).map(|name| name.path.as_str()));
        let figures = HostState {
            totals: &self.totals,
            guarded: (!source.guarded.is_empty()).then_some(&self.hits),
            hazards: &self.hazards.0,
            unknown_rules: self.hazards.1,
            own: &self.own,
        }
        .compose_figures(&names);
        self.own.series = figures.series_count() as u64;
        self.own.left_out = figures.left_out;
        self.publish(&figures)?;
        self.own.look_ns += u64::try_from(now.elapsed().as_nanos()).unwrap_or(0);
        Ok(goes_on)
    }

    /// Limits all starts to the present time where the clock was set back, since no start may lie in the future.
    fn limit_starts(&mut self, wall: u64) {
        let own = &mut self.own;
        own.started_ns = own.started_ns.min(wall);
        own.boot_ns = own.boot_ns.min(wall);
        self.totals.cgroups.limit_starts(wall);
    }

    /// Does the work that is not due at each look: the doctor's audit, and every minute the ring's limits and the size of the
    /// probe.
    fn do_upkeep(&mut self) {
        let due = |last: Option<Instant>, every| last.is_none_or(|at| at.elapsed() >= every);
        if let Some(every) = self.doctor_every
            && due(self.doctor_last, every)
        {
            self.hazards = find_hazards();
            self.doctor_last = Some(Instant::now());
        }
        if due(self.seldom_last, UPKEEP_PAUSE) {
            self.own.probe_bytes = probe_bytes();
            if let Some((_, recorder)) = &self.traces {
                recorder.keep_within();
            }
            self.seldom_last = Some(Instant::now());
        }
    }

    /// Collects the outcomes of pushes. False: the reader of stdout has gone for good. Servers are tried again without end.
    fn collect_push_outcomes(&mut self) -> bool {
        self.own.pushes.clear();
        let mut goes_on = true;
        for pusher in &self.pushers {
            let (counts, wrong) = pusher.counts_and_failure();
            if let Some(wrong) = wrong {
                say!("quell: {wrong}; it is tried again");
            }
            self.own.pushes.push((pusher.to.name, counts));
            goes_on &= !pusher.is_over();
        }
        goes_on
    }

    /// Begins the traces of rules that fire, if `begins`, and tells the outcomes of those that were begun before.
    fn begin_traces(&mut self, seen: &LookSummary, begins: bool) {
        let Some((triggers, recorder)) = &mut self.traces else {
            return;
        };
        let broken = if begins {
            triggers.broken_rules(seen)
        } else {
            Vec::new()
        };
        let (look_back, names) = (&mut self.look_back, &mut self.names);
        let mut before = || {
            look_back
                .as_mut()
                .map_or_else(Vec::new, |back| named_look_back(back, names))
        };
        for (rule, why) in broken {
            // A rule that finds another recording under way is judged again at the next look; one for a regression can fire again
            // only at the end of the next slot.
            if recorder.begin_trace(triggers.rule_name(rule), &why, &mut before) {
                triggers.rest_rule(rule);
            }
        }
        let (counts, said) = recorder.outcomes_and_messages();
        for line in said {
            say!("quell: {line}");
        }
        self.own.traces = Some(counts);
    }

    fn publish(&self, figures: &HostFigures) -> anyhow::Result<()> {
        if self.at.is_some() {
            let text = openmetrics::openmetrics_text(figures)?;
            self.page.set_metrics(text, self.every * HEALTHY_INTERVALS);
        }
        for pusher in &self.pushers {
            pusher.push(match pusher.to.name {
                "influx" => influx::line_protocol(figures, &self.host).into_bytes(),
                _ => otlp::export_request(figures, &self.host, env!("CARGO_PKG_VERSION")),
            });
        }
        Ok(())
    }
}

/// Recent counts, with the names of cgroups as far as they are known.
fn named_look_back(back: &mut LookBack, names: &mut CgroupNames) -> Vec<LookBackLine> {
    let known = names.names_for_once(&back.cgroup_ids());
    let path = |id| known.get(&id).map(|name| name.path.clone());
    back.named_lines(|id| path(id).filter(|path| !path.is_empty()))
}

impl Drop for RunningAgent {
    /// Asks everything that is under way to end before any of it is waited for.
    fn drop(&mut self) {
        self.pushers.iter().for_each(Pusher::close);
        if let Some((_, recorder)) = &self.traces {
            recorder.ask_to_end();
        }
    }
}
