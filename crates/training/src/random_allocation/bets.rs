//! An upper bound of a mean from bounded weights, by betting against larger ones; see the header of
//! `random_allocation.rs`.

/// Drawn weights, most of which are 0.
#[derive(Debug, Default)]
pub(super) struct DrawnWeights {
    pub(super) count: u64,
    pub(super) positive: Vec<f64>,
}

impl DrawnWeights {
    pub(super) fn push(&mut self, weight: f64) {
        self.count += 1;
        if weight > 0.0 {
            self.positive.push(weight);
        }
    }

    /// The weights of several draws.
    pub(super) fn all(draws: Vec<Self>) -> Self {
        draws.into_iter().fold(Self::default(), |mut all, own| {
            all.count += own.count;
            all.positive.extend(own.positive);
            all
        })
    }

    pub(super) fn mean(&self) -> f64 {
        self.positive.iter().sum::<f64>() / self.count as f64
    }

    /// The mean square over the square of the mean, minus 1.
    pub(super) fn relative_variance(&self) -> f64 {
        let squares = self.positive.iter().map(|weight| weight * weight).sum::<f64>() / self.count as f64;
        squares / (self.mean() * self.mean()) - 1.0
    }

    /// The value of the stake `λ` that bets on a mean below `mean`: the logarithm of the final capital from an
    /// initial 1.
    fn won(&self, stake: f64, mean: f64) -> f64 {
        let zeros = self.count - self.positive.len() as u64;
        let each = |weight: &f64| libm::log1p(stake * (mean - weight));
        zeros as f64 * libm::log1p(stake * mean) + self.positive.iter().map(each).sum::<f64>()
    }

    /// The smallest `μ` that is refuted with `ln(1/β)`, at most `bound`, by a stake that was chosen before the
    /// weights were drawn.
    pub(super) fn upper(&self, bet: Bet, bound: f64) -> f64 {
        let (mut low, mut high) = (0.0, bound);
        if self.won(bet.stake, high) < bet.surprise {
            return bound;
        }
        for _ in 0..60 {
            let middle = low + (high - low) / 2.0;
            if self.won(bet.stake, middle) >= bet.surprise { high = middle } else { low = middle }
        }
        high
    }
}

/// A stake, and the evidence that it needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bet {
    stake: f64,
    /// `ln(1/β)`.
    surprise: f64,
}

impl Bet {
    /// For this many weights below `bound` with about this mean and relative variance.
    pub(super) fn new(count: u64, bound: f64, (mean, variance): (f64, f64), surprise: f64) -> Self {
        let best = (2.0 * surprise / count as f64 / variance.max(1e-3)).sqrt() / mean;
        Self { stake: best.min(0.9 / bound), surprise }
    }

    /// The approximate relative excess of the bound over the mean.
    pub(super) fn excess(self, count: u64, (mean, variance): (f64, f64)) -> f64 {
        (self.surprise / count as f64 / self.stake + self.stake * variance * mean * mean / 2.0) / mean
    }
}
