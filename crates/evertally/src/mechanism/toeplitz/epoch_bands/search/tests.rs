use super::*;

/// Slopes equal those of differences, for every kind of problem.
#[test]
fn slopes_are_those_of_differences() {
    let steps = (0..19).map(|t| (1.0 - 0.01 * f64::from(t % 3), 0.5 + 0.1 * f64::from(t % 5))).collect();
    let decaying = Recursion { momentum: 0.6, steps };
    for of in [Recursion::sums(19), decaying] {
        for (objective, power) in [(Objective::Mean, None), (Objective::Max, Some(7.0))] {
            let sharpness = if power.is_none() { 0.0 } else { 1.7 };
            let runs = Participation::new(3, 5).unwrap();
            let problem = EpochBandsProblem { bands: 4, runs, objective, sharpness, of: &of, watch: SearchWatch::NONE };
            let point = [0.55, 0.3, 0.35, -0.2, 0.1, 0.3];
            let (_, slopes) = problem.evaluate(&point, power);
            for (i, slope) in slopes.iter().enumerate() {
                let moved = |by: f64| {
                    let mut point = point;
                    point[i] += by;
                    problem.evaluate(&point, power).0
                };
                let difference = (moved(1e-6) - moved(-1e-6)) / 2e-6;
                assert!((slope - difference).abs() < 1e-6 * (1.0 + slope.abs()), "{i}: {slope} {difference}");
            }
        }
    }
}

/// One more band is never worse, where a descent from the square root alone may end elsewhere.
#[test]
fn more_bands_are_never_worse() {
    let of = Recursion::sums(16);
    for (most, separation) in [(1, 16), (2, 8), (4, 4), (3, 5)] {
        let runs = Participation::new(most, separation).unwrap();
        for (objective, power) in [(Objective::Mean, None), (Objective::Max, POWERS.last().copied())] {
            let mut least = f64::INFINITY;
            for bands in 1..=separation as usize {
                let problem =
                    EpochBandsProblem { bands, runs, objective, sharpness: 0.0, of: &of, watch: SearchWatch::NONE };
                let (value, _) = problem.evaluate(&problem.point_with_fewer_bands(), power);
                assert!(value <= least + 1e-12, "{runs:?} {objective} {bands}: {value} {least}");
                least = value;
            }
        }
    }
}

/// Over long horizons columns are dropped early, with the same variances and slopes.
#[test]
fn little_is_cut_off_over_long_horizons() {
    let horizon = MANY + 300;
    let coefficients = first_coefficients(5);
    let inverse = reciprocal(&coefficients, horizon);
    let steps = (0..horizon).map(|t| (1.0 - 1e-3 * (t % 3) as f64, 0.5 + 0.1 * (t % 5) as f64)).collect();
    let scales: Vec<f64> = (0..horizon).map(|t| 1.0 + 1e-4 * t as f64).collect();
    let shares: Vec<f64> = (0..horizon).map(|t| 1e-3 * (1 + t % 7) as f64).collect();
    for of in [Recursion::sums(horizon as u64), Recursion { momentum: 0.6, steps }] {
        let cut = reach(&of, &inverse);
        assert!(cut < 500, "{cut}");
        let (found, slopes) = (variances(&of, &scales, &inverse), slopes(&of, &scales, &inverse, &shares));
        let value = |scales: &[f64], inverse: &[f64]| {
            variances(&of, scales, inverse).iter().zip(&shares).map(|(v, s)| v * s).sum::<f64>()
        };
        for t in [100, 600, MANY, horizon - 1] {
            // The row of step t, term by term.
            let (mut momentum, mut sum) = (vec![0.0; t + 1], vec![0.0; t + 1]);
            for now in 0..=t {
                let (kept, rate) = of.steps[now];
                for s in 0..=now {
                    momentum[s] = of.momentum * momentum[s] + scales[now] * inverse[now - s];
                    sum[s] = kept * sum[s] + rate * momentum[s];
                }
            }
            let want: f64 = sum.iter().map(|u| u * u).sum();
            assert!((found[t] / want - 1.0).abs() < 1e-7, "{t}: {} {want}", found[t]);
            let by = 1e-4;
            let mut moved = [scales.clone(), scales.clone()];
            (moved[0][t], moved[1][t]) = (scales[t] + by, scales[t] - by);
            let difference = (value(&moved[0], &inverse) - value(&moved[1], &inverse)) / (2.0 * by);
            assert!((slopes.scales[t] / difference - 1.0).abs() < 1e-5, "{t}: {} {difference}", slopes.scales[t]);
        }
        for j in [0, 1, 7, 30] {
            let by = 1e-5;
            let mut moved = [inverse.clone(), inverse.clone()];
            (moved[0][j], moved[1][j]) = (inverse[j] + by, inverse[j] - by);
            let difference = (value(&scales, &moved[0]) - value(&scales, &moved[1])) / (2.0 * by);
            assert!((slopes.inverse[j] / difference - 1.0).abs() < 1e-5, "{j}: {} {difference}", slopes.inverse[j]);
        }
    }
}

/// A search in blocks of steps finds nearly what a search over all steps finds.
#[test]
fn blocks_of_steps_are_a_good_start() {
    let of = Recursion::sums(1100);
    for objective in Objective::BOTH {
        let runs = Participation::new(9, 120).unwrap();
        let problem =
            EpochBandsProblem { bands: 120, runs, objective, sharpness: 0.0, of: &of, watch: SearchWatch::NONE };
        let power = if objective == Objective::Max { Some(480.0) } else { None };
        let figure = |point: &[f64]| libm::exp(problem.evaluate(point, power).0);
        let blocks = problem.point_of_blocks().unwrap();
        let mut whole = blocks.clone();
        for _ in 0..3 {
            minimise(&mut whole, MAX_STEPS, MIN_GAIN, &mut |point| problem.evaluate(point, power));
        }
        let ratios = [&blocks, &problem.best_point()].map(|point| figure(point) / figure(&whole));
        assert!(ratios[0] < 1.02 && ratios[1] < 1.004, "{objective}: {ratios:?}");
    }
    let short = Recursion::sums(600);
    let runs = Participation::new(5, 100).unwrap();
    let problem = EpochBandsProblem {
        bands: 100,
        runs,
        objective: Objective::Mean,
        sharpness: 0.0,
        of: &short,
        watch: SearchWatch::NONE,
    };
    assert!(problem.point_of_blocks().is_none());
}
