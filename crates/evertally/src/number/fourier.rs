//! Convolutions in floating point by Fourier transforms, for simulations and figures.

use std::f64::consts::PI;

/// A filter of real series: `y_t = Σ_j c_j x_{t-j}` for `t` below its length. Rounding errors are some `10^-16 log n` of
/// the norms of the two series.
#[derive(Clone, Debug)]
pub(crate) struct Convolution {
    length: usize,
    /// `exp(-πi j / h)` at place `h + j`, for `j < h` and every power of two `h`.
    twiddles: Vec<[f64; 2]>,
    /// Of the coefficients, in the order of the stages, over the number of points.
    spectrum: Vec<[f64; 2]>,
}

fn times([a, b]: [f64; 2], [c, d]: [f64; 2]) -> [f64; 2] {
    [a * c - b * d, a * d + b * c]
}

impl Convolution {
    /// With one coefficient for each place of a series. `O(n log n)` time, `8 n` words.
    pub(crate) fn new(coefficients: &[f64]) -> Self {
        let length = coefficients.len();
        // What wraps around falls behind the length.
        let points = (2 * length).next_power_of_two().max(2);
        let mut twiddles = vec![[1.0, 0.0]; points];
        let mut half = 1;
        while half < points {
            for (j, twiddle) in twiddles[half..2 * half].iter_mut().enumerate() {
                let angle = PI * j as f64 / half as f64;
                *twiddle = [libm::cos(angle), -libm::sin(angle)];
            }
            half *= 2;
        }
        let mut filter = Self { length, twiddles, spectrum: Vec::new() };
        let mut spectrum = filter.padded(coefficients);
        filter.forward(&mut spectrum);
        let share = 1.0 / points as f64;
        spectrum.iter_mut().for_each(|[re, im]| (*re, *im) = (*re * share, *im * share));
        filter.spectrum = spectrum;
        filter
    }

    /// The filtered series, as long as the filter. `O(n log n)`.
    pub(crate) fn of(&self, series: &[f64]) -> Vec<f64> {
        let mut data = self.padded(series);
        self.forward(&mut data);
        data.iter_mut().zip(&self.spectrum).for_each(|(x, c)| *x = times(*x, *c));
        self.backward(&mut data);
        data[..self.length].iter().map(|[re, _]| *re).collect()
    }

    fn padded(&self, series: &[f64]) -> Vec<[f64; 2]> {
        let mut data: Vec<[f64; 2]> = series[..series.len().min(self.length)].iter().map(|x| [*x, 0.0]).collect();
        data.resize(self.twiddles.len(), [0.0; 2]);
        data
    }

    /// Decimation in frequency: leaves the spectrum in bit-reversed order.
    fn forward(&self, data: &mut [[f64; 2]]) {
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

    /// Decimation in time, from that order back; not divided by the number of points.
    fn backward(&self, data: &mut [[f64; 2]]) {
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

#[cfg(test)]
mod tests {
    use super::Convolution;

    #[test]
    fn sums_are_those_of_the_definition() {
        for length in [1usize, 2, 3, 8, 100, 129] {
            let coefficients: Vec<f64> = (0..length).map(|j| 1.0 / (j as f64 + 1.0).sqrt()).collect();
            let series: Vec<f64> = (0..length).map(|j| ((j * 7919) % 31) as f64 - 15.0).collect();
            let filtered = Convolution::new(&coefficients).of(&series);
            for t in 0..length {
                let want: f64 = (0..=t).map(|j| coefficients[j] * series[t - j]).sum();
                assert!((filtered[t] - want).abs() < 1e-11, "length {length}, place {t}");
            }
        }
    }
}
