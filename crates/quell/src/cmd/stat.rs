//! `quell stat`: exact counts, at the end or every interval.

use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use quell_event::{Tally, TallySummary};
use quell_host::cpus::OnlineTime;
use quell_host::flush;
use quell_probe::{Error, Probe, ProbeOptions, Scope, StackResolver, StackShare, TimedShare};

use crate::accountant::Accountant;
use crate::cli::{StatArgs, Way};
use crate::clock::own_cpu_ns;
use crate::cmd::usage;
use crate::coarse;
use crate::little_memory;
use crate::preload::Library;
use crate::show::{self, emit_more};
use crate::subject::Subject;
use crate::target::{self, End, Watch, seconds};

/// Rows of each table.
const ROWS: usize = 10;

pub(crate) fn run(args: &StatArgs) -> anyhow::Result<ExitCode> {
    let scope = target::scope_of_target(&args.target)?;
    let interval = args
        .interval
        .map(|s| seconds("--interval", s))
        .transpose()?;
    if args.target.backend != Some(Way::Proc) {
        little_memory::room_for_counting()?;
    }
    let options = ProbeOptions {
        scope: scope.clone(),
        stacks: StackShare::None,
        backend: args.target.backend.and_then(Way::probe),
        ipi: args.target.ipi,
        unwind: args.target.backend != Some(Way::Proc)
            && little_memory::may_unwind(!args.target.no_unwind),
        timed: if args.time_all {
            TimedShare::All
        } else {
            TimedShare::USUAL_RATE
        },
        ..ProbeOptions::default()
    };
    let mut watch = Watch::prepare(&args.target, args.duration)?;
    let watched = follow(args, &scope, interval, &options, &mut watch);
    watch.see_through(&args.target.command, watched)
}

/// Counts until the watch ends; None if the reader has gone (`| head`).
fn follow(
    args: &StatArgs,
    scope: &Scope,
    interval: Option<Duration>,
    options: &ProbeOptions,
    watch: &mut Watch,
) -> anyhow::Result<Option<End>> {
    if args.target.backend == Some(Way::Proc) {
        if args.target.ipi {
            return Err(usage("--ipi takes the probe: choose another --backend"));
        }
        return coarse::run(
            args,
            scope,
            interval,
            watch,
            "Without '--backend proc' quell shows that too.",
        );
    }
    let mut probe = match Probe::attach(options) {
        Ok(probe) => probe,
        // what is asked for by name is not replaced by something else
        Err(err @ Error::Missing { .. }) if options.backend.is_none() && !options.ipi => {
            return coarse::run(
                args,
                scope,
                interval,
                watch,
                &format!("That takes the probe: {err}"),
            );
        }
        Err(err) => return Err(err.into()),
    };
    let mut out = show::output(args.output.as_deref())?;
    let mut library = Library::default();
    let printer = Printer {
        json: args.json,
        title: Subject::of(&args.target).title(),
        backend: probe.backend().name(),
        cpus: target::cpu_count(),
    };
    let own_before = own_cpu_ns();
    let mut resolver = StackResolver::new(&probe);
    let mut accountant = Accountant::start(&probe, scope);
    let mut online = OnlineTime::new(printer.cpus);
    let count = |probe: &mut Probe,
                 online: &mut OnlineTime,
                 accountant: Option<&Accountant>,
                 resolver: &mut StackResolver|
     -> anyhow::Result<Tally> {
        let mut tally = probe.tally()?;
        tally.self_ns = own_cpu_ns() - own_before;
        tally.online_ns = Some(online.add_look(tally.duration_ns, target::cpu_count()));
        tally.account = accountant.map(|a| a.named_account(resolver)).transpose()?;
        Ok(tally)
    };
    if let Some(accountant) = &mut accountant {
        accountant.count_misses_of(&watch.processes());
    }
    watch.start(Some(&probe), scope)?;

    let mut last = Tally::default();
    let mut next = interval.map(|i| Instant::now() + i);
    let end = loop {
        // nothing happens here but the end and the reading of samples: sleep long, so that nothing is disturbed
        let nap = library.nap();
        let nap = accountant.as_ref().map_or(nap, |a| nap.min(a.nap()));
        let timeout = next.map_or(nap, |n| {
            n.saturating_duration_since(Instant::now()).min(nap)
        });
        if let Some(end) = watch.step(timeout)? {
            break Some(end);
        }
        if let Some(accountant) = &mut accountant {
            accountant.step(&mut resolver)?;
        }
        library.look(scope, &watch.roots());
        target::look_at_cpus(&mut online, &probe);
        if let (Some(due), Some(every)) = (next, interval)
            && Instant::now() >= due
        {
            let now = count(&mut probe, &mut online, accountant.as_ref(), &mut resolver)?;
            if !printer.print(&mut *out, &now.since(&last), &library)? {
                break None;
            }
            last = now;
            next = Some(due + every);
        }
    };
    if let Some(accountant) = &mut accountant {
        accountant.stop(&mut resolver)?;
    }
    probe.detach()?;
    library.look_now(scope, &watch.roots());
    let Some(end) = end else {
        return Ok(None);
    };
    let mut total = count(&mut probe, &mut online, accountant.as_ref(), &mut resolver)?;
    if let Some(accountant) = &accountant {
        let hits = total.victims.iter().map(|v| v.hits).sum();
        total.account = Some(accountant.last_account(&mut resolver, hits)?);
    }
    printer.print(
        &mut *out,
        &if interval.is_some() {
            total.since(&last)
        } else {
            total
        },
        &library,
    )?;
    Ok(Some(end))
}

struct Printer {
    json: bool,
    title: String,
    backend: &'static str,
    cpus: u32,
}

impl Printer {
    /// False if the reader has gone (`| head`).
    fn print(&self, out: &mut dyn Write, tally: &Tally, library: &Library) -> anyhow::Result<bool> {
        let summary = TallySummary::new(tally, self.backend, self.cpus);
        let text = if self.json {
            let mut object = serde_json::to_value(&summary)?;
            library.add_to(&mut object)?;
            object.to_string() + "\n"
        } else {
            let mut text = show::summary::text(&summary, &self.title, ROWS);
            text.push_str(&show::shim::text(library));
            for way in flush::find_silent_flushes()
                .into_iter()
                .filter(|w| w.hides_most())
            {
                text.push_str(&format!("note: {way}\n"));
            }
            text
        };
        emit_more(out, &text)
    }
}
