//! Amounts as bytes: numbers of 7 bits a byte, lowest first, the top bit set where more follow.
//!
//! Ten million shootdowns take half a million amounts, most of them small: as JSON they would be
//! three times as long, and slower to read. `web/reader.js` reads them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::series::StepSeries;
use crate::spread::StepSpread;

/// Numbers, packed.
#[derive(Default)]
pub(crate) struct Cells {
    bytes: Vec<u8>,
}

impl Cells {
    /// One number.
    pub(crate) fn push_number(&mut self, mut n: u64) {
        while n >= 0x80 {
            self.bytes.push((n & 0x7f) as u8 | 0x80);
            n >>= 7;
        }
        self.bytes.push(n as u8);
    }

    /// A series: how many amounts, then each as the distance from the step before, or the first from `first`, and its numbers.
    pub(crate) fn push_series<const N: usize>(
        &mut self,
        series: &StepSeries<[u64; N]>,
        first: u64,
    ) {
        self.push_number(series.cells().len() as u64);
        let mut before = first;
        for (step, amount) in series.cells() {
            self.push_number(step.saturating_sub(before));
            before = *step;
            amount.iter().for_each(|&n| self.push_number(n));
        }
    }

    /// All spreads: how many, then for each its step as the distance from `first`, and for each kind the largest value, how many
    /// buckets are in use, and each as the distance from the bucket before, and its count.
    pub(crate) fn push_spread(&mut self, spread: &StepSeries<StepSpread>, first: u64) {
        self.push_number(spread.cells().len() as u64);
        for (step, dist) in spread.cells() {
            self.push_number(step.saturating_sub(first));
            for (counts, max) in dist.counts.iter().zip(dist.max) {
                let used = || counts.iter().enumerate().filter(|(_, n)| **n > 0);
                self.push_number(max);
                self.push_number(used().count() as u64);
                let mut before = 0;
                for (bucket, n) in used() {
                    self.push_number((bucket - before) as u64);
                    before = bucket;
                    self.push_number(*n);
                }
            }
        }
    }

    /// How many bytes.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// As text.
    pub(crate) fn to_base64(&self) -> String {
        STANDARD.encode(&self.bytes)
    }
}
