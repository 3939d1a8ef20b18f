//! Long horizons and gaps: compared with the norms, with sums over all steps, and with another arithmetic.

use super::*;
use crate::mechanism::{ColumnScaling, Objective};

/// The covariances of the words of a state that was all zeros.
fn fresh_covariances(lazy: &LazyBlt, from: u64, to: u64) -> Vec<Vec<f64>> {
    let words = lazy.state_words();
    let origin = vec![0.0; words];
    let columns: Vec<_> = (0..).map_while(|unit| skipped(lazy, &origin, from, to, Some(unit))).collect();
    let entry = |i: usize, k: usize| columns.iter().map(|column| column[i] * column[k]).sum();
    (0..words).map(|i| (0..words).map(|k| entry(i, k)).collect()).collect()
}

/// The image of every unit vector.
fn kept(lazy: &LazyBlt, from: u64, to: u64) -> Vec<Vec<f64>> {
    let unit = |place: usize| (0..lazy.state_words()).map(|i| f64::from(i == place)).collect::<Vec<_>>();
    (0..lazy.state_words()).map(|place| skipped(lazy, &unit(place), from, to, None).unwrap()).collect()
}

/// Gaps of all sizes, from the beginning and from elsewhere.
fn gaps(horizon: u64) -> Vec<(u64, u64)> {
    let bits = horizon.ilog2();
    let mut random = random(horizon + 1);
    let mut found: Vec<(u64, u64)> = (0..=bits).map(|bit| (0, 1 << bit)).collect();
    for bit in 0..bits {
        let gap = 1 + random(1 << (bit + 1));
        let from = random(horizon - gap);
        found.extend([(from, from + gap), (horizon - gap, horizon), (0, gap)]);
    }
    found.extend((1..=20).map(|gap| (horizon / 3, horizon / 3 + gap)));
    found
}

fn long_ones() -> Vec<Blt> {
    let mut found = vec![];
    for columns in ColumnScaling::BOTH {
        for horizon in [1 << 20, 1 << 40] {
            found.extend(given().into_iter().map(|buffers| Blt::new(horizon, columns, buffers).unwrap()));
        }
        found.push(Blt::optimised(1 << 20, columns, 5, Objective::Max).unwrap());
    }
    found
}

/// Finite words, no more draws than there are words or steps, and the variance that the norms state, for any gap.
#[test]
fn variances_are_those_of_the_figures() {
    for blt in long_ones() {
        let lazy = blt.lazy();
        for (from, to) in gaps(blt.horizon()) {
            let reads = if from == 0 { vec![to] } else { vec![from, to] };
            let found = covariances_of_reads(&lazy, &reads);
            for (i, read) in reads.iter().enumerate() {
                let want = blt.row_norm_squared(*read);
                let error = (found.row(i)[i] / want - 1.0).abs();
                assert!(error < 1e-11, "{} {from} {to}: {error}", blt.name());
            }
        }
    }
}

/// Two skips equal one: the same means, the same covariances.
#[test]
fn skips_compose() {
    for blt in long_ones() {
        let lazy = blt.lazy();
        let mut random = random(9);
        for (from, to) in gaps(blt.horizon()).into_iter().filter(|(from, to)| to - from > 1) {
            let middle = from + 1 + random(to - from - 1);
            let (one, first, second) = (kept(&lazy, from, to), kept(&lazy, from, middle), kept(&lazy, middle, to));
            let carried = |vector: &[f64]| -> Vec<f64> {
                let word = |k: usize| vector.iter().zip(&second).map(|(x, row)| x * row[k]).sum();
                (0..vector.len()).map(word).collect()
            };
            for (place, image) in one.iter().enumerate() {
                for (a, b) in image.iter().zip(carried(&first[place])) {
                    // θ^n is known to absolute errors.
                    assert!((a - b).abs() <= 1e-13 * a.abs().max(1.0), "{} {from} {middle} {to}: {a} {b}", blt.name());
                }
            }
            covariances_compose(&lazy, (from, middle, to), carried);
        }
    }
}

