//! Logarithms of ratios of factorials in floating point, with bounds of their errors.
//!
//! All are written so that no large terms cancel: n! and k! may be 10²⁷ each while the logarithm of
//! the ratio of two probabilities is about 1. With z = n + ½ and ln n! = z ln z − z + ½ ln 2π + T(z) (proved in
//! [`real`](super::real)):
//!
//! * ln(k!/m!) = x ln z + z φ(x/z) + T(k) − T(m), where x = k − m, z = m + ½ and φ(u) = (1 + u) ln(1 + u) − u ≥ 0. This
//!   is C. Loader's deviance form ("Fast and accurate computation of binomial probabilities", 2000), from
//!   half-integers.
//! * ln((N+1)···(N+R)) = R(ln c − g(R/(2c))) + T(N + R) − T(N), where c = N + (R + 1)/2 is the middle and
//!   g(ν) = 1 − ((1 + ν) ln(1 + ν) − (1 − ν) ln(1 − ν))/(2ν) = Σ_{j≥1} ν^{2j}/(2j(2j + 1)).
//!
//! **Errors.** IEEE operations err by at most 2⁻⁵³ of their result, and so does a conversion from an integer; libm's
//! `log` and `log1p` err by less than one unit in the last place; 2⁻⁵¹ is used for them. No term below takes more than
//! a dozen such steps, none of which amplifies its input error by more than 8 (comments explain the cases where this is
//! not obvious). So a term's error is below 2⁻⁴⁵ of its size, with some bits to spare; the tests look for the worst.

/// Allowed relative error of a term.
const TOLERANCE: f64 = 1.0 / (1u64 << 45) as f64;

/// A sum of terms, and the sum of their sizes, which bounds the error.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BoundedSum {
    value: f64,
    size: f64,
}

impl BoundedSum {
    /// A term whose error is at most 2⁻⁴⁵ of it.
    #[inline]
    pub(super) fn plus(self, term: f64) -> Self {
        self.plus_sized(term, term.abs())
    }

    /// A term whose error is at most 2⁻⁴⁵ · size.
    #[inline]
    fn plus_sized(self, term: f64, size: f64) -> Self {
        Self { value: self.value + term, size: self.size + size }
    }

    /// The sum of both.
    #[inline]
    pub(super) fn and(self, other: Self) -> Self {
        self.plus_sized(other.value, other.size)
    }

    /// The difference of both.
    #[inline]
    pub(super) fn less(self, other: Self) -> Self {
        self.plus_sized(-other.value, other.size)
    }

    /// Bounds of the true sum.
    #[inline]
    pub(super) fn bounds(self) -> (f64, f64) {
        // A few additions err by far less than half of the tolerance.
        let error = self.size * TOLERANCE;
        (self.value - error, self.value + error)
    }
}

/// k − m, each below 2^127.
#[inline]
pub(super) fn difference(k: u128, m: u128) -> f64 {
    if k >= m { (k - m) as f64 } else { -((m - k) as f64) }
}

/// ln(k!/m!) − (k − m) ln(m + ½) = z φ(x/z) + T(k) − T(m).
#[inline]
pub(super) fn factorial_deviance(m: u128, k: u128) -> BoundedSum {
    let (z, raised, x) = (m as f64 + 0.5, k as f64 + 0.5, difference(k, m));
    // z φ(x/z) = x·v + 2k'(v³/3 + v⁵/5 + …) with k' = k + ½, v = x/(z + k'): ln(1 + u) = 2 artanh(u/(2 + u)).
    let v = x / (z + raised);
    let square = v * v;
    let remainders = BoundedSum::default().plus_sized(remainder(k) - remainder(m), REMAINDER_SIZE);
    if square < 0.01 {
        // The remainder is less than 2^-53 of the sum. For x < 0 the second part is less than a tenth of the first, of
        // other sign.
        let series = 1.0 / 11.0 + square * (1.0 / 13.0 + square * (1.0 / 15.0 + square * (1.0 / 17.0)));
        let series = 0.2 + square * (1.0 / 7.0 + square * (1.0 / 9.0 + square * series));
        remainders.plus(x * v + 2.0 * raised * v * square * (1.0 / 3.0 + square * series))
    } else {
        // The logarithm is above 0.2 in size: it amplifies the error of its argument by less than 5.
        remainders.plus(raised * libm::log(raised / z)).plus(-x)
    }
}

