//! The joint law of reads, exactly: a skip is linear in the state and in the normal numbers, so unit vectors give the
//! matrix that maps independent numbers to the noise of all reads.

mod long;

use super::*;
use crate::mechanism::Mechanism;
use crate::mechanism::dense_twin::{Matrix, cholesky};
use crate::mechanism::toeplitz::blt::tests::{LONG, LONGEST, MIDDLE, ROUGH};
use crate::mechanism::{Blt, BufferChoice, Buffers};
use crate::mechanism::{ColumnScaling, Objective};

/// The words of the state after a skip from `state`, with the normal number at this index 1 and all others 0. `None` if
/// fewer numbers are drawn.
fn skipped(lazy: &LazyBlt, state: &[f64], from: u64, to: u64, unit: Option<usize>) -> Option<Vec<f64>> {
    let (mut state, mut drawn) = (state.to_vec(), 0);
    lazy.skip(&mut state, from, to, || {
        drawn += 1;
        f64::from(unit == Some(drawn - 1))
    });
    // Over n steps there are n independent numbers.
    assert!(drawn as u64 <= (to - from).min(lazy.state_words() as u64), "{lazy:?}: {drawn} from {from} to {to}");
    unit.is_none_or(|unit| unit < drawn).then_some(state)
}

/// The noise of all reads for every normal number.
fn loads_of_reads(lazy: &LazyBlt, reads: &[u64]) -> Vec<Vec<f64>> {
    let mut loads: Vec<Vec<f64>> = vec![];
    let mut states: Vec<Vec<f64>> = vec![];
    let mut at = 0;
    for (place, read) in reads.iter().enumerate() {
        for state in &mut states {
            *state = skipped(lazy, state, at, *read, None).unwrap();
        }
        let origin = vec![0.0; lazy.state_words()];
        let fresh: Vec<_> = (0..).map_while(|unit| skipped(lazy, &origin, at, *read, Some(unit))).collect();
        loads.extend(fresh.iter().map(|_| vec![0.0; place]));
        states.extend(fresh);
        loads.iter_mut().zip(&states).for_each(|(load, state)| load.push(lazy.noise(state)));
        at = *read;
    }
    loads
}

/// The covariances of the reads.
fn covariances_of_reads(lazy: &LazyBlt, reads: &[u64]) -> Matrix {
    let loads = loads_of_reads(lazy, reads);
    let mut found = Matrix::zeros(reads.len(), reads.len());
    for i in 0..reads.len() {
        for j in 0..reads.len() {
            found.set(i, j, loads.iter().map(|load| load[i] * load[j]).sum());
        }
    }
    found
}

/// Eight decays as long and as close to each other as allowed, others close to each other in the middle, and some at
/// both ends of the allowed range; and those of the tests of the norms.
fn given() -> Vec<Buffers> {
    let one = 1u64 << 62;
    let close: Vec<u64> = (0..8).map(|i| one - (1 << 18) - i).collect();
    let middle: Vec<u64> = (0..8).map(|i| one / 2 - i * ((one / 2) >> 19)).collect();
    let wide: Vec<u64> = [44, 40, 33, 26, 19, 12, 5].iter().map(|bits| one - (one >> bits)).chain([1 << 22]).collect();
    let quiet = |decays: &[u64]| {
        let echoes: Vec<u64> = decays.iter().map(|decay| ((one - decay) / 16).min(decay / 16)).collect();
        Buffers::new(decays, &echoes).unwrap()
    };
    let mut found = vec![quiet(&close), quiet(&middle), quiet(&wide), quiet(&[1 << 22]), quiet(&close[..1])];
    // So small that floating point cannot distinguish C from the identity.
    found.push(Buffers::new(&middle, &[1; 8]).unwrap());
    found.extend([LONG, MIDDLE, ROUGH, LONGEST].map(|text| text.parse::<Buffers>().unwrap()));
    found
}

/// Pseudorandom numbers below bounds.
fn random(mut seed: u64) -> impl FnMut(u64) -> u64 {
    move |bound| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 20) % bound
    }
}

/// Every step, the last alone, the ends, sparser and sparser ones from either end, regular and irregular ones.
fn patterns(horizon: u64) -> Vec<Vec<u64>> {
    let mut random = random(horizon);
    let mut found: Vec<Vec<u64>> = [1, 2, 3, 7, 16, 50].map(|by| (1..=horizon).step_by(by).collect()).into();
    found.extend([vec![horizon], vec![1, horizon], (1..=horizon).filter(|t| t.is_power_of_two()).collect()]);
    found.push((1..=horizon).filter(|t| (horizon - t + 1).is_power_of_two()).collect());
    for bound in [2, 5, 20] {
        found.push((1..=horizon).filter(|_| random(bound) == 0).collect());
    }
    found.iter_mut().for_each(|reads| reads.dedup());
    found
}

/// `K⁻¹ M` for lower triangular `K`.
fn solve(k: &Matrix, m: &Matrix) -> Matrix {
    let (rows, columns) = m.shape();
    let mut out = Matrix::zeros(rows, columns);
    for i in 0..rows {
        for j in 0..columns {
            let known: f64 = (0..i).map(|n| k.row(i)[n] * out.row(n)[j]).sum();
            out.set(i, j, (m.row(i)[j] - known) / k.row(i)[i]);
        }
    }
    out
}

