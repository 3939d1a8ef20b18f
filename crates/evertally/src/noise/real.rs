//! Sums of logarithms, enclosed to any precision: they decide a coin if floating-point bounds do not.
//!
//! Numbers are integers in units of 2^−P. The Stirling series used here is the one at half-integers: with z = n + ½,
//!
//! ```text
//! ln n! = z ln z − z + ½ ln 2π + T(z),   T(z) = −2 ∫₀^∞ arctan(t/z)/(e^{2πt} + 1) dt = −Σ_j β_j z^{1−2j},
//! β_j = (1 − 2^{1−2j}) B_{2j}/(2j(2j − 1)) = 1/24, −7/2880, 31/40320, …
//! ```
//!
//! **Proof.** ln Γ(z + ½) = ln Γ(2z) − ln Γ(z) + (1 − 2z) ln 2 + ½ ln π (Legendre), so by Binet's second formula ln
//! Γ(z) = (z − ½) ln z − z + ½ ln 2π + J(z), J(z) = 2∫ arctan(t/z)/(e^{2πt} − 1) dt, the remainder is T(z) = J(2z) −
//! J(z). In J(2z) put t = 2s: the integrand becomes arctan(s/z) times 4/(e^{4πs} − 1) − 2/(e^{2πs} − 1) = −2/(e^{2πs} +
//! 1). The partial sums of arctan u = u − u³/3 + … are in turn above and below arctan u, for every u ≥ 0. Integrated
//! term by term they give the series, hence **T lies between any two successive partial sums of the series**: the
//! remainder is less than the first omitted term, and has its sign.
//!
//! The numerators of β_j are computed from the tangent numbers T_j = 1, 2, 16, 272, …: B_{2j} =
//! (−1)^{j−1} 2j T_j/(4^j(4^j − 1)) (R. Brent and D. Harvey, "Fast computation of Bernoulli, tangent and secant
//! numbers", 2011).

use num_bigint::{BigInt, BigUint, Sign};

/// Bounds of a real number in units of 2^−P.
#[derive(Clone, Debug)]
pub(super) struct Enclosure {
    pub(super) low: BigInt,
    pub(super) high: BigInt,
}

impl Enclosure {
    fn quotient(numerator: &BigInt, denominator: &BigUint, precision: u64) -> Self {
        let shifted = numerator.magnitude() << precision;
        let (low, rest) = (&shifted / denominator, &shifted % denominator);
        let high = &low + u32::from(rest != BigUint::ZERO);
        Self { low: low.into(), high: high.into() }.signed(numerator.sign() == Sign::Minus)
    }

    fn signed(self, negative: bool) -> Self {
        if negative { Self { low: -self.high, high: -self.low } } else { self }
    }

    fn times(self, factor: &BigInt) -> Self {
        let size = BigInt::from(factor.magnitude().clone());
        Self { low: self.low * &size, high: self.high * size }.signed(factor.sign() == Sign::Minus)
    }

    fn half(self) -> Self {
        // A shift of a BigInt rounds down.
        Self { low: self.low >> 1u32, high: (self.high + 1) >> 1u32 }
    }

    fn plus(self, other: Self) -> Self {
        Self { low: self.low + other.low, high: self.high + other.high }
    }
}

/// The sum of terms ± ln n!, c · ln(a/b) and c/d. As many factorials must be added as subtracted: their constants ½ ln
/// 2π are omitted.
#[derive(Clone, Debug, Default)]
pub(super) struct LogSum {
    factorials: Vec<(bool, u128)>,
    logarithms: Vec<(BigInt, BigUint, BigUint)>,
    quotients: Vec<(BigInt, BigUint)>,
}

impl LogSum {
    /// ln(above!/below!).
    pub(super) fn factorials(mut self, above: u128, below: u128) -> Self {
        self.factorials.extend([(true, above), (false, below)]);
        self
    }

    /// c · ln(a/b) for positive a and b.
    pub(super) fn logarithm(mut self, c: impl Into<BigInt>, a: BigUint, b: BigUint) -> Self {
        self.logarithms.push((c.into(), a, b));
        self
    }

    /// c/d for positive d.
    pub(super) fn quotient(mut self, c: impl Into<BigInt>, d: BigUint) -> Self {
        self.quotients.push((c.into(), d));
        self
    }

