//! The same bytes whatever the tuning; and the numbers of the dense twin.

use super::*;
use crate::execute::name as block;
use crate::{InstructionSet, Real};
use evertally::mechanism::ColumnScaling;
use evertally::noise::{Node, Purpose, subkey};
use evertally_kernels::Normals;
use std::collections::BTreeMap;

/// All steps of a range of coordinates, step after step.
fn all<F: Real>(scheme: &Scheme, coordinates: std::ops::Range<u64>, tuning: Tuning) -> Vec<F> {
    let mut noise = VectorNoise::of(scheme, &key(), &name(), coordinates, tuning).unwrap();
    let mut steps = vec![];
    for _ in 0..noise.horizon() {
        let mut out = vec![F::of(7.0); noise.len()];
        noise.next_into(&mut out).unwrap();
        steps.extend(out);
    }
    let mut out = vec![F::default(); noise.len()];
    assert!(noise.next_into(&mut out).unwrap_err().is_horizon_exhausted());
    steps
}

#[test]
fn keeping_and_recomputing_give_the_same_bytes() {
    for horizon in [1, 2, 7, 33, 64] {
        for mechanism in mechanisms(horizon) {
            for series in SERIES {
                let scheme = scheme(mechanism.clone(), series);
                let [kept, recomputed] = MEMORIES.map(|memory| bits(&all::<f32>(&scheme, 3..40, single(memory))));
                assert!(kept == recomputed, "{} {series:?}", mechanism.name());
                let [kept, recomputed] = MEMORIES.map(|memory| bits(&all::<f64>(&scheme, 3..20, single(memory))));
                assert!(kept == recomputed, "{} {series:?}", mechanism.name());
            }
        }
    }
}

#[test]
fn every_path_gives_the_same_bytes() {
    for mechanism in mechanisms(20) {
        let scheme = scheme(mechanism, Series::RunningSums);
        let with =
            |instructions| bits(&all::<f32>(&scheme, 1000..1100, Tuning { instructions, ..single(Memory::Keep) }));
        for instructions in InstructionSet::available() {
            assert!(
                with(instructions) == with(InstructionSet::PORTABLE),
                "{} on {instructions:?}",
                scheme.mechanism.name()
            );
        }
    }
}

/// The output is `σ L z` for the normal variables of the nodes.
#[test]
fn numbers_are_those_of_the_dense_twin() {
    for mechanism in mechanisms(45) {
        for series in SERIES {
            let scheme = scheme(mechanism.clone(), series);
            let (first, len) = (1021, 9);
            let steps: Vec<f64> = all(&scheme, first..first + len, single(Memory::Keep));
            let subkey = subkey(&key(), &name(), &scheme.digest, Purpose::Vector(64));
            let normals = Normals::new(scheme.cipher, &subkey, InstructionSet::best());
            let mut known: BTreeMap<Node, Vec<f64>> = BTreeMap::new();
            let mut last = vec![0.0; len as usize];
            for (step, given) in (1..).zip(steps.chunks(len as usize)) {
                let mut sums = vec![0.0; len as usize];
                mechanism.visit_row(step, &mut |node, weight| {
                    let z = known.entry(node).or_insert_with(|| {
                        let mut z = vec![0.0; len as usize];
                        normals.fill_f64(block(node), first, &mut z);
                        z
                    });
                    sums.iter_mut().zip(z).for_each(|(sum, z)| *sum += scheme.sigma * weight * *z);
                });
                for ((given, sum), last) in given.iter().zip(&sums).zip(&mut last) {
                    let before = std::mem::replace(last, *sum);
                    let expected = if series == Series::RunningSums { *sum } else { sum - before };
                    assert!((given - expected).abs() < 1e-10 * (1.0 + sum.abs()), "{} {step}", mechanism.name());
                }
            }
        }
    }
}

#[test]
fn workers_get_their_slices_of_the_whole() {
    for mechanism in mechanisms(21) {
        let scheme = scheme(mechanism, Series::Increments);
        let whole: Vec<f32> = all(&scheme, 0..2500, single(Memory::Keep));
        for (first, end) in [(1, 2), (0, 1023), (1023, 1024), (777, 2049), (1025, 2500)] {
            let part: Vec<f32> = all(&scheme, first..end, single(Memory::Keep));
            let slices = whole.chunks(2500).flat_map(|step| &step[first as usize..end as usize]);
            assert!(bits(&part) == bits(&slices.copied().collect::<Vec<_>>()), "{}", scheme.mechanism.name());
        }
    }
}

