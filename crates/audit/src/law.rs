//! The exact law of a linear statistic of releases under the promise.
//!
//! A statistic `Σ_t v_t (out_t - truth_t)` is `Σ_n w_n z_n` with `w = Lᵀ v` and independent node variables `z_n` of one
//! discrete law. The audit adds a little Gaussian noise to it (**dither**; anything computed from releases is
//! post-processing), so that the statistic has a density, and its distribution function follows from the product of
//! characteristic functions. Folded to the interval `±X`, whose outside has negligible mass, it is a Fourier series:
//!
//! ```text
//! F(x) = 1/2 + x/(2X) + (1/π) Σ_{k≥1} sin(k π x / X)/k · ψ(k π / X),    ψ(t) = exp(-d² t²/2) Π_n φ(w_n t)
//! ```
//!
//! The dither makes the series finite: a normal approximation is not used anywhere, however coarse the noise.

use evertally::noise::DiscreteLaw;
use evertally::number::power;
use std::f64::consts::PI;

/// The law of one node variable, in steps of the noise grid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeLaw {
    law: DiscreteLaw,
    /// s or σ².
    parameter: f64,
    /// `1 - q` with `q = exp(-1/s)`.
    laplace_gap: f64,
    /// P(0), 2 P(1), 2 P(2), … of a Gaussian law with σ² < 1/2; terms fall faster than e^(-k²).
    gaussian_weights: [f64; 7],
}

/// Above this deviation, the discrete laws and the continuous ones differ by less than 10⁻⁷ of any probability used
/// here.
const COARSE: f64 = 2e3;
/// The maximum length of the series of a [`SumLaw`].
const MOST_TERMS: f64 = 2e4;

impl NodeLaw {
    pub(crate) fn new(law: DiscreteLaw) -> Self {
        let parameter = law.parameter().to_f64();
        let weight = |k: usize| if k == 0 { 1.0 } else { 2.0 * libm::exp(-((k * k) as f64) / (2.0 * parameter)) };
        let weights: [f64; 7] = std::array::from_fn(weight);
        let mass: f64 = weights.iter().sum();
        let laplace_gap = -libm::expm1(-1.0 / parameter);
        Self { law, parameter, laplace_gap, gaussian_weights: weights.map(|w| w / mass) }
    }

    pub(crate) fn deviation(&self) -> f64 {
        self.law.variance().sqrt()
    }

    /// s of the Laplace law, σ of the Gaussian.
    pub(crate) fn scale(&self) -> f64 {
        self.law.scale()
    }

    pub(crate) fn is_laplace(&self) -> bool {
        matches!(self.law, DiscreteLaw::Laplace(_))
    }

    /// E cos(t z).
    pub(crate) fn characteristic(&self, t: f64) -> f64 {
        match self.law {
            DiscreteLaw::Laplace(_) => {
                // (1-q)² / (1 - 2 q cos t + q²), and 1 - cos t = 2 sin²(t/2).
                let gap = self.laplace_gap;
                let sine = libm::sin(t / 2.0);
                gap * gap / (gap * gap + 4.0 * (1.0 - gap) * sine * sine)
            }
            DiscreteLaw::Gaussian(_) if self.parameter < 0.5 => {
                // The definition, with cos((k+1) t) = 2 cos t cos(k t) - cos((k-1) t).
                let cosine = libm::cos(t);
                let (mut before, mut now) = (1.0, cosine);
                let mut sum = self.gaussian_weights[0];
                for weight in &self.gaussian_weights[1..] {
                    sum += weight * now;
                    (before, now) = (now, 2.0 * cosine * now - before);
                }
                sum
            }
            DiscreteLaw::Gaussian(_) => {
                // Poisson summation: proportional to Σ_m exp(-σ² (t - 2πm)²/2), with m = 0 alone if σ² is large.
                let t = t - 2.0 * PI * (t / (2.0 * PI)).round();
                let most = if self.parameter > 20.0 { 0 } else { 3 };
                let at = |t: f64| -> f64 {
                    let term = |m| libm::exp(-self.parameter * power(t - 2.0 * PI * f64::from(m), 2) / 2.0);
                    (-most..=most).map(term).sum()
                };
                if most == 0 { at(t) } else { at(t) / at(0.0) }
            }
        }
    }

    /// The logarithm of P(z = k) up to a constant.
    fn log_weight(&self, k: f64) -> f64 {
        match self.law {
            DiscreteLaw::Laplace(_) => -k.abs() / self.parameter,
            DiscreteLaw::Gaussian(_) => -k * k / (2.0 * self.parameter),
        }
    }

