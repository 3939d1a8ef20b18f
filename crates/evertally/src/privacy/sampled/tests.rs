//! Certified curves against closed forms, brute force and other accountants.

use super::*;
use crate::number::special::normal_cdf;
use crate::privacy::conversions;

fn epsilon(value: f64) -> Epsilon {
    Epsilon::new_even_if_weak(value).unwrap()
}

fn delta(value: f64) -> Delta {
    Delta::new(value).unwrap()
}

fn steps(rate: f64, noise: f64, times: u64) -> SampledGaussians {
    SampledGaussians::new(&[SampledGaussian::new(rate, noise, times).unwrap()]).unwrap()
}

/// δ of one step at any real ε, in closed form.
fn one_step(rate: f64, noise: f64, direction: Direction, epsilon: f64) -> f64 {
    let rest = 1.0 - rate;
    match direction {
        Direction::Remove => {
            let excess = epsilon.exp() - rest;
            if excess <= 0.0 {
                return 1.0 - epsilon.exp();
            }
            let x = 0.5 + noise * noise * (excess / rate).ln();
            rate * normal_cdf((1.0 - x) / noise) - excess * normal_cdf(-x / noise)
        }
        Direction::Add => {
            let excess = (-epsilon).exp() - rest;
            if excess <= 0.0 {
                return 0.0;
            }
            let x = 0.5 + noise * noise * (excess / rate).ln();
            (1.0 - epsilon.exp() * rest) * normal_cdf(x / noise) - epsilon.exp() * rate * normal_cdf((x - 1.0) / noise)
        }
    }
}

/// δ of one step more than `rest`, a curve over all real ε, by the trapezoidal rule.
fn one_more(rate: f64, noise: f64, direction: Direction, epsilon: f64, rest: &dyn Fn(f64) -> f64) -> f64 {
    let event = SampledGaussian::new(rate, noise, 1).unwrap();
    let count = 400;
    let (from, to) = (-9.0 * noise, 1.0 + 9.0 * noise);
    let width = (to - from) / f64::from(count);
    let point = |i: i32| {
        let x = from + width * f64::from(i);
        let density = (-x * x / (2.0 * noise * noise)).exp() / (noise * (2.0 * std::f64::consts::PI).sqrt());
        let loss = cells::loss_at(&event, x);
        match direction {
            Direction::Remove => density * loss.exp() * rest(epsilon - loss),
            Direction::Add => density * rest(epsilon + loss),
        }
    };
    (0..=count).map(point).sum::<f64>() * width
}

fn bound(events: &[SampledGaussian], direction: Direction, epsilon: f64) -> f64 {
    compose::divergence(events, direction, epsilon, 0.0, &mut Workspace::default())
}

/// Not below the truth, which is known to `precision`, and above it by at most `room`.
fn assert_tight(found: f64, truth: f64, precision: f64, room: f64, what: &str) {
    assert!(found >= truth * (1.0 - precision), "{what}: {found:e} is below {truth:e}");
    assert!(found <= truth * (1.0 + room), "{what}: {found:e} is far above {truth:e}");
}

#[test]
fn one_step_has_its_closed_form() {
    for (rate, noise) in [(0.5, 1.0), (0.01, 0.7), (0.001, 2.0), (0.9, 0.3), (0.3, 100.0), (1e-6, 0.5)] {
        let event = SampledGaussian::new(rate, noise, 1).unwrap();
        for at in [0.01, 0.1, 0.3, 1.0, 2.0, 5.0] {
            for direction in [Direction::Remove, Direction::Add] {
                let truth = one_step(rate, noise, direction, at);
                let what = format!("{direction:?} q = {rate}, σ = {noise}, ε = {at}");
                let found = bound(&[event], direction, at);
                if truth > 1e-14 {
                    assert_tight(found, truth, 1e-11 + 1e-16 / truth, 2e-3, &what);
                } else {
                    assert!(found < 1e-11 && found >= truth, "{what}: {found:e}, not {truth:e}");
                }
            }
        }
    }
}

