//! Common code for the tests of every factorization with this filter: the definitions of a release and of a
//! sensitivity.

use crate::mechanism::Mechanism;
use crate::mechanism::rounding::FRACTION_BITS;
use crate::noise::Node;
use crate::privacy::Spread;
use num_bigint::BigInt;

/// Some value of a node.
pub(in crate::mechanism) fn noise(node: Node) -> i128 {
    let x = (node.index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    i128::from((x ^ (x >> 29)) as i64 >> 20)
}

/// The exact rational running sum of `R̃⁻¹ z`, floored after adding √2 - 1 in output units: the definition.
pub(in crate::mechanism) fn by_rationals(matrix: &[Vec<u128>]) -> Vec<i128> {
    use num_rational::BigRational;
    let whole = |x: i128| BigRational::from_integer(BigInt::from(x));
    let (mut solved, mut sum): (Vec<BigRational>, _) = (vec![], whole(0));
    // √2 - 1 to 60 digits.
    let offset = BigRational::new(
        "414213562373095048801688724209698078569671875376948073176679".parse().unwrap(),
        BigInt::from(10).pow(60),
    );
    (0..matrix.len())
        .map(|t| {
            let known: BigRational = solved.iter().enumerate().map(|(j, w)| w * whole(matrix[t][j] as i128)).sum();
            let w = (whole(noise(Node { level: 0, index: t as u64 })) - known) / whole(matrix[t][t] as i128);
            sum += &w;
            solved.push(w);
            let shifted = &sum * whole(1 << FRACTION_BITS) + &offset;
            i128::try_from(shifted.floor().to_integer()).unwrap()
        })
        .collect()
}

/// `‖R̃ u‖²` for every `u` that a spread allows, compared with the mechanism's bound: never above it, and not far
/// below.
pub(in crate::mechanism) fn every_placement_stays_below_the_bound(mechanism: &dyn Mechanism, matrix: &[Vec<u128>]) {
    let steps = matrix.len();
    for spread in [Spread::new(4, 1), Spread::new(4, 2), Spread::new(3, 3)] {
        let bound = mechanism.spread_squared(spread);
        let base = spread.per_step as u32 + 1;
        let mut reached = 0u128;
        for code in 0..base.pow(steps as u32) {
            let u: Vec<u128> = (0..steps).map(|t| u128::from(code / base.pow(t as u32) % base)).collect();
            if u.iter().sum::<u128>() <= spread.total.into() {
                let sum = |row: &Vec<u128>| row.iter().zip(&u).map(|(r, u)| r * u).sum::<u128>();
                reached = reached.max(matrix.iter().map(|row| sum(row).pow(2)).sum());
            }
        }
        assert!(reached <= bound && reached * 3 > bound, "{} {spread:?}: {reached} of {bound}", mechanism.name());
    }
}
