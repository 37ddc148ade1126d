//! Reads the counts that the programs keep.

use std::collections::HashMap;

use libbpf_rs::{MapCore as _, MapFlags, MapHandle};
use quell_event::{Cause, CulpritTally, Histogram, ShootdownCounts, Tally, VictimTally};

use super::{MIN_QUIET_TIME, Probe, tlb_interrupts};
use crate::bpf_maps::read_value;
use crate::error::{Error, Result};
use crate::layout::{self, CulpritCounts, ProbeHealth, ProbeState, VictimCounts, VictimInfo};

/// The places of a tally's rows, by process (or cgroup), cause and detail.
type TallyIndex = HashMap<(u64, Cause, Option<String>), usize>;

impl Probe {
    /// Everything that was counted so far. Exact once detached; before, CPUs are read one after
    /// the other, and of a CPU that shot within the last 20 ms up to 8 timed shootdowns are missing.
    ///
    /// # Errors
    ///
    /// If a map can't be read.
    pub fn tally(&mut self) -> Result<Tally> {
        let mut tally = self.tally_without_calls()?;
        if let Some(ipi) = &self.ipi {
            tally.calls = Some(ipi.counted_calls(&self.causes.borrow())?);
        }
        Ok(tally)
    }

    /// The same without function calls, of which there may be many rows.
    ///
    /// # Errors
    ///
    /// If a map can't be read.
    pub fn tally_without_calls(&mut self) -> Result<Tally> {
        // With records the loader keeps out, because only the culprit's CPU keeps them in order.
        if self.ended.is_none() && !self.recording {
            self.settle_rounds(MIN_QUIET_TIME)?;
        }
        let state = read_value(&self.maps.state, 0)?;
        let state: ProbeState = layout::read_pod(&state).unwrap_or_default();
        let mut tally = Tally {
            duration_ns: self.duration_ns(),
            kernel_interrupts: self.kernel_interrupts(),
            ..Tally::default()
        };
        let mut known = TallyIndex::new();
        for index in 0..state.next_culprit {
            self.add_culprit(index, &mut known, &mut tally)?;
        }
        if !self.by_cgroup {
            rename_started(&mut tally);
        }
        for index in 0..state.next_victim {
            self.add_victim(index, &mut tally)?;
        }
        self.add_histograms(&mut tally)?;
        self.add_health(&mut tally)?;
        if self.ended.is_some() {
            add_unseen(&mut tally);
        }
        Ok(tally)
    }

    /// Whether hardly any room is left to tell culprits and victims apart. No row leaves the table, even when its process
    /// ends.
    ///
    /// # Errors
    ///
    /// If a map can't be read.
    pub fn is_nearly_full(&self) -> Result<bool> {
        let state = read_value(&self.maps.state, 0)?;
        let state: ProbeState = layout::read_pod(&state).unwrap_or_default();
        let used = state.next_culprit.max(state.next_victim);
        Ok(used > self.keys / 4 * 3)
    }

    /// The TLB interrupts that the kernel itself counted meanwhile, of all culprits.
    fn kernel_interrupts(&self) -> Option<u64> {
        let now = if self.ended.is_some() {
            self.interrupts_ended
        } else {
            tlb_interrupts()
        };
        Some(now?.wrapping_sub(self.interrupts?))
    }

    fn add_culprit(&self, index: u32, known: &mut TallyIndex, tally: &mut Tally) -> Result<()> {
        let mut counts = ShootdownCounts::default();
        for cpu in read_per_cpu(&self.maps.culprit_tallies, index)? {
            let Some(c) = layout::read_pod::<CulpritCounts>(&cpu) else {
                continue;
            };
            counts.add(&ShootdownCounts {
                shootdowns: c.shootdowns,
                full: c.full,
                pages: c.pages,
                victims: c.victims,
                wait_ns: c.wait_ns,
                delay_ns: c.delay_ns,
                stall_ns: c.stall_ns,
            });
            tally.untimed += c.untimed;
        }
        if counts == ShootdownCounts::default() {
            return Ok(());
        }
        let who = self.causes.borrow_mut().find_culprit(index)?;
        let (pid, comm, told_by) = if self.by_cgroup {
            (0, who.comm, who.cgroup)
        } else {
            (who.pid, who.comm, who.pid.into())
        };
        let same = (told_by, who.cause, who.detail.clone());
        if let Some(&at) = known.get(&same) {
            tally.culprits[at].counts.add(&counts);
            // The row of a process that last shot while it started a program has that program's name (bpf/task_rename.h).
            if who.cause == Cause::Exec {
                tally.culprits[at].comm = comm;
            }
        } else {
            known.insert(same, tally.culprits.len());
            tally.culprits.push(CulpritTally {
                pid,
                comm,
                cgroup: who.cgroup,
                cause: who.cause,
                detail: who.detail,
                counts,
            });
        }
        Ok(())
    }

