//! Certified curves compared with brute force over product laws.

use super::*;
use crate::number::Ratio;
use crate::privacy::conversions;

fn epsilon(value: f64) -> Epsilon {
    Epsilon::new_even_if_weak(value).unwrap()
}

fn delta(value: f64) -> Delta {
    Delta::new(value).unwrap()
}

fn profile(shifts: &[(u64, u64)]) -> ShiftProfile {
    ShiftProfile::new(shifts).unwrap()
}

/// Probabilities of losses, in multiples of a unit.
type Law = std::collections::BTreeMap<i64, f64>;

/// The law of one noise variable of these weights on `-reach ..= reach`, with the loss given by `loss`.
fn law(reach: i64, weight: impl Fn(i64) -> f64, loss: impl Fn(i64) -> i64) -> Law {
    let total: f64 = (-reach..=reach).map(&weight).sum();
    let mut law = Law::new();
    for x in -reach..=reach {
        *law.entry(loss(x)).or_insert(0.0) += weight(x) / total;
    }
    law
}

/// Discrete Laplace noise, losses in units of 1/scale.
fn laplace_law(scale: f64, shift: u64) -> Law {
    let d = shift as i64;
    law((scale * 60.0).ceil() as i64 + d, |x| (-(x.abs() as f64) / scale).exp(), |x| (x - d).abs() - x.abs())
}

/// Discrete Gaussian noise, losses in units of 1/(2 variance).
fn gaussian_law(variance: f64, shift: u64) -> Law {
    let d = shift as i64;
    let reach = (variance.sqrt() * 12.0).ceil() as i64 + 2;
    law(reach, |x| (-((x * x) as f64) / (2.0 * variance)).exp(), |x| d * (d - 2 * x))
}

/// `E (1 - e^{ε - loss})₊` of independent variables, by enumeration.
fn brute(variables: &[Law], unit: f64, epsilon: f64) -> f64 {
    let mut all = Law::from([(0, 1.0)]);
    for one in variables {
        let mut next = Law::new();
        for (a, p) in &all {
            for (b, q) in one {
                *next.entry(a + b).or_insert(0.0) += p * q;
            }
        }
        all = next;
    }
    let above = all.iter().map(|(loss, p)| (*loss as f64 * unit - epsilon, p));
    above.filter(|(gap, _)| *gap > 0.0).map(|(gap, p)| -p * (-gap).exp_m1()).sum()
}

#[test]
fn laplace_lattice_is_exact() {
    for scale in [1u128, 3, 10] {
        for shifts in [vec![1u64], vec![2], vec![7], vec![1, 1], vec![5, 2], vec![1, 1, 1], vec![3, 3, 1]] {
            let pairs: Vec<_> = shifts.iter().map(|&d| (d, 1)).collect();
            let exact: Vec<_> = shifts.iter().map(|&d| laplace_law(scale as f64, d)).collect();
            let loss = PrivacyLoss::laplace(
                Ratio::new(scale, 1).unwrap(),
                &profile(&pairs),
                Resolution::for_delta(delta(1e-9)),
            );
            for e in [1e-6, 0.05, 0.3, 1.0, 2.5] {
                let (ours, want) = (loss.delta(epsilon(e)), brute(&exact, 1.0 / scale as f64, e));
                assert!(ours >= want * (1.0 - 1e-12), "scale {scale} {shifts:?} ε {e}: {ours} below {want}");
                assert!(ours <= want * (1.0 + 1e-9) + 1e-14, "scale {scale} {shifts:?} ε {e}: {ours}, want {want}");
            }
        }
    }
}

