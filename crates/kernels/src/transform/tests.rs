use super::*;
use crate::instruction_set::InstructionSet;
use std::f64::consts::TAU;

/// Deterministic numbers in [-1, 1).
fn noise<F: Real>(count: usize) -> Vec<F> {
    let mut state = 1u64;
    let next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        F::of((state >> 11) as f64 / (1u64 << 52) as f64 - 1.0)
    };
    std::iter::repeat_with(next).take(count).collect()
}

/// The complex series of one lane.
fn lane<F: Real + Into<f64>>(data: &[F], lane: usize) -> Vec<[f64; 2]> {
    data.chunks(2 * F::LANES).map(|point| [point[lane].into(), point[F::LANES + lane].into()]).collect()
}

/// The position of each frequency in the spectrum: the position of the transform of a pure wave.
fn order<F: Real + Into<f64>>(transform: &LaneTransform<F>) -> Vec<usize> {
    let points = transform.points();
    let wave = |frequency: usize| {
        let mut data = vec![F::default(); transform.numbers()];
        for (j, point) in data.chunks_mut(2 * F::LANES).enumerate() {
            let angle = TAU * (frequency * j % points) as f64 / points as f64;
            (point[0], point[F::LANES]) = (F::of(angle.cos()), F::of(angle.sin()));
        }
        transform.forward(InstructionSet::PORTABLE, &mut data);
        let found = lane(&data, 0);
        let peak = found.iter().position(|x| x[0] > points as f64 / 2.0).expect("a peak");
        let rest: f64 =
            found.iter().enumerate().filter(|(f, _)| *f != peak).map(|(_, x)| x[0].abs() + x[1].abs()).sum();
        assert!(rest < 1e-4 * (points * points) as f64, "{rest}");
        peak
    };
    (0..points).map(wave).collect()
}

fn agrees_with_the_definition<F: Real + Into<f64>>(tolerance: f64) {
    for points in [16, 32, 64, 128] {
        let transform = LaneTransform::<F>::new(points);
        let order = order(&transform);
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..points), "every frequency has its place");
        let series = noise::<F>(transform.numbers());
        let mut spectrum = series.clone();
        transform.forward(InstructionSet::best(), &mut spectrum);
        for l in [0, F::LANES - 1] {
            let (x, found) = (lane(&series, l), lane(&spectrum, l));
            for (frequency, place) in order.iter().enumerate() {
                let (mut re, mut im) = (0.0, 0.0);
                for (j, [a, b]) in x.iter().enumerate() {
                    let (sin, cos) = (TAU * (frequency * j % points) as f64 / points as f64).sin_cos();
                    (re, im) = (re + a * cos + b * sin, im + b * cos - a * sin);
                }
                let error = (found[*place][0] - re).hypot(found[*place][1] - im);
                assert!(error < tolerance * (points as f64).sqrt(), "{points} {frequency}: {error}");
            }
        }
    }
}

#[test]
fn the_spectrum_is_that_of_the_definition() {
    agrees_with_the_definition::<f32>(1e-6);
    agrees_with_the_definition::<f64>(2e-15);
}

fn inverts<F: Real + Into<f64>>(tolerance: f64) {
    for log in 4..=12 {
        let transform = LaneTransform::<F>::new(1 << log);
        let series = noise::<F>(transform.numbers());
        let mut data = series.clone();
        transform.forward(InstructionSet::best(), &mut data);
        transform.inverse(InstructionSet::best(), &mut data);
        for (x, y) in series.iter().zip(&data) {
            let error = ((*x).into() - (*y).into() / transform.points() as f64).abs();
            assert!(error < tolerance, "2^{log}: {error}");
        }
    }
}

#[test]
fn the_inverse_undoes_the_transform() {
    inverts::<f32>(1e-6);
    inverts::<f64>(2e-15);
}

/// Everything a transform can do, one after the other.
fn all_of_it<F: Bits>(instructions: InstructionSet, points: usize) -> Vec<F> {
    let transform = LaneTransform::<F>::new(points);
    let (point, stride) = (2 * F::LANES, 3 * 2 * F::LANES);
    let rows = noise::<F>(points / 2 * stride);
    let mut spectra = vec![vec![F::default(); transform.numbers()]; 6];
    for (k, spectrum) in spectra.iter_mut().enumerate() {
        transform.forward_padded(instructions, &rows[k % 3 * point..], stride, spectrum);
    }
    let numbers = noise::<F>(14 * points);
    let filters: Vec<Vec<[F; 2]>> = numbers.as_chunks().0.chunks(points).take(6).map(<[_]>::to_vec).collect();
    let spectra: Vec<&[F]> = spectra.iter().map(Vec::as_slice).collect();
    let filters: Vec<&[[F; 2]]> = filters.iter().map(Vec::as_slice).collect();
    let mut sums = vec![F::default(); transform.numbers()];
    multiply_add(instructions, &mut sums, &spectra, &filters);
    let mut in_pieces = vec![F::default(); transform.numbers()];
    for (spectra, filters) in spectra.chunks(5).zip(filters.chunks(5)) {
        multiply_add(instructions, &mut in_pieces, spectra, filters);
    }
    assert!(sums.iter().zip(&in_pieces).all(|(a, b)| F::bits(*a) == F::bits(*b)));
    let mut output = rows.clone();
    transform.inverse_half(instructions, &mut sums, &mut output[point..], stride);
    transform.forward(instructions, &mut in_pieces);
    transform.inverse(instructions, &mut in_pieces);
    [spectra.concat(), output, in_pieces].concat()
}

trait Bits: Real {
    fn bits(self) -> u64;
}
impl Bits for f32 {
    fn bits(self) -> u64 {
        self.to_bits().into()
    }
}
impl Bits for f64 {
    fn bits(self) -> u64 {
        self.to_bits()
    }
}

#[test]
fn every_path_gives_the_same_bits() {
    for points in [16, 32, 256, 512, 1024, 4096] {
        let bits = |instructions| {
            let single = all_of_it::<f32>(instructions, points).into_iter().map(Bits::bits);
            single.chain(all_of_it::<f64>(instructions, points).into_iter().map(Bits::bits)).collect::<Vec<u64>>()
        };
        let portable = bits(InstructionSet::PORTABLE);
        for instructions in InstructionSet::available() {
            assert!(bits(instructions) == portable, "{points} points, {instructions:?}");
        }
    }
}

#[test]
fn padded_and_halved_transforms_are_the_whole_ones() {
    for points in [16, 32, 512] {
        let transform = LaneTransform::<f32>::new(points);
        let (point, stride) = (32, 64);
        let rows = noise::<f32>(points / 2 * stride);
        let mut padded = vec![0.0; transform.numbers()];
        transform.forward_padded(InstructionSet::best(), &rows[point..], stride, &mut padded);
        let mut whole = vec![0.0; transform.numbers()];
        for (to, from) in whole.chunks_mut(point).zip(rows.chunks(stride)) {
            to.copy_from_slice(&from[point..]);
        }
        transform.forward(InstructionSet::best(), &mut whole);
        assert_eq!(padded, whole);

        let mut output = rows.clone();
        transform.inverse_half(InstructionSet::best(), &mut padded, &mut output, stride);
        transform.inverse(InstructionSet::best(), &mut whole);
        for ((to, old), expected) in output.chunks(stride).zip(rows.chunks(stride)).zip(whole.chunks(point)) {
            assert_eq!(&to[..point], expected);
            assert_eq!(&to[point..], &old[point..], "the data next to a row are unchanged");
        }
    }
}
