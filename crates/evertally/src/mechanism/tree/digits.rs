//! Number systems with a consecutive range of digits, some of them negative: the combinatorics of the k-ary trees.
//!
//! With base `k` and digits `lo ..= hi`, `hi - lo = k - 1`, `lo ≤ 0 < hi`, every step `t` has one representation
//! `t = Σ d_l k^l`. Adding the constant `Σ (-lo) k^l` turns it into the ordinary base-`k` representation
//! `e_l = d_l - lo`, so sums and maxima of `|d_l|` over ranges of steps have closed forms.
//!
//! `h` digits reach `hi (k^h - 1)/(k - 1)`. As `|d|` is convex, a free digit is largest at an end of its range, and a
//! maximum over a range of numbers is reached at an end of the range or just after leaving one at some digit.

/// A digit system with enough levels for a horizon.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DigitSystem {
    /// The base `k`, 2 ..= 65536.
    pub base: u64,
    /// Minus the least digit.
    pub below: u64,
    /// Number of digits `h`.
    pub levels: u32,
    /// `Σ_{l<h} below · k^l`.
    offset: u128,
}

impl DigitSystem {
    /// The shortest system with digits `-below ..= base-1-below` that writes every number up to `horizon`.
    ///
    /// All arithmetic fits u128: the loop stops at the first `k^h > 2·2^62`, so `k^h < 2^64 · 2^16`.
    pub(super) fn new(base: u64, below: u64, horizon: u64) -> Self {
        let above = base - 1 - below;
        let (mut levels, mut repunit) = (0, 0u128);
        while u128::from(above) * repunit < u128::from(horizon) {
            repunit = repunit * u128::from(base) + 1;
            levels += 1;
        }
        Self { base, below, levels, offset: u128::from(below) * repunit }
    }

    /// The constant that makes all digits of a step non-negative.
    pub(super) fn offset(&self) -> u128 {
        self.offset
    }

    /// The digits of `step`, lowest level first, with the leading part: `visit(level, digit, lead)` where
    /// `lead = Σ_{j ≥ level} d_j k^{j-level}`.
    pub(super) fn for_each_digit(&self, step: u64, mut visit: impl FnMut(u32, i64, u64)) {
        let base = u128::from(self.base);
        let (mut shifted, mut offset) = (u128::from(step) + self.offset, self.offset);
        for level in 0..self.levels {
            let digit = (shifted % base) as i64 - self.below as i64;
            // lead is never negative: the lower digits of a positive step cannot exceed half a unit of this level.
            visit(level, digit, (shifted - offset) as u64);
            shifted /= base;
            offset /= base;
        }
    }

    /// `Σ_l weight(l) · |d_l|` of one step.
    pub(super) fn weighted_size(&self, step: u64, weight: &dyn Fn(u32) -> f64) -> f64 {
        let mut sum = 0.0;
        self.for_each_digit(step, |level, digit, _| sum += weight(level) * digit.unsigned_abs() as f64);
        sum
    }

    /// `Σ_{t=1..T} Σ_l weight(l) · |d_l(t)|`.
    pub(super) fn total_weighted_size(&self, horizon: u64, weight: &dyn Fn(u32) -> f64) -> f64 {
        let first = self.offset + 1;
        let end = self.offset + 1 + u128::from(horizon);
        let mut unit = 1u128;
        let mut total = 0.0;
        for level in 0..self.levels {
            let size = self.size_below(end, unit) - self.size_below(first, unit);
            total += weight(level) * size as f64;
            unit *= u128::from(self.base);
        }
        total
    }

    /// `Σ_{u < n} |e(u) - below|` for the digit `e(u) = ⌊u / unit⌋ mod k`.
    fn size_below(&self, n: u128, unit: u128) -> u128 {
        let period = unit * u128::from(self.base);
        let (full, rest) = (n / period, n % period);
        let (whole, part) = (rest / unit, rest % unit);
        let last = (whole as i64 - self.below as i64).unsigned_abs();
        full * unit * self.sizes_of_first(self.base)
            + unit * self.sizes_of_first(whole as u64)
            + part * u128::from(last)
    }

