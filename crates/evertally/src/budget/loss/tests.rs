//! Certified curves against brute force over product laws.

use super::*;
use crate::noise::Ratio;

fn epsilon(value: f64) -> Epsilon {
    Epsilon::new_even_if_weak(value).unwrap()
}

fn delta(value: f64) -> Delta {
    Delta::new(value).unwrap()
}

fn profile(shifts: &[(u64, u64)]) -> ShiftProfile {
    ShiftProfile::new(shifts).unwrap()
}

/// Loss and probability of every outcome of one variable with this probability mass function.
fn outcomes(reach: i64, shift: u64, weight: impl Fn(i64) -> f64) -> Vec<(f64, f64)> {
    let total: f64 = (-reach..=reach).map(&weight).sum();
    let d = shift as i64;
    (-reach..=reach).map(|x| ((weight(x) / weight(x - d)).ln(), weight(x) / total)).collect()
}

fn laplace_outcomes(scale: f64, shift: u64) -> Vec<(f64, f64)> {
    let reach = (scale * 60.0).ceil() as i64 + shift as i64;
    let all = outcomes(reach, shift, |x| (-(x.abs() as f64) / scale).exp());
    // Losses from the definition, without the rounding of tiny weights; equal ones together.
    let d = shift as i64;
    let mut together = std::collections::BTreeMap::new();
    for (x, (_, mass)) in (-reach..=reach).zip(all) {
        *together.entry((x - d).abs() - x.abs()).or_insert(0.0) += mass;
    }
    together.into_iter().map(|(loss, mass)| (loss as f64 / scale, mass)).collect()
}

fn gaussian_outcomes(variance: f64, shift: u64) -> Vec<(f64, f64)> {
    let reach = (variance.sqrt() * 12.0).ceil() as i64 + 2;
    let weight = |x: i64| (-((x * x) as f64) / (2.0 * variance)).exp();
    let total: f64 = (-reach..=reach).map(weight).sum();
    let d = shift as f64;
    (-reach..=reach).map(|x| (d * (d - 2.0 * x as f64) / (2.0 * variance), weight(x) / total)).collect()
}

/// `E (1 - e^{ε - loss})₊` by enumeration of all outcomes of up to three variables.
fn brute(variables: &[Vec<(f64, f64)>], epsilon: f64) -> f64 {
    let mut all = vec![(0.0, 1.0)];
    for one in variables {
        all = all.iter().flat_map(|&(l, p)| one.iter().map(move |&(l2, p2)| (l + l2, p * p2))).collect();
    }
    all.iter().filter(|(loss, _)| *loss > epsilon).map(|(loss, p)| -p * (epsilon - loss).exp_m1()).sum()
}

#[test]
fn laplace_lattice_is_exact() {
    for scale in [1u128, 3, 10] {
        for shifts in [vec![1u64], vec![2], vec![7], vec![1, 1], vec![5, 2], vec![1, 1, 1], vec![3, 3, 1]] {
            let pairs: Vec<_> = shifts.iter().map(|&d| (d, 1)).collect();
            let exact: Vec<_> = shifts.iter().map(|&d| laplace_outcomes(scale as f64, d)).collect();
            let loss = PrivacyLoss::of_laplace(
                Ratio::new(scale, 1).unwrap(),
                &profile(&pairs),
                Resolution::for_delta(delta(1e-9)),
            );
            for e in [1e-6, 0.05, 0.3, 1.0, 2.5] {
                let (ours, want) = (loss.delta(epsilon(e)), brute(&exact, e));
                assert!(ours >= want * (1.0 - 1e-12), "scale {scale} {shifts:?} ε {e}: {ours} below {want}");
                assert!(ours <= want * (1.0 + 1e-9) + 1e-14, "scale {scale} {shifts:?} ε {e}: {ours}, want {want}");
            }
        }
    }
}

#[test]
fn scratch() {
    use std::time::Instant;
    let d = delta(1e-6);
    for h in [1u64, 4, 16, 64, 256, 1 << 20] {
        for shift in [1u64, 100, 1 << 40] {
            let p = profile(&[(shift, h)]);
            // about eps = 1
            let scale = conversions_scale(&p, 1.0, d) as u128;
            if scale < 1 { continue; }
            let r = Ratio::new(scale, 1).unwrap();
            print!("h {h} shift {shift} λ/shift {:.3}: ", scale as f64 / shift as f64);
            for points in [256, 1024, 2048, 8192, 16384] {
                if h > 64 && points > 8192 { continue; }
                let t = Instant::now();
                let loss = PrivacyLoss::of_laplace(r, &p, Resolution::new(points, d).unwrap());
                let a = t.elapsed();
                let e = loss.epsilon(d);
                print!(" {points}: {e:.9} {:.1}ms (err {:.0e})", a.as_secs_f64() * 1e3, loss.error);
            }
            println!();
            let t = Instant::now();
            let found = laplace_scale_for(epsilon(1.0), d, &p).unwrap();
            println!("   search: {} (closed {}) {:.1}ms", found.to_f64() / shift as f64, scale as f64 / shift as f64, t.elapsed().as_secs_f64() * 1e3);
            let t = Instant::now();
            let found = gaussian_variance_for(epsilon(1.0), d, &p).unwrap();
            let c = p.l2_squared() as f64 / crate::budget::conversions::mu_for(epsilon(1.0), d).powi(2);
            println!("   gaussian: {} (continuous {}) {:.1}ms", found.to_f64(), c, t.elapsed().as_secs_f64() * 1e3);
        }
    }
}

fn conversions_scale(p: &ShiftProfile, e: f64, d: Delta) -> f64 {
    crate::budget::conversions::laplace_scale(p.l1() as f64, (p.l2_squared() as f64).sqrt(), epsilon(e), d)
}
