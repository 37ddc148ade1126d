//! The options of the probes of `quell top`, and how they are attached.

use quell_probe::{Backend, KeptDetail, Probe, ProbeOptions, Scope, StackShare};

use super::sampler::{RegionSampler, SAMPLE_RING_BYTES};

/// The options that all probes of one live view share.
#[derive(Clone)]
pub(crate) struct AttachOptions {
    pub(crate) scope: Scope,
    pub(crate) backend: Option<Backend>,
    /// Whether all function calls between CPUs are counted too.
    pub(crate) ipi: bool,
    /// Whether stacks of programs are unwound by `.eh_frame`.
    pub(crate) unwind: bool,
}

impl AttachOptions {
    /// Attaches the probe that counts, and a second one for the guarded CPUs if there are any.
    pub(super) fn attach_probes(&self, guarded: &[u32]) -> anyhow::Result<(Probe, Option<Probe>)> {
        let options = |scope| ProbeOptions {
            scope,
            stacks: StackShare::None,
            backend: self.backend,
            unwind: self.unwind,
            ..ProbeOptions::default()
        };
        let probe = Probe::attach(&ProbeOptions {
            ipi: self.ipi,
            keep: self.kept_detail(),
            ring_bytes: SAMPLE_RING_BYTES,
            ..options(self.scope.clone())
        })?;
        let guard = if guarded.is_empty() {
            None
        } else {
            Some(Probe::attach(&options(Scope::Cpus(guarded.to_vec())))?)
        };
        Ok((probe, guard))
    }

    /// Which CPUs a shootdown hits is known only when it is over, and then it can't be sampled any more.
    pub(super) fn kept_detail(&self) -> KeptDetail {
        match self.scope {
            Scope::Cpus(_) => KeptDetail::Counts,
            _ => KeptDetail::Samples,
        }
    }

    pub(super) fn start_sampler(&self, probe: &Probe) -> anyhow::Result<Option<RegionSampler>> {
        let sampling = self.kept_detail() == KeptDetail::Samples;
        sampling.then(|| RegionSampler::start(probe)).transpose()
    }
}
