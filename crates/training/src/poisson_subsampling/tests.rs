//! Certified curves compared with closed forms, brute force and other accountants.

use super::event::Direction;
use super::*;
use evertally::number::special::normal_cdf;
use evertally::privacy::conversions;

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

/// δ of one step more than `rest`, a curve over all real ε, by the trapezoidal rule with this many points.
fn one_more(
    count: i32,
    (rate, noise): (f64, f64),
    direction: Direction,
    epsilon: f64,
    rest: &dyn Fn(f64) -> f64,
) -> f64 {
    let event = SampledGaussian::new(rate, noise, 1).unwrap();
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
    compose::divergence(events, direction, epsilon, (0.0, 1.0), &mut Workspace::default())
}

/// Checks that a value is not below the truth, which is known to `precision`, and above it by at most `room`.
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
                // Near the largest loss of all, the grid matters, but not compared with the other direction; and far
                // out in a tail that falls in two stages, no tilt keeps all digits.
                let other = one_step(rate, noise, Direction::Remove, at);
                assert!(found >= truth * (1.0 - 1e-11) - 1e-16, "{what}: {found:e} is below {truth:e}");
                assert!(found <= truth * 1.005 + 1e-3 * other + 1e-13, "{what}: {found:e}, not {truth:e}");
            }
        }
    }
}

#[test]
fn two_and_three_steps_are_those_of_brute_force() {
    for law in [(0.5, 1.0), (0.1, 0.8), (0.02, 0.6), (0.9, 0.5)] {
        let event = |times| SampledGaussian::new(law.0, law.1, times).unwrap();
        for direction in [Direction::Remove, Direction::Add] {
            let one = |at: f64| one_step(law.0, law.1, direction, at);
            for at in [0.1, 0.5, 1.5, 3.0] {
                let truth = one_more(4000, law, direction, at, &one);
                if truth > 1e-9 {
                    let what = format!("{direction:?} {law:?} at {at}");
                    assert_tight(bound(&[event(2)], direction, at), truth, 1e-9 + 1e-15 / truth, 1e-3, &what);
                }
            }
            if law.0 > 0.05 {
                let two = |at: f64| one_more(500, law, direction, at, &one);
                let truth = one_more(500, law, direction, 0.5, &two);
                let what = format!("three steps, {direction:?} {law:?}");
                if truth > 1e-9 {
                    assert_tight(bound(&[event(3)], direction, 0.5), truth, 1e-5, 1e-3, &what);
                }
            }
        }
    }
}

/// Steps of different kinds, one of them with all examples.
#[test]
fn mixed_steps_are_those_of_brute_force() {
    let kinds = [(0.2, 0.7), (0.05, 0.6), (1.0, 3.0)];
    let events: Vec<_> = kinds.iter().map(|&(rate, noise)| SampledGaussian::new(rate, noise, 1).unwrap()).collect();
    for direction in [Direction::Remove, Direction::Add] {
        let one = |at: f64| one_step(0.2, 0.7, direction, at);
        let two = |at: f64| one_more(600, kinds[1], direction, at, &one);
        for at in [0.2, 1.0, 2.5] {
            let truth = one_more(300, kinds[2], direction, at, &two);
            assert_tight(bound(&events, direction, at), truth, 1e-5, 1e-3, &format!("{direction:?} at {at}"));
        }
    }
}

/// The engine on steps in which all examples take part, for which it is otherwise not used.
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
                // The excess, measured in noise.
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

