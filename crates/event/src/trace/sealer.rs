//! Seals tails while the recording goes on, and never at the expense of the program that is measured.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use super::Error;
use super::background::step_back;
use super::names::Family;
use super::seal::seal;
use super::tail_write::Tail;

/// Hands tails to a thread that seals them.
pub(super) struct Sealer {
    dir: PathBuf,
    queue: Sender<(Family, u32)>,
    /// Tails that were handed over, and their rows.
    handed: VecDeque<(Family, u32, u64)>,
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

#[derive(Default)]
struct Shared {
    /// The recording ends: what is left is sealed at full speed, and not by this thread.
    stop: AtomicBool,
    error: Mutex<Option<Error>>,
}

impl Sealer {
    pub(super) fn start(dir: &Path) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let (queue, numbers) = channel();
        let thread = std::thread::Builder::new()
            .name("quell-seal".into())
            .spawn({
                let (dir, shared) = (dir.to_owned(), Arc::clone(&shared));
                move || work(&dir, &numbers, &shared)
            })?;
        Ok(Self {
            dir: dir.to_owned(),
            queue,
            handed: VecDeque::new(),
            shared,
            thread,
        })
    }

    /// Ends a tail and hands it over; one that could not be ended is as good as one that was cut.
    pub(super) fn rotate(&mut self, family: Family, tail: Tail) -> Result<(), Error> {
        let (number, rows) = (tail.number(), tail.rows());
        let ended = tail.end();
        self.add(family, number, rows);
        ended
    }

    /// Hands over a tail that nobody writes to any more.
    fn add(&mut self, family: Family, number: u32, rows: u64) {
        self.handed.push_back((family, number, rows));
        // A thread that died takes none; then all are sealed at the end.
        let _ = self.queue.send((family, number));
    }

    /// What went wrong since the last call. The tail it concerns is still there.
    pub(super) fn error(&self) -> Option<Error> {
        self.shared
            .error
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    /// Seals what is left, and calls `progress` with the rows of each.
    pub(super) fn finish(self, mut progress: impl FnMut(u64)) -> Result<(), Error> {
        let Self {
            dir,
            queue,
            handed,
            shared,
            thread,
        } = self;
        shared.stop.store(true, Ordering::Relaxed);
        drop(queue);
        // A panic there leaves the tail where it was, to be sealed here.
        let _ = thread.join();
        for (family, number, rows) in handed {
            if family.tail(&dir, number).exists() {
                seal(&dir, family, number, &AtomicBool::new(false))?;
            }
            progress(rows);
        }
        Ok(())
    }
}

fn work(dir: &Path, numbers: &Receiver<(Family, u32)>, shared: &Shared) {
    step_back();
    while let Ok((family, number)) = numbers.recv() {
        if shared.stop.load(Ordering::Relaxed) {
            return;
        }
        if let Err(err) = seal(dir, family, number, &shared.stop) {
            *shared.error.lock().unwrap_or_else(PoisonError::into_inner) = Some(err);
        }
    }
}