fn covariances_compose(lazy: &LazyBlt, (from, middle, to): (u64, u64, u64), carried: impl Fn(&[f64]) -> Vec<f64>) {
    let (one, early) = (fresh_covariances(lazy, from, to), fresh_covariances(lazy, from, middle));
    let late = fresh_covariances(lazy, middle, to);
    // Φ Q Φᵀ, as Q is symmetric.
    let half: Vec<Vec<f64>> = early.iter().map(|row| carried(row)).collect();
    for i in 0..one.len() {
        let column: Vec<f64> = half.iter().map(|row| row[i]).collect();
        for (k, old) in carried(&column).into_iter().enumerate() {
            let scale = (one[i][i] * one[k][k]).sqrt();
            let error = (one[i][k] - old - late[i][k]).abs();
            assert!(error <= 5e-14 * scale, "{lazy:?} {from} {middle} {to}, {i} {k}: {error} {scale}");
        }
    }
}

/// The drawn numbers have the covariances in closed form, singular or not.
#[test]
fn factors_are_those_of_the_closed_forms() {
    for blt in long_ones() {
        let LazyBlt { shape, .. } = blt.lazy();
        let steps = (1..30).chain((5..=blt.horizon().ilog2()).map(|bit| (1 << bit) - u64::from(bit) / 3));
        for leap in steps.map(|steps| shape.leap(steps, 1.5, 0.25)) {
            let mut columns = vec![];
            loop {
                let mut drawn = 0;
                let (walk, buffers) = factor::draw(&shape, &leap, || {
                    drawn += 1;
                    f64::from(drawn == columns.len() + 1)
                });
                if columns.len() == drawn {
                    break;
                }
                columns.push([&[walk], &buffers[..shape.buffers()]].concat());
            }
            let want = |i: usize, k: usize| match (i, k) {
                (0, 0) => leap.variance,
                (0, k) => leap.covariances[k - 1],
                (i, k) => shape.couplings(&leap.decayed, i - 1)[k - 1],
            };
            for i in 0..=shape.buffers() {
                for k in i..=shape.buffers() {
                    let found: f64 = columns.iter().map(|column| column[i] * column[k]).sum();
                    let (error, scale) = ((found - want(i, k)).abs(), (want(i, i) * want(k, k)).sqrt());
                    assert!(error <= 1e-14 * scale, "{} {i} {k}: {error} {scale}", blt.name());
                }
            }
        }
    }
}

/// Covariances of distant reads, by the rows of `L`.
#[test]
fn covariances_are_those_of_the_rows() {
    let horizon = 1 << 18;
    for columns in ColumnScaling::BOTH {
        let blt = Blt::optimised(horizon, columns, 6, Objective::Max).unwrap();
        let reads = [1, 77, 78, 5000, 5001, 5777, horizon / 2, horizon - 4000, horizon - 30, horizon - 29, horizon];
        let mut rows = vec![vec![0.0; horizon as usize]; reads.len()];
        for (row, read) in rows.iter_mut().zip(reads) {
            blt.visit_row(read, &mut |node, entry| row[node.index as usize] = entry);
        }
        let found = covariances_of_reads(&blt.lazy(), &reads);
        for (i, s) in rows.iter().enumerate() {
            for (j, t) in rows.iter().enumerate() {
                let want: f64 = s.iter().zip(t).map(|(s, t)| s * t).sum();
                assert!((found.row(i)[j] / want - 1.0).abs() < 1e-9, "{} {} {}", blt.name(), reads[i], reads[j]);
            }
        }
    }
}

/// Variances and covariances of two reads, computed with 110 digits from the frozen integers by another program.
#[test]
fn covariances_keep_their_digits() {
    for (buffers, horizon, normalized, s, t, [at_s, both, at_t]) in GOLDEN {
        let columns = if normalized { ColumnScaling::Normalized } else { ColumnScaling::Plain };
        let blt = Blt::new(horizon, columns, buffers.parse().unwrap()).unwrap();
        let found = covariances_of_reads(&blt.lazy(), &[s, t]);
        let scale = (at_s * at_t).sqrt();
        for (found, want, scale) in
            [(found.row(0)[0], at_s, at_s), (found.row(0)[1], both, scale), (found.row(1)[1], at_t, at_t)]
        {
            let error = (found - want).abs();
            // Small covariances of distant steps are accurate to 10⁻¹⁰.
            assert!(error < 1e-10 * want && error < 1e-14 * scale, "{} {s} {t}: {found} {want}", blt.name());
        }
    }
}

