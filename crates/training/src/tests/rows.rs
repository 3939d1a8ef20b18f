//! The square roots, over several blocks of steps.

use super::states::{goes_on, rest};
use super::*;
use crate::{InstructionSet, Real};
use evertally::mechanism::MechanismName;
use evertally::noise::{Purpose, subkey};
use evertally_kernels::{BlockName, Normals};
use std::ops::Range;

/// Every kind and series: running sums and increments, as convolutions, scaled ones, and sums of scaled ones.
fn schemes(horizon: u64) -> impl Iterator<Item = Scheme> {
    let kinds = [SquareRoot::new(horizon).unwrap(), SquareRoot::normalized(horizon).unwrap()];
    kinds.into_iter().flat_map(|kind| SERIES.map(|series| scheme(Arc::new(kind.clone()), series)))
}

fn noise<F: Real>(scheme: &Scheme, coordinates: Range<u64>, tuning: Tuning) -> VectorNoise<F> {
    VectorNoise::from_scheme(scheme, &key(), &name(), coordinates, tuning).unwrap()
}

/// `σ L z`, or its increments, by the definition: the normal variables are those of the type, the rest is done in
/// doubles.
fn by_definition<F: Real>(scheme: &Scheme, coordinates: &Range<u64>) -> Vec<Vec<f64>> {
    let subkey = subkey(&key(), &name(), &scheme.digest, Purpose::Vector(F::BITS as u8));
    let normals = Normals::new(scheme.cipher, &subkey, InstructionSet::PORTABLE);
    let len = (coordinates.end - coordinates.start) as usize;
    let draw = |index| {
        let mut z = vec![F::default(); len];
        F::draw(&normals, BlockName { level: 0, index }, coordinates.start, &mut z);
        z
    };
    let z: Vec<Vec<F>> = (0..scheme.mechanism.horizon()).map(draw).collect();
    let sums = (1..=scheme.mechanism.horizon()).map(|step| {
        let mut sum = vec![0.0; len];
        scheme.mechanism.visit_row(step, &mut |node, weight| {
            let z = &z[node.index as usize];
            sum.iter_mut().zip(z).for_each(|(sum, z)| *sum += scheme.sigma * weight * z.double());
        });
        sum
    });
    let mut last = vec![0.0; len];
    let released = |sum: Vec<f64>| match scheme.series {
        Series::RunningSums => sum,
        Series::Increments => {
            let before = std::mem::replace(&mut last, sum);
            last.iter().zip(before).map(|(now, before)| now - before).collect()
        }
    };
    sums.map(released).collect()
}

/// The norm of the error over that of the noise, all steps and coordinates together.
fn error<F: Real>(scheme: &Scheme, coordinates: Range<u64>) -> f64 {
    let mut noise = noise::<F>(scheme, coordinates.clone(), single(Memory::Keep));
    let (mut wrong, mut norm) = (0.0, 0.0);
    for expected in by_definition::<F>(scheme, &coordinates) {
        let mut out = vec![F::default(); noise.len()];
        noise.next_into(&mut out).unwrap();
        for (out, expected) in out.iter().zip(&expected) {
            wrong += (out.double() - expected).powi(2);
            norm += expected * expected;
        }
    }
    (wrong / norm).sqrt()
}

#[test]
fn noise_is_that_of_the_definition() {
    for horizon in [1, 2, 31, 33, 100, 300] {
        for scheme in schemes(horizon) {
            // Increments that are added up in the type of the vector lose √T as much.
            let added_up =
                scheme.series == Series::RunningSums && scheme.mechanism.name() == MechanismName::NormalizedSqrt;
            let loss = if added_up { (horizon as f64).sqrt() } else { 1.0 };
            let (single, double) = (error::<f32>(&scheme, 250..262), error::<f64>(&scheme, 250..262));
            // The twin's own increments are differences of sums.
            assert!(single < 4e-7 * loss, "{} of {horizon}, {:?}: {single:e}", scheme.mechanism.name(), scheme.series);
            assert!(double < 4e-15 * loss, "{} of {horizon}, {:?}: {double:e}", scheme.mechanism.name(), scheme.series);
        }
    }
}

