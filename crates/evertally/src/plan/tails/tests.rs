use super::*;
use crate::plan::PlanRequest;
use crate::privacy::{Budget, Delta, Epsilon, Rho};

/// The law of the sum of this many variables, without a window: from `-reach · count` on.
fn convolution(law: &DiscreteLaw, count: u64, reach: i64) -> Vec<f64> {
    let weight = |k: i64| match law {
        DiscreteLaw::Laplace(_) => (-(k.abs() as f64) / law.scale()).exp(),
        DiscreteLaw::Gaussian(_) => (-((k * k) as f64) / (2.0 * law.parameter().to_f64())).exp(),
    };
    let whole: f64 = (-reach..=reach).map(weight).sum();
    let one: Vec<f64> = (-reach..=reach).map(|k| weight(k) / whole).collect();
    (1..count).fold(one.clone(), |sum, _| {
        let mut next = vec![0.0; sum.len() + one.len() - 1];
        for (i, p) in sum.iter().enumerate() {
            one.iter().enumerate().for_each(|(j, q)| next[i + j] += p * q);
        }
        next
    })
}

/// `P[sum ≥ k]` for all `k` from `-reach · count` on.
fn tails(law: &DiscreteLaw, count: u64, reach: i64) -> Vec<f64> {
    let mut above = convolution(law, count, reach);
    (0..above.len() - 1).rev().for_each(|place| above[place] += above[place + 1]);
    above
}

fn plan(mechanism: &str, horizon: u64, kind: NoiseKind, budget: Budget) -> Plan {
    let request = PlanRequest::count(horizon, budget).with_mechanism(mechanism.parse().unwrap()).with_noise(kind);
    request.plan().unwrap()
}

fn approximate(epsilon: f64) -> Budget {
    Budget::Approximate(Epsilon::new(epsilon).unwrap(), Delta::new(1e-9).unwrap())
}

/// Small scales: the tail is that of the discrete law, to the last bits, from far left to far right.
#[test]
fn small_scales_have_the_exact_tail() {
    let zcdp = |rho| Budget::Zcdp(Rho::new(rho).unwrap());
    let plans = [
        plan("binary", 15, NoiseKind::Gaussian, zcdp(0.5)),
        plan("binary", 15, NoiseKind::Gaussian, zcdp(0.02)),
        plan("binary", 127, NoiseKind::Gaussian, zcdp(0.5)),
        plan("subtract(k=3)", 13, NoiseKind::Laplace, approximate(4.0)),
        plan("input", 5, NoiseKind::Laplace, zcdp(0.5)),
    ];
    let mut counts = std::collections::BTreeSet::new();
    for plan in plans {
        for step in 1..=plan.horizon() {
            let StepClass::Equal(count) = Tail::class(&plan, step) else { panic!("equal terms") };
            let tail = Tail::new(&plan, step);
            if !counts.insert((plan.digest(), count)) {
                continue;
            }
            assert!(matches!(tail.law, TailLaw::Exact { .. }), "{count}");
            let reach = (12.0 * plan.law().scale()) as i64 + 30;
            let exact = tails(plan.law(), count, reach);
            for k in -(10.0 * plan.law().scale()) as i64..=(10.0 * plan.law().scale()) as i64 {
                let truth = exact[(k + reach * count as i64) as usize];
                let bound = tail.above(k as f64);
                assert!(
                    bound >= truth * (1.0 - 1e-12) && bound <= truth * (1.0 + 1e-6) + 1e-40,
                    "{count} {k}: {bound:e} {truth:e}"
                );
                // The other tail.
                let below = 1.0 - truth;
                assert!(tail.below(k as f64) >= below - 1e-12 && tail.below(k as f64) <= below + 1e-8, "{count} {k}");
            }
        }
    }
    assert!(counts.len() >= 12, "{}", counts.len());
}

/// The merged law of two laws of a class has no smaller tail than either.
#[test]
fn laws_are_widened_to_the_larger() {
    let plan = plan("sqrt", 300, NoiseKind::Gaussian, Budget::Zcdp(Rho::new(0.1).unwrap()));
    let of = |step| Tail::new(&plan, step);
    let mut pairs = 0;
    for (one, other) in (1..300).flat_map(|step| [(step, step + 1), (step + 1, step)]) {
        if Tail::class(&plan, one) != Tail::class(&plan, other) {
            continue;
        }
        pairs += 1;
        let mut wide = of(one);
        wide.widen(of(other));
        for x in [2.0, 10.0, 60.0] {
            for tail in [of(one), of(other)] {
                assert!(wide.above(x) >= tail.above(x) && wide.below(-x) >= tail.below(-x), "{one} {other} {x}");
            }
        }
    }
    assert!(pairs > 20, "{pairs}");
}

