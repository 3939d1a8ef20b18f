//! The bodies of the transforms: elementwise arithmetic on lines of `L` lanes, compiled once per instruction set.
//!
//! All of them are `#[inline(always)]`, so that they become part of the function that may use the instructions.

use super::ComplexFactor;
use super::twiddles::{Stage, Twiddles};
use super::vector::Vector;

/// One complex number per lane: the real parts, then the imaginary parts.
pub(super) type ComplexLanes<F, const L: usize> = [[F; L]; 2];

/// Number of points whose transforms are finished one after the other, because they fit the first-level cache (32 KiB).
const NEAR: usize = 256;

/// The numbers as points. A remainder at the end is dropped: callers pass whole points.
#[inline(always)]
pub(super) fn points<F, const L: usize>(numbers: &[F]) -> &[ComplexLanes<F, L>] {
    numbers.as_chunks::<L>().0.as_chunks::<2>().0
}

#[inline(always)]
pub(super) fn points_mut<F, const L: usize>(numbers: &mut [F]) -> &mut [ComplexLanes<F, L>] {
    numbers.as_chunks_mut::<L>().0.as_chunks_mut::<2>().0
}

/// Complex numbers in some neighbouring lanes.
#[derive(Clone, Copy)]
struct Complex<V>(V, V);

impl<V: Vector> Complex<V> {
    #[inline(always)]
    fn load<const L: usize>(point: &ComplexLanes<V::Number, L>, lane: usize) -> Self {
        Self(V::load(&point[0][lane..]), V::load(&point[1][lane..]))
    }

    #[inline(always)]
    fn store<const L: usize>(self, point: &mut ComplexLanes<V::Number, L>, lane: usize) {
        self.0.store(&mut point[0][lane..]);
        self.1.store(&mut point[1][lane..]);
    }

    #[inline(always)]
    fn plus(self, b: Self) -> Self {
        Self(self.0.plus(b.0), self.1.plus(b.1))
    }

    #[inline(always)]
    fn minus(self, b: Self) -> Self {
        Self(self.0.minus(b.0), self.1.minus(b.1))
    }

    /// `a + i b`.
    #[inline(always)]
    fn plus_turned(self, b: Self) -> Self {
        Self(self.0.minus(b.1), self.1.plus(b.0))
    }

    /// `a - i b`.
    #[inline(always)]
    fn minus_turned(self, b: Self) -> Self {
        Self(self.0.plus(b.1), self.1.minus(b.0))
    }

    #[inline(always)]
    fn times(self, w: ComplexFactor<V::Number>) -> Self {
        let (re, im) = (V::splat(w[0]), V::splat(w[1]));
        Self(self.0.times(re).minus(self.1.times(im)), self.0.times(im).plus(self.1.times(re)))
    }

    #[inline(always)]
    fn times_conjugate(self, w: ComplexFactor<V::Number>) -> Self {
        let (re, im) = (V::splat(w[0]), V::splat(w[1]));
        Self(self.0.times(re).plus(self.1.times(im)), self.1.times(re).minus(self.0.times(im)))
    }

    /// The butterfly of four points without factors.
    #[inline(always)]
    fn forward_four([a, b, c, d]: [Self; 4]) -> [Self; 4] {
        let (even, odd, even2, odd2) = (a.plus(c), a.minus(c), b.plus(d), b.minus(d));
        [even.plus(even2), odd.minus_turned(odd2), even.minus(even2), odd.plus_turned(odd2)]
    }

    #[inline(always)]
    fn inverse_four([a, b, c, d]: [Self; 4]) -> [Self; 4] {
        let (even, odd, even2, odd2) = (a.plus(c), a.minus(c), b.plus(d), b.minus(d));
        [even.plus(even2), odd.plus_turned(odd2), even.minus(even2), odd.minus_turned(odd2)]
    }
}

/// Replaces four points by the result of the body. (Macros, not closures: a closure would not be compiled for the
/// instructions of the function around it.)
macro_rules! butterfly {
    ([$a:ident, $b:ident, $c:ident, $d:ident], $body:block) => {
        for lane in (0..L).step_by(V::WIDTH) {
            let outputs = {
                let ($a, $b) = (Complex::<V>::load($a, lane), Complex::<V>::load($b, lane));
                let ($c, $d) = (Complex::<V>::load($c, lane), Complex::<V>::load($d, lane));
                $body
            };
            outputs[0].store($a, lane);
            outputs[1].store($b, lane);
            outputs[2].store($c, lane);
            outputs[3].store($d, lane);
        }
    };
}

/// The four quarters of a stage.
#[inline(always)]
fn quarters<T>(data: &mut [T]) -> [&mut [T]; 4] {
    let quarter = data.len() / 4;
    let (first, rest) = data.split_at_mut(quarter);
    let (second, rest) = rest.split_at_mut(quarter);
    let (third, fourth) = rest.split_at_mut(quarter);
    [first, second, third, fourth]
}