/// ln((k+1)···(k+R)) − ln((m+1)···(m+R)).
#[inline]
pub(super) fn rise(factors: u64, m: u128, k: u128) -> BoundedSum {
    if factors == 0 {
        return BoundedSum::default();
    }
    let half = (factors as f64 + 1.0) * 0.5;
    let (from, to, x) = (m as f64 + half, k as f64 + half, difference(k, m));
    let tail = |n: u128| remainder(n + u128::from(factors)) - remainder(n);
    BoundedSum::default()
        .plus(factors as f64 * log_of_step(from, to, x))
        .less(middle(factors, k, to))
        .and(middle(factors, m, from))
        .plus_sized(tail(k) - tail(m), 2.0 * REMAINDER_SIZE)
}

/// ln(to/from), with to = from + x.
#[inline]
pub(super) fn log_of_step(from: f64, to: f64, x: f64) -> f64 {
    let step = x / from;
    // Below −1/2 the logarithm of 1 + step would amplify the error of step.
    if step > -0.5 { libm::log1p(step) } else { libm::log(to / from) }
}

/// R·g(R/(2c)) for the middle c of N+1 … N+R.
#[inline]
fn middle(factors: u64, n: u128, center: f64) -> BoundedSum {
    let r = factors as f64;
    let nu = 0.5 * r / center;
    let square = nu * nu;
    if nu < 0.125 {
        // Remainder: ν^18/342, less than 2^-53 of ν²/6.
        let series = 1.0 / 110.0 + square * (1.0 / 156.0 + square * (1.0 / 210.0 + square * (1.0 / 272.0)));
        let series =
            1.0 / 6.0 + square * (1.0 / 20.0 + square * (1.0 / 42.0 + square * (1.0 / 72.0 + square * series)));
        BoundedSum::default().plus(r * square * series)
    } else {
        let (low, high) = (n as f64 + 0.5, (n + u128::from(factors)) as f64 + 0.5);
        let value = r - (high * libm::log(high / center) - low * libm::log(low / center));
        // high·ln(high/c) ≤ R, and low·|ln(low/c)| ≤ R/2, because t|ln t| ≤ 1 − t. The quotients err by 2^-51 of
        // themselves, which adds 2^-51·(high + low) = 2^-51 · 2c ≤ 2^-48·R.
        BoundedSum::default().plus_sized(value, r)
    }
}

/// The error of a difference of two remainders T is below 2^-49.
const REMAINDER_SIZE: f64 = 1.0 / 16.0;

/// T(n) = ln n! − (z ln z − z + ½ ln 2π), z = n + ½, to 2^-51.
#[inline]
fn remainder(n: u128) -> f64 {
    if n < 16 {
        return REMAINDERS[n as usize];
    }
    let reciprocal = 1.0 / (n as f64 + 0.5);
    let square = reciprocal * reciprocal;
    // The next term is at most 1414477/738017280 · 16.5^-11 < 2^-53.
    let series = -31.0 / 40320.0 + square * (127.0 / 215_040.0 - square * (511.0 / 608_256.0));
    reciprocal * (-1.0 / 24.0 + square * (7.0 / 2880.0 + square * series))
}

/// T(0) … T(15), rounded to nearest.
const REMAINDERS: [f64; 16] = [
    -0.07236494292470008,
    -0.027136195366919316,
    -0.016518182330115094,
    -0.011849453710405727,
    -0.009232988349960452,
    -0.007561297733965538,
    -0.00640147105491602,
    -0.005549826206244116,
    -0.004898020177724066,
    -0.004383139884907061,
    -0.003966160345673161,
    -0.0036215940766372886,
    -0.0033320913959795895,
    -0.003085433580430681,
    -0.002872767150657649,
    -0.0026875202043956914,
];
