//! A small random generator, so that the same seed gives the same interval on every machine.
//!
//! xoshiro256++ (Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2021),
//! seeded through SplitMix64 as its authors advise: a small seed must not leave the state near zero.

/// A deterministic random generator. It is for statistics and is no good for secrets.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// Starts the sequence that belongs to this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut walk = seed;
        Self {
            state: std::array::from_fn(|_| split_mix(&mut walk)),
        }
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let out = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let c2 = c ^ a;
        let d2 = d ^ b;
        self.state = [a ^ d2, b ^ c2, c2 ^ (b << 17), d2.rotate_left(45)];
        out
    }

    /// A number in `[0, 1)`, with all 53 bits that a double holds.
    pub fn next_unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// A whole number below `bound`, or 0 where `bound` is 0.
    ///
    /// The high half of a product replaces the division. The bias is below `bound` / 2^64, which
    /// nobody can see with a bound of a hundred pairs.
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next_u64()) * bound as u128) >> 64) as usize
    }

    /// Puts the items in random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last + 1);
            items.swap(last, other);
        }
    }
}

fn split_mix(walk: &mut u64) -> u64 {
    *walk = walk.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *walk;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that SplitMix64 gives its published first numbers for seed 1234567.
    #[test]
    fn split_mix_known_answer() {
        let mut walk = 1_234_567;
        assert_eq!(split_mix(&mut walk), 6_457_827_717_110_365_317);
        assert_eq!(split_mix(&mut walk), 3_203_168_211_198_807_973);
    }

    /// Check that xoshiro256++ gives its known first numbers for the state 1, 2, 3, 4.
    #[test]
    fn xoshiro_known_answer() {
        let mut rng = Rng {
            state: [1, 2, 3, 4],
        };
        assert_eq!(rng.next_u64(), 41_943_041);
        assert_eq!(rng.next_u64(), 58_720_359);
        assert_eq!(rng.next_u64(), 3_588_806_011_781_223);
    }

    /// Check that draws are even over a small bound and over the unit interval.
    #[test]
    fn even_draws() {
        let mut rng = Rng::new(7);
        let mut seen = [0u32; 5];
        let mut sum = 0.0;
        for _ in 0..50_000 {
            seen[rng.below(5)] += 1;
            sum += rng.next_unit();
        }
        assert!(
            seen.iter().all(|&n| (9_600..10_400).contains(&n)),
            "{seen:?}"
        );
        assert!((sum / 50_000.0 - 0.5).abs() < 0.01);
        assert_eq!(rng.below(0), 0);
    }

    /// Check that the same seed gives the same sequence and another seed another one.
    #[test]
    fn seeded() {
        assert_eq!(Rng::new(1).next_u64(), Rng::new(1).next_u64());
        assert_ne!(Rng::new(1).next_u64(), Rng::new(2).next_u64());
    }
}