/// Decimation in frequency: four transforms of a quarter of the length remain.
#[inline(always)]
fn forward_stage<V: Vector, const L: usize>(data: &mut [ComplexLanes<V::Number, L>], stage: &Stage<V::Number>) {
    for block in data.chunks_exact_mut(stage.length) {
        let [first, second, third, fourth] = quarters(block);
        let pairs = first.iter_mut().zip(second).zip(third.iter_mut().zip(fourth));
        for (((a, b), (c, d)), w) in pairs.zip(&stage.factors) {
            butterfly!([a, b, c, d], {
                let [a, b, c, d] = Complex::forward_four([a, b, c, d]);
                [a, b.times(w[0]), c.times(w[1]), d.times(w[2])]
            });
        }
    }
}

/// Decimation in time: the inverse of [`forward_stage`], times 4.
#[inline(always)]
fn inverse_stage<V: Vector, const L: usize>(data: &mut [ComplexLanes<V::Number, L>], stage: &Stage<V::Number>) {
    for block in data.chunks_exact_mut(stage.length) {
        let [first, second, third, fourth] = quarters(block);
        let pairs = first.iter_mut().zip(second).zip(third.iter_mut().zip(fourth));
        for (((a, b), (c, d)), w) in pairs.zip(&stage.factors) {
            butterfly!([a, b, c, d], {
                let (b, c, d) = (b.times_conjugate(w[0]), c.times_conjugate(w[1]), d.times_conjugate(w[2]));
                Complex::inverse_four([a, b, c, d])
            });
        }
    }
}

/// The stages of length 4, whose factors are 1.
#[inline(always)]
fn forward_fours<V: Vector, const L: usize>(data: &mut [ComplexLanes<V::Number, L>]) {
    for [a, b, c, d] in data.as_chunks_mut::<4>().0 {
        butterfly!([a, b, c, d], { Complex::forward_four([a, b, c, d]) });
    }
}

#[inline(always)]
fn inverse_fours<V: Vector, const L: usize>(data: &mut [ComplexLanes<V::Number, L>]) {
    for [a, b, c, d] in data.as_chunks_mut::<4>().0 {
        butterfly!([a, b, c, d], { Complex::inverse_four([a, b, c, d]) });
    }
}

/// The stages of length 2, their own inverse.
#[inline(always)]
fn twos<V: Vector, const L: usize>(data: &mut [ComplexLanes<V::Number, L>]) {
    for [first, second] in data.as_chunks_mut::<2>().0 {
        for lane in (0..L).step_by(V::WIDTH) {
            let (a, b) = (Complex::<V>::load(first, lane), Complex::load(second, lane));
            a.plus(b).store(first, lane);
            a.minus(b).store(second, lane);
        }
    }
}

/// All stages from the second on. Those of at most [`NEAR`] points are processed chunk by chunk.
#[inline(always)]
fn forward_rest<V: Vector, const L: usize>(data: &mut [ComplexLanes<V::Number, L>], twiddles: &Twiddles<V::Number>) {
    let far = twiddles.stages.iter().skip(1).take_while(|stage| stage.length > NEAR).count();
    for stage in &twiddles.stages[1..1 + far] {
        forward_stage::<V, L>(data, stage);
    }
    let near = &twiddles.stages[1 + far..];
    let length = twiddles.stages[far].length / 4;
    for chunk in data.chunks_exact_mut(length) {
        for stage in near {
            forward_stage::<V, L>(chunk, stage);
        }
        if twiddles.ends_with_two {
            twos::<V, L>(chunk);
        } else {
            forward_fours::<V, L>(chunk);
        }
    }
}

/// All stages but the last.
#[inline(always)]
fn inverse_rest<V: Vector, const L: usize>(data: &mut [ComplexLanes<V::Number, L>], twiddles: &Twiddles<V::Number>) {
    let far = twiddles.stages.iter().skip(1).take_while(|stage| stage.length > NEAR).count();
    let near = &twiddles.stages[1 + far..];
    let length = twiddles.stages[far].length / 4;
    for chunk in data.chunks_exact_mut(length) {
        if twiddles.ends_with_two {
            twos::<V, L>(chunk);
        } else {
            inverse_fours::<V, L>(chunk);
        }
        for stage in near.iter().rev() {
            inverse_stage::<V, L>(chunk, stage);
        }
    }
    for stage in twiddles.stages[1..1 + far].iter().rev() {
        inverse_stage::<V, L>(data, stage);
    }
}

/// See [`Transform::forward`](super::Transform::forward).
#[inline(always)]
pub(super) fn forward<V: Vector, const L: usize>(data: &mut [V::Number], twiddles: &Twiddles<V::Number>) {
    let data = points_mut::<V::Number, L>(data);
    forward_stage::<V, L>(data, &twiddles.stages[0]);
    forward_rest::<V, L>(data, twiddles);
}

