//! Frequencies at which factorizations are compared, and the release at them.
//!
//! Over a long horizon a Toeplitz matrix is characterised by its symbol `W(e^(iθ))` alone. The symbol of a window of
//! `w` steps has a zero in every `2π/w`, and so has its factor. Over many such periods they change slowly, so some of
//! the higher frequencies represent their neighbours.

use crate::mechanism::Workload;

/// Frequencies per period.
const PER_PERIOD: usize = 32;
/// This many periods are evaluated one by one; beyond, groups of one part in this many of their number.
const EVERY_PERIOD: u64 = 64;
const PARTS: u64 = 48;

/// A frequency `0 < θ < π` and its weight; the weights sum to 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frequency {
    pub(crate) angle: f64,
    pub(crate) weight: f64,
}

/// Frequencies for functions that vary over `2π/width`.
pub(crate) fn frequencies(width: u64) -> Vec<Frequency> {
    let period = 2.0 * std::f64::consts::PI / width as f64;
    let periods = width / 2;
    let mut all = Vec::new();
    let mut add = |first: f64, share: f64, stands_for: f64| {
        for node in 0..PER_PERIOD {
            let angle = (first + share * (node as f64 + 0.5) / PER_PERIOD as f64) * period;
            let weight = period * share * stands_for / PER_PERIOD as f64 / std::f64::consts::PI;
            all.push(Frequency { angle, weight });
        }
    };
    let mut at = 0;
    while at < periods {
        let stands_for = if at < EVERY_PERIOD { 1 } else { (at / PARTS).min(periods - at) };
        add((at + stands_for / 2) as f64, 1.0, stands_for as f64);
        at += stands_for;
    }
    if width % 2 == 1 {
        add(periods as f64, 0.5, 1.0);
    }
    all
}

/// `|W(e^(iθ))|²`.
pub(crate) fn squared_symbol(workload: Workload, angle: f64) -> f64 {
    let sine = libm::sin(angle / 2.0);
    match workload {
        Workload::Sum => 0.25 / (sine * sine),
        Workload::Window(width) => {
            let ratio = libm::sin(angle / 2.0 * width as f64) / sine;
            ratio * ratio
        }
        Workload::Decay(half_life) => {
            // |1 - λ e^(-iθ)|² = (1-λ)² + 4 λ sin²(θ/2)
            let factor = Workload::decay(half_life);
            1.0 / ((1.0 - factor) * (1.0 - factor) + 4.0 * factor * sine * sine)
        }
        Workload::Increments => 1.0,
    }
}

/// `|W(r e^(iθ))|²`, for a radius below 1.
pub(super) fn squared_symbol_at(workload: Workload, radius: f64, angle: f64) -> f64 {
    // |1 - r^n e^(-inθ)|² = (1 - r^n)² + 4 r^n sin²(nθ/2)
    let squared = |size: f64, angle: f64| {
        let sine = libm::sin(angle / 2.0);
        (1.0 - size) * (1.0 - size) + 4.0 * size * sine * sine
    };
    match workload {
        Workload::Sum => 1.0 / squared(radius, angle),
        Workload::Window(width) => {
            squared(libm::pow(radius, width as f64), width as f64 * angle) / squared(radius, angle)
        }
        Workload::Decay(half_life) => 1.0 / squared(Workload::decay(half_life) * radius, angle),
        Workload::Increments => 1.0,
    }
}

/// The same with its zeros filled: the envelope between them.
pub(super) fn squared_envelope(workload: Workload, angle: f64) -> f64 {
    let sine = libm::sin(angle / 2.0);
    match workload {
        Workload::Window(width) => (1.0 / (sine * sine)).min(width as f64 * width as f64),
        _ => 0.0,
    }
}

/// The age, in steps, of the published signal at a frequency: minus the derivative of the phase of `W`.
pub(crate) fn delay(workload: Workload, angle: f64) -> f64 {
    match workload {
        Workload::Window(width) => (width - 1) as f64 / 2.0,
        Workload::Decay(half_life) => {
            let factor = Workload::decay(half_life);
            let cosine = libm::cos(angle);
            (factor * cosine - factor * factor) / (1.0 - 2.0 * factor * cosine + factor * factor)
        }
        Workload::Sum | Workload::Increments => 0.0,
    }
}
