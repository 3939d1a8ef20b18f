//! Composition of privacy losses: convolution, coarser grids, cut tails.

use super::{LOSS_ROUNDING, PrivacyLoss, Resolution};

/// The smallest positive number; an underflowing product loses at most half of it.
const UNDERFLOW: f64 = f64::from_bits(1);

/// Half distances between losses beyond this would overflow `sinh`: everything is assumed to be revealed.
pub(super) const MAX_HALF_DISTANCE: f64 = 300.0;

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
        // An underflowed exponential is multiplied by at most e^half afterwards, twice.
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
    /// The loss of both releases together: independent noise on the same data, the second possibly chosen after seeing
    /// the first. Both need a symmetric loss, as all losses of this module are.
    ///
    /// ```
    /// use evertally::privacy::{Delta, Epsilon, loss::{PrivacyLoss, Resolution, ShiftProfile}};
    /// use evertally::number::Ratio;
    /// let (delta, fine) = (Delta::new(1e-6)?, Resolution::for_delta(Delta::new(1e-6)?));
    /// let first = PrivacyLoss::laplace(Ratio::new(20, 1)?, &ShiftProfile::ones(10)?, fine);
    /// let second = PrivacyLoss::discrete_gaussian(Ratio::new(300, 1)?, &ShiftProfile::ones(10)?, fine)?;
    /// let both = first.and(&second, fine);
    /// assert!(both.epsilon(delta) < first.epsilon(delta) + second.epsilon(delta));
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn and(&self, other: &Self, resolution: Resolution) -> Self {
        self.product(other, resolution, 1)
    }

    /// Like [`and`](Self::and), if the result will itself be used `copies` times.
    fn product(&self, other: &Self, resolution: Resolution, copies: u64) -> Self {
        let everything = || Self::everything((self.pure + other.pure) * (1.0 + 1e-15));
        if self.infinity >= 1.0 || other.infinity >= 1.0 {
            return everything();
        }
        let (mut a, mut b) = (self.clone(), other.clone());
        while a.half < 0.75 * b.half {
            a = a.coarser();
        }
        while b.half < 0.75 * a.half {
            b = b.coarser();
        }
        if a.half != b.half {
            // The grids do not differ by a power of two: both are moved to one on which the product fills the points.
            let reach = |loss: &Self| loss.half * loss.masses.len() as f64;
            let half = (reach(self) + reach(other)) / resolution.points as f64;
            (a, b) = (self.on_grid(half), other.on_grid(half));
        }
        // The product is usually much narrower than the sum of the ranges, once its tails are cut.
        while a.masses.len() + b.masses.len() > 2 * resolution.points {
            if 2.0 * a.half > MAX_HALF_DISTANCE {
                return everything();
            }
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
                result = Some(result.map_or(square.clone(), |so_far| so_far.and(&square, resolution)));
            }
            left >>= 1;
            match result {
                Some(done) if left == 0 => return done,
                // The square will be used `left` times.
                _ => square = square.product(&square, resolution, left),
            }
        }
    }

    /// Drops the smallest and the largest losses, of at most `tail` probability at each end, and counts them as
    /// infinite.
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
            return; // Everything would be dropped: the distribution is already tiny.
        }
        self.masses.truncate(kept);
        self.masses.drain(..low);
        self.first += 2 * low as i64;
        self.infinity = (self.infinity + (low_sum + high_sum) * (1.0 + self.error + 1e-10)) * (1.0 + 1e-15);
    }

    /// The same loss on another grid. Losses are rounded up by a few units first, which covers all positions.
    pub(super) fn on_grid(&self, half: f64) -> Self {
        let point = |i: usize| {
            let loss = (self.first + 2 * i as i64) as f64 * self.half;
            (loss + 2.0 * LOSS_ROUNDING * loss.abs()) / (2.0 * half)
        };
        // Point `place` of the new grid is the loss `2 half place`.
        let (lowest, highest) = (libm::floor(point(0)), libm::floor(point(self.masses.len() - 1)));
        let mut bins = Bins::new(half, 2 * lowest as i64, (highest - lowest) as usize + 2);
        for (i, mass) in self.masses.iter().enumerate() {
            let (place, cell) = (point(i), libm::floor(point(i)));
            bins.split((cell - lowest) as usize, (place - cell) * half, *mass);
        }
        let error = (self.error + 1e-14 * (1.0 + half)) * (1.0 + 1e-9);
        bins.finish(error, self.infinity * (1.0 + 1e-15), self.pure)
    }

    /// The same loss on a grid twice as wide: every second point stays, or, if the grid points are odd, all points move
    /// by a quarter of the new distance.
    pub(super) fn coarser(&self) -> Self {
        let wide = 2.0 * self.half;
        if wide > MAX_HALF_DISTANCE {
            return Self::everything(self.pure);
        }
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