/// Laplace and Gaussian noise on one data set, whose loss lattices have nothing in common.
#[test]
fn different_laws_compose() {
    let (scale, variance) = (7.0, 30.0);
    for points in [256, 4096] {
        let fine = Resolution::new(points, delta(1e-12)).unwrap();
        let first = PrivacyLoss::laplace(Ratio::new(7, 1).unwrap(), &profile(&[(3, 1), (1, 2)]), fine);
        let second = PrivacyLoss::discrete_gaussian(Ratio::new(30, 1).unwrap(), &profile(&[(2, 1)]), fine).unwrap();
        // Over all fixed releases of the Gaussian: δ(ε) = E δ_first(ε - loss_second).
        let laplace = [laplace_law(scale, 3), laplace_law(scale, 1), laplace_law(scale, 1)];
        for e in [0.2, 0.5, 1.0, 1.8] {
            let gaussian = gaussian_law(variance, 2);
            let rest = |(loss, p): (&i64, &f64)| p * brute(&laplace, 1.0 / scale, e - *loss as f64 * 0.5 / variance);
            let want: f64 = gaussian.iter().map(rest).sum();
            for both in [first.and(&second, fine), second.and(&first, fine)] {
                let ours = both.delta(epsilon(e));
                let tolerance = if points > 1000 { 1e-4 } else { 2e-2 };
                assert!(ours >= want * (1.0 - 1e-11) && ours <= want * (1.0 + tolerance), "ε {e}: {ours}, want {want}");
            }
        }
    }
}

/// `Σ p` and `Σ p e^{-loss}`.
fn sums(loss: &PrivacyLoss) -> (f64, f64) {
    let losses = (0..loss.masses.len()).map(|i| (loss.first + 2 * i as i64) as f64 * loss.half);
    let p: f64 = loss.masses.iter().sum();
    let q: f64 = losses.zip(&loss.masses).map(|(l, p)| p * (-l).exp()).sum();
    (p, q)
}

/// Wider grids keep both laws normalised, whatever the parity of the lattice, and only raise the curve.
#[test]
fn wider_grids_only_raise_the_curve() {
    for shift in [4, 5, 6, 7] {
        let fine = Resolution::new(1024, delta(1e-200)).unwrap();
        let loss = PrivacyLoss::laplace(Ratio::new(3, 1).unwrap(), &profile(&[(shift, 1)]), fine);
        let coarser = loss.coarser();
        for wide in [loss.coarser(), coarser.coarser(), loss.on_grid(0.77 * loss.half), loss.on_grid(1.3 * loss.half)] {
            let (p, q) = sums(&wide);
            assert!((p - 1.0).abs() < 1e-13 && (q - 1.0).abs() < 1e-13, "shift {shift}: {p} {q}");
            for e in [0.01, 0.4, 0.9, 1.2] {
                assert!(wide.delta(epsilon(e)) >= loss.delta(epsilon(e)) * (1.0 - 1e-12), "shift {shift} ε {e}");
            }
        }
    }
}

/// Splits keep the total mass under both laws: `Σ p = Σ p e^{-loss} = 1`, on every grid.
#[test]
fn splitting_keeps_both_laws_normalised() {
    for (scale, shifts) in
        [(300u128, vec![(700u64, 3u64)]), (50, vec![(97, 2), (101, 1)]), (1 << 40, vec![(1 << 40, 4), (1 << 30, 2)])]
    {
        for points in [64, 100, 512] {
            let resolution = Resolution::new(points, delta(1e-200)).unwrap();
            let loss = PrivacyLoss::laplace(Ratio::new(scale, 1).unwrap(), &profile(&shifts), resolution);
            let (p, q) = sums(&loss);
            assert!((p - 1.0).abs() < 1e-11 && (q - 1.0).abs() < 1e-11, "{shifts:?} on {points}: {p} {q}");
        }
    }
    let loss = PrivacyLoss::discrete_gaussian(
        Ratio::new(50, 1).unwrap(),
        &profile(&[(3, 2), (5, 1)]),
        Resolution::new(128, delta(1e-30)).unwrap(),
    );
    let (p, q) = sums(&loss.unwrap());
    assert!((p - 1.0).abs() < 1e-11 && (q - 1.0).abs() < 1e-11, "{p} {q}");
}