/// See [`Transform::forward_padded`](super::Transform::forward_padded): the first stage reads the rows; two of its
/// quarters are zero.
#[inline(always)]
pub(super) fn forward_padded<V: Vector, const L: usize>(
    rows: &[V::Number],
    stride: usize,
    data: &mut [V::Number],
    twiddles: &Twiddles<V::Number>,
) {
    let data = points_mut::<V::Number, L>(data);
    let stage = &twiddles.stages[0];
    let [first, second, third, fourth] = quarters(data);
    let (low, high) = rows.split_at(stage.length / 4 * stride);
    let inputs = low.chunks(stride).zip(high.chunks(stride));
    let outputs = first.iter_mut().zip(second).zip(third.iter_mut().zip(fourth));
    for (((y0, y1), (y2, y3)), ((a, b), w)) in outputs.zip(inputs.zip(&stage.factors)) {
        let (a, b) = (&points::<V::Number, L>(a)[0], &points::<V::Number, L>(b)[0]);
        for lane in (0..L).step_by(V::WIDTH) {
            let (a, b) = (Complex::<V>::load(a, lane), Complex::load(b, lane));
            a.plus(b).store(y0, lane);
            a.minus_turned(b).times(w[0]).store(y1, lane);
            a.minus(b).times(w[1]).store(y2, lane);
            a.plus_turned(b).times(w[2]).store(y3, lane);
        }
    }
    forward_rest::<V, L>(data, twiddles);
}

/// See [`Transform::inverse`](super::Transform::inverse).
#[inline(always)]
pub(super) fn inverse<V: Vector, const L: usize>(data: &mut [V::Number], twiddles: &Twiddles<V::Number>) {
    let data = points_mut::<V::Number, L>(data);
    inverse_rest::<V, L>(data, twiddles);
    inverse_stage::<V, L>(data, &twiddles.stages[0]);
}

/// See [`Transform::inverse_half`](super::Transform::inverse_half): the last stage writes the rows, and only the
/// requested part.
#[inline(always)]
pub(super) fn inverse_half<V: Vector, const L: usize>(
    data: &mut [V::Number],
    rows: &mut [V::Number],
    stride: usize,
    twiddles: &Twiddles<V::Number>,
) {
    let data = points_mut::<V::Number, L>(data);
    inverse_rest::<V, L>(data, twiddles);
    let stage = &twiddles.stages[0];
    let [first, second, third, fourth] = quarters(data);
    let (low, high) = rows.split_at_mut(stage.length / 4 * stride);
    let outputs = low.chunks_mut(stride).zip(high.chunks_mut(stride));
    let inputs = first.iter().zip(second).zip(third.iter().zip(fourth));
    for ((((a, b), (c, d)), (low, high)), w) in inputs.zip(outputs).zip(&stage.factors) {
        let (low, high) = (&mut points_mut::<V::Number, L>(low)[0], &mut points_mut::<V::Number, L>(high)[0]);
        for lane in (0..L).step_by(V::WIDTH) {
            let (a, b) = (Complex::<V>::load(a, lane), Complex::<V>::load(b, lane));
            let (c, d) = (Complex::<V>::load(c, lane), Complex::<V>::load(d, lane));
            let (b, c, d) = (b.times_conjugate(w[0]), c.times_conjugate(w[1]), d.times_conjugate(w[2]));
            a.plus(c).plus(b.plus(d)).store(low, lane);
            a.minus(c).plus_turned(b.minus(d)).store(high, lane);
        }
    }
}

/// See [`multiply_add`](super::multiply_add), for `K` spectra at once.
#[inline(always)]
pub(super) fn multiply_add<V: Vector, const L: usize, const K: usize>(
    sums: &mut [V::Number],
    spectra: [&[V::Number]; K],
    filters: [&[ComplexFactor<V::Number>]; K],
) {
    let sums = points_mut::<V::Number, L>(sums);
    let length = sums.len();
    let spectra = spectra.map(|spectrum| &points::<V::Number, L>(spectrum)[..length]);
    let filters = filters.map(|filter| &filter[..length]);
    for (f, sum) in sums.iter_mut().enumerate() {
        for lane in (0..L).step_by(V::WIDTH) {
            let mut total = Complex::<V>::load(sum, lane);
            for k in 0..K {
                total = total.plus(Complex::load(&spectra[k][f], lane).times(filters[k][f]));
            }
            total.store(sum, lane);
        }
    }
}

/// One spectrum.
#[inline(always)]
pub(super) fn multiply_add_one<V: Vector, const L: usize>(
    sums: &mut [V::Number],
    spectrum: [&[V::Number]; 1],
    filter: [&[ComplexFactor<V::Number>]; 1],
) {
    multiply_add::<V, L, 1>(sums, spectrum, filter);
}

/// Four spectra, so that sums are loaded and stored once for four products.
#[inline(always)]
pub(super) fn multiply_add_four<V: Vector, const L: usize>(
    sums: &mut [V::Number],
    spectra: [&[V::Number]; 4],
    filters: [&[ComplexFactor<V::Number>]; 4],
) {
    multiply_add::<V, L, 4>(sums, spectra, filters);
}
