//! Convolutions in floating point by Fourier transforms, for simulations and figures; series with a given absolute
//! value. [`FourierTransform`] itself also serves the accounting of sampled noise, which adds a bound of its rounding
//! errors.

use std::f64::consts::PI;

/// A Fourier transform over a power of two of points.
///
/// **Rounding.** With the unit `u = 2^-53`: an angle is right to `4.3 u` (π and one product, both below `π`), a twiddle
/// to `6 u`; a stage adds `u` for its sum and `√5 u` for its product. So a stage errs by at most [`Self::STAGE`] of the
/// sizes of its summands. A transform errs by `STAGE log₂ n` (to first order) of the sum of the sizes of its input, at
/// every index, and of the Euclidean norm of its output, as a whole.
#[doc(alias = "Transform")]
#[derive(Clone, Debug)]
pub struct FourierTransform {
    /// `exp(-πi j / h)` at index `h + j`, for `j < h` and every power of two `h`.
    twiddles: Vec<[f64; 2]>,
}

fn times([a, b]: [f64; 2], [c, d]: [f64; 2]) -> [f64; 2] {
    [a * c - b * d, a * d + b * c]
}

impl FourierTransform {
    /// Sixteen units; `10 √2` are enough.
    pub const STAGE: f64 = 8.0 * f64::EPSILON;

    /// Of a power of two of points.
    pub fn new(points: usize) -> Self {
        let mut twiddles = vec![[1.0, 0.0]; points];
        let mut half = 1;
        while half < points {
            for (j, twiddle) in twiddles[half..2 * half].iter_mut().enumerate() {
                let angle = PI * j as f64 / half as f64;
                *twiddle = [libm::cos(angle), -libm::sin(angle)];
            }
            half *= 2;
        }
        Self { twiddles }
    }

    /// The number of points.
    pub fn points(&self) -> usize {
        self.twiddles.len()
    }

    /// Decimation in frequency: leaves the spectrum in bit-reversed order.
    pub fn forward(&self, data: &mut [[f64; 2]]) {
        let mut half = data.len() / 2;
        while half > 0 {
            let twiddles = &self.twiddles[half..2 * half];
            for block in data.chunks_exact_mut(2 * half) {
                let (low, high) = block.split_at_mut(half);
                for ((a, b), w) in low.iter_mut().zip(high).zip(twiddles) {
                    let difference = [a[0] - b[0], a[1] - b[1]];
                    *a = [a[0] + b[0], a[1] + b[1]];
                    *b = times(difference, *w);
                }
            }
            half /= 2;
        }
    }

    /// Decimation in time, the inverse of that order; not divided by the number of points.
    pub fn backward(&self, data: &mut [[f64; 2]]) {
        let mut half = 1;
        while half < data.len() {
            let twiddles = &self.twiddles[half..2 * half];
            for block in data.chunks_exact_mut(2 * half) {
                let (low, high) = block.split_at_mut(half);
                for ((a, b), w) in low.iter_mut().zip(high).zip(twiddles) {
                    let turned = times(*b, [w[0], -w[1]]);
                    *b = [a[0] - turned[0], a[1] - turned[1]];
                    *a = [a[0] + turned[0], a[1] + turned[1]];
                }
            }
            half *= 2;
        }
    }
}

/// The index of the negative frequency of the one at this index, in the order of the stages: the bits below the highest
/// one are inverted.
pub fn mirrored(place: usize) -> usize {
    if place == 0 { 0 } else { place ^ ((1 << place.ilog2()) - 1) }
}

/// The number whose bits, in reversed order, are those of an index.
fn reversed(place: usize, points: usize) -> usize {
    if points == 1 { 0 } else { place.reverse_bits() >> (usize::BITS - points.trailing_zeros()) }
}

