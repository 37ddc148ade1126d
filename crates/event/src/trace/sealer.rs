//! Seals tails while the recording goes on, and never at the expense of the program that is measured.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use super::TraceError;
use super::background::step_back;
use super::file_names::TableFamily;
use super::seal::seal_tail;
use super::tail_write::TailWriter;

/// Hands tails to a thread that seals them.
pub(super) struct Sealer {
    dir: PathBuf,
    queue: Sender<(TableFamily, u32)>,
    /// Tails that were handed over, and their rows.
    handed: VecDeque<(TableFamily, u32, u64)>,
    shared: Arc<SealerState>,
    thread: JoinHandle<()>,
}

#[derive(Default)]
struct SealerState {
    /// The recording ends: the tails that are left are sealed at full speed, and not by this thread.
    stop: AtomicBool,
    error: Mutex<Option<TraceError>>,
}

impl Sealer {
    pub(super) fn start(dir: &Path) -> io::Result<Self> {
        let shared = Arc::new(SealerState::default());
        let (queue, numbers) = channel();
        let thread = std::thread::Builder::new()
            .name("quell-seal".into())
            .spawn({
                let (dir, shared) = (dir.to_owned(), Arc::clone(&shared));
                move || seal_queued(&dir, &numbers, &shared)
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
    pub(super) fn rotate_tail(
        &mut self,
        family: TableFamily,
        tail: TailWriter,
    ) -> Result<(), TraceError> {
        let (number, rows) = (tail.number(), tail.row_count());
        let ended = tail.end_stream();
        self.queue_tail(family, number, rows);
        ended
    }

    /// Hands over a tail that nobody writes to any more.
    fn queue_tail(&mut self, family: TableFamily, number: u32, rows: u64) {
        self.handed.push_back((family, number, rows));
        // A thread that died takes none; then all are sealed at the end.
        let _ = self.queue.send((family, number));
    }

    /// Takes the error since the last call. The tail that it concerns is still there.
    pub(super) fn take_error(&self) -> Option<TraceError> {
        self.shared
            .error
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    /// Ends the thread, seals the tails that it left, and calls `progress` with the rows of each tail, sealed now or before. The first error
    /// ends it.
    pub(super) fn seal_rest(self, mut progress: impl FnMut(u64)) -> Result<(), TraceError> {
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
            if family.tail_path(&dir, number).exists() {
                seal_tail(&dir, family, number, &AtomicBool::new(false))?;
            }
            progress(rows);
        }
        Ok(())
    }
}

fn seal_queued(dir: &Path, numbers: &Receiver<(TableFamily, u32)>, shared: &SealerState) {
    step_back();
    while let Ok((family, number)) = numbers.recv() {
        if shared.stop.load(Ordering::Relaxed) {
            return;
        }
        if let Err(err) = seal_tail(dir, family, number, &shared.stop) {
            *shared.error.lock().unwrap_or_else(PoisonError::into_inner) = Some(err);
        }
    }
}
