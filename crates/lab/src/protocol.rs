//! The messages between the lab and its workers: one JSON object a line, and behind a block's answer its gaps and operations as
//! they lie in memory, for there may be hundreds of thousands.

use std::io::{self, BufRead, Read, Write};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::arm::VictimActivity;
use crate::mechanism;
use crate::params::Params;
use crate::tsc::{TickPair, TscMoment};

/// The part that a worker plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkerRole {
    /// Culprit and victim in one address space.
    Both,
    /// The culprit alone: the sham.
    Culprit,
}

/// The setup of a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorkerSetup {
    /// The mechanism's name.
    pub mechanism: String,
    /// Its parameters.
    pub params: Params,
    /// The part that this worker plays.
    pub role: WorkerRole,
    /// Where the culprit runs.
    pub culprit_cpu: u32,
    /// Where the victim runs.
    pub victim_cpu: u32,
    /// Whether the victim spins or sleeps.
    pub mode: VictimActivity,
}

/// The longest time that any operation may take. The slowest wait for a disk or a daemon.
const OPERATION_PATIENCE: Duration = Duration::from_secs(60);

/// The longest time that each gigabyte of it may take besides: of small pages, on a machine that is busy and swaps.
const PATIENCE_PER_GIB: Duration = Duration::from_secs(10);

impl WorkerSetup {
    /// The longest time that an operation, or its preparation, may take; beyond that it hangs.
    #[must_use]
    pub fn operation_patience(&self) -> Duration {
        let work = mechanism::mechanism_by_name(&self.mechanism)
            .map_or(0, |m| (m.takes)(&self.params).work);
        let gigabytes = u32::try_from(work >> 30).unwrap_or(u32::MAX).min(64);
        OPERATION_PATIENCE + PATIENCE_PER_GIB * gigabytes
    }
}

/// The order for one block.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct BlockOrder {
    /// Its length, ns.
    pub ns: u64,
    /// Whether the culprit works in it.
    pub operate: bool,
    /// How soon one operation may follow the start of the last, ns.
    pub pace_ns: u64,
    /// The culprit does one operation only, so long after the block begins, ns.
    pub once_after_ns: Option<u64>,
}

/// An order of the lab to a worker. The answer is a result, or in words why there is none.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkerOrder {
    /// Get ready; the answer is [`WorkerReady`].
    Setup(WorkerSetup),
    /// Prepare a block in which the culprit works once.
    Prepare,
    /// Do a block; the answer is [`BlockResult`], and gaps and operations follow.
    Block(BlockOrder),
}

/// The state of a worker that is ready.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorkerReady {
    /// The victim's thread, 0 where there is none.
    pub victim_tid: u32,
    /// A turn that takes so long is a gap, ns.
    pub limit_ns: u64,
    /// A remark on where the culprit runs.
    pub note: Option<String>,
}

/// The result of a block.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BlockResult {
    /// A moment before it.
    pub from: TscMoment,
    /// A moment after it.
    pub to: TscMoment,
    /// The first and the last reading of the victim's spin; both 0 where it did not spin.
    pub spun: (u64, u64),
    /// Turns of the spin that were no gaps: their length in ticks and their number.
    pub turns: Vec<(u32, u32)>,
    /// The number of gaps that follow.
    pub gaps: usize,
    /// The number of operations that follow.
    pub ops: usize,
}

/// Sends one line.
///
/// # Errors
///
/// If the other side has gone.
pub fn send_line(out: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    out.write_all(&line)?;
    out.flush()
}

/// Receives one line; `None` if the other side has gone.
///
/// # Errors
///
/// If it is no such message.
pub fn receive_line<T: DeserializeOwned>(from: &mut impl BufRead) -> io::Result<Option<T>> {
    let mut line = String::new();
    if from.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    Ok(Some(serde_json::from_str(&line)?))
}

/// Sends stamps as bytes.
///
/// # Errors
///
/// If the other side has gone.
pub fn send_stamps(out: &mut impl Write, stamps: impl Iterator<Item = TickPair>) -> io::Result<()> {
    let mut bytes = Vec::new();
    for (a, b) in stamps {
        bytes.extend_from_slice(&a.to_ne_bytes());
        bytes.extend_from_slice(&b.to_ne_bytes());
    }
    out.write_all(&bytes)?;
    out.flush()
}

/// A worker has no room for more stamps, so a larger number is an error.
const MAX_STAMPS: usize = 1 << 22;

/// Receives so many stamps.
///
/// # Errors
///
/// If there are fewer, or more than a worker can hold.
pub fn receive_stamps(from: &mut impl Read, count: usize) -> io::Result<Vec<TickPair>> {
    if count > MAX_STAMPS {
        return Err(io::Error::other(format!("{count} stamps in one block")));
    }
    let mut bytes = vec![0; count * 16];
    from.read_exact(&mut bytes)?;
    let word = |b: &[u8]| b.try_into().map(u64::from_ne_bytes).unwrap_or_default();
    Ok(bytes
        .chunks_exact(16)
        .map(|c| (word(&c[..8]), word(&c[8..])))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that a line and stamps come through as they were sent, and that an end in the middle is an error.
    #[test]
    fn through_a_pipe() {
        let mut pipe = Vec::new();
        let order = WorkerOrder::Block(BlockOrder {
            ns: 5,
            operate: true,
            pace_ns: 10,
            once_after_ns: None,
        });
        send_line(&mut pipe, &order).unwrap();
        let stamps = vec![(1, 2), (u64::MAX, 0)];
        send_stamps(&mut pipe, stamps.iter().copied()).unwrap();
        let mut from = pipe.as_slice();
        let Some(WorkerOrder::Block(block)) = receive_line(&mut from).unwrap() else {
            panic!("another order");
        };
        assert!(block.operate && block.ns == 5);
        assert_eq!(receive_stamps(&mut from, 2).unwrap(), stamps);
        assert!(receive_line::<WorkerOrder>(&mut from).unwrap().is_none());
        assert!(receive_stamps(&mut from, 1).is_err());
        assert!(receive_stamps(&mut from, usize::MAX).is_err());
    }
}