/// Losses on a plain grid, composed by plain convolution: rounded up they bound δ from above, rounded down from below.
#[test]
fn a_plain_convolution_brackets() {
    let (rate, noise, times) = (0.3, 1.0, 8);
    let event = SampledGaussian::new(rate, noise, times).unwrap();
    let (step, size) = (0.002, 8000usize);
    for direction in [Direction::Remove, Direction::Add] {
        let mut low = vec![0.0; size];
        let cells = 40_000;
        for i in 0..cells {
            let z = |i: i32| -8.0 + 17.0 * f64::from(i) / f64::from(cells);
            let (left, right) = (z(i), z(i + 1));
            let mass = |shift: f64| normal_cdf(right - shift) - normal_cdf(left - shift);
            let (loss, weight) = match direction {
                Direction::Remove => (cells::loss_at(&event, left), (1.0 - rate) * mass(0.0) + rate * mass(1.0)),
                Direction::Add => (-cells::loss_at(&event, right), mass(0.0)),
            };
            let place = ((loss / step).floor() as i64 + size as i64 / 2) as usize;
            // The mass beyond the grid: it may be lost from below.
            low[place.min(size - 1)] += weight;
        }
        // Squared three times, the middle staying where it is; mass that leaves the grid is lost, below everything that
        // counts.
        for _ in 0..3 {
            let mut next = vec![0.0; size];
            for (i, a) in low.iter().enumerate().filter(|(_, a)| **a > 1e-13) {
                for (j, b) in low.iter().enumerate() {
                    let place = i + j;
                    if (size / 2..size / 2 + size).contains(&place) {
                        next[place - size / 2] += a * b;
                    }
                }
            }
            low = next;
        }
        let of = |epsilon: f64| -> f64 {
            let loss = |i: usize| (i as f64 - size as f64 / 2.0) * step;
            low.iter().enumerate().map(|(i, mass)| mass * (1.0 - (epsilon - loss(i)).exp()).max(0.0)).sum()
        };
        for at in [0.5, 1.5] {
            let found = bound(&[event], direction, at);
            // Every loss is below the truth by at most a step and a cell.
            let room = 8.0 * (step + 17.0 / 40_000.0 * 1.1);
            let (least, most) = (of(at), of(at - room));
            assert!(least <= found && found <= most * 1.0001, "{direction:?} {at}: {least} {found} {most}");
            let middle = (least * most).sqrt();
            assert!((found / middle - 1.0).abs() < 1.5e-2, "{direction:?} {at}: {least} {found} {most}");
        }
    }
}

#[test]
fn curves_are_monotone() {
    let at = |rate: f64, noise: f64, times: u64, at: f64| steps(rate, noise, times).delta(epsilon(at));
    let middle = at(0.02, 1.0, 500, 1.0);
    assert!(at(0.0201, 1.0, 500, 1.0) > middle && at(0.0199, 1.0, 500, 1.0) < middle);
    assert!(at(0.02, 0.995, 500, 1.0) > middle && at(0.02, 1.005, 500, 1.0) < middle);
    assert!(at(0.02, 1.0, 505, 1.0) > middle && at(0.02, 1.0, 495, 1.0) < middle);
    assert!(at(0.02, 1.0, 500, 0.99) > middle && at(0.02, 1.0, 500, 1.01) < middle);
}

/// The same steps in several parts, distinguished by a tiny difference in noise, or mixed with steps that reveal
/// nothing.
#[test]
fn parts_make_the_whole() {
    let whole = steps(0.02, 1.0, 1000).delta(epsilon(1.0));
    let part = |noise: f64, times| SampledGaussian::new(0.02, noise, times).unwrap();
    let equal = SampledGaussians::new(&[part(1.0, 300), part(1.0, 600), part(1.0, 100)]).unwrap();
    assert_eq!(equal, steps(0.02, 1.0, 1000));
    let parts = [part(1.0, 300), part(1.0 - 1e-9, 600), part(1.0 + 1e-9, 100)];
    let apart = SampledGaussians::new(&parts).unwrap().delta(epsilon(1.0));
    assert!((apart / whole - 1.0).abs() < 1e-4, "{apart:e} {whole:e}");
    let silent = SampledGaussians::new(&[part(1.0, 1000), part(1e6, 10), SampledGaussian::new(1.0, 1e6, 1).unwrap()]);
    let more = silent.unwrap().delta(epsilon(1.0));
    assert!((more / whole - 1.0).abs() < 1e-3 && more > whole * (1.0 - 1e-4), "{more:e} {whole:e}");
}

/// `min_λ K(λ) - λε`, an upper bound of ln δ, which is certain to be within a few powers of ten of it.
#[test]
fn the_smallest_deltas_are_below_those_of_moments() {
    let (rate, noise, times) = (0.01f64, 1.0f64, 1000.0f64);
    // E_P e^(λ loss) = Σ_j C(λ+1, j) (1-q)^(λ+1-j) q^j e^(j(j-1)/2σ²) for whole λ.
    let moment = |lambda: u32| {
        let order = lambda + 1;
        let (mut choose, mut sum) = (1.0f64, 0.0);
        for j in 0..=order {
            let (j_, left) = (f64::from(j), f64::from(order - j));
            sum += choose * (1.0 - rate).powf(left) * rate.powf(j_) * (j_ * (j_ - 1.0) / (2.0 * noise * noise)).exp();
            choose *= left / (j_ + 1.0);
        }
        sum.ln()
    };
    let own = steps(rate, noise, times as u64);
    for at in [2.0, 4.0, 6.0, 8.0] {
        let least = (1..30).map(|l| times * moment(l) - f64::from(l) * at).fold(0.0, f64::min);
        let found = own.delta(epsilon(at)).ln();
        assert!(found < least && found > 1.5 * least - 5.0, "ε = {at}: {found}, by moments {least}");
    }
    for small in [1e-12, 1e-15, 1e-50, 1e-200] {
        let at = own.epsilon(delta(small));
        let back = own.delta(epsilon(at));
        assert!(back <= small && back > small * (1.0 - 1e-5), "{small:e}: ε = {at}, back {back:e}");
    }
}