    /// Bounds of the sum in units of 2^−precision.
    pub(super) fn enclose(&self, precision: u64) -> Enclosure {
        let logs = Logarithms::new(precision);
        let mut sum = Enclosure { low: BigInt::ZERO, high: BigInt::ZERO };
        for (added, n) in &self.factorials {
            sum = sum.plus(logs.factorial(*n).signed(!added));
        }
        for (c, a, b) in &self.logarithms {
            sum = sum.plus(logs.of_quotient(a, b).times(c));
        }
        for (c, d) in &self.quotients {
            sum = sum.plus(Enclosure::quotient(c, d, precision));
        }
        sum
    }

    /// ⌊2^places · sum⌋ of a non-negative sum that is not a binary fraction (otherwise this would not return).
    pub(super) fn floor(&self, places: u64) -> BigUint {
        // Values of up to 2^127 lose up to 2^140 units.
        let mut guard = 192;
        loop {
            let Enclosure { low, high } = self.enclose(places + guard);
            let (low, high) = (low.max(BigInt::ZERO) >> guard, high >> guard);
            if low == high {
                return low.magnitude().clone();
            }
            guard *= 2;
        }
    }
}

/// Logarithms to a fixed precision.
struct Logarithms {
    precision: u64,
    ln2: BigUint,
    tangents: Vec<BigUint>,
}

impl Logarithms {
    /// Digits beyond the precision: errors of up to 2^64 of their units do not matter.
    const EXTRA: u64 = 64;

    fn new(precision: u64) -> Self {
        // ln 2 = 2 artanh(1/3).
        let ln2 = double_artanh(&1u32.into(), &3u32.into(), precision + Self::EXTRA);
        // With z ≥ P/2, term j of the Stirling series is below 2 (2j−2)!/(2πz)^(2j−1), and that is below 2^−P for
        // j = P/8 + 4: (1/(4eπ))^(P/4) = 2^(−1.27·P).
        Self { precision, ln2, tangents: tangent_numbers(precision as usize / 8 + 4) }
    }

    /// ln(a/b).
    fn of_quotient(&self, a: &BigUint, b: &BigUint) -> Enclosure {
        // a/b = 2^e · v with v in (1/2, 2), ln v = 2 artanh((v − 1)/(v + 1)).
        let exponent = a.bits() as i64 - b.bits() as i64;
        let a = a << (-exponent).max(0) as u64;
        let b = b << exponent.max(0) as u64;
        let total = &a + &b;
        let places = self.precision + Self::EXTRA;
        let series = |difference: BigUint| BigInt::from(double_artanh(&difference, &total, places));
        let fraction = if a >= b { series(&a - &b) } else { -series(&b - &a) };
        // Each of |e| + 1 terms is off by less than 2 · places, all together by less than 2^64: one unit.
        let rounded: BigInt = (BigInt::from(self.ln2.clone()) * exponent + fraction) >> Self::EXTRA;
        Enclosure { low: &rounded - 1, high: rounded + 2 }
    }

    /// ln n! − ½ ln 2π.
    fn factorial(&self, n: u128) -> Enclosure {
        let raised = n.max(u128::from(self.precision / 2));
        // 2z
        let twice: BigUint = BigUint::from(raised) * 2u32 + 1u32;
        let mut sum = self.of_quotient(&twice, &2u32.into()).times(&twice.clone().into()).half();
        let linear = BigInt::from(&twice << (self.precision - 1));
        sum = Enclosure { low: sum.low - &linear, high: sum.high - linear };
        sum = sum.plus(self.stirling(&twice));
        if raised > n {
            // Fewer than P/2 small factors.
            let product: BigUint = (n + 1..=raised).map(BigUint::from).product();
            sum = sum.plus(self.of_quotient(&product, &1u32.into()).signed(true));
        }
        sum
    }