    /// The smallest `k` with P(z = k) below e^-`decay` of P(z = 0).
    fn reach(&self, decay: f64) -> f64 {
        match self.law {
            DiscreteLaw::Laplace(_) => decay * self.parameter,
            DiscreteLaw::Gaussian(_) => (2.0 * decay * self.parameter).sqrt(),
        }
        .ceil()
        .max(1.0)
    }

    /// E z², E z⁴ and E z⁶.
    pub(crate) fn moments(&self) -> [f64; 3] {
        if self.deviation() > COARSE {
            let p = self.parameter;
            return match self.law {
                DiscreteLaw::Laplace(_) => [2.0 * p * p, 24.0 * power(p, 4), 720.0 * power(p, 6)],
                DiscreteLaw::Gaussian(_) => [p, 3.0 * p * p, 15.0 * power(p, 3)],
            };
        }
        let (mut mass, mut moments) = (1.0, [0.0; 3]);
        for k in (1..=self.reach(80.0) as u64).map(|k| k as f64) {
            let weight = 2.0 * libm::exp(self.log_weight(k));
            mass += weight;
            moments.iter_mut().zip([2, 4, 6]).for_each(|(m, order)| *m += weight * power(k, order));
        }
        moments.map(|m| m / mass)
    }

    /// P(low ≤ z < high) for each pair of consecutive edges, which rise; the first cell is everything below the first
    /// edge, and the last everything from the last edge on.
    pub(crate) fn cells(&self, edges: &[i64]) -> Vec<f64> {
        let below: Vec<f64> = if self.deviation() > COARSE {
            edges.iter().map(|&edge| self.continuous_below(edge as f64 - 0.5)).collect()
        } else {
            let reach = self.reach(80.0) as i64;
            let weights: Vec<f64> = (-reach..=reach).map(|k| libm::exp(self.log_weight(k as f64))).collect();
            let mass: f64 = weights.iter().sum();
            let below =
                |edge: i64| weights[..(edge + reach).clamp(0, 2 * reach + 1) as usize].iter().sum::<f64>() / mass;
            edges.iter().map(|&edge| below(edge)).collect()
        };
        let ends = std::iter::once(0.0).chain(below.iter().copied());
        ends.zip(below.iter().copied().chain([1.0])).map(|(low, high)| high - low).collect()
    }

    fn continuous_below(&self, x: f64) -> f64 {
        match self.law {
            DiscreteLaw::Gaussian(_) => crate::tails::normal_cdf(x / self.parameter.sqrt()),
            DiscreteLaw::Laplace(_) => {
                let tail = 0.5 * libm::exp(-x.abs() / self.parameter);
                if x < 0.0 { tail } else { 1.0 - tail }
            }
        }
    }
}

/// The law of `Σ w_n z_n` plus dither.
#[derive(Debug)]
pub(crate) struct SumLaw {
    /// `X`.
    reach: f64,
    dither: f64,
    /// `ψ(k π / X) / (k π)` from `k = 1` on.
    coefficients: Vec<f64>,
}

impl SumLaw {
    /// `weights` may contain zeros; `dither` is the standard deviation of the added noise, in units of the statistic.
    /// It is raised if the noise is so sparse (nearly always 0) that the series would be longer than [`MOST_TERMS`].
    pub(crate) fn new(law: &NodeLaw, weights: &[f64], dither: f64) -> Self {
        let grouped = grouped(weights);
        let largest = grouped.iter().map(|(w, _)| *w).fold(0.0, f64::max);
        let norm = weights.iter().map(|w| w * w).sum::<f64>().sqrt();
        let reach = 12.0 * libm::hypot(norm * law.deviation(), dither) + largest * law.reach(40.0);
        let dither = dither.max(9.0 * reach / (PI * MOST_TERMS));
        let terms = (9.0 * reach / (PI * dither)).ceil() as u32;
        let coefficient = |k: u32| {
            let t = f64::from(k) * PI / reach;
            let mut product = libm::exp(-power(dither * t, 2) / 2.0);
            for (weight, times) in &grouped {
                product *= power(law.characteristic(weight * t), *times);
                if product.abs() < 1e-20 {
                    return 0.0;
                }
            }
            product / (f64::from(k) * PI)
        };
        Self { reach, dither, coefficients: (1..=terms).map(coefficient).collect() }
    }

    /// The standard deviation of the added noise.
    pub(crate) fn dither(&self) -> f64 {
        self.dither
    }

    /// P(statistic ≤ x).
    pub(crate) fn below(&self, x: f64) -> f64 {
        if x.abs() >= self.reach {
            return if x < 0.0 { 0.0 } else { 1.0 };
        }
        let angle = PI * x / self.reach;
        let wave: f64 = (1..).zip(&self.coefficients).map(|(k, c)| c * libm::sin(f64::from(k) * angle)).sum();
        (0.5 + x / (2.0 * self.reach) + wave).clamp(0.0, 1.0)
    }
}

