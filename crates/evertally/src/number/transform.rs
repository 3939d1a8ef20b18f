//! Number-theoretic transforms of power-of-two length modulo primes below 2^62, without reordering.

/// A prime `p < 2^62` with `2^24 | p - 1`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prime {
    p: u64,
    /// A quadratic nonresidue: its power `(p-1)/2^24` has order 2^24.
    nonresidue: u64,
}

/// The three largest such primes. Their product is above 2^185, so three residues determine any 128-bit integer.
pub(crate) const PRIMES: [Prime; 3] = [
    Prime { p: 4_611_686_018_326_724_609, nonresidue: 3 },
    Prime { p: 4_611_686_018_309_947_393, nonresidue: 5 },
    Prime { p: 4_611_686_018_058_289_153, nonresidue: 5 },
];

impl Prime {
    fn times(self, a: u64, b: u64) -> u64 {
        (u128::from(a) * u128::from(b) % u128::from(self.p)) as u64
    }

    fn power(self, mut base: u64, mut exponent: u64) -> u64 {
        let mut result = 1;
        while exponent > 0 {
            if exponent & 1 == 1 {
                result = self.times(result, base);
            }
            base = self.times(base, base);
            exponent >>= 1;
        }
        result
    }

    fn inverse(self, a: u64) -> u64 {
        self.power(a, self.p - 2)
    }

    /// A signed integer modulo `p`.
    pub(crate) fn residue(self, value: i128) -> u64 {
        value.rem_euclid(i128::from(self.p)) as u64
    }
}

/// A fixed factor with its quotient `⌊w 2^64 / p⌋`, for products without division.
#[derive(Clone, Copy, Debug)]
struct ShoupFactor {
    w: u64,
    quotient: u64,
}

impl ShoupFactor {
    fn new(w: u64, prime: Prime) -> Self {
        Self { w, quotient: ((u128::from(w) << 64) / u128::from(prime.p)) as u64 }
    }

    /// `a w` modulo `p`, below `2p`, for any `a` (Shoup's trick; Harvey 2014, doi 10.1016/j.jsc.2013.09.002).
    fn times(self, a: u64, p: u64) -> u64 {
        let q = ((u128::from(self.quotient) * u128::from(a)) >> 64) as u64;
        self.w.wrapping_mul(a).wrapping_sub(q.wrapping_mul(p))
    }
}

/// Tables for one length and prime.
#[derive(Debug)]
pub(crate) struct NumberTheoreticTransform {
    p: u64,
    /// Powers of the root for the stages from the longest to the shortest, and of its inverse.
    forward: Vec<Vec<ShoupFactor>>,
    inverse: Vec<Vec<ShoupFactor>>,
    /// `1/length`.
    shrink: ShoupFactor,
}

impl NumberTheoreticTransform {
    /// For a length that is a power of two from 2 to 2^24.
    pub(crate) fn new(prime: Prime, length: usize) -> Self {
        let root = prime.power(prime.nonresidue, (prime.p - 1) / length as u64);
        let stages = |root: u64| {
            let mut tables = Vec::new();
            let (mut half, mut step) = (length / 2, root);
            while half > 0 {
                let mut w = 1;
                let power = |_| {
                    let factor = ShoupFactor::new(w, prime);
                    w = prime.times(w, step);
                    factor
                };
                tables.push((0..half).map(power).collect());
                step = prime.times(step, step);
                half /= 2;
            }
            tables
        };
        let shrink = ShoupFactor::new(prime.inverse(length as u64), prime);
        Self { p: prime.p, forward: stages(root), inverse: stages(prime.inverse(root)), shrink }
    }

    /// Natural order to bit-reversed order; values stay below `4p < 2^64` inside and below `p` at the end.
    pub(crate) fn forward(&self, values: &mut [u64]) {
        let p2 = 2 * self.p;
        for table in &self.forward {
            for chunk in values.chunks_exact_mut(2 * table.len()) {
                let (left, right) = chunk.split_at_mut(table.len());
                for ((a, b), w) in left.iter_mut().zip(right).zip(table) {
                    // Both below 2p on entry.
                    let (sum, difference) = (*a + *b, *a + p2 - *b);
                    *a = if sum >= p2 { sum - p2 } else { sum };
                    *b = w.times(difference, self.p);
                }
            }
        }
        values.iter_mut().for_each(|v| *v = if *v >= self.p { *v - self.p } else { *v });
    }

    /// Replaces `values` by its cyclic product with the series whose transform is `transformed`.
    pub(crate) fn multiply(&self, values: &mut [u64], transformed: &[u64]) {
        self.forward(values);
        for (v, f) in values.iter_mut().zip(transformed) {
            *v = (u128::from(*v) * u128::from(*f) % u128::from(self.p)) as u64;
        }
        self.backward(values);
    }

