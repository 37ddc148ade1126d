//! The terminal, which is taken, and given back as it was however quell ends.

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

use super::keys::KeyReader;
use crate::launch::signals;

/// Whether quell has the terminal now. It is static, since the hook of a panic gives the terminal back too.
static TERMINAL_TAKEN: AtomicBool = AtomicBool::new(false);

/// The screen of the terminal, until it is dropped.
pub(crate) struct TerminalScreen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    /// Keys come from here if stdin is something else.
    tty: Option<File>,
    keys: KeyReader,
    /// The size when it was last asked for.
    size: Size,
}

/// An input of the user at the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TerminalInput {
    Key(KeyEvent),
    Resized,
}

impl TerminalScreen {
    /// Takes the terminal.
    ///
    /// # Errors
    ///
    /// If the terminal can't be taken: then it is as it was.
    pub(crate) fn take_terminal() -> anyhow::Result<Self> {
        static PANIC_HOOK: Once = Once::new();
        PANIC_HOOK.call_once(|| {
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
        signals::install_quit_handler()?;
        enter_screen()?;
        let terminal = Terminal::new(CrosstermBackend::new(io::stdout()));
        // on an error it is dropped, and so given back
        let mut screen = Self {
            terminal: terminal
                .inspect_err(|_| give_back())
                .context("taking the terminal")?,
            tty,
            keys: KeyReader::default(),
            size: Size::default(),
        };
        screen.clear_screen()?;
        Ok(screen)
    }

    /// Clears by a resize to the present size: `Terminal::clear` asks the terminal where its cursor is, and not every one
    /// answers.
    fn clear_screen(&mut self) -> anyhow::Result<()> {
        self.size = self.terminal_size()?;
        let all = Rect::new(0, 0, self.size.width, self.size.height);
        self.terminal.resize(all).context("clearing the terminal")
    }

    fn terminal_size(&self) -> anyhow::Result<Size> {
        self.terminal
            .size()
            .context("asking for the terminal's size")
    }

    /// Draws a frame; only changed cells are written.
    ///
    /// # Errors
    ///
    /// If the terminal is gone.
    pub(crate) fn draw_frame(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> anyhow::Result<()> {
        self.terminal
            .draw(draw)
            .context("writing to the terminal")?;
        Ok(())
    }

    /// Waits for keys, signals, or the end of the time, and then asks whether the size has changed.
    ///
    /// # Errors
    ///
    /// If the terminal is gone.
    pub(crate) fn wait_for_input(
        &mut self,
        timeout: Duration,
    ) -> anyhow::Result<Vec<TerminalInput>> {
        let stdin = io::stdin();
        let fd: BorrowedFd<'_> = match &self.tty {
            Some(tty) => tty.as_fd(),
            None => stdin.as_fd(),
        };
        let ready = signals::poll_until_signal(Some(fd), timeout)?;
        // A terminal that has gone is always ready, and a read of it returns nothing: without this check, quell would read for
        // ever.
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
            inputs.extend(
                self.keys
                    .read_keys(&bytes[..n])
                    .into_iter()
                    .map(TerminalInput::Key),
            );
        }
        let size = self.terminal_size()?;
        if std::mem::replace(&mut self.size, size) != size {
            inputs.push(TerminalInput::Resized);
        }
        Ok(inputs)
    }

    /// Stops quell, as Ctrl-Z does with other programs, and goes on when it is continued.
    ///
    /// # Errors
    ///
    /// If the terminal can't be taken again.
    pub(crate) fn suspend_quell(&mut self) -> anyhow::Result<()> {
        give_back();
        let own = rustix::process::getpid();
        rustix::process::kill_process(own, rustix::process::Signal::STOP)
            .context("stopping quell")?;
        enter_screen()?;
        self.clear_screen()?;
        Ok(())
    }
}

impl Drop for TerminalScreen {
    fn drop(&mut self) {
        give_back();
    }
}

fn enter_screen() -> anyhow::Result<()> {
    TERMINAL_TAKEN.store(true, Ordering::Release);
    let taken =
        enable_raw_mode().and_then(|()| execute!(io::stdout(), EnterAlternateScreen, cursor::Hide));
    taken
        .inspect_err(|_| give_back())
        .context("taking the terminal; '--batch N' needs none")
}

/// Gives the terminal back once, whoever comes first: the end, an error, or a panic. Errors here can't be helped any more.
fn give_back() {
    if TERMINAL_TAKEN.swap(false, Ordering::AcqRel) {
        let _ = execute!(io::stdout(), LeaveAlternateScreen, cursor::Show);
        let _ = io::stdout().flush();
        let _ = disable_raw_mode();
    }
}

/// Is there a terminal to draw on?
pub(crate) fn can_draw() -> bool {
    io::stdout().is_terminal() && !is_dumb()
}

/// Can the terminal do nothing but print?
pub(crate) fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|t| t == "dumb")
}

/// Does the user want colours?
pub(crate) fn wants_color() -> bool {
    match anstream::ColorChoice::global() {
        anstream::ColorChoice::Never => false,
        anstream::ColorChoice::Always | anstream::ColorChoice::AlwaysAnsi => true,
        anstream::ColorChoice::Auto => std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()),
    }
}