/// On grids that are too coarse for the lattice δ stays above the exact one, and comes close with more points.
#[test]
fn coarse_grids_err_on_the_safe_side() {
    for (scale, shifts) in [(300u64, vec![700u64, 700, 700]), (100, vec![97, 101, 89]), (400, vec![30, 900, 2])] {
        let pairs: Vec<_> = shifts.iter().map(|&d| (d, 1)).collect();
        let exact: Vec<_> = shifts.iter().map(|&d| laplace_law(scale as f64, d)).collect();
        let pure = shifts.iter().sum::<u64>() as f64 / scale as f64;
        for (points, tolerance) in [(64, 2.0), (256, 0.1), (1024, 0.005)] {
            let resolution = Resolution::new(points, delta(1e-9)).unwrap();
            let loss = PrivacyLoss::laplace(Ratio::new(scale.into(), 1).unwrap(), &profile(&pairs), resolution);
            for share in [1e-6, 0.2, 0.5, 0.9] {
                let (ours, want) = (loss.delta(epsilon(share * pure)), brute(&exact, 1.0 / scale as f64, share * pure));
                assert!(ours >= want * (1.0 - 1e-12), "{shifts:?} {points} {share}: {ours} below {want}");
                assert!(ours <= want * (1.0 + tolerance), "{shifts:?} {points} {share}: {ours}, want {want}");
            }
        }
    }
}

/// On a grid of 2^-40 the law is continuous: `δ = 1 - e^{(ε - d/λ)/2}` for one variable.
#[test]
fn huge_shifts_approach_continuous_noise() {
    for (d, scale) in [(1u64 << 40, 1u128 << 40), ((1 << 40) + 12345, 1 << 38), (999_999_999_989, 1 << 45)] {
        let length = d as f64 / scale as f64;
        let loss = PrivacyLoss::laplace(
            Ratio::new(scale, 1).unwrap(),
            &profile(&[(d, 1)]),
            Resolution::for_delta(delta(1e-9)),
        );
        for share in [1e-3, 0.3, 0.7, 0.95] {
            let want = -((share - 1.0) * length / 2.0).exp_m1();
            let ours = loss.delta(epsilon(share * length));
            assert!(ours >= want * (1.0 - 1e-9) && ours <= want * 1.001 + 1e-9, "{d} {share}: {ours}, want {want}");
        }
    }
}

/// The lattice of many variables, compared with the same loss on few points.
#[test]
fn many_variables_stay_above_the_lattice() {
    let d = delta(1e-6);
    for (scale, variables) in [(100u128, 1000u64), (300, 3000)] {
        let of = |points| {
            let resolution = Resolution::new(points, d).unwrap();
            let profile = ShiftProfile::ones(variables).unwrap();
            PrivacyLoss::laplace(Ratio::new(scale, 1).unwrap(), &profile, resolution).epsilon(d)
        };
        let exact = of(4096);
        for (points, tolerance) in [(256, 2e-2), (1024, 1e-3)] {
            let ours = of(points);
            assert!(ours >= exact * (1.0 - 1e-7), "{variables} variables on {points}: {ours} below {exact}");
            assert!(ours <= exact * (1.0 + tolerance), "{variables} variables on {points}: {ours}, want {exact}");
        }
    }
}

