//! The law of the sum of all bins, by Fourier transforms; see the header of `disjoint.rs`.

use super::dilated::{Dilated, dilated};
use super::grid::SumGrid;
use super::kinds::{EqualBins, UNIT};
use crate::poisson_subsampling::{LossSpectrum, TransformErrors, Workspace};

/// Maximum number of cells of a law, in windows and in all.
const MAX_WINDOWS: usize = 64;
const MAX_CELLS: usize = 1 << 24;

/// All bins at a noise on a grid.
pub(super) struct BinSums<'a> {
    kinds: &'a [(EqualBins, f64)],
    laws: Vec<Dilated>,
    grid: SumGrid,
}

/// The tilted law of the sum of the bins on a grid.
pub(super) struct TiltedSum {
    /// Not divided by the number of points, from 0 on.
    masses: Vec<[f64; 2]>,
    /// Bounds of their errors, once divided.
    errors: TransformErrors,
    /// The logarithm of the factor of all tilted masses.
    value: f64,
    lambda: f64,
    step: f64,
}

impl<'a> BinSums<'a> {
    pub(super) fn new(kinds: &'a [(EqualBins, f64)], grid: SumGrid) -> Self {
        let on_grid = |(kind, limit): &(EqualBins, f64)| {
            // Any limit gives a bound. Cells far beyond the window would take memory without making it smaller.
            let most = (MAX_WINDOWS * grid.points).min(MAX_CELLS) as f64;
            let cells = (limit / grid.step).ceil().clamp(1.0, most) as usize;
            dilated(kind.square, &(0..=cells).map(|k| k as f64 * grid.step).collect::<Vec<_>>())
        };
        Self { kinds, laws: kinds.iter().map(on_grid).collect(), grid }
    }

    fn bins(&self) -> f64 {
        self.kinds.iter().map(|(kind, _)| kind.count as f64).sum()
    }

    /// The mean of `M` that the limits cut.
    pub(super) fn beyond(&self) -> f64 {
        let each = self.kinds.iter().zip(&self.laws).map(|((kind, _), law)| kind.count as f64 * law.beyond);
        each.sum::<f64>() / self.bins() * (1.0 + 64.0 * UNIT)
    }

    /// The law of the sum under `Q`.
    pub(super) fn without(&self, lambda: f64, space: &mut Workspace) -> TiltedSum {
        self.sum(None, lambda, space)
    }

    /// The law of the sum under `P`: for every kind, the share of its bins, and the law if the example is in one.
    pub(super) fn with(&self, lambda: f64, space: &mut Workspace) -> Vec<(f64, TiltedSum)> {
        let share = |kind: &(EqualBins, f64)| kind.0.count as f64 / self.bins();
        let shares: Vec<f64> = self.kinds.iter().map(share).collect();
        shares.into_iter().enumerate().map(|(at, share)| (share, self.sum(Some(at), lambda, space))).collect()
    }

    fn sum(&self, moved: Option<usize>, lambda: f64, space: &mut Workspace) -> TiltedSum {
        let grid = &self.grid;
        let transform = space.transform(grid.points);
        let mut data = vec![[0.0; 2]; grid.points];
        let mut spectrum = LossSpectrum::new(grid.points, self.kinds.len() + 1);
        let mut value = 0.0;
        for (at, ((kind, _), law)) in self.kinds.iter().zip(&self.laws).enumerate() {
            let own = u64::from(moved == Some(at));
            for (is_moved, count) in [(false, kind.count - own), (true, own)] {
                if count == 0 {
                    continue;
                }
                // Any number serves as the scale.
                let log = if lambda == 0.0 { 0.0 } else { cumulant(law, is_moved, lambda, grid.step) };
                data.fill([0.0; 2]);
                let mut sum = 0.0;
                for (place, mass) in law.masses.iter().enumerate() {
                    let y = place as f64 * grid.step;
                    let exponent = lambda * y;
                    let rounding = 1.0 + UNIT * (256.0 + 4.0 * (exponent.abs() + log.abs()));
                    let tilt = if lambda == 0.0 { 1.0 } else { libm::exp(exponent - log) };
                    let weight = mass * if is_moved { y } else { 1.0 } * tilt * rounding;
                    data[place % grid.points][0] += weight;
                    sum += weight;
                }
                transform.forward(&mut data);
                spectrum.multiply(&data, sum, count as f64);
                value += count as f64 * log;
            }
        }
        let errors = spectrum.back(transform, &mut data);
        TiltedSum { masses: data, errors, value, lambda, step: grid.step }
    }