/// Compared with `L Lᵀ`: the largest relative error of a covariance, and of the variance of any linear combination of
/// reads.
fn errors_of_reads(lazy: &LazyBlt, l: &Matrix, reads: &[u64]) -> (f64, f64) {
    let ours = covariances_of_reads(lazy, reads);
    let (mut exact, mut error) = (Matrix::zeros(reads.len(), reads.len()), Matrix::zeros(reads.len(), reads.len()));
    let mut worst = 0.0f64;
    for (i, s) in reads.iter().enumerate() {
        for (j, t) in reads.iter().enumerate() {
            let (s, t) = (l.row(*s as usize - 1), l.row(*t as usize - 1));
            let want: f64 = s.iter().zip(t).map(|(s, t)| s * t).sum();
            let off = ours.row(i)[j] - want;
            assert!(off.is_finite());
            worst = worst.max((off / want).abs());
            exact.set(i, j, want);
            error.set(i, j, off);
        }
    }
    // |xᵀ E x| ≤ ‖K⁻¹ E K⁻ᵀ‖ · xᵀ K Kᵀ x, and no norm of a symmetric matrix exceeds its largest row sum.
    let root = cholesky(&exact).unwrap();
    let whitened = solve(&root, &solve(&root, &error).transpose());
    let sums = (0..reads.len()).map(|i| whitened.row(i).iter().map(|x| x.abs()).sum());
    (worst, sums.fold(0.0, f64::max))
}

/// The joint law of any pattern of reads is that of the matrix: entry by entry, and for every linear combination.
#[test]
fn reads_have_the_covariances_of_the_dense_twin() {
    for horizon in [1, 2, 3, 9, 60, 256] {
        for columns in ColumnScaling::BOTH {
            let optimised = (1..=8).map(|count| {
                Blt::chosen(
                    horizon,
                    columns,
                    BufferChoice::Count(count),
                    if count % 2 == 0 { Objective::Mean } else { Objective::Max },
                )
                .unwrap()
            });
            let given = given().into_iter().map(|buffers| Blt::new(horizon, columns, buffers).unwrap());
            for blt in optimised.chain(given) {
                let (lazy, l) = (blt.lazy(), blt.dense().l);
                for reads in patterns(horizon) {
                    let (entries, combinations) = errors_of_reads(&lazy, &l, &reads);
                    let good = entries < 5e-14 && combinations < 2e-10;
                    assert!(good, "{} {horizon} {reads:?}: {entries}, {combinations}", blt.name());
                }
            }
        }
    }
}

/// Reads at and next to the ends of every segment, where `D` falls.
#[test]
fn falls_lie_between_the_right_steps() {
    for horizon in [120, 250] {
        let blt = Blt::optimised(horizon, ColumnScaling::Normalized, 3, Objective::Max).unwrap();
        let (lazy, l) = (blt.lazy(), blt.dense().l);
        assert!(lazy.stages.len() > 50);
        for offset in [0, 1, 2] {
            let reads: Vec<u64> = lazy.stages.iter().map(|stage| (stage.last + offset).min(horizon)).collect();
            for every in 1..=5 {
                let mut reads: Vec<u64> = reads.iter().copied().step_by(every).collect();
                reads.dedup();
                let (entries, combinations) = errors_of_reads(&lazy, &l, &reads);
                assert!(
                    entries < 1e-13 && combinations < 1e-12,
                    "{horizon} {offset} {every}: {entries} {combinations}"
                );
            }
        }
    }
}

/// A run of segments from any to any other.
#[test]
fn spans_are_the_leaps_of_their_segments() {
    for horizon in [30, 33, 64, 150] {
        let blt = Blt::optimised(horizon, ColumnScaling::Normalized, 3, Objective::Mean).unwrap();
        let lazy = blt.lazy();
        let single: Vec<Leap> = {
            let ends = lazy.stages.windows(2).enumerate();
            let before = |place: usize| if place == 0 { 0 } else { lazy.stages[place - 1].last };
            let whole = |(place, pair): (usize, &[ScaleSegment])| {
                lazy.shape.leap(pair[0].last - before(place), pair[0].scale, pair[0].scale - pair[1].scale)
            };
            ends.map(whole).collect()
        };
        for first in 0..single.len() {
            let mut run = single[first].clone();
            for end in first + 1..=single.len() {
                let pieces: Vec<&Leap> = lazy.spans.pieces(first, end).collect();
                assert!((1..=2).contains(&pieces.len()));
                let found = pieces[1..].iter().fold(pieces[0].clone(), |leap, next| leap.then(&lazy.shape, next));
                assert!((found.variance / run.variance - 1.0).abs() < 1e-13);
                for i in 0..3 {
                    // `θ^n` is known to absolute errors.
                    let same = |a: f64, b: f64| (a - b).abs() < 1e-13 * b + 1e-16;
                    assert!(same(found.decayed[i], run.decayed[i]) && same(found.gains[i], run.gains[i]));
                    assert!(same(found.covariances[i], run.covariances[i]), "{horizon} {first} {end}");
                }
                if end < single.len() {
                    run = run.then(&lazy.shape, &single[end]);
                }
            }
            assert_eq!(lazy.spans.pieces(first, first).count(), 0);
        }
    }
}
