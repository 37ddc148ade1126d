//! `quell agent look-back`: names the code in the counts from before a trace, in a process of its own, so that the memory for
//! it is not the agent's, and writes them into the trace's folder.

use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use quell_agent::look_back::{LookBackCount, LookBackLine};
use quell_event::Text;
use quell_event::trace::StackFrame;
use quell_probe::name_living;

use crate::agent::look_back::{LOOK_BACK_FILE, write_lines};
use crate::cli::AgentLookBackArgs;

/// The recording makes its folder within this time, or not at all.
const MAX_TRACE_WAIT: Duration = Duration::from_secs(30);
const TRACE_CHECK_PAUSE: Duration = Duration::from_millis(50);

pub(crate) fn run(args: &AgentLookBackArgs) -> anyhow::Result<ExitCode> {
    let read =
        |line: io::Result<String>| Ok::<LookBackLine, anyhow::Error>(serde_json::from_str(&line?)?);
    let lines: Result<Vec<LookBackLine>, _> = io::stdin().lines().map(read).collect();
    let mut lines = lines.context("read what was counted from stdin")?;
    name_frames(&mut lines);
    let until = Instant::now() + MAX_TRACE_WAIT;
    while !args.dir.join("meta.json").exists() {
        anyhow::ensure!(
            Instant::now() < until,
            "there is no trace at {}",
            args.dir.display()
        );
        thread::sleep(TRACE_CHECK_PAUSE);
    }
    write_look_back(&args.dir, &lines)
        .with_context(|| format!("write {}", args.dir.join(LOOK_BACK_FILE).display()))?;
    Ok(ExitCode::SUCCESS)
}

/// Names the frames of stacks.
fn name_frames(lines: &mut [LookBackLine]) {
    let mut asked = Vec::new();
    for line in lines.iter_mut() {
        if let LookBackCount::Code { pid, addresses, .. } = &mut line.count {
            asked.push((*pid, std::mem::take(addresses)));
        }
    }
    let mut named = name_living(&asked).into_iter();
    for line in lines {
        if let LookBackCount::Code { frames, .. } = &mut line.count {
            *frames = named
                .next()
                .unwrap_or_default()
                .iter()
                .map(frame_text)
                .collect();
        }
    }
}

fn frame_text(frame: &StackFrame) -> Text {
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

fn write_look_back(dir: &Path, lines: &[LookBackLine]) -> io::Result<()> {
    let half = dir.join(format!("{LOOK_BACK_FILE}.tmp"));
    let file = fs::File::create(&half)?;
    write_lines(lines, &file)?;
    file.sync_all()?;
    fs::rename(half, dir.join(LOOK_BACK_FILE))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that a frame says as much as is known of it.
    #[test]
    fn frames_as_text() {
        let frame = |symbol: Option<&str>, module: Option<&str>, offset| StackFrame {
            addr: 16,
            symbol: symbol.map(str::to_owned),
            module: module.map(str::to_owned),
            offset,
            ..StackFrame::default()
        };
        assert_eq!(
            frame_text(&frame(Some("f"), Some("/usr/bin/a"), Some(1))),
            "f (a)"
        );
        assert_eq!(frame_text(&frame(Some("f"), None, None)), "f");
        assert_eq!(
            frame_text(&frame(None, Some("/usr/bin/a"), Some(31))),
            "a+0x1f"
        );
        assert_eq!(frame_text(&frame(None, Some("[vdso]"), None)), "[vdso]");
        assert_eq!(frame_text(&frame(None, None, None)), "0x10");
    }
}