/// A discrete variable is stochastically less than a continuous one plus 1.
#[test]
fn continuous_variables_plus_one_are_larger() {
    for scale in [(1u128, 3u128), (1, 1), (5, 2), (40, 1)] {
        let ratio = crate::number::Ratio::new(scale.0, scale.1).unwrap();
        let laplace: DiscreteLaw = crate::noise::DiscreteLaplace::new(ratio).unwrap().into();
        let gaussian: DiscreteLaw = crate::noise::DiscreteGaussian::new(ratio).unwrap().into();
        for law in [laplace, gaussian] {
            let reach = (40.0 * law.scale()) as i64 + 40;
            let exact = tails(&law, 1, reach);
            for k in -(6.0 * law.scale()) as i64 - 3..(9.0 * law.scale()) as i64 + 3 {
                let x = (k - 1) as f64 / law.scale();
                let continuous = match law {
                    DiscreteLaw::Gaussian(_) => normal_cdf(-x),
                    DiscreteLaw::Laplace(_) if x < 0.0 => 1.0 - 0.5 * x.exp(),
                    DiscreteLaw::Laplace(_) => 0.5 * (-x).exp(),
                };
                let truth = exact[(k + reach) as usize];
                assert!(truth <= continuous * (1.0 + 1e-12), "{law} {k}: {truth:e} {continuous:e}");
            }
        }
    }
}

/// Larger scales use continuous laws, never below the discrete one and near it.
#[test]
fn large_scales_are_bounded_closely() {
    let laplace = plan("binary", 7, NoiseKind::Laplace, approximate(0.05));
    let gaussian = plan("binary", 7, NoiseKind::Gaussian, Budget::Zcdp(Rho::new(5e-5).unwrap()));
    for plan in [laplace, gaussian] {
        let reach = (14.0 * plan.law().scale()) as i64;
        for (step, count) in [(4, 1u64), (3, 2)] {
            let tail = Tail::new(&plan, step);
            assert!(!matches!(tail.law, TailLaw::Exact { .. }));
            let exact = tails(plan.law(), count, reach);
            for part in [0.0, 1.0, 2.0, 4.0, 6.0] {
                let k = (part * plan.std_error(step)) as i64;
                let (truth, bound) = (exact[(k + reach * count as i64) as usize], tail.above(k as f64));
                assert!(bound >= truth && bound <= truth * 1.25, "{count} {part}: {bound:e} {truth:e}");
            }
        }
    }
}

/// Filters and weighted sums: at least the normal law of their deviation, and close to it.
#[test]
fn fine_gaussian_noise_is_normal() {
    let budget = Budget::Zcdp(Rho::new(0.5).unwrap());
    for mechanism in ["path-sum", "blt", "sqrt", "normalized-blt", "dense", "smooth"] {
        let plan = plan(mechanism, 60, NoiseKind::Gaussian, budget);
        for step in [1, 17, 60] {
            let (tail, std) = (Tail::new(&plan, step), plan.std_error(step));
            for x in [0.0, 1.0, 4.0, 7.0] {
                let (bound, normal) = (tail.above(x * std), normal_cdf(-x));
                assert!(bound >= normal && bound <= normal * 1.1, "{mechanism} {step} {x}: {bound:e} {normal:e}");
            }
        }
    }
}

/// Bounds by moments hold, and are as tight as such bounds usually are.
#[test]
fn moments_bound_tails() {
    for (scale, count) in [(2.0, 1), (2.0, 4), (7.5, 9)] {
        let ratio = crate::number::Ratio::new((scale * 2.0) as u128, 2).unwrap();
        let law: DiscreteLaw = crate::noise::DiscreteLaplace::new(ratio).unwrap().into();
        let reach = (40.0 * scale) as i64;
        let exact = tails(&law, count, reach);
        for part in [1.0, 3.0, 6.0] {
            let k = (part * (2.0 * count as f64).sqrt() * scale) as i64;
            let truth = exact[(k + reach * count as i64) as usize];
            let bound = moments(scale, &[(1.0, count as f64)], k as f64);
            assert!(bound >= truth && bound <= truth * 60.0, "{scale} {count} {part}: {bound:e} {truth:e}");
            // Unequal weights of the same sum of squares have a tail, too.
            assert!(moments(scale, &[(0.5, 4.0), (1.0, count as f64 - 1.0)], k as f64) < 1.0);
        }
    }
    assert_eq!(moments(1.0, &[(1.0, 1.0)], -3.0), 1.0);
}