/// The lemmas of [`ShiftProfile`] and of the search, on exact lattices: larger shifts, more variables, merged shifts
/// and smaller scales all weaken the guarantee, at every ε.
#[test]
fn profiles_are_ordered_as_proven() {
    let curve = |scale: u128, shifts: &[(u64, u64)]| {
        let loss = PrivacyLoss::laplace(
            Ratio::new(scale, 4).unwrap(),
            &profile(shifts),
            Resolution::new(1024, delta(1e-200)).unwrap(),
        );
        (0..60).map(|i| loss.delta(epsilon(1e-9 + f64::from(i) * 0.05))).collect::<Vec<_>>()
    };
    let gaussian = |variance: u128, shifts: &[(u64, u64)]| {
        let resolution = Resolution::new(1 << 12, delta(1e-100)).unwrap();
        let loss =
            PrivacyLoss::discrete_gaussian(Ratio::new(variance, 1).unwrap(), &profile(shifts), resolution).unwrap();
        (0..60).map(|i| loss.delta(epsilon(1e-9 + f64::from(i) * 0.05))).collect::<Vec<_>>()
    };
    let assert_below = |less: &[f64], more: &[f64], what: &str| {
        for (i, (a, b)) in less.iter().zip(more).enumerate() {
            assert!(*a <= b * (1.0 + 1e-9) + 1e-14, "{what}, ε = {}: {a} > {b}", f64::from(i as u32) * 0.05);
        }
    };
    for scale in [3, 17, 80] {
        for (a, b) in [(1, 1), (2, 5), (7, 7), (1, 30)] {
            let pair = curve(scale, &[(a, 1), (b, 1)]);
            assert_below(&pair, &curve(scale, &[(a + b, 1)]), "merged");
            assert_below(&pair, &curve(scale, &[(a, 1), (b + 1, 1)]), "larger shift");
            assert_below(&pair, &curve(scale, &[(a, 2), (b, 1)]), "more variables");
            assert_below(&curve(scale + 1, &[(a, 1), (b, 1)]), &pair, "larger scale");
            let pair = gaussian(scale, &[(a, 1), (b, 1)]);
            assert_below(&pair, &gaussian(scale, &[(a + b, 1)]), "merged, Gaussian");
            assert_below(&pair, &gaussian(scale, &[(a, 1), (b + 1, 1)]), "larger shift, Gaussian");
        }
    }
}

/// The exact sum over all integers, at large ε.
#[test]
fn more_discrete_noise_may_reveal_more() {
    let shift = 2.0;
    let of = |e: f64, numerator: u128, denominator: u128| {
        let variance = numerator as f64 / denominator as f64;
        let weight = |x: f64| (-x * x / (2.0 * variance)).exp();
        let places = || (-40..=40).map(f64::from);
        let shown: f64 = places().map(|x| (weight(x) - e.exp() * weight(x - shift)).max(0.0)).sum();
        let exact = shown / places().map(weight).sum::<f64>();
        let ratio = Ratio::new(numerator, denominator).unwrap();
        let ours = delta_of_discrete_gaussian(ratio, &profile(&[(2, 1)]), epsilon(e));
        assert!(ours >= exact * (1.0 - 1e-10) && ours < exact * 1.01, "ε {e}, σ² {variance}: {ours} {exact}");
        exact
    };
    let (less, more) = (of(8.0, 1, 4), of(8.0, 961, 2500));
    assert!((less - 0.10668).abs() < 1e-5 && (more - 0.16281).abs() < 1e-5, "{less} {more}");
    // The losses of 0 are 2/σ²: δ falls steeply where that passes ε = 16, at σ² = 1/8, and rises again afterwards.
    let (before, after, later) = (of(16.0, 118, 1000), of(16.0, 126, 1000), of(16.0, 22, 100));
    assert!((before - 0.60976).abs() < 1e-5 && after < 0.0183 && later > 4.0 * after, "{before} {after} {later}");
}

#[test]
fn discrete_gaussian_curves_enclose_the_exact_one() {
    for variance in [1u64, 4, 30, 100] {
        for shifts in [vec![1u64], vec![3], vec![1, 1], vec![2, 1], vec![4, 6], vec![1, 1, 1]] {
            let pairs: Vec<_> = shifts.iter().map(|&d| (d, 1)).collect();
            let exact: Vec<_> = shifts.iter().map(|&d| gaussian_law(variance as f64, d)).collect();
            let profile = profile(&pairs);
            let ratio = Ratio::new(variance.into(), 1).unwrap();
            let loss = PrivacyLoss::discrete_gaussian(ratio, &profile, Resolution::new(1 << 13, delta(1e-12)).unwrap());
            let loss = loss.unwrap();
            for e in [1e-6, 0.1, 0.5, 2.0] {
                let want = brute(&exact, 0.5 / variance as f64, e);
                if want < 1e-12 {
                    continue;
                }
                let tight = loss.delta(epsilon(e));
                let simple = delta_of_discrete_gaussian_by_norm(ratio, profile.l2_squared(), epsilon(e));
                assert!(tight >= want * (1.0 - 1e-10), "σ² {variance} {shifts:?} ε {e}: {tight} below {want}");
                assert!(tight <= want * (1.0 + 1e-5), "σ² {variance} {shifts:?} ε {e}: {tight}, want {want}");
                assert!(simple >= want * (1.0 - 1e-10), "σ² {variance} {shifts:?} ε {e}: compared {simple}, {want}");
                assert!(delta_of_discrete_gaussian(ratio, &profile, epsilon(e)) <= tight.min(simple) * (1.0 + 1e-6));
            }
        }
    }
}

