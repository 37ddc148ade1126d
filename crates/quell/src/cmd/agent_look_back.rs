//! `quell agent look-back`: names the code of what was counted before a trace, in a process of its own, so that the memory for
//! it is not the agent's, and puts it beside the trace.

use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use quell_agent::look_back::{Line, What};
use quell_event::Text;
use quell_event::trace::Frame;
use quell_probe::name_living;

use crate::agent::look_back::{FILE, tell};
use crate::cli::AgentLookBackArgs;

/// The recording makes its folder soon, or not at all.
const PATIENCE: Duration = Duration::from_secs(30);
const STEP: Duration = Duration::from_millis(50);

pub(crate) fn run(args: &AgentLookBackArgs) -> anyhow::Result<ExitCode> {
    let read = |line: io::Result<String>| Ok::<Line, anyhow::Error>(serde_json::from_str(&line?)?);
    let lines: Result<Vec<Line>, _> = io::stdin().lines().map(read).collect();
    let mut lines = lines.context("read what was counted from stdin")?;
    name(&mut lines);
    let until = Instant::now() + PATIENCE;
    while !args.dir.join("meta.json").exists() {
        anyhow::ensure!(
            Instant::now() < until,
            "there is no trace at {}",
            args.dir.display()
        );
        thread::sleep(STEP);
    }
    write(&args.dir, &lines).with_context(|| format!("write {}", args.dir.join(FILE).display()))?;
    Ok(ExitCode::SUCCESS)
}

/// Names the frames of stacks.
fn name(lines: &mut [Line]) {
    let mut asked = Vec::new();
    for line in lines.iter_mut() {
        if let What::Code { pid, addresses, .. } = &mut line.what {
            asked.push((*pid, std::mem::take(addresses)));
        }
    }
    let mut named = name_living(&asked).into_iter();
    for line in lines {
        if let What::Code { frames, .. } = &mut line.what {
            *frames = named.next().unwrap_or_default().iter().map(text).collect();
        }
    }
}

fn text(frame: &Frame) -> Text {
    let module = frame.module.as_deref().unwrap_or_default();
    let file = module.rsplit('/').next().unwrap_or(module);
    let text = match (&frame.symbol, file) {
        (Some(symbol), "") => symbol.clone(),
        (Some(symbol), file) => format!("{symbol} ({file})"),
        (None, "") => format!("{:#x}", frame.addr),
        (None, file) => match frame.offset {
            Some(offset) => format!("{file}+{offset:#x}"),
            None => file.to_owned(),
        },
    };
    text.into()
}

fn write(dir: &Path, lines: &[Line]) -> io::Result<()> {
    let half = dir.join(format!("{FILE}.tmp"));
    let file = fs::File::create(&half)?;
    tell(lines, &file)?;
    file.sync_all()?;
    fs::rename(half, dir.join(FILE))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that a frame says as much as is known of it.
    #[test]
    fn frames_as_text() {
        let frame = |symbol: Option<&str>, module: Option<&str>, offset| Frame {
            addr: 16,
            symbol: symbol.map(str::to_owned),
            module: module.map(str::to_owned),
            offset,
            ..Frame::default()
        };
        assert_eq!(
            text(&frame(Some("f"), Some("/usr/bin/a"), Some(1))),
            "f (a)"
        );
        assert_eq!(text(&frame(Some("f"), None, None)), "f");
        assert_eq!(text(&frame(None, Some("/usr/bin/a"), Some(31))), "a+0x1f");
        assert_eq!(text(&frame(None, Some("[vdso]"), None)), "[vdso]");
        assert_eq!(text(&frame(None, None, None)), "0x10");
    }
}
