//! How the probes of `quell top` are attached.

use quell_probe::{Backend, KeptDetail, Probe, ProbeOptions, Scope, StackShare};

use super::sampler::{RING_BYTES, Sampler};

/// What the probes are asked for.
#[derive(Clone)]
pub(crate) struct AttachOptions {
    pub(crate) scope: Scope,
    pub(crate) backend: Option<Backend>,
    /// All function calls are counted too.
    pub(crate) ipi: bool,
    /// Stacks of programs are followed by `.eh_frame`.
    pub(crate) unwind: bool,
}

impl AttachOptions {
    /// Attaches the probe that counts, and the one for these CPUs.
    pub(super) fn attach(&self, guarded: &[u32]) -> anyhow::Result<(Probe, Option<Probe>)> {
        let options = |scope| ProbeOptions {
            scope,
            stacks: StackShare::None,
            backend: self.backend,
            unwind: self.unwind,
            ..ProbeOptions::default()
        };
        let probe = Probe::attach(&ProbeOptions {
            ipi: self.ipi,
            keep: self.keep(),
            ring_bytes: RING_BYTES,
            ..options(self.scope.clone())
        })?;
        let guard = if guarded.is_empty() {
            None
        } else {
            Some(Probe::attach(&options(Scope::Cpus(guarded.to_vec())))?)
        };
        Ok((probe, guard))
    }

    /// Which shootdowns hit CPUs is known only when they are over, and then none can be sampled.
    pub(super) fn keep(&self) -> KeptDetail {
        match self.scope {
            Scope::Cpus(_) => KeptDetail::Counts,
            _ => KeptDetail::Samples,
        }
    }

    pub(super) fn sampler(&self, probe: &Probe) -> anyhow::Result<Option<Sampler>> {
        let sampling = self.keep() == KeptDetail::Samples;
        sampling.then(|| Sampler::start(probe)).transpose()
    }
}
