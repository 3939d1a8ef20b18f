use super::{Twiddles, butterflies};
use crate::transform::LaneTransform;
use crate::{InstructionSet, Real};

/// Deterministic numbers in [-1, 1).
fn noise<F: Real>(count: usize) -> Vec<F> {
    let mut state = 1u64;
    let next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        F::of((state >> 11) as f64 / (1u64 << 52) as f64 - 1.0)
    };
    std::iter::repeat_with(next).take(count).collect()
}

/// The code paths for other processors give the same bits as the ones used here.
#[test]
fn plain_lines_give_the_same_bits() {
    for points in [16, 32, 512] {
        let transform = LaneTransform::<f32>::new(points);
        let twiddles = Twiddles::new(points, f32::of);
        let mut plain = noise::<f32>(transform.numbers());
        let mut best = plain.clone();
        butterflies::forward::<[f32; 16], 16>(&mut plain, &twiddles);
        butterflies::inverse::<[f32; 16], 16>(&mut plain, &twiddles);
        transform.forward(InstructionSet::best(), &mut best);
        transform.inverse(InstructionSet::best(), &mut best);
        assert!(plain.iter().zip(&best).all(|(a, b)| a.to_bits() == b.to_bits()), "{points}");

        let transform = LaneTransform::<f64>::new(points);
        let twiddles = Twiddles::new(points, f64::of);
        let mut plain = noise::<f64>(transform.numbers());
        let mut best = plain.clone();
        butterflies::forward::<[f64; 8], 8>(&mut plain, &twiddles);
        transform.forward(InstructionSet::best(), &mut best);
        assert!(plain.iter().zip(&best).all(|(a, b)| a.to_bits() == b.to_bits()), "{points}");
    }
}