#[test]
fn any_number_of_threads_gives_the_same_bytes() {
    let len = (3 << 17) + 777;
    for mechanism in mechanisms(5).into_iter().step_by(3) {
        let scheme = scheme(mechanism, Series::RunningSums);
        let with = |threads| all::<f32>(&scheme, 5..5 + len, Tuning { threads, ..Tuning::default() });
        let one = bits(&with(1));
        for threads in [0, 2, 3, 16] {
            assert!(bits(&with(threads)) == one, "{} with {threads}", scheme.mechanism.name());
        }
    }
}

#[test]
fn noise_is_added_to_what_is_there() {
    for mechanism in mechanisms(9) {
        let scheme = scheme(mechanism, Series::Increments);
        let mut set = VectorNoise::of(&scheme, &key(), &name(), 0..1500, Tuning::default()).unwrap();
        let mut added = VectorNoise::of(&scheme, &key(), &name(), 0..1500, Tuning::default()).unwrap();
        let mut sums: Vec<f32> = (0..1500).map(|i| i as f32 * 0.37).collect();
        for _ in 0..9 {
            let mut noise = vec![0.0f32; 1500];
            set.next_into(&mut noise).unwrap();
            let expected: Vec<f32> = sums.iter().zip(&noise).map(|(sum, noise)| sum + noise).collect();
            added.add_next(&mut sums).unwrap();
            assert_eq!(sums, expected);
        }
    }
}

#[test]
fn misuse_is_refused_and_changes_nothing() {
    let scheme = scheme(Arc::new(DigitTree::binary(3).unwrap()), Series::RunningSums);
    let new = |range| VectorNoise::<f32>::of(&scheme, &key(), &name(), range, Tuning::default());
    #[allow(clippy::reversed_empty_ranges)]
    for range in [0..0, 5..4, 0..(1 << 56) + 1] {
        assert!(new(range).unwrap_err().is_invalid());
    }
    let mut noise = new(10..20).unwrap();
    assert_eq!((noise.step(), noise.horizon(), noise.len(), noise.coordinates()), (0, 3, 10, 10..20));
    assert!(noise.next_into(&mut [0.0; 9]).unwrap_err().is_invalid());
    assert!(noise.seek(4).unwrap_err().is_invalid());
    assert_eq!(noise.step(), 0);
}

/// A coordinate in double precision is not one in single precision with more digits, neither the same nor another
/// one.
#[test]
fn precisions_have_noise_of_their_own() {
    let scheme = scheme(Arc::new(Input::new(1).unwrap()), Series::Increments);
    let singles: Vec<f32> = all(&scheme, 0..2000, single(Memory::Keep));
    let doubles: Vec<f64> = all(&scheme, 0..2000, single(Memory::Keep));
    for double in &doubles {
        // Some pair of 4 million has twenty leading bits in common with probability about 1/100.
        assert!(singles.iter().all(|x| (f64::from(*x) - double).abs() > 1e-8 * double.abs()), "{double}");
    }
}

/// Frozen: a run that was started with one version continues with the next. Over all mechanisms, series and
/// precisions.
#[test]
fn bytes_are_frozen() {
    let mut hasher = blake3::Hasher::new();
    let fixed =
        ["input", "output", "binary", "kary(k=5)", "subtract(k=4)", "smooth(h=9,zeros=4)", "path-sum(levels=unit)"];
    let more = ["honaker-online", "banded-sqrt(bands=4)", "banded-inverse-sqrt(bands=4)"];
    let buffers = "decay=3c00000000000000/2000000000000000,echo=1000000000000000/800000000000000";
    for name in fixed.into_iter().chain(more) {
        let name: evertally::mechanism::MechanismName = name.parse().unwrap();
        feed(
            &mut hasher,
            name.build(
                23,
                &evertally::mechanism::Criterion::new(
                    evertally::mechanism::NoiseKind::Gaussian,
                    evertally::mechanism::Objective::Max,
                ),
            )
            .unwrap(),
        );
    }
    for columns in ColumnScaling::BOTH {
        feed(&mut hasher, Arc::new(Blt::new(23, columns, buffers.parse().unwrap()).unwrap()));
    }
    assert_eq!(hasher.finalize().to_hex()[..32], *"877865fb0bf0c5023021ef99dee3c3b5");
}

fn feed(hasher: &mut blake3::Hasher, mechanism: Arc<dyn Mechanism>) {
    for series in SERIES {
        for cipher in Cipher::ALL {
            let scheme = Scheme { cipher, ..scheme(mechanism.clone(), series) };
            hasher.update(&bits(&all::<f32>(&scheme, 5..300, single(Memory::Keep))));
            hasher.update(&bits(&all::<f64>(&scheme, 5..300, single(Memory::Keep))));
        }
    }
}