#[test]
fn no_tuning_changes_a_bit() {
    for scheme in schemes(150) {
        let all = |coordinates, tuning| rest(noise::<f32>(&scheme, coordinates, tuning));
        let expected = all(7..1500, single(Memory::Keep));
        let instructions = InstructionSet::PORTABLE;
        for memory in MEMORIES {
            for tuning in [0, 2, 3].map(|threads| Tuning { threads, memory, instructions }) {
                assert!(all(7..1500, tuning) == expected, "{} {tuning:?}", scheme.mechanism.name());
            }
        }
        for range in [7..8, 7..256, 255..1025, 1499..1500] {
            let bytes = |row: &[u8]| row[4 * (range.start as usize - 7)..4 * (range.end as usize - 7)].to_vec();
            let slices: Vec<u8> = expected.chunks(4 * 1493).flat_map(bytes).collect();
            assert!(all(range.clone(), single(Memory::Recompute)) == slices, "{range:?}");
        }
    }
}

#[test]
fn a_stream_goes_on_from_every_step() {
    for scheme in schemes(100) {
        (0..=100).for_each(|step| goes_on::<f32>(&scheme, step));
        (0..=100).step_by(9).for_each(|step| goes_on::<f64>(&scheme, step));
    }
}

/// A convolution needs no memory; sums of other increments need one vector.
#[test]
fn checkpoints_hold_a_vector_at_most() {
    for scheme in schemes(100) {
        let mut noise = noise::<f32>(&scheme, 0..1000, single(Memory::Keep));
        (0..70).for_each(|_| noise.next_into(&mut [0.0; 1000]).unwrap());
        let kept = scheme.series == Series::RunningSums && scheme.mechanism.name() == MechanismName::NormalizedSqrt;
        assert_eq!(noise.save().len() / 4000, usize::from(kept));
        assert_eq!(noise.seek(40).is_ok(), !kept);
    }
}

#[test]
fn convolutions_are_had_at_any_step() {
    for scheme in schemes(100).filter(|scheme| scheme.series == Series::Increments) {
        let mut rows = vec![];
        let mut steps = noise::<f64>(&scheme, 5..25, single(Memory::Keep));
        for _ in 0..100 {
            let mut row = [0.0; 20];
            steps.next_into(&mut row).unwrap();
            rows.push(row);
        }
        for memory in MEMORIES {
            let mut noise = noise::<f64>(&scheme, 5..25, single(memory));
            for step in [99, 0, 31, 32, 64, 63, 98] {
                let mut row = [0.0; 20];
                noise.seek(step).unwrap();
                noise.next_into(&mut row).unwrap();
                assert_eq!(row, rows[step as usize], "{step}");
            }
        }
    }
}

/// Too loud for single precision, or too long for any memory: refused at once.
#[test]
fn what_cannot_be_held_is_refused() {
    let loud = Scheme { sigma: 1e30, ..schemes(5).next().unwrap() };
    let of =
        |scheme: &Scheme, range| VectorNoise::<f32>::from_scheme(scheme, &key(), &name(), range, Tuning::default());
    assert!(of(&loud, 0..5).unwrap_err().is_invalid());
    let endless = of(&schemes(5).next().unwrap(), 0..1 << 50).unwrap_err();
    assert!(endless.is_invalid() && endless.to_string().contains("split the coordinates"));
}

/// Changing these numbers changes the noise of running training runs.
#[test]
fn bytes_are_frozen() {
    let digest = |bytes: Vec<u8>| u64::from_le_bytes(*blake3::hash(&bytes).as_bytes().first_chunk().unwrap());
    let found: Vec<[u64; 2]> = schemes(130)
        .map(|scheme| {
            let (single, double) = (single(Memory::Keep), Tuning::default());
            [digest(rest(noise::<f32>(&scheme, 9..49, single))), digest(rest(noise::<f64>(&scheme, 9..49, double)))]
        })
        .collect();
    assert_eq!(found, FROZEN, "{found:#X?}");
}

const FROZEN: [[u64; 2]; 4] = [
    [0xF9C9_B058_12FD_3D5B, 0x964F_9956_ADFC_EA5A],
    [0x6F60_0734_36A8_712A, 0x9423_88F9_6C4A_8031],
    [0x3A2F_E467_0253_603E, 0xBC4E_FCC3_F675_F9FA],
    [0x3F6C_4126_670B_AAE3, 0xA1EF_2E8F_5FA8_AD2A],
];