/// Above σ = 100 the comparison costs almost nothing, also in many dimensions.
#[test]
fn comparison_is_tight_for_wide_noise() {
    for (variance, squared_norm) in [(10_000u128, 900u128), (1 << 30, 1 << 28), (1 << 80, 1 << 79)] {
        let mu = (squared_norm as f64 / variance as f64).sqrt();
        for e in [0.1, 1.0, 4.0] {
            let ratio = Ratio::new(variance, 1).unwrap();
            let ours = delta_of_discrete_gaussian_by_norm(ratio, squared_norm, epsilon(e));
            let want = conversions::delta_of_gaussian(mu, epsilon(e));
            let slack = 400.0 / variance as f64 + 1e-9;
            assert!(
                ours >= want * (1.0 - 1e-9) && ours <= want * (1.0 + slack.min(0.2)),
                "{variance} {e}: {ours}, {want}"
            );
        }
    }
}

/// The found scale is certified separately, is hardly more than needed, and never exceeds that of the closed form.
#[test]
fn searches_find_the_least_certified_noise() {
    for (e, d, shifts) in [
        (1.0, 1e-6, vec![(1u64, 10u64)]),
        (0.1, 1e-9, vec![(1, 40)]),
        (3.0, 1e-12, vec![(20, 7), (3, 5)]),
        (1e-6, 1e-2, vec![(1, 3)]),
        (50.0, 1e-300, vec![(1, 64)]),
        (0.5, 1e-30, vec![(1 << 40, 20)]),
        (1.0, 1e-6, vec![(1, 1 << 20)]),
    ] {
        let (profile, epsilon, delta) = (profile(&shifts), epsilon(e), delta(d));
        let scale = laplace_scale_for(epsilon, delta, &profile).unwrap();
        let closed =
            conversions::laplace_scale(profile.l1() as f64, (profile.l2_squared() as f64).sqrt(), epsilon, delta);
        assert!(scale.to_f64() <= closed * (1.0 + 1e-7), "ε {e} δ {d} {shifts:?}: {scale}, closed form {closed}");
        let spent = |scale: Ratio| PrivacyLoss::laplace(scale, &profile, Resolution::for_delta(delta)).delta(epsilon);
        assert!(spent(scale) <= d, "ε {e} δ {d} {shifts:?}: {scale} spends {}", spent(scale));
        let less = Ratio::from_f64(scale.to_f64() * (1.0 - 1e-5)).unwrap();
        assert!(spent(less) > d, "ε {e} δ {d} {shifts:?}: {scale} is more than needed");

        let variance = gaussian_variance_for(epsilon, delta, &profile).unwrap();
        assert!(delta_of_discrete_gaussian(variance, &profile, epsilon) <= d, "ε {e} δ {d} {shifts:?}: {variance}");
        let continuous = profile.l2_squared() as f64 / conversions::mu_for(epsilon, delta).powi(2);
        assert!(
            variance.to_f64() <= continuous * (1.0 + 1e-6) + 2.0,
            "ε {e} δ {d} {shifts:?}: {variance}, {continuous}"
        );
    }
}

#[test]
fn searches_are_monotone() {
    let profile = profile(&[(1, 24)]);
    let scale = |e, d| laplace_scale_for(epsilon(e), delta(d), &profile).unwrap().to_f64();
    let variance = |e, d| gaussian_variance_for(epsilon(e), delta(d), &profile).unwrap().to_f64();
    for pair in [0.01, 0.1, 0.5, 1.0, 4.0, 16.0].windows(2) {
        assert!(scale(pair[0], 1e-6) > scale(pair[1], 1e-6) && variance(pair[0], 1e-6) > variance(pair[1], 1e-6));
    }
    for pair in [1e-100, 1e-20, 1e-9, 1e-4, 1e-2].windows(2) {
        assert!(scale(1.0, pair[0]) > scale(1.0, pair[1]) && variance(1.0, pair[0]) > variance(1.0, pair[1]));
    }
}

