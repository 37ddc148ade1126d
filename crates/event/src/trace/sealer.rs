//! Seals tails while the recording goes on, and never at the expense of the program that is measured.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use super::background::step_back;
use super::seal::seal;
use super::{Error, names};

/// Hands tails to a thread that seals them.
pub(super) struct Sealer {
    dir: PathBuf,
    queue: Sender<u32>,
    /// Tails that were handed over, and their rows.
    handed: VecDeque<(u32, u64)>,
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

    /// Hands over a tail that nobody writes to any more.
    pub(super) fn add(&mut self, number: u32, rows: u64) {
        self.handed.push_back((number, rows));
        // A thread that died takes none; then all are sealed at the end.
        let _ = self.queue.send(number);
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
        for (number, rows) in handed {
            if names::tail(&dir, number).exists() {
                seal(&dir, number, &AtomicBool::new(false))?;
            }
            progress(rows);
        }
        Ok(())
    }
}

fn work(dir: &Path, numbers: &Receiver<u32>, shared: &Shared) {
    step_back();
    while let Ok(number) = numbers.recv() {
        if shared.stop.load(Ordering::Relaxed) {
            return;
        }
        if let Err(err) = seal(dir, number, &shared.stop) {
            *shared.error.lock().unwrap_or_else(PoisonError::into_inner) = Some(err);
        }
    }
}
