//! Checkpoints, resumption and seeking.

use super::*;
use crate::Real;

/// The rest of the steps.
pub(super) fn rest<F: Real>(mut noise: VectorNoise<F>) -> Vec<u8> {
    let mut bytes = vec![];
    while noise.step() < noise.horizon() {
        let mut out = vec![F::default(); noise.len()];
        noise.next_into(&mut out).unwrap();
        bytes.extend(bits(&out));
    }
    bytes
}

fn after<F: Real>(scheme: &Scheme, steps: u64, memory: Memory) -> VectorNoise<F> {
    let mut noise = VectorNoise::from_scheme(scheme, &key(), &name(), 5..22, single(memory)).unwrap();
    for _ in 0..steps {
        noise.next_into(&mut [F::default(); 17]).unwrap();
    }
    noise
}

fn resumed<F: Real>(scheme: &Scheme, bytes: &[u8], memory: Memory) -> evertally::Result<VectorNoise<F>> {
    VectorNoise::from_scheme(scheme, &key(), &name(), 5..22, single(memory))?.with_state(bytes)
}

pub(super) fn goes_on<F: Real>(scheme: &Scheme, step: u64) {
    for before in MEMORIES {
        let noise = after::<F>(scheme, step, before);
        let bytes = noise.save();
        let expected = rest(noise);
        for memory in MEMORIES {
            let resumed = resumed::<F>(scheme, &bytes, memory).unwrap();
            assert_eq!(resumed.step(), step);
            let again = resumed.save();
            assert!(before != memory || again == bytes, "{}", scheme.mechanism.name());
            assert!(rest(resumed) == expected, "{} {before:?} to {memory:?} at {step}", scheme.mechanism.name());
        }
    }
}

#[test]
fn a_resumed_stream_goes_on_bit_for_bit() {
    for horizon in [1, 6, 19] {
        for mechanism in mechanisms(horizon) {
            for series in SERIES {
                let scheme = scheme(mechanism.clone(), series);
                (0..=horizon).for_each(|step| goes_on::<f32>(&scheme, step));
                goes_on::<f64>(&scheme, horizon / 2);
            }
        }
    }
}

#[test]
fn seeking_leads_to_the_same_steps() {
    let mut unreachable = vec![];
    for mechanism in mechanisms(19) {
        for (series, memory) in SERIES.into_iter().flat_map(|series| MEMORIES.map(|memory| (series, memory))) {
            let scheme = scheme(mechanism.clone(), series);
            for step in [0, 1, 8, 18, 19, 3] {
                let expected = rest(after::<f32>(&scheme, step, memory));
                let mut noise = after::<f32>(&scheme, 11, memory);
                match noise.seek(step) {
                    Ok(()) => assert!(rest(noise) == expected, "{} to {step}", mechanism.name()),
                    Err(error) => {
                        assert!(
                            error.is_invalid()
                                && mechanism.lazy().and_then(evertally::mechanism::Lazy::into_walk).is_none()
                        );
                        assert!(rest(noise) == rest(after::<f32>(&scheme, 11, memory)), "{}", mechanism.name());
                        unreachable.push(mechanism.name());
                    }
                }
            }
        }
    }
    assert!(unreachable.iter().any(|name| name.family().stem == "blt"));
}

/// A tree's checkpoint holds no noise, whatever the length of the vector.
#[test]
fn checkpoints_of_trees_are_small() {
    let scheme = scheme(Arc::new(Smooth::published(1000).unwrap()), Series::Increments);
    let mut noise = VectorNoise::<f32>::from_scheme(&scheme, &key(), &name(), 0..100_000, Tuning::default()).unwrap();
    for _ in 0..5 {
        noise.next_into(&mut vec![0.0; 100_000]).unwrap();
    }
    assert!(noise.save().len() < 200 && noise.memory_bytes() > 0);
}

#[test]
fn damaged_and_foreign_checkpoints_are_refused() {
    for mechanism in mechanisms(12).into_iter().step_by(4) {
        let scheme = scheme(mechanism.clone(), Series::RunningSums);
        let bytes = after::<f32>(&scheme, 7, Memory::Keep).save();
        let is_refused =
            |bytes: &[u8]| resumed::<f32>(&scheme, bytes, Memory::Keep).is_err_and(|error| error.is_state());
        assert!((0..bytes.len()).all(|len| is_refused(&bytes[..len])));
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                assert!(is_refused(&damaged), "bit {bit} of byte {at}");
            }
        }
        assert!(is_refused(&[&bytes[..], &[0]].concat()));

        // States of another type, series, range, key, name or plan.
        assert!(resumed::<f64>(&scheme, &bytes, Memory::Keep).unwrap_err().is_state());
        let other = Scheme { series: Series::Increments, ..scheme.clone() };
        assert!(resumed::<f32>(&other, &bytes, Memory::Keep).unwrap_err().is_state());
        let other = Scheme { digest: [4; 32], ..scheme.clone() };
        assert!(resumed::<f32>(&other, &bytes, Memory::Keep).unwrap_err().is_state());
        let with = |key: &GuardedKey, name: &str, range| {
            let name = name.parse().unwrap();
            VectorNoise::<f32>::from_scheme(&scheme, key, &name, range, Tuning::default())?
                .with_state(&bytes)
                .map(|_| ())
        };
        assert!(with(&key(), "weights", 5..22).is_ok());
        assert!(with(&key(), "weights", 5..23).unwrap_err().is_state());
        // The same number of coordinates in another place: their vectors of noise would be mistaken
        // for these.
        assert!(with(&key(), "weights", 6..23).unwrap_err().is_state());
        assert!(with(&key(), "weight", 5..22).unwrap_err().is_state());
        assert!(with(&GuardedKey::insecure_from_test_seed(TestSeed(12)), "weights", 5..22).unwrap_err().is_state());
    }
}
