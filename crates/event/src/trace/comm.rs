//! Names of threads as a trace has them.

use crate::Comm;

/// Returns a name as plain text. Each byte that is no UTF-8 becomes `?`, so that the name stays as short as it was, and so does each
/// character that is not plain.
pub(super) fn plain_comm(comm: &Comm) -> Comm {
    let end = comm.0.iter().position(|&b| b == 0).unwrap_or(comm.0.len());
    let mut clean = Comm::default();
    let mut at = 0;
    for chunk in comm.0[..end].utf8_chunks() {
        let valid = chunk.valid().as_bytes();
        clean.0[at..at + valid.len()].copy_from_slice(valid);
        at += valid.len();
        let invalid = chunk.invalid().len();
        clean.0[at..at + invalid].fill(b'?');
        at += invalid;
    }
    comm_from_bytes(clean.as_text().as_bytes())
}

/// Makes a name of text. Text that is longer than the kernel keeps is cut.
pub(super) fn comm_from_bytes(text: &[u8]) -> Comm {
    let mut comm = Comm::default();
    let n = text.len().min(comm.0.len());
    comm.0[..n].copy_from_slice(&text[..n]);
    comm
}
