//! Noise drawn ahead equals noise drawn on time, and so do the states, whenever they are saved.

use super::states::rest;
use super::*;
use crate::Real;

const COORDINATES: std::ops::Range<u64> = 1020..1034; // two pieces

fn noise<F: Real>(scheme: &Scheme, memory: Memory) -> VectorNoise<F> {
    VectorNoise::from_scheme(scheme, &key(), &name(), COORDINATES, single(memory)).unwrap()
}

/// All steps added to a vector, and the states after each; noise is drawn ahead before step `t` if bit `t - 1` is
/// set, before or after the state is saved.
fn steps<F: Real>(scheme: &Scheme, memory: Memory, ahead: u64, early: bool) -> Vec<Vec<u8>> {
    let mut noise = noise::<F>(scheme, memory);
    let mut given = vec![];
    for step in 0..noise.horizon() {
        let (draws, at) = (ahead >> (step % 64) & 1 == 1, noise.step());
        if draws && early {
            noise.draw_ahead();
        }
        given.push(noise.save());
        if draws {
            noise.draw_ahead();
        }
        assert_eq!(noise.step(), at);
        let mut out = vec![F::of(0.7); noise.len()];
        match step % 2 {
            0 => noise.add_next(&mut out).unwrap(),
            _ => noise.next_into(&mut out).unwrap(),
        }
        given.push(bits(&out));
    }
    noise.draw_ahead(); // there is no step after the last
    assert!(noise.next_into(&mut vec![F::default(); noise.len()]).unwrap_err().is_horizon_exhausted());
    given.push(noise.save());
    given
}

#[test]
fn bytes_and_states_are_those_without() {
    for horizon in [1, 6, 19] {
        for mechanism in mechanisms(horizon) {
            for (series, memory) in SERIES.into_iter().flat_map(|series| MEMORIES.map(|memory| (series, memory))) {
                let scheme = scheme(mechanism.clone(), series);
                let without = steps::<f32>(&scheme, memory, 0, false);
                for (ahead, early) in [(u64::MAX, true), (u64::MAX, false), (0b0110_1011_0011_0101_1101, true)] {
                    let with = steps::<f32>(&scheme, memory, ahead, early);
                    assert!(with == without, "{} {series:?} {memory:?} {ahead:b}", mechanism.name());
                }
            }
            let scheme = scheme(mechanism.clone(), Series::Increments);
            let both = [0, u64::MAX].map(|ahead| steps::<f64>(&scheme, Memory::Keep, ahead, true));
            assert!(both[0] == both[1], "{}", mechanism.name());
        }
    }
}

/// A seek abandons prefetched noise, and a refused seek keeps it.
#[test]
fn seeking_abandons_what_waits() {
    for mechanism in mechanisms(19) {
        for (series, memory) in SERIES.into_iter().flat_map(|series| MEMORIES.map(|memory| (series, memory))) {
            let scheme = scheme(mechanism.clone(), series);
            let all = rest(noise::<f32>(&scheme, memory));
            let each = all.len() / 19;
            for (from, given, to) in [(4, false, 9), (4, true, 9), (7, false, 7), (7, true, 0), (12, false, 3)] {
                let mut noise = noise::<f32>(&scheme, memory);
                for _ in 0..from {
                    noise.draw_ahead();
                    noise.next_into(&mut [0.0; 14]).unwrap();
                }
                if !given {
                    noise.draw_ahead(); // waits; otherwise the buffers lack a step
                }
                let stands = if noise.seek(to).is_ok() { to } else { from };
                noise.draw_ahead();
                assert!(noise.step() == stands && rest(noise) == all[each * stands as usize..], "{}", mechanism.name());
            }
        }
    }
}

/// One more vector, whatever the mechanism, and none once the prefetched noise is abandoned.
#[test]
fn what_waits_takes_one_vector() {
    for mechanism in mechanisms(19) {
        let scheme = scheme(mechanism, Series::Increments);
        let [mut with, mut without] = [noise::<f32>(&scheme, Memory::Keep), noise(&scheme, Memory::Keep)];
        for _ in 0..3 {
            without.next_into(&mut [0.0; 14]).unwrap();
            with.draw_ahead();
            assert!(with.memory_bytes() <= without.memory_bytes() + 4 * 14, "{}", scheme.mechanism.name());
            with.next_into(&mut [0.0; 14]).unwrap();
        }
        let before = with.memory_bytes();
        if with.seek(1).is_ok() {
            assert!(with.memory_bytes() <= before - 4 * 14);
        }
    }
}

#[test]
fn threads_change_nothing() {
    let scheme = scheme(
        mechanisms(6).into_iter().find(|m| m.name().to_string().starts_with("blt")).unwrap(),
        Series::Increments,
    );
    let all = [1, 3].map(|threads| {
        let tuning = Tuning { threads, ..Tuning::default() };
        let mut noise = VectorNoise::<f32>::from_scheme(&scheme, &key(), &name(), 0..400_000, tuning).unwrap();
        let mut last = vec![];
        for _ in 0..3 {
            noise.draw_ahead();
            last = vec![0.5; 400_000];
            noise.add_next(&mut last).unwrap();
        }
        bits(&last)
    });
    assert!(all[0] == all[1]);
}