#[test]
fn two_and_three_steps_are_those_of_brute_force() {
    for (rate, noise) in [(0.5, 1.0), (0.1, 0.8), (0.02, 0.6), (0.9, 0.5)] {
        let event = |times| SampledGaussian::new(rate, noise, times).unwrap();
        for direction in [Direction::Remove, Direction::Add] {
            let one = |at: f64| one_step(rate, noise, direction, at);
            let two = |at: f64| one_more(rate, noise, direction, at, &one);
            for at in [0.1, 0.5, 1.5, 3.0] {
                let what = format!("{direction:?} q = {rate}, σ = {noise}, ε = {at}");
                let truth = two(at);
                if truth > 1e-12 {
                    assert_tight(bound(&[event(2)], direction, at), truth, 1e-9 + 1e-15 / truth, 1e-3, &what);
                }
            }
            let truth = one_more(rate, noise, direction, 1.0, &two);
            if truth > 1e-12 {
                let what = format!("three steps, {direction:?} q = {rate}, σ = {noise}");
                assert_tight(bound(&[event(3)], direction, 1.0), truth, 1e-9 + 1e-15 / truth, 1e-3, &what);
            }
        }
    }
}

/// Steps of different kinds, one of them in which all take part.
#[test]
fn mixed_steps_are_those_of_brute_force() {
    let kinds = [(0.2, 0.7), (0.01, 0.4), (1.0, 3.0)];
    let events: Vec<_> = kinds.iter().map(|&(rate, noise)| SampledGaussian::new(rate, noise, 1).unwrap()).collect();
    for direction in [Direction::Remove, Direction::Add] {
        // The order leaves the closed form to the step whose curve has no kink.
        let one = |at: f64| one_step(0.2, 0.7, direction, at);
        let two = |at: f64| one_more(0.01, 0.4, direction, at, &one);
        for at in [0.2, 1.0, 2.5] {
            let truth = one_more(1.0, 3.0, direction, at, &two);
            assert_tight(bound(&events, direction, at), truth, 1e-8, 1e-3, &format!("{direction:?} at {at}"));
        }
    }
}

/// The engine on steps in which all take part, which it is not asked about otherwise.
#[test]
fn whole_steps_have_the_exact_curve() {
    for (noise, times) in [(1.0, 1), (5.0, 20), (50.0, 3000), (300.0, 100_000)] {
        let event = SampledGaussian::new(1.0, noise, times).unwrap();
        let mu = (times as f64).sqrt() / noise;
        for at in [0.1, 1.0, 4.0, 8.0] {
            let truth = conversions::delta_of_gaussian(mu, epsilon(at));
            for direction in [Direction::Remove, Direction::Add] {
                let what = format!("{direction:?} σ = {noise}, k = {times}, ε = {at}");
                let found = bound(&[event], direction, at);
                assert_tight(found, truth, 1e-11, 1e-2, &what);
                // What the excess is worth in noise.
                let less = conversions::delta_of_gaussian(mu * 1.0002, epsilon(at));
                assert!(found < less, "{what}: {found:e} is more than 0.02 % of noise above {truth:e}");
            }
            let own = SampledGaussians::new(&[event]).unwrap();
            assert_tight(own.delta(epsilon(at)), truth, 1e-13, 1e-9, "special case");
        }
        let own = steps(1.0, noise, times);
        let found = own.noise_factor_for(epsilon(1.0), delta(1e-6)).unwrap();
        let scaled = own.scaled(found).unwrap();
        assert!(scaled.delta(epsilon(1.0)) <= 1e-6 && scaled.delta(epsilon(1.0)) > 1e-6 * (1.0 - 1e-9));
        assert!(scaled.epsilon(delta(1e-6)) <= 1.0 + 1e-9);
    }
}