#[test]
fn extreme_numbers_stay_bounds() {
    let cases = [(0.9, 0.3, 1), (0.9, 0.3, 2000), (0.5, 100.0, 1 << 16), (1e-3, 100.0, 2000), (1e-9, 0.5, 1 << 16)];
    let more = [(0.999_999_9, 0.5, 10), (1e-6, 0.01, 100), (0.3, 1e-6, 3), (0.5, 1e6, 10), (1e-12, 1e6, 1)];
    for (rate, noise, times) in cases.into_iter().chain(more) {
        let own = steps(rate, noise, times);
        for at in [1e-6, 0.01, 2.0, 1e5] {
            let found = own.delta(epsilon(at));
            let once = if at > 100.0 { 0.0 } else { one_step(rate, noise, Direction::Remove, at) };
            let what = format!("q = {rate}, σ = {noise}, k = {times}, ε = {at}");
            assert!(found > 0.0 && found <= 1.0 && found >= once * (1.0 - 1e-9) - 1e-15, "{what}: {found:e} {once:e}");
            // Upper bound: the example is drawn in every step.
            let drawn = -f64::exp_m1(times as f64 * f64::ln_1p(-rate));
            assert!(found <= drawn * (1.0 + 1e-3) + 1e-300, "{what}: {found:e} is above {drawn:e}");
        }
        if rate > 1e-8 {
            let found = own.epsilon(delta(1e-9));
            assert_eq!(found.is_finite(), noise > 0.1, "q = {rate}, σ = {noise}, k = {times}");
        }
    }
    assert!(steps(0.5, 1.0, 1).noise_factor_for(epsilon(1e-12), delta(1e-300)).is_err());
}

mod golden;
mod replaced;

#[test]
fn no_steps_are_refused() {
    assert!(SampledGaussians::new(&[]).is_err());
}

/// A number between 0 and 1 that nobody chose.
fn unit(n: u64) -> f64 {
    let digest = blake3::hash(&n.to_le_bytes());
    let word = u64::from_le_bytes(digest.as_bytes()[..8].try_into().unwrap());
    word as f64 / 2f64.powi(64)
}

/// Noise that was found for an (ε, δ) never spends more, and hardly less.
#[test]
fn conversions_there_and_back() {
    let random = (0..10).map(|n| {
        let at = |k: u64| unit(5000 + 4 * n + k);
        let (e, d) = (10f64.powf(-1.0 + 2.0 * at(0)), 10f64.powf(-3.0 - 7.0 * at(1)));
        (10f64.powf(-3.0 + 3.0 * at(2)), (1.0 + 1000.0 * at(3)) as u64, e, d)
    });
    let grid = [(0.01, 1000, 2.0, 1e-5), (0.01, 1000, 0.5, 1e-6), (1.0, 10, 1.0, 1e-5), (0.2, 1, 1.0, 1e-5)];
    for (rate, steps, e, d) in grid.into_iter().chain(random) {
        let noise = self::steps(rate, 1.0, steps).noise_factor_for(epsilon(e), delta(d)).unwrap();
        let back = self::steps(rate, 1.0, steps).scaled(noise).unwrap();
        let found = back.epsilon(delta(d));
        assert!(found <= e, "rate {rate}, {steps} steps, ε = {e}, δ = {d:e}: {:e} too much", found / e - 1.0);
        assert!(found > e * (1.0 - 1e-4), "rate {rate}, {steps} steps, ε = {e}, δ = {d:e}");
        assert!(back.delta(epsilon(e)) <= d, "rate {rate}, {steps} steps, ε = {e}, δ = {d:e}");
    }
}

/// A law with little finite mass, whose sums have less than the search for a tilt looks for.
struct Rare;

impl LossLaw for Rare {
    fn times(&self) -> u64 {
        20
    }

    fn coarse(&self, _: Direction, _: f64) -> Vec<(f64, f64)> {
        vec![(-1.0, -5.0), (-0.5, -5.0)]
    }

    fn cells(&self, _: Direction, cut: Cut) -> LossCells {
        LossCells { points: vec![(-(0.5 / cut.step) as i64, 0.02)], infinity: 1e-9 }
    }
}

#[test]
fn the_search_for_a_tilt_ends() {
    let found = divergence(&[Rare], Direction::Add, 1.0, (1e-20, 1e-6), &mut Workspace::default());
    assert!((1.99e-8..2.01e-8).contains(&found), "{found:e}");
}
