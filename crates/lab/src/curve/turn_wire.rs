//! How two threads or processes take turns: by pipes, or by a futex.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::thread::futex;

const HERE_SIDE: u32 = 0;
const THERE_SIDE: u32 = 1;

/// One side of a wire: waits for its turn and passes it on.
#[derive(Debug)]
pub(super) enum TurnWire {
    Pipe {
        from: OwnedFd,
        to: OwnedFd,
    },
    Futex {
        /// The side whose turn it is.
        turn: &'static AtomicU32,
        side: u32,
    },
}

impl TurnWire {
    /// The two ends of a wire of pipes.
    pub(super) fn pipes() -> io::Result<(Self, Self)> {
        let (from_here, to_there) = pipe_with(PipeFlags::CLOEXEC)?;
        let (from_there, to_here) = pipe_with(PipeFlags::CLOEXEC)?;
        let here = Self::Pipe {
            from: from_there,
            to: to_there,
        };
        let there = Self::Pipe {
            from: from_here,
            to: to_here,
        };
        Ok((here, there))
    }

    /// The two ends of a wire of futexes, over memory that both sides share.
    pub(super) fn futexes(turn: &'static AtomicU32) -> (Self, Self) {
        let side = |side| Self::Futex { turn, side };
        (side(HERE_SIDE), side(THERE_SIDE))
    }

    pub(super) fn wait_for_turn(&self) -> io::Result<()> {
        match self {
            Self::Pipe { from, .. } => loop {
                match rustix::io::read(from, &mut [0_u8; 1][..]) {
                    Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                    Ok(_) => return Ok(()),
                    Err(Errno::INTR) => {}
                    Err(err) => return Err(err.into()),
                }
            },
            Self::Futex { turn, side } => loop {
                let now = turn.load(Ordering::Acquire);
                if now == *side {
                    return Ok(());
                }
                // FUTEX_PRIVATE_FLAG is not used, also between threads: the two cases shall differ by the address space only.
                match futex::wait(turn, futex::Flags::empty(), now, None) {
                    Ok(()) | Err(Errno::AGAIN | Errno::INTR) => {}
                    Err(err) => return Err(err.into()),
                }
            },
        }
    }

    pub(super) fn pass_turn(&self) -> io::Result<()> {
        match self {
            Self::Pipe { to, .. } => {
                rustix::io::write(to, &[0])?;
            }
            Self::Futex { turn, side } => {
                turn.store(HERE_SIDE + THERE_SIDE - side, Ordering::Release);
                futex::wake(turn, futex::Flags::empty(), 1)?;
            }
        }
        Ok(())
    }
}
