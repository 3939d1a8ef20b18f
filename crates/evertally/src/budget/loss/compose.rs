//! Composition of privacy losses: convolution, coarser grids, cut tails.

use super::{PrivacyLoss, Resolution};

/// The least positive number; what is lost when a product underflows is at most half of it.
const UNDERFLOW: f64 = f64::from_bits(1);

/// Probabilities on a grid of losses while they are being filled: `bins[i]` at loss `(first + 2i) half`.
pub(super) struct Bins {
    pub(super) half: f64,
    pub(super) first: i64,
    pub(super) masses: Vec<f64>,
}

impl Bins {
    pub(super) fn new(half: f64, first: i64, points: usize) -> Self {
        Self { half, first, masses: vec![0.0; points] }
    }

    /// Splits mass at a loss that lies `above` beyond grid point `index`, `above` in halves of losses from 0 to `half`.
    pub(super) fn split(&mut self, index: usize, above: f64, mass: f64) {
        if above == 0.0 {
            self.masses[index] += mass;
            return;
        }
        let below = self.half - above;
        let whole = libm::sinh(self.half);
        self.masses[index] += mass * libm::exp(-above) * (libm::sinh(below) / whole);
        self.masses[index + 1] += mass * libm::exp(below) * (libm::sinh(above) / whole);
    }

    /// The finished distribution, whose masses are right to a relative `error`.
    pub(super) fn finish(self, error: f64, infinity: f64, pure: f64) -> PrivacyLoss {
        // An exponential that underflowed is multiplied by at most e^half afterwards, twice.
        let lost = 8.0 * self.masses.len() as f64 * UNDERFLOW * libm::exp(2.0 * self.half);
        PrivacyLoss {
            half: self.half,
            first: self.first,
            masses: self.masses,
            error,
            infinity: infinity + lost,
            pure: pure * (1.0 + 1e-15),
        }
    }
}

impl PrivacyLoss {
    /// The loss of both releases together, on a grid of at most `resolution`'s points; the result will itself serve
    /// `copies` times. Their grids must be powers of two apart.
    pub(super) fn and(&self, other: &Self, resolution: Resolution, copies: u64) -> Self {
        let (mut a, mut b) = (self.clone(), other.clone());
        while a.half < 0.75 * b.half {
            a = a.coarser();
        }
        while b.half < 0.75 * a.half {
            b = b.coarser();
        }
        // The product is usually much narrower than the sum of the ranges, once its tails are cut.
        while a.masses.len() + b.masses.len() > 2 * resolution.points {
            (a, b) = (a.coarser(), b.coarser());
        }
        let (n, m) = (a.masses.len() as f64, b.masses.len() as f64);
        let rounding = (n.min(m) + 4.0) * f64::EPSILON;
        let mut product = Self {
            half: a.half,
            first: a.first + b.first,
            masses: convolution(&a.masses, &b.masses),
            error: (a.error + b.error + a.error * b.error + rounding) * (1.0 + 1e-9),
            infinity: (a.infinity + b.infinity + n * m * UNDERFLOW) * (1.0 + 1e-15),
            pure: (a.pure + b.pure) * (1.0 + 1e-15),
        };
        product.cut_tails(resolution.tail(copies));
        while product.masses.len() > resolution.points {
            product = product.coarser();
        }
        product
    }

    /// The loss of `count` independent releases like this one, `count ≥ 1`, by repeated squaring.
    pub(super) fn repeated(&self, count: u64, resolution: Resolution) -> Self {
        let (mut result, mut square, mut left) = (None::<Self>, self.clone(), count);
        loop {
            if left & 1 == 1 {
                result = Some(result.map_or(square.clone(), |so_far| so_far.and(&square, resolution, 1)));
            }
            left >>= 1;
            match result {
                Some(done) if left == 0 => return done,
                // The square serves `left` times in the end.
                _ => square = square.and(&square, resolution, left),
            }
        }
    }

    /// Drops the least and the greatest losses, of at most `tail` probability at each end, and counts them as infinite.
    pub(super) fn cut_tails(&mut self, tail: f64) {
        let reach = |masses: &mut dyn Iterator<Item = &f64>| {
            let (mut sum, mut number) = (0.0, 0);
            for mass in masses {
                if sum + mass > tail {
                    break;
                }
                sum += mass;
                number += 1;
            }
            (sum, number)
        };
        let (low_sum, low) = reach(&mut self.masses.iter());
        let (high_sum, high) = reach(&mut self.masses[low..].iter().rev());
        let kept = self.masses.len() - high;
        if low >= kept {
            return; // Everything would go: the distribution is tiny already.
        }
        self.masses.truncate(kept);
        self.masses.drain(..low);
        self.first += 2 * low as i64;
        self.infinity = (self.infinity + (low_sum + high_sum) * (1.0 + self.error + 1e-12)) * (1.0 + 1e-15);
    }

    /// The same loss on a grid twice as wide: every second point stays, or, where the grid points are odd, all points
    /// move by a quarter of the new distance.
    fn coarser(&self) -> Self {
        let wide = 2.0 * self.half;
        let points = self.masses.len() / 2 + 2;
        // New points are the losses ≡ start (mod 4) in units of the old half.
        let odd = self.first.rem_euclid(2);
        let start = self.first - odd * 3;
        let mut bins = Bins::new(wide, start / 2, points);
        let whole = libm::sinh(wide);
        // Shares of an old point that lies `above` (in old halves, 0 to 3) beyond a new one.
        let shares: [(f64, f64); 4] = std::array::from_fn(|above| {
            let above = above as f64 / 2.0 * self.half;
            let below = wide - above;
            (libm::exp(-above) * (libm::sinh(below) / whole), libm::exp(below) * (libm::sinh(above) / whole))
        });
        for (i, mass) in self.masses.iter().enumerate() {
            let offset = 3 * odd as usize + 2 * i;
            let (lower, upper) = shares[offset % 4];
            bins.masses[offset / 4] += mass * lower;
            bins.masses[offset / 4 + 1] += mass * upper;
        }
        while bins.masses.len() > 1 && bins.masses.last() == Some(&0.0) {
            bins.masses.pop();
        }
        // Factors as large as e^half and quotients of sinh are right to 1e-14 (1 + half).
        let error = (self.error + 1e-14 * (1.0 + wide)) * (1.0 + 1e-9);
        bins.finish(error, self.infinity * (1.0 + 1e-15), self.pure)
    }
}

/// `Σ a_i b_{k-i}`; every sum has at most `min(n, m) + 3` terms, all of them non-negative. The order of operations is
/// fixed: four rows at a time.
fn convolution(a: &[f64], b: &[f64]) -> Vec<f64> {
    let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    let mut padded = vec![0.0; long.len() + 6];
    padded[3..3 + long.len()].copy_from_slice(long);
    let mut out = vec![0.0; short.len().next_multiple_of(4) + long.len() - 1];
    for (block, row) in short.chunks(4).enumerate() {
        let factor = |i: usize| row.get(i).copied().unwrap_or(0.0);
        let (f0, f1, f2, f3) = (factor(0), factor(1), factor(2), factor(3));
        let width = long.len() + 3;
        let windows = padded[3..3 + width].iter().zip(&padded[2..2 + width]).zip(&padded[1..]).zip(&padded);
        for (sum, (((b0, b1), b2), b3)) in out[4 * block..4 * block + width].iter_mut().zip(windows) {
            *sum += ((f0 * b0 + f1 * b1) + f2 * b2) + f3 * b3;
        }
    }
    out.truncate(a.len() + b.len() - 1);
    out
}