    /// A bound of the probability under `P` of a sum beyond the window, by Chernoff's bound.
    pub(super) fn tail(&self) -> f64 {
        let (end, tilt) = (self.grid.end(), self.grid.beyond);
        let log = |law: &Dilated, is_moved: bool| cumulant(law, is_moved, tilt, self.grid.step);
        let logs: Vec<(f64, f64)> = self.laws.iter().map(|law| (log(law, false), log(law, true))).collect();
        let kinds = || self.kinds.iter().map(|(kind, _)| kind.count as f64).zip(&logs);
        let all: f64 = kinds().map(|(count, (own, _))| count * own).sum();
        let slack = 1e-12 * (self.bins() + all.abs() + tilt * end);
        let of_kind = |(count, (own, moved)): (f64, &(f64, f64))| {
            count / self.bins() * libm::exp(all - own + moved - tilt * end + slack)
        };
        kinds().map(of_kind).sum()
    }
}

impl TiltedSum {
    /// `e^{K - λ s}` at a threshold, with the masses not yet divided, rounded up.
    fn scale(&self, threshold: f64) -> f64 {
        let points = self.masses.len() as f64;
        let size = self.value.abs() + self.lambda.abs() * (threshold + points * self.step);
        let room = 1.0 + UNIT * (64.0 + 2.0 * points);
        libm::exp(self.value - self.lambda * threshold + 16.0 * UNIT * (size + 1.0)) * room
    }

    /// The integral of a function of `s`, times `e^{λ(threshold - s)}`, over some places.
    fn integral(&self, threshold: f64, places: std::ops::Range<usize>, weight: impl Fn(f64) -> f64) -> f64 {
        let (mut sum, mut square) = (0.0, 0.0);
        for place in places {
            let s = place as f64 * self.step;
            let tilt = if self.lambda == 0.0 { 1.0 } else { libm::exp(self.lambda * (threshold - s)) };
            let weight = weight(s).max(0.0) * tilt;
            sum += weight * self.masses[place][0].max(0.0);
            square += weight * weight;
        }
        self.scale(threshold) * (sum / self.masses.len() as f64 + self.errors.norm * square.sqrt())
    }

    /// A bound of `E (1 - threshold/S)₊` over the window.
    pub(super) fn above(&self, threshold: f64) -> f64 {
        let first = (threshold / self.step) as usize;
        self.integral(threshold, first..self.masses.len(), |s| 1.0 - threshold / s.max(threshold))
    }

    /// A bound of `E (1 - S/threshold)₊`.
    pub(super) fn below(&self, threshold: f64) -> f64 {
        let end = ((threshold / self.step) as usize + 2).min(self.masses.len());
        self.integral(threshold, 0..end, |s| 1.0 - s / threshold)
    }

    /// A bound of the mass at a place.
    pub(super) fn mass(&self, place: usize) -> f64 {
        let tilted = self.masses[place][0].max(0.0) / self.masses.len() as f64 + self.errors.each;
        tilted * self.scale(place as f64 * self.step)
    }
}

/// `ln E e^{λ Y}`, or `ln E Y e^{λ Y}`, to about `10^-13` times the size of the exponents.
fn cumulant(law: &Dilated, is_moved: bool, lambda: f64, step: f64) -> f64 {
    let points = || {
        law.masses.iter().enumerate().map(|(place, mass)| {
            let y = place as f64 * step;
            (lambda * y, mass * if is_moved { y } else { 1.0 })
        })
    };
    // The largest exponent alone could leave only zeros.
    let kept = points().step_by(1 + law.masses.len() / 256).chain(points().next_back());
    let most = kept.filter(|(_, mass)| *mass > 0.0).map(|(exponent, mass)| exponent + libm::log(mass));
    let most = most.fold(f64::NEG_INFINITY, f64::max);
    most + libm::log(points().map(|(exponent, mass)| libm::exp(exponent - most) * mass).sum::<f64>())
}