    /// Bit-reversed order to natural order, divided by the length, below `p`.
    fn backward(&self, values: &mut [u64]) {
        let p2 = 2 * self.p;
        for table in self.inverse.iter().rev() {
            for chunk in values.chunks_exact_mut(2 * table.len()) {
                let (left, right) = chunk.split_at_mut(table.len());
                for ((a, b), w) in left.iter_mut().zip(right).zip(table) {
                    let (x, y) = (*a, w.times(*b, self.p));
                    let (sum, difference) = (x + y, x + p2 - y);
                    *a = if sum >= p2 { sum - p2 } else { sum };
                    *b = if difference >= p2 { difference - p2 } else { difference };
                }
            }
        }
        for v in values {
            let shrunk = self.shrink.times(*v, self.p);
            *v = if shrunk >= self.p { shrunk - self.p } else { shrunk };
        }
    }
}

/// The signed integer within 128 bits that has these residues (Garner's algorithm, the last digit deciding the sign).
pub(crate) fn combine(residues: [u64; 3]) -> i128 {
    let [p0, p1, p2] = PRIMES.map(|prime| prime.p);
    let [r0, r1, r2] = residues;
    // The primes differ by less than 2^29, so a residue of one is a residue of the next after one subtraction.
    let reduce = |x: u64, p: u64| if x >= p { x - p } else { x };
    let minus = |a: u64, b: u64, p: u64| if a >= b { a - b } else { a + p - b };
    let digit1 = PRIMES[1].times(minus(r1, reduce(r0, p1), p1), INVERSES[0]);
    let first_two =
        (u128::from(reduce(r0, p2)) + u128::from(PRIMES[2].times(reduce(digit1, p2), p0 % p2))) % u128::from(p2);
    let digit2 = PRIMES[2].times(minus(r2, first_two as u64, p2), INVERSES[1]);
    // Modulo 2^128 from here on.
    let pair = u128::from(p0) * u128::from(p1);
    let value = u128::from(r0)
        .wrapping_add(u128::from(p0).wrapping_mul(digit1.into()))
        .wrapping_add(pair.wrapping_mul(digit2.into()));
    let negative = digit2 > p2 / 2;
    (if negative { value.wrapping_sub(pair.wrapping_mul(p2.into())) } else { value }) as i128
}

/// `1/p0` modulo `p1`, and `1/(p0 p1)` modulo `p2`.
const INVERSES: [u64; 2] = [4_611_685_743_432_040_456, 1_460_367_213_854_650_029];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_constants_are_what_they_say() {
        let [p0, p1, p2] = PRIMES;
        assert_eq!(INVERSES[0], p1.inverse(p0.p % p1.p));
        assert_eq!(INVERSES[1], p2.inverse(p2.times(p0.p % p2.p, p1.p % p2.p)));
        for prime in PRIMES {
            let root = prime.power(prime.nonresidue, (prime.p - 1) >> 24);
            assert_eq!(prime.power(root, 1 << 23), prime.p - 1, "not of order 2^24");
            assert!(prime.p < 1 << 62);
        }
    }

    #[test]
    fn residues_come_back() {
        for value in [0, 1, -1, i128::MAX, i128::MIN, 1 << 100, -(1 << 99) - 12345, 987_654_321_987_654_321] {
            assert_eq!(combine(PRIMES.map(|prime| prime.residue(value))), value);
        }
    }

    #[test]
    fn products_are_cyclic() {
        for (length, prime) in [(2usize, PRIMES[0]), (8, PRIMES[1]), (64, PRIMES[2])] {
            let value = |i: usize, salt: u64| (i as u64 + 1).wrapping_mul(salt) % prime.p;
            let a: Vec<u64> = (0..length).map(|i| value(i, 0x9e37_79b9_7f4a_7c15)).collect();
            let b: Vec<u64> = (0..length).map(|i| value(i, 0xf39c_c060_5ced_c835)).collect();
            let transform = NumberTheoreticTransform::new(prime, length);
            let (mut product, mut other) = (a.clone(), b.clone());
            transform.forward(&mut other);
            transform.multiply(&mut product, &other);
            for (k, got) in product.iter().enumerate() {
                let term = |i: usize| prime.times(a[i], b[(k + length - i) % length]);
                let want = (0..length).fold(0, |sum, i| (sum + term(i)) % prime.p);
                assert_eq!(*got, want, "length {length}, place {k}");
            }
        }
    }
}