    /// `Σ_{e < count} |e - below|`.
    fn sizes_of_first(&self, count: u64) -> u128 {
        let (count, below) = (u128::from(count), u128::from(self.below));
        if count <= below {
            count * below - count * count.saturating_sub(1) / 2
        } else {
            let positive = count - below;
            below * (below + 1) / 2 + positive * (positive - 1) / 2
        }
    }

    /// `max_{1 ≤ t ≤ T} Σ_l weight(l) · |d_l(t)|`, weights not negative.
    ///
    /// The maximum over a range of numbers is reached at an end of the range or at a number that leaves one end at some
    /// digit and is free below it; `|d|` is convex, so a free digit is best at an end of its range.
    pub(super) fn max_weighted_size(&self, horizon: u64, weight: &dyn Fn(u32) -> f64) -> f64 {
        let low = self.raw_digits(self.offset + 1);
        let high = self.raw_digits(self.offset + u128::from(horizon));
        let size = |e: u64| (e as i64 - self.below as i64).unsigned_abs() as f64;
        let best_between = |from: u64, to: u64| size(from).max(size(to));
        let free_digit = best_between(0, self.base - 1);
        let mut free = vec![0.0; low.len() + 1];
        for level in 0..low.len() {
            free[level + 1] = free[level] + weight(level as u32) * free_digit;
        }
        let mut best = 0.0f64;
        let (mut on_low, mut on_high, mut split) = (0.0, 0.0, false);
        for level in (0..low.len()).rev() {
            let (a, b, w) = (low[level], high[level], weight(level as u32));
            if split {
                if a + 1 < self.base {
                    best = best.max(on_low + w * best_between(a + 1, self.base - 1) + free[level]);
                }
                if b > 0 {
                    best = best.max(on_high + w * best_between(0, b - 1) + free[level]);
                }
            } else if a + 1 < b {
                best = best.max(on_high + w * best_between(a + 1, b - 1) + free[level]);
            }
            split |= a != b;
            on_low += w * size(a);
            on_high += w * size(b);
        }
        best.max(on_low).max(on_high)
    }

    fn raw_digits(&self, mut number: u128) -> Vec<u64> {
        let base = u128::from(self.base);
        (0..self.levels)
            .map(|_| {
                let digit = (number % base) as u64;
                number /= base;
                digit
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::DigitSystem;

    /// Brute force: the digits rebuild the number, and the closed forms are the sums and maxima over all steps.
    #[test]
    fn closed_forms_match_enumeration() {
        let weight = |level: u32| 1.0 / f64::from(level + 1);
        for base in 2..=9u64 {
            for below in 0..base - 1 {
                for horizon in (1..=130).chain([511, 512, 513, 700]) {
                    let system = DigitSystem::new(base, below, horizon);
                    let (mut total, mut max) = (0.0, 0.0f64);
                    for step in 1..=horizon {
                        let (mut sum, mut unit, mut size) = (0i128, 1i128, 0.0);
                        system.for_each_digit(step, |level, digit, lead| {
                            assert!((-(below as i64)..=(base - 1 - below) as i64).contains(&digit));
                            assert_eq!(i128::from(step) - sum, i128::from(lead) * unit);
                            sum += i128::from(digit) * unit;
                            unit *= i128::from(base);
                            size += weight(level) * digit.unsigned_abs() as f64;
                        });
                        assert_eq!(sum, i128::from(step));
                        assert_eq!(size, system.weighted_size(step, &weight));
                        total += size;
                        max = max.max(size);
                    }
                    assert!((total - system.total_weighted_size(horizon, &weight)).abs() < 1e-9 * total);
                    assert!(
                        (max - system.max_weighted_size(horizon, &weight)).abs() < 1e-9,
                        "{base} {below} {horizon}"
                    );
                }
            }
        }
    }
}
