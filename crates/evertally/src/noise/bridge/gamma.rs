//! The gamma bridge: sums of Laplace numbers, in floating point.

use super::Bridge;
use crate::noise::normal::standard_exponential;
use crate::noise::{RandomBits, standard_normal, whole_units};

/// Sums of Laplace numbers, one for each unit of length, as differences of two gamma processes.
///
/// A Laplace number of scale 1 is the difference of two standard exponentials. The sums of `n` of either kind are two
/// independent gamma numbers of shape `n`, kept separately as a **pair**, because the difference alone does not have
/// the bridge below.
///
/// **Split.** Let `X` and `Z` be independent gamma numbers of shapes `near` and `far`, and `Y = X + Z`. Their joint
/// density is `x^(near-1) z^(far-1) exp(-x-z)`, up to a constant. With `b = x/y` and Jacobian `y` it becomes
/// `b^(near-1) (1-b)^(far-1) · y^(near+far-1) exp(-y)`: `b` is beta-distributed with parameters `near` and `far` and
/// independent of `Y`. So, given the sum, `X = b Y`. A beta number is `G/(G+H)` of two fresh gamma numbers, by the same
/// computation.
///
/// This answers the question left open by Pagh and Sejer 2026: noise for pure ε, sampled lazily with a constant number
/// of draws. Like [`GaussianBridge`](super::GaussianBridge) it is not exact.
///
/// ```
/// use evertally::noise::bridge::{Bridge, GammaBridge};
/// # use evertally::noise::{KeyedNoise, Node, Purpose, SecretKey};
/// # let noise = KeyedNoise::unrecorded(&SecretKey::generate()?, &"visits".parse()?, &[0; 32], Purpose::Total);
/// # let mut bits = noise.bits(Node { level: 0, index: 0 });
/// let bridge = GammaBridge::new(256.0);
/// let end = bridge.extend(GammaBridge::ORIGIN, 7, &mut bits);
/// let within = bridge.split(GammaBridge::ORIGIN, end, 3, 4, &mut bits);
/// assert!(0.0 < within[0] && within[0] < end[0]);
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct GammaBridge {
    units: f64,
}

impl GammaBridge {
    /// The Laplace scale of one number is `units` whole units of a release.
    pub fn new(units: f64) -> Self {
        Self { units }
    }
}

impl Bridge for GammaBridge {
    const EXACT: bool = false;

    /// The sums of the exponentials that are added, and of those that are subtracted.
    type Value = [f64; 2];

    const ORIGIN: [f64; 2] = [0.0; 2];

    fn extend(&self, from: [f64; 2], length: u64, bits: &mut impl RandomBits) -> [f64; 2] {
        from.map(|sum| sum + gamma(length as f64, bits))
    }

    fn split(&self, from: [f64; 2], to: [f64; 2], near: u64, far: u64, bits: &mut impl RandomBits) -> [f64; 2] {
        let mut middle = |from: f64, to: f64| {
            let (near, far) = (gamma(near as f64, bits), gamma(far as f64, bits));
            from + near / (near + far) * (to - from)
        };
        [middle(from[0], to[0]), middle(from[1], to[1])]
    }

    /// Rounded to the nearest unit.
    fn noise(&self, value: [f64; 2]) -> i128 {
        whole_units((value[0] - value[1]) * self.units)
    }
}

/// A gamma number of shape ≥ 1 and scale 1: G. Marsaglia, W. Tsang, "A simple method for generating gamma variables"
/// (ACM TOMS 26, 2000, doi 10.1145/358407.358414). `d v` with `v = (1 + c x)³`, `x` normal, is accepted with
/// probability `exp(x²/2 + d - d v + d ln v)`, which happens in more than 95 of 100 cases.
fn gamma(shape: f64, bits: &mut impl RandomBits) -> f64 {
    if shape == 1.0 {
        return standard_exponential(bits);
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / libm::sqrt(9.0 * d);
    loop {
        let x = standard_normal(bits);
        let root = 1.0 + c * x;
        if root <= 0.0 {
            continue;
        }
        let v = root * root * root;
        if -standard_exponential(bits) < 0.5 * x * x + d - d * v + d * libm::log(v) {
            return d * v;
        }
    }
}