    /// T(z) for 2z = `twice` > P.
    fn stirling(&self, twice: &BigUint) -> Enclosure {
        let square = twice * twice;
        let mut power = twice.clone();
        let mut sum = Enclosure { low: BigInt::ZERO, high: BigInt::ZERO };
        for (j, tangent) in (1u64..).zip(&self.tangents) {
            // β_j z^(1−2j) = (2^(2j−1) − 1) T_j / ((2j − 1) 4^j (4^j − 1) (2z)^(2j−1))
            let one = BigUint::from(1u32);
            let numerator = ((&one << (2 * j - 1)) - &one) * tangent;
            let denominator = (((&one << (2 * j)) - &one) << (2 * j)) * (2 * j - 1) * &power;
            let term = Enclosure::quotient(&numerator.into(), &denominator, self.precision).signed(j % 2 == 1);
            if denominator.bits() > self.precision && term.low >= BigInt::from(-1) && term.high <= BigInt::from(1) {
                // The remainder is less than this term.
                return Enclosure { low: sum.low - 1, high: sum.high + 1 };
            }
            sum = sum.plus(term);
            power *= &square;
        }
        unreachable!("the terms fall below one unit")
    }
}

/// 2 artanh(n/d) for 0 ≤ n/d ≤ 1/3 in units of 2^−places: too small by less than 2 · places units.
///
/// Everything is rounded down. The powers y^(2i+1) are too small by less than 2: y and y² by less than 1 and 5/3, and
/// 2/9 + (5/3)/3 + 1 < 2. A term is too small by less than 2/3 + 1, there are at most places/3 + 1 of them because each
/// is at most 1/9 of the last, and those left out are below 1 together.
fn double_artanh(n: &BigUint, d: &BigUint, places: u64) -> BigUint {
    let mut power: BigUint = (n << places) / d;
    let square: BigUint = (&power * &power) >> places;
    let mut sum = power.clone();
    for odd in (3u32..).step_by(2) {
        power = (power * &square) >> places;
        if power == BigUint::ZERO {
            break;
        }
        sum += &power / odd;
    }
    sum << 1u32
}

/// The first `count` tangent numbers 1, 2, 16, 272, … (Brent and Harvey, algorithm TangentNumbers).
fn tangent_numbers(count: usize) -> Vec<BigUint> {
    let mut numbers = vec![BigUint::from(1u32); count];
    for k in 1..count {
        numbers[k] = &numbers[k - 1] * k;
    }
    for k in 1..count {
        for j in k..count {
            numbers[j] = &numbers[j - 1] * (j - k) + &numbers[j] * (j - k + 2);
        }
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn big(n: u128) -> BigUint {
        n.into()
    }

    #[test]
    fn tangent_numbers_are_the_known_ones() {
        let known = [1u32, 2, 16, 272, 7936, 353_792, 22_368_256];
        assert_eq!(tangent_numbers(7), known.map(BigUint::from).to_vec());
    }

    /// ln(n!/m!) as a sum of factorials and as the logarithm of the product: both enclosures are narrow and overlap.
    #[test]
    fn factorials_agree_with_products() {
        for precision in [256, 300, 1000] {
            for (n, m) in [(1, 0), (5, 0), (7, 3), (200, 0), (200, 150), (1000, 990), (1 << 70, (1 << 70) - 9)] {
                let sum = LogSum::default().factorials(n, m).enclose(precision);
                let product: BigUint = (m + 1..=n).map(big).product();
                let direct = LogSum::default().logarithm(1, product, big(1)).enclose(precision);
                assert!(sum.low <= direct.high && direct.low <= sum.high, "{n}!/{m}!");
                assert!(&sum.high - &sum.low < BigInt::from(n + u128::from(precision)) * 100);
                assert!(direct.high - direct.low < BigInt::from(10));
            }
        }
    }

    #[test]
    fn logarithms_are_enclosed() {
        // ⌊2^100 · ln 2⌋, ⌊2^100 · ln 10⌋, ⌊2^100 · ln(1001/1000)⌋
        for ((a, b), digits) in [
            ((2, 1), "878668439483319573618263538048"),
            ((10, 1), "2918873375210475425442079017696"),
            ((1001, 1000), "1267017197161656031841244904"),
        ] {
            assert_eq!(LogSum::default().logarithm(1, big(a), big(b)).floor(100).to_string(), digits);
            let doubled = LogSum::default().logarithm(2, big(a), big(b)).logarithm(-1, big(a * a), big(b * b));
            let Enclosure { low, high } = doubled.enclose(500);
            assert!(low <= BigInt::ZERO && BigInt::ZERO <= high);
        }
        // A quotient is exact if it terminates.
        let Enclosure { low, high } = LogSum::default().quotient(-3, big(8)).enclose(10);
        assert_eq!((low, high), (BigInt::from(-384), BigInt::from(-384)));
    }
}
