//! The time of each process in the account, with its name. Somebody may watch for weeks, so only so many processes are told
//! apart; those that come later share one row.

use std::collections::HashMap;

use quell_event::{Comm, ProcessTime, Text};

/// The most processes that are told apart.
pub(super) const MAX_ACCOUNT_PROCESSES: usize = 1 << 14;

/// The number of the row that those share which come later. It is that of the kernel's idle tasks, which no record is about.
pub(super) const OTHER_PROCESSES_PID: u32 = 0;

/// The name of that row. It is longer than the 15 bytes that the kernel keeps of a name (TASK_COMM_LEN), so no process has it.
const OTHER_PROCESSES_NAME: &str = "(other processes)";

/// A row without any time yet. It has a name only where it is for all other processes: a process's own comes with its records.
pub(super) fn empty_process_time(pid: u32) -> ProcessTime {
    let name = match pid {
        OTHER_PROCESSES_PID => OTHER_PROCESSES_NAME,
        _ => "",
    };
    ProcessTime {
        pid,
        comm: name.into(),
        ..ProcessTime::default()
    }
}

/// The rows of processes, by their numbers.
#[derive(Default)]
pub(super) struct ProcessTimes {
    by_pid: HashMap<u32, ProcessTime>,
}

impl ProcessTimes {
    /// The number under which a process is summed up: its own, or [`OTHER_PROCESSES_PID`] if it came when there were too many
    /// to tell apart.
    pub(super) fn distinct_pid(&self, pid: u32) -> u32 {
        if self.by_pid.len() < MAX_ACCOUNT_PROCESSES || self.by_pid.contains_key(&pid) {
            pid
        } else {
            OTHER_PROCESSES_PID
        }
    }

    /// The row with this number, which [`Self::distinct_pid`] gave; a new one if there is none.
    pub(super) fn row_mut(&mut self, distinct_pid: u32) -> &mut ProcessTime {
        self.by_pid
            .entry(distinct_pid)
            .or_insert_with(|| empty_process_time(distinct_pid))
    }

    /// The same, and the row gets this name: a process's name changes with exec, and the last one counts. The row of all other
    /// processes keeps its own.
    pub(super) fn named_row_mut(&mut self, distinct_pid: u32, comm: Comm) -> &mut ProcessTime {
        let row = self.row_mut(distinct_pid);
        if distinct_pid != OTHER_PROCESSES_PID {
            let comm = Text::from(comm.as_text());
            if row.comm != comm {
                row.comm = comm;
            }
        }
        row
    }

    /// The name of a row; empty where no record named its process.
    pub(super) fn name_of(&self, distinct_pid: u32) -> Text {
        let row = self.by_pid.get(&distinct_pid);
        row.map(|row| row.comm.clone()).unwrap_or_default()
    }

    /// All rows, by number: a hash map has no order, and output needs one.
    pub(super) fn sorted_rows(&self) -> Vec<ProcessTime> {
        let mut rows: Vec<ProcessTime> = self.by_pid.values().cloned().collect();
        rows.sort_by_key(|row| row.pid);
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comm(name: &str) -> Comm {
        let mut bytes = [0; 16];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        Comm(bytes)
    }

    /// Check that processes beyond the bound share one row, that it never has the name of one of them, and that those which
    /// were there before keep theirs.
    #[test]
    fn processes_beyond_the_bound_share_a_row() {
        let mut times = ProcessTimes::default();
        let mut add = |pid, name| {
            let distinct = times.distinct_pid(pid);
            times.named_row_mut(distinct, comm(name)).samples += 1;
        };
        let bound = u32::try_from(MAX_ACCOUNT_PROCESSES).unwrap();
        (1..=bound).for_each(|pid| add(pid, "early"));
        add(bound + 1, "late");
        add(bound + 2, "last");
        add(bound, "renamed");
        let unnamed = times.distinct_pid(bound + 3);
        times.row_mut(unnamed).forks += 1;
        let rows = times.sorted_rows();
        assert_eq!(rows.len(), MAX_ACCOUNT_PROCESSES + 1);
        let others = &rows[0];
        assert_eq!((others.pid, others.samples, others.forks), (0, 2, 1));
        assert_eq!(others.comm.as_str(), "(other processes)");
        assert_eq!(times.name_of(0), others.comm);
        let last = &rows[MAX_ACCOUNT_PROCESSES];
        assert_eq!((last.comm.as_str(), last.samples), ("renamed", 2));
    }
}