#[test]
fn curves_fall_and_round_trip() {
    let loss =
        PrivacyLoss::laplace(Ratio::new(10, 1).unwrap(), &profile(&[(5, 8)]), Resolution::for_delta(delta(1e-12)));
    for d in [1e-12, 1e-6, 1e-2, 0.3] {
        let e = loss.epsilon(delta(d));
        assert!(loss.delta(epsilon(e)) <= d && loss.delta(epsilon(e * (1.0 - 1e-9))) > d, "δ {d}: ε {e}");
    }
    let curve: Vec<_> = (1..100).map(|i| loss.delta(epsilon(f64::from(i) * 0.05))).collect();
    assert!(curve.windows(2).all(|pair| pair[1] <= pair[0]));
    assert_eq!(loss.delta(epsilon(4.1)), 0.0); // pure ε is 4
}

/// Absurdly small noise is reported as protecting nothing; it does not panic or overflow.
#[test]
fn extremes_are_certified() {
    let tiny = Ratio::new(1, 1 << 40).unwrap();
    let vast = Ratio::new(1 << 100, 1).unwrap();
    for shifts in [vec![(1u64, 1u64)], vec![(1 << 40, 1 << 40)], vec![(1, 1 << 60)], vec![(1 << 60, 1), (1, 1)]] {
        let profile = profile(&shifts);
        assert_eq!(delta_of_laplace(tiny, &profile, epsilon(20.0)), 1.0, "{shifts:?}");
        assert_eq!(delta_of_discrete_gaussian(tiny, &profile, epsilon(20.0)), 1.0, "{shifts:?}");
        let spent = delta_of_laplace(vast, &profile, epsilon(1e-6));
        assert!((0.0..=1.0).contains(&spent), "{shifts:?}: {spent}");
        assert!(epsilon_of_laplace(vast, &profile, delta(1e-6)) >= 0.0);
        assert!(epsilon_of_discrete_gaussian(vast, &profile, delta(1e-6)) >= 0.0);
    }
    let many = profile(&[(1 << 20, 1 << 20), (3, 9)]);
    let wide = Ratio::new(1 << 14, 1).unwrap();
    let loss = PrivacyLoss::discrete_gaussian(wide, &many, Resolution::for_delta(delta(1e-6))).unwrap();
    assert_eq!((loss.delta(epsilon(1e6)), loss.epsilon(delta(1e-6))), (1.0, f64::INFINITY));
    assert!(ShiftProfile::new(&[((1 << 60) + 1, 1)]).is_err());
    assert!(ShiftProfile::new(&[(1 << 60, 1 << 60)]).unwrap_err().is_overflow());
    assert_eq!(profile(&[(2, 1), (0, 7), (3, 1), (2, 4)]).shifts(), [(3, 1), (2, 5)]);
}

/// Rounding errors are never lost: errors and infinite losses at least add up.
#[test]
fn errors_add_up() {
    let fine = Resolution::for_delta(delta(1e-6));
    let one = PrivacyLoss::laplace(Ratio::new(20, 1).unwrap(), &profile(&[(1, 10)]), fine);
    let other = PrivacyLoss::discrete_gaussian(Ratio::new(300, 1).unwrap(), &profile(&[(1, 10)]), fine).unwrap();
    for (a, b) in [(&one, &other), (&one, &one), (&other, &other)] {
        let both = a.and(b, fine);
        assert!(both.error >= a.error + b.error && both.infinity >= a.infinity + b.infinity);
    }
    for loss in [&one, &other] {
        let coarser = loss.coarser();
        assert!(coarser.error >= loss.error + 1e-14 && coarser.infinity >= loss.infinity);
        let moved = loss.on_grid(1.7 * loss.half);
        assert!(moved.error >= loss.error + 1e-14 && moved.infinity >= loss.infinity);
    }
}
