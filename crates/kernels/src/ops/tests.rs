use super::Real;
use crate::{InstructionSet, UniversalHash};

/// Numbers of many sizes and both signs.
fn numbers<F: Real>(seed: u64, count: usize) -> Vec<F> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state
    };
    (0..count).map(|_| F::of((next() >> 11) as f64 / (1u64 << 40) as f64 - 3000.0)).collect()
}

fn bytes<F: Real>(numbers: &[F]) -> Vec<u8> {
    let mut bytes = vec![];
    F::append_all(numbers, &mut bytes);
    bytes
}

/// Every kernel against its description, one coordinate at a time, in numbers of the same type.
macro_rules! matches_its_description {
    ($test:ident, $real:ident) => {
        #[test]
        fn $test() {
            for instructions in InstructionSet::available() {
                for length in [0, 1, 31, 32, 33, 100, 1024] {
                    let values: Vec<$real> = numbers(1, length);
                    let others: Vec<$real> = numbers(2, length);
                    let weight = 0.3 as $real;
                    let check = |kernel: &dyn Fn(&mut [$real], &mut [$real]),
                                 each: &dyn Fn($real, $real) -> ($real, $real)| {
                        let (mut a, mut b) = (values.clone(), others.clone());
                        kernel(&mut a, &mut b);
                        let (x, y): (Vec<_>, Vec<_>) = values.iter().zip(&others).map(|(a, b)| each(*a, *b)).unzip();
                        assert_eq!((bytes(&a), bytes(&b)), (bytes(&x), bytes(&y)), "{instructions:?} {length}");
                    };
                    check(&|a, b| $real::add_scaled(instructions, a, weight, b), &|a, b| (a + weight * b, b));
                    check(&|a, _| $real::begin_sum(instructions, a, weight), &|a, b| (0.0 + weight * a, b));
                    check(&|a, _| $real::begin_sum(instructions, a, -0.0), &|a, b| (0.0 + -0.0 * a, b));
                    check(&|a, _| $real::scale(instructions, a, weight), &|a, b| (a * weight, b));
                    check(&|a, b| $real::add(instructions, a, b), &|a, b| (a + b, b));
                    check(&|a, b| $real::subtract(instructions, a, b), &|a, b| (a - b, b));
                    check(&|a, b| $real::accumulate(instructions, a, b), &|a, b| (a + b, a + b));
                    check(&|a, b| $real::difference(instructions, a, b), &|a, b| (b, b - a));
                }
            }
        }
    };
}

matches_its_description!(single_kernels_match_their_description, f32);
matches_its_description!(double_kernels_match_their_description, f64);

fn undone<F: Real>(instructions: InstructionSet, count: usize, length: usize) -> Vec<u8> {
    let mut values: Vec<F> = numbers(7, length);
    let mut buffers: Vec<Vec<F>> = (0..count).map(|i| numbers(8 + i as u64, length)).collect();
    let gaps: Vec<F> = (0..count).map(|i| F::of(libm::exp2(-3.0 * i as f64 - 1.0) * 0.7)).collect();
    let echoes: Vec<F> = (0..count).map(|i| F::of(0.05 / (i + 2) as f64)).collect();
    let mut slices: Vec<&mut [F]> = buffers.iter_mut().map(Vec::as_mut_slice).collect();
    F::undo_buffers(instructions, &mut values, &mut slices, &gaps, &echoes, F::of(1.7));
    buffers.push(values);
    buffers.iter().flat_map(|buffer| bytes(buffer)).collect()
}

#[test]
fn buffers_are_undone_alike_on_every_path_and_however_long_the_pieces() {
    for instructions in InstructionSet::available() {
        for count in 1..=8 {
            for length in [0, 1, 31, 32, 97, 1024] {
                assert_eq!(
                    undone::<f32>(instructions, count, length),
                    undone::<f32>(InstructionSet::PORTABLE, count, length)
                );
                assert_eq!(
                    undone::<f64>(instructions, count, length),
                    undone::<f64>(InstructionSet::PORTABLE, count, length)
                );
            }
        }
    }
}

/// One coordinate after the other, as described.
#[test]
fn undoing_buffers_matches_its_description() {
    for length in [1, 33, 70] {
        let (gaps, echoes, factor) = ([0.25f32, 0.001, 0.4], [0.1f32, 0.02, 0.3], 1.5f32);
        let mut values: Vec<f32> = numbers(3, length);
        let mut buffers: [Vec<f32>; 3] = [4, 5, 6].map(|seed| numbers(seed, length));
        let (before, old) = (values.clone(), buffers.clone());
        let mut slices: Vec<&mut [f32]> = buffers.iter_mut().map(Vec::as_mut_slice).collect();
        f32::undo_buffers(InstructionSet::best(), &mut values, &mut slices, &gaps, &echoes, factor);
        for at in 0..length {
            let known = ((0.0 + echoes[0] * old[0][at]) + echoes[1] * old[1][at]) + echoes[2] * old[2][at];
            let u = before[at] - known;
            assert_eq!(values[at].to_bits(), (u * factor).to_bits());
            for i in 0..3 {
                assert_eq!(buffers[i][at].to_bits(), (old[i][at] + (u - gaps[i] * old[i][at])).to_bits());
            }
        }
    }
}

#[test]
fn numbers_survive_their_bytes() {
    let (single, double): (Vec<f32>, Vec<f64>) = (numbers(1, 50), numbers(1, 50));
    let (mut singles, mut doubles) = (vec![0.0; 50], vec![0.0; 50]);
    f32::read_into(&bytes(&single), &mut singles);
    f64::read_into(&bytes(&double)[..8 * 49 + 3], &mut doubles);
    assert_eq!((singles, &doubles[..49], doubles[49]), (single, &double[..49], 0.0));
}

#[test]
fn squares_are_those_of_the_numbers_on_every_instruction_set() {
    fn check<F: Real>(bound: f64) {
        for count in [0, 1, 63, 64, 65, 1 << 16] {
            let mut values = numbers::<F>(7, count);
            let expected: f64 = values.iter().map(|value| value.double().powi(2)).sum();
            let own = F::squares(InstructionSet::PORTABLE, &values);
            assert!((own - expected).abs() <= bound * expected, "{own} for {expected}");
            for instructions in InstructionSet::available() {
                assert_eq!(F::squares(instructions, &values).to_bits(), own.to_bits(), "{instructions:?}");
            }
            for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
                if let Some(last) = values.last_mut() {
                    *last = F::of(bad);
                    assert!(!F::squares(InstructionSet::best(), &values).is_finite());
                }
            }
        }
    }
    check::<f32>(1e-4);
    check::<f64>(1e-12);
}

#[test]
fn words_are_the_bits_of_numbers() {
    fn check<F: Real>() {
        for count in [0, 1, 100, UniversalHash::BLOCK * 32 / F::BITS as usize] {
            let values = numbers::<F>(9, count);
            let mut expected = vec![];
            F::append_all(&values, &mut expected);
            expected.resize(4 * UniversalHash::BLOCK, 0);
            let words: Vec<u8> = F::words(&values).iter().flat_map(|word| word.to_le_bytes()).collect();
            assert_eq!(words, expected);
        }
    }
    check::<f32>();
    check::<f64>();
}
