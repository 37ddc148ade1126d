//! The two distributions that the rules need: the normal one and Student's.

use std::f64::consts::{FRAC_2_PI, PI};

/// Chance that a standard normal number is at most `x`.
///
/// Marsaglia, "Evaluating the Normal Distribution" (Journal of Statistical Software, 2004): a Taylor
/// series whose terms are all positive, so nothing cancels.
pub(crate) fn normal_cdf(x: f64) -> f64 {
    if x.abs() > 8.0 {
        return if x > 0.0 { 1.0 } else { 0.0 };
    }
    let (mut sum, mut term, mut odd) = (x, x, 1.0);
    while term.abs() > 1e-17 * sum.abs() {
        odd += 2.0;
        term *= x * x / odd;
        sum += term;
    }
    0.5 + sum * (-0.5 * x * x).exp() / (2.0 * PI).sqrt()
}

/// Chance that Student's t with `df` degrees of freedom is further from 0 than `t`.
///
/// The finite sums for whole degrees of freedom (Abramowitz and Stegun, *Handbook of Mathematical
/// Functions*, 26.7.3 and 26.7.4): exact, and short for at most 200 runs.
pub(crate) fn student_two_sided(t: f64, df: usize) -> f64 {
    if df == 0 || t.is_nan() {
        return 1.0;
    }
    if t.is_infinite() {
        return 0.0;
    }
    let angle = (t.abs() / (df as f64).sqrt()).atan();
    let (sin, cos) = angle.sin_cos();
    let odd = df % 2 == 1;
    // Odd df: cos + 2/3 cos^3 + (2·4)/(3·5) cos^5 … up to cos^(df-2).
    // Even df: 1 + 1/2 cos^2 + (1·3)/(2·4) cos^4 … up to cos^(df-2).
    let mut sum = 0.0;
    let mut term = if odd { cos } else { 1.0 };
    let mut power = usize::from(odd);
    while power + 2 <= df {
        sum += term;
        term *= cos * cos * (power + 1) as f64 / (power + 2) as f64;
        power += 2;
    }
    let inside = if odd {
        FRAC_2_PI * (angle + sin * sum)
    } else {
        sin * sum
    };
    (1.0 - inside).clamp(0.0, 1.0)
}

/// The distance from 0 that a standard normal number exceeds, on either side, with chance `p`.
pub(crate) fn normal_critical(p: f64) -> f64 {
    solve_falling(p, |x| 2.0 * normal_cdf(-x))
}

/// The distance from 0 that Student's t exceeds, on either side, with chance `p`.
pub(crate) fn student_critical(p: f64, df: usize) -> f64 {
    solve_falling(p, |x| student_two_sided(x, df))
}

/// Where a falling function of a positive number meets `p`, by halving until every bit is settled.
fn solve_falling(p: f64, tail: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while tail(high) > p && high < 1e9 {
        low = high;
        high *= 2.0;
    }
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if tail(middle) > p {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that the critical values are those of the printed tables.
    #[test]
    fn printed_tables() {
        for (p, df, t) in [
            (0.05, 1, 12.706_2),
            (0.05, 2, 4.302_7),
            (0.05, 4, 2.776_4),
            (0.05, 9, 2.262_2),
            (0.01, 8, 3.355_4),
            (0.001, 10, 4.586_9),
            (0.05, 120, 1.979_9),
        ] {
            assert!((student_critical(p, df) - t).abs() < 1e-4, "{p} {df}");
        }
        assert!((normal_critical(0.05) - 1.959_964).abs() < 1e-6);
        assert!((normal_critical(0.002) - 3.090_232).abs() < 1e-6);
    }

    /// Check that odd input gives the ends and never something that is no number.
    #[test]
    fn ends() {
        assert_eq!(student_two_sided(f64::INFINITY, 4), 0.0);
        assert_eq!(student_two_sided(0.0, 5), 1.0);
        assert_eq!(student_two_sided(1.0, 0), 1.0);
        assert_eq!(student_two_sided(f64::NAN, 3), 1.0);
        assert_eq!(normal_cdf(0.0), 0.5);
        assert_eq!(normal_cdf(50.0), 1.0);
        assert_eq!(normal_cdf(-50.0), 0.0);
    }
}
