//! The terminal: taken, and given back as it was, however quell ends.

use std::fs::File;
use std::io::{self, IsTerminal as _, Stdout, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::KeyEvent;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::crossterm::{cursor, execute};
use ratatui::layout::{Rect, Size};
use ratatui::{Frame, Terminal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::keys::Keys;
use crate::launch::signals;

/// Whether the terminal is ours now. Static, for a panic gives it back too.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The screen, until it is dropped.
pub(crate) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    /// Where keys come from if stdin is something else.
    tty: Option<File>,
    keys: Keys,
    /// As it was when last looked at.
    size: Size,
}

/// What somebody did at the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    Key(KeyEvent),
    Resized,
}

impl Screen {
    /// Takes the terminal.
    ///
    /// # Errors
    ///
    /// If it can't be had: then it is as it was.
    pub(crate) fn take() -> anyhow::Result<Self> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                give_back();
                before(panic);
            }));
        });
        let tty = if io::stdin().is_terminal() {
            None
        } else {
            Some(
                File::open("/dev/tty")
                    .context("reading keys from /dev/tty; '--batch N' needs none")?,
            )
        };
        signals::install_quit()?;
        enter()?;
        let terminal = Terminal::new(CrosstermBackend::new(io::stdout()));
        // dropped on error, and so given back
        let mut screen = Self {
            terminal: terminal
                .inspect_err(|_| give_back())
                .context("taking the terminal")?,
            tty,
            keys: Keys::default(),
            size: Size::default(),
        };
        screen.clear()?;
        Ok(screen)
    }

    /// By a resize to what it is: `Terminal::clear` asks the terminal where its cursor is, and not
    /// every one answers.
    fn clear(&mut self) -> anyhow::Result<()> {
        self.size = self.now()?;
        let all = Rect::new(0, 0, self.size.width, self.size.height);
        self.terminal.resize(all).context("clearing the terminal")
    }

    fn now(&self) -> anyhow::Result<Size> {
        self.terminal
            .size()
            .context("asking for the terminal's size")
    }

    /// Draws; only what has changed is written.
    ///
    /// # Errors
    ///
    /// If the terminal is gone.
    pub(crate) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> anyhow::Result<()> {
        self.terminal
            .draw(draw)
            .context("writing to the terminal")?;
        Ok(())
    }

    /// Waits for keys, signals, or the end of the time, and looks then whether the size has changed.
    ///
    /// # Errors
    ///
    /// If the terminal is gone.
    pub(crate) fn wait(&mut self, timeout: Duration) -> anyhow::Result<Vec<Input>> {
        let stdin = io::stdin();
        let fd: BorrowedFd<'_> = match &self.tty {
            Some(tty) => tty.as_fd(),
            None => stdin.as_fd(),
        };
        let ready = signals::poll(Some(fd), timeout)?;
        // A terminal that has gone is always ready, and reading it tells nothing: without this, quell
        // would read for ever.
        let mut polled = [PollFd::new(&fd, PollFlags::IN)];
        let gone = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
        let now = Timespec::default();
        if poll(&mut polled, Some(&now)).is_ok() && polled[0].revents().intersects(gone) {
            anyhow::bail!("the terminal is gone");
        }
        let mut inputs = Vec::new();
        if ready {
            let mut bytes = [0; 1024];
            let n = match rustix::io::read(fd, &mut bytes) {
                Ok(n) => n,
                Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => 0,
                Err(err) => return Err(err).context("reading keys"),
            };
            inputs.extend(self.keys.read(&bytes[..n]).into_iter().map(Input::Key));
        }
        let size = self.now()?;
        if std::mem::replace(&mut self.size, size) != size {
            inputs.push(Input::Resized);
        }
        Ok(inputs)
    }

    /// Stops quell, as Ctrl-Z does with other programs, and goes on when it is continued.
    ///
    /// # Errors
    ///
    /// If the terminal can't be had again.
    pub(crate) fn suspend(&mut self) -> anyhow::Result<()> {
        give_back();
        let own = rustix::process::getpid();
        rustix::process::kill_process(own, rustix::process::Signal::STOP)
            .context("stopping quell")?;
        enter()?;
        self.clear()?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

fn enter() -> anyhow::Result<()> {
    TAKEN.store(true, Ordering::Release);
    let taken =
        enable_raw_mode().and_then(|()| execute!(io::stdout(), EnterAlternateScreen, cursor::Hide));
    taken
        .inspect_err(|_| give_back())
        .context("taking the terminal; '--batch N' needs none")
}

/// Once, whoever comes first: the end, an error, a panic. Errors can't be helped any more.
fn give_back() {
    if TAKEN.swap(false, Ordering::AcqRel) {
        let _ = execute!(io::stdout(), LeaveAlternateScreen, cursor::Show);
        let _ = io::stdout().flush();
        let _ = disable_raw_mode();
    }
}

/// Is there a terminal to draw on?
pub(crate) fn is_there() -> bool {
    io::stdout().is_terminal() && !is_dumb()
}

/// Can it do nothing but print?
pub(crate) fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|t| t == "dumb")
}

/// Are colours wanted?
pub(crate) fn wants_color() -> bool {
    match anstream::ColorChoice::global() {
        anstream::ColorChoice::Never => false,
        anstream::ColorChoice::Always | anstream::ColorChoice::AlwaysAnsi => true,
        anstream::ColorChoice::Auto => std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()),
    }
}