/// The first `length` coefficients of the power series without zeros or poles inside the unit circle whose absolute
/// value at `e^(iθ)`, `θ = 2π k/n`, has these logarithms (`n` a power of two, symmetric around `π`): the exponential of
/// the half of their Fourier series that belongs to powers from 0 on. `None` if it is cancelled, which it asks a few
/// times. `O(n log n)`.
pub fn outer(logarithms: &[f64], length: usize, is_cancelled: &dyn Fn() -> bool) -> Option<Vec<f64>> {
    let points = logarithms.len();
    let (transform, share) = (FourierTransform::new(points), 1.0 / points as f64);
    let mut data: Vec<[f64; 2]> = logarithms.iter().map(|own| [own * share, 0.0]).collect();
    if is_cancelled() {
        return None;
    }
    transform.forward(&mut data);
    for (place, value) in data.iter_mut().enumerate() {
        let power = reversed(place, points);
        let kept = if power == 0 || 2 * power == points { 1.0 } else { 2.0 * f64::from(u8::from(2 * power < points)) };
        *value = [kept * value[0], 0.0];
    }
    if is_cancelled() {
        return None;
    }
    transform.backward(&mut data);
    if is_cancelled() {
        return None;
    }
    for [re, im] in &mut data {
        let size = libm::exp(*re) * share;
        (*re, *im) = (size * libm::cos(*im), size * libm::sin(*im));
    }
    if is_cancelled() {
        return None;
    }
    transform.forward(&mut data);
    Some((0..length).map(|power| data[reversed(power, points)][0]).collect())
}

/// A filter of real series: `y_t = Σ_j c_j x_{t-j}` for `t` below its length. Rounding errors are about `10^-16 log n`
/// of the norms of the two series.
#[doc(alias = "Convolution")]
#[derive(Clone, Debug)]
pub struct RealConvolution {
    length: usize,
    transform: FourierTransform,
    /// The transform of the coefficients, in the order of the stages, over the number of points.
    spectrum: Vec<[f64; 2]>,
}

impl RealConvolution {
    /// With one coefficient per index of a series. `O(n log n)` time, `8 n` words.
    pub fn new(coefficients: &[f64]) -> Self {
        let length = coefficients.len();
        // The wrapped-around part lies beyond the length.
        let points = (2 * length).next_power_of_two().max(2);
        let mut filter = Self { length, transform: FourierTransform::new(points), spectrum: Vec::new() };
        let mut spectrum = filter.padded(coefficients);
        filter.transform.forward(&mut spectrum);
        let share = 1.0 / points as f64;
        spectrum.iter_mut().for_each(|[re, im]| (*re, *im) = (*re * share, *im * share));
        filter.spectrum = spectrum;
        filter
    }

    /// The filtered series, as long as the filter. `O(n log n)`.
    pub fn of(&self, series: &[f64]) -> Vec<f64> {
        let mut data = self.padded(series);
        self.transform.forward(&mut data);
        data.iter_mut().zip(&self.spectrum).for_each(|(x, c)| *x = times(*x, *c));
        self.transform.backward(&mut data);
        data[..self.length].iter().map(|[re, _]| *re).collect()
    }

    fn padded(&self, series: &[f64]) -> Vec<[f64; 2]> {
        let mut data: Vec<[f64; 2]> = series[..series.len().min(self.length)].iter().map(|x| [*x, 0.0]).collect();
        data.resize(self.transform.points(), [0.0; 2]);
        data
    }
}

#[cfg(test)]
mod tests {
    use super::{RealConvolution, mirrored, outer, reversed};

    #[test]
    fn mirrored_places_hold_opposite_frequencies() {
        for place in 0..64 {
            let sum = reversed(place, 64) + reversed(mirrored(place), 64);
            assert_eq!(sum % 64, 0, "place {place}");
        }
    }

    /// (1 - z/2)^(-1/2) has no zero inside the circle, so its absolute value determines it.
    #[test]
    fn a_size_tells_the_series() {
        let size = |k: usize| {
            let angle = std::f64::consts::TAU * k as f64 / 256.0;
            let squared = 1.25 - libm::cos(angle);
            -0.25 * libm::log(squared)
        };
        let found = outer(&(0..256).map(size).collect::<Vec<_>>(), 20, &|| false).unwrap();
        let mut want = 1.0;
        for (j, found) in found.iter().enumerate() {
            assert!((found - want).abs() < 1e-13, "{j}: {found}, not {want}");
            want *= (2 * j + 1) as f64 / (2 * j + 2) as f64 / 2.0;
        }
    }

    #[test]
    fn sums_are_those_of_the_definition() {
        for length in [1usize, 2, 3, 8, 100, 129] {
            let coefficients: Vec<f64> = (0..length).map(|j| 1.0 / (j as f64 + 1.0).sqrt()).collect();
            let series: Vec<f64> = (0..length).map(|j| ((j * 7919) % 31) as f64 - 15.0).collect();
            let filtered = RealConvolution::new(&coefficients).of(&series);
            for t in 0..length {
                let want: f64 = (0..=t).map(|j| coefficients[j] * series[t - j]).sum();
                assert!((filtered[t] - want).abs() < 1e-11, "length {length}, place {t}");
            }
        }
    }
}
