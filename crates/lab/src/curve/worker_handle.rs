//! The lab's side of the worker of a part.

use std::io;
use std::process::Command;
use std::time::Duration;

use super::CurvePlace;
use super::worker::{CurveOrder, MAX_ORDER_TIME};
use crate::worker_answers::StopRequested;
use crate::worker_process::WorkerProcess;

/// The worker's own alarm comes first, unless the worker is stopped.
const ANSWER_PATIENCE: Duration = MAX_ORDER_TIME.saturating_add(Duration::from_secs(10));

/// A worker that is ready. It is killed when dropped.
#[derive(Debug)]
pub(super) struct CurveWorkerHandle(WorkerProcess);

impl CurveWorkerHandle {
    /// Starts one by this command, which must call [`super::serve_orders`].
    pub(super) fn start_worker(
        command: &mut Command,
        curve: &str,
        part: usize,
        place: &CurvePlace,
        stop: StopRequested,
    ) -> io::Result<Self> {
        let mut process = WorkerProcess::start(command, stop)?;
        let setup = CurveOrder::Setup {
            curve: curve.to_owned(),
            part,
            place: place.clone(),
        };
        let ready: Result<(), String> = process.ask(&setup, ANSWER_PATIENCE, "to prepare it")?;
        ready.map_err(io::Error::other)?;
        Ok(Self(process))
    }

    /// Has it measure a point for so many ns.
    pub(super) fn measure_point(&mut self, x: u64, ns: u64) -> io::Result<Vec<f64>> {
        let order = CurveOrder::TimeBatch { x, ns };
        let times = self.0.ask(&order, ANSWER_PATIENCE, "a batch")?;
        times.map_err(io::Error::other)
    }
}