/// The nonzero absolute weights, and the number of times each occurs.
fn grouped(weights: &[f64]) -> Vec<(f64, i32)> {
    let largest = weights.iter().fold(0.0f64, |a, w| a.max(w.abs()));
    let mut sizes: Vec<f64> = weights.iter().map(|w| w.abs()).filter(|w| *w > 1e-12 * largest).collect();
    sizes.sort_by(f64::total_cmp);
    let mut groups: Vec<(f64, i32)> = Vec::new();
    for size in sizes {
        match groups.last_mut() {
            Some((known, times)) if size - *known <= 1e-12 * largest => *times += 1,
            _ => groups.push((size, 1)),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tails::normal_cdf;
    use evertally::noise::{DiscreteGaussian, DiscreteLaplace};
    use evertally::number::Ratio;

    fn laws() -> Vec<NodeLaw> {
        let ratios = [(1, 5), (1, 3), (3, 2), (9, 1), (25, 1)].map(|(n, d)| Ratio::new(n, d).unwrap());
        let laplace = ratios.map(|scale| DiscreteLaw::Laplace(DiscreteLaplace::new(scale).unwrap()));
        let gaussian = ratios.map(|variance| DiscreteLaw::Gaussian(DiscreteGaussian::new(variance).unwrap()));
        laplace.into_iter().chain(gaussian).map(NodeLaw::new).collect()
    }

    /// Probabilities by the definition, from -reach on.
    fn probabilities(law: &NodeLaw, reach: i64) -> Vec<f64> {
        let weights: Vec<f64> = (-reach..=reach).map(|k| law.log_weight(k as f64).exp()).collect();
        let mass: f64 = weights.iter().sum();
        weights.iter().map(|w| w / mass).collect()
    }

    #[test]
    fn characteristic_functions_moments_and_cells_are_sums_of_the_probabilities() {
        for law in laws() {
            let reach = 60 * (law.deviation().ceil() as i64).max(1);
            let p = probabilities(&law, reach);
            let mean = |f: &dyn Fn(f64) -> f64| -> f64 { p.iter().zip(-reach..).map(|(p, k)| p * f(k as f64)).sum() };
            for t in [0.0, 0.01, 0.7, 3.0, 6.2, -40.0] {
                assert!((law.characteristic(t) - mean(&|k| (t * k).cos())).abs() < 1e-11, "{law:?} at {t}");
            }
            for (moment, power) in law.moments().into_iter().zip([2, 4, 6]) {
                assert!((moment / mean(&|k| k.powi(power)) - 1.0).abs() < 1e-10, "{law:?}: moment {power}");
            }
            assert!((law.moments()[0] / law.deviation().powi(2) - 1.0).abs() < 1e-10);
            let cells = law.cells(&[-3, 0, 1]);
            let expected = [(-reach, -3), (-3, 0), (0, 1), (1, reach + 1)]
                .map(|(a, b)| p[(a + reach) as usize..(b + reach) as usize].iter().sum::<f64>());
            assert_eq!(cells.len(), 4);
            cells.iter().zip(expected).for_each(|(a, b)| assert!((a - b).abs() < 1e-12, "{law:?}: {a} {b}"));
        }
    }

    /// A lattice of two unequal weights, by convolution and the normal law of the dither.
    #[test]
    fn distribution_functions_are_those_of_a_convolution() {
        for law in laws() {
            let reach = 50 * (law.deviation().ceil() as i64).max(1);
            let p = probabilities(&law, reach);
            let weights = [0.75, 0.0, -0.4];
            let deviation = law.deviation() * (0.75f64 * 0.75 + 0.4 * 0.4).sqrt();
            let dither = 0.03 * deviation;
            let sum = SumLaw::new(&law, &weights, dither);
            for x in [-2.0, -0.31, 0.0, 0.05, 1.0, 3.3].map(|x| x * deviation) {
                let exact: f64 = p
                    .iter()
                    .zip(-reach..)
                    .filter(|(p, _)| **p > 1e-17)
                    .map(|(p1, a)| {
                        let inner = p.iter().zip(-reach..).filter(|(p, _)| **p > 1e-17);
                        p1 * inner
                            .map(|(p2, b)| p2 * normal_cdf((x - 0.75 * a as f64 + 0.4 * b as f64) / sum.dither()))
                            .sum::<f64>()
                    })
                    .sum();
                assert!((sum.below(x) - exact).abs() < 1e-9, "{law:?} at {x}: {} {exact}", sum.below(x));
            }
        }
    }
}