/// Buffers, horizon, whether normalized, two steps, variance at the first, covariance, variance at the second.
type Known = (&'static str, u64, bool, u64, u64, [f64; 3]);

const GOLDEN: [Known; 32] = [
    (LONG, 1 << 40, false, 1, 1099511627776, [1.0, 8.056997412810236e-07, 10.403326401726826]),
    (LONG, 1 << 40, false, 1000000, 1000001, [5.672453294191067, 5.061239632269918, 5.672453728011289]),
    (LONG, 1 << 40, false, 549755813888, 549755826233, [10.046249874832302, 6.299951128896811, 10.046249882881595]),
    (LONG, 1 << 40, false, 3486784401, 1099511627775, [8.469170233243828, 0.05685317570917215, 10.403326401726178]),
    (LONG, 1 << 40, false, 1099511627736, 1099511627773, [10.40332640170086, 8.585490637663224, 10.403326401724879]),
    (LONG, 1 << 40, false, 1099511622776, 1099511627776, [10.403326398481067, 6.84945110522761, 10.403326401726826]),
    (LONG, 1 << 40, true, 1, 1099511627776, [9.687419739285483, 7.814795885441151e-06, 55.56287196103563]),
    (LONG, 1 << 40, true, 1000000, 1000001, [54.9514360123215, 49.030352718905604, 54.95144021492009]),
    (LONG, 1 << 40, true, 549755813888, 549755826233, [96.21702344888239, 60.3758401291264, 96.2170235105223]),
    (LONG, 1 << 40, true, 3486784401, 1099511627775, [82.04440689289531, 0.5514636853141746, 55.73861218579031]),
    (LONG, 1 << 40, true, 1099511627736, 1099511627773, [57.09115505150924, 53.12269203515251, 56.016300830143386]),
    (LONG, 1 << 40, true, 1099511622776, 1099511627776, [61.15085561109886, 48.04160352926858, 55.56287196103563]),
    (LONGEST, 1 << 40, false, 5, 6, [2.551757812499568, 2.143066406249481, 2.817626953124433]),
    (LONGEST, 1 << 40, false, 1000, 1099511627776, [251.33333332617815, 243.02761517498712, 266633685812.95068]),
    (LONGEST, 1 << 40, false, 549755813888, 550755813888, [135335434753.33463, 135331647928.18529, 135577854105.51247]),
    (LONGEST, 1 << 40, false, 1099511627676, 1099511627776, [266633685789.41995, 266633685787.852, 266633685812.95068]),
    (LONGEST, 1 << 40, true, 5, 6, [2.916610032226752, 2.44948362637625, 3.2204933392583115]),
    (LONGEST, 1 << 40, true, 1000, 1099511627776, [287.2691592522539, 277.7758833755438, 304757167456.05865]),
    (LONGEST, 1 << 40, true, 549755813888, 550755813888, [154685795330.51263, 154681467062.3021, 154962875980.99774]),
    (LONGEST, 1 << 40, true, 1099511627676, 1099511627776, [304757167429.3245, 304757167427.5336, 304757167456.05865]),
    (MIDDLE, 1 << 20, false, 1, 1048576, [1.0, 0.0006565443493538613, 5.555659336291084]),
    (MIDDLE, 1 << 20, false, 1000, 1003, [3.325846426206407, 2.297272169290909, 3.326658563586904]),
    (MIDDLE, 1 << 20, false, 500000, 1000000, [5.305136932752652, 0.5511061675518794, 5.534699035629918]),
    (MIDDLE, 1 << 20, false, 1048516, 1048575, [5.555633473233274, 3.568772137934015, 5.555658905240602]),
    (MIDDLE, 1 << 20, true, 1, 1048576, [5.4502089282121995, 0.0036351650939549156, 17.712054347328277]),
    (MIDDLE, 1 << 20, true, 1000, 1003, [18.126557885972797, 12.520613287602721, 18.130984204374915]),
    (MIDDLE, 1 << 20, true, 500000, 1000000, [28.050486892210028, 3.069326051920255, 25.929580820260096]),
    (MIDDLE, 1 << 20, true, 1048516, 1048575, [19.51170187659697, 14.855428070260606, 17.906133549313104]),
    (ROUGH, 100000, false, 50000, 50010, [1815.9620791464956, 1814.5730428525949, 1816.3248909378788]),
    (ROUGH, 100000, false, 1, 100000, [1.0, 0.19047619047619047, 3630.021036062595]),
    (ROUGH, 100000, true, 50000, 50010, [3004.777761259907, 3002.4793953339745, 3005.3780870127353]),
    (ROUGH, 100000, true, 1, 100000, [1.654647856232855, 0.3151710202348295, 6005.562305887597]),
];