    fn add_victim(&self, index: u32, tally: &mut Tally) -> Result<()> {
        let (mut hits, mut stall_ns) = (0, 0);
        for cpu in read_per_cpu(&self.maps.victim_tallies, index)? {
            let Some(c) = layout::read_pod::<VictimCounts>(&cpu) else {
                continue;
            };
            hits += c.hits + c.untimed;
            stall_ns += c.stall_ns;
            // Timed victims without room were counted already when their round was settled.
            if index == 0 {
                tally.lost.crowded += c.untimed;
            }
        }
        if hits == 0 {
            return Ok(());
        }
        let info = read_value(&self.maps.victim_infos, index)?;
        let info: VictimInfo = layout::read_pod(&info).unwrap_or_default();
        let (pid, cgroup, comm) = if index == 0 {
            (0, 0, quell_event::CROWDED_NAME.to_owned())
        } else if self.by_cgroup {
            let high = u64::from(info.bystander >> 1);
            (0, high << 32 | u64::from(info.tgid), String::new())
        } else {
            let comm = quell_event::Comm(info.comm).as_text().into_owned();
            (info.tgid, 0, comm)
        };
        tally.victims.push(VictimTally {
            pid,
            comm,
            cgroup,
            bystander: info.bystander & 1 != 0,
            hits,
            stall_ns,
        });
        Ok(())
    }

    fn add_histograms(&self, tally: &mut Tally) -> Result<()> {
        let totals = tally.total_counts();
        let kinds = [
            (layout::HIST_WAIT, &mut tally.wait, totals.wait_ns),
            (layout::HIST_DELAY, &mut tally.delay, totals.delay_ns),
            (layout::HIST_STALL, &mut tally.stall, totals.stall_ns),
        ];
        let cpus = read_per_cpu(&self.maps.hists, layout::ONLY_KEY)?;
        for (kind, hist, sum) in kinds {
            for cpu in &cpus {
                // A `struct hists` has one `struct hist` after the other.
                let of = cpu.chunks_exact(layout::HIST_BYTES).nth(kind);
                add_histogram(hist, of.unwrap_or_default());
            }
            hist.add_sum(sum);
        }
        Ok(())
    }

    fn add_health(&self, tally: &mut Tally) -> Result<()> {
        let mut lost = tally.lost;
        for cpu in read_per_cpu(&self.maps.healths, layout::ONLY_KEY)? {
            let h: ProbeHealth = layout::read_pod(&cpu).unwrap_or_default();
            tally.empty_sends += h.empty_sends;
            tally.unseen += h.unseen;
            tally.self_shootdowns += h.self_shootdowns;
            tally.self_victims += h.self_victims;
            lost.records += h.lost_records;
            lost.stacks += h.lost_stacks;
            lost.details += h.lost_details;
            lost.crowded += h.crowded;
            lost.wrong_stacks += h.wrong_memos;
        }
        lost.wrong_stacks += self
            .pieces
            .as_ref()
            .map_or(0, |pieces| pieces.wrong_count());
        tally.lost = lost;
        Ok(())
    }
}

/// Gives all rows of a process that started another program that program's name, also those from before, when it was a copy of
/// the process that forked it.
fn rename_started(tally: &mut Tally) {
    let started = tally.culprits.iter().filter(|c| c.cause == Cause::Exec);
    let names: HashMap<u32, String> = started.map(|c| (c.pid, c.comm.clone())).collect();
    for culprit in &mut tally.culprits {
        if let Some(name) = names.get(&culprit.pid) {
            culprit.comm.clone_from(name);
        }
    }
}

/// Counts the victims of untimed rounds that were not seen. Settling a timed round finds them; of untimed rounds only the sums
/// tell, in the end, when no round is under way.
fn add_unseen(tally: &mut Tally) {
    let hits = tally.victims.iter().map(|v| v.hits).sum();
    let missing = tally.total_counts().victims.saturating_sub(hits);
    tally.unseen = tally.unseen.max(missing);
}

/// Adds one CPU's `struct hist`, which is the buckets and then the maximum.
fn add_histogram(hist: &mut Histogram, bytes: &[u8]) {
    let words = layout::words_of(bytes);
    let max = words.clone().next_back().unwrap_or(0);
    hist.add_counts(words.take(quell_event::histogram::BUCKET_COUNT), max);
}

fn read_per_cpu(map: &MapHandle, key: u32) -> Result<Vec<Vec<u8>>> {
    Ok(map
        .lookup_percpu(&key.to_ne_bytes(), MapFlags::ANY)
        .map_err(Error::load("read the counts"))?
        .unwrap_or_default())
}
