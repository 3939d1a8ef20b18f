//! The axis of values: evenly spaced ticks at round numbers.

#![expect(clippy::disallowed_methods, reason = "ticks of a picture")]

use crate::text::{grouped, superscript};

/// Ticks of a value axis, with labels short enough to read.
///
/// Large values are counted in millions or powers of ten, stated once above the axis. If the range is narrow and far
/// from zero, labels count from a round value, which is also stated there.
#[derive(Clone, Debug)]
pub struct ValueAxis {
    /// Positions of the ticks, in rising order.
    pub ticks: Vec<f64>,
    origin: f64,
    exponent: i32,
    decimals: usize,
}

impl ValueAxis {
    /// About `room` ticks from `low` to `high`; only whole numbers if `whole`.
    pub fn new(low: f64, high: f64, room: usize, whole: bool) -> Self {
        let step = nice_step((high - low) / room.max(1) as f64);
        let step = if whole { step.max(1.0).ceil() } else { step };
        let (first, last) = ((low / step - 1e-9).ceil(), (high / step + 1e-9).floor());
        let count = (last - first).clamp(-1.0, 50.0) as i32 + 1;
        let mut ticks: Vec<f64> = (0..count).map(|index| (first + f64::from(index)) * step).collect();
        // Far from zero, neighbouring ticks may be the same number.
        ticks.dedup();
        let largest = low.abs().max(high.abs());
        let sliver = largest / step > 1e6;
        let origin = if sliver { ticks.first().copied().unwrap_or(low) } else { 0.0 };
        let exponent = exponent(if sliver { high - low } else { largest });
        let decimals = (f64::from(exponent) - (step * 1.000_001).log10().floor()).clamp(0.0, 9.0) as usize;
        // A step of 2.5 needs one decimal more than a step of 2.
        let decimals = if is_multiple(step, 10f64.powi(exponent - decimals as i32)) { decimals } else { decimals + 1 };
        Self { ticks, origin, exponent, decimals }
    }

    /// The label of a tick.
    pub fn label(&self, value: f64) -> String {
        let label = grouped((value - self.origin) / 10f64.powi(self.exponent), self.decimals);
        if self.origin != 0.0 && value > self.origin { format!("+{label}") } else { label }
    }

    /// The unit of the labels, for the caption; empty if they are plain.
    pub fn unit(&self) -> String {
        let mut parts = Vec::new();
        match self.exponent {
            0 => {}
            6 => parts.push("in millions".into()),
            exponent => parts.push(format!("× 10{}", superscript(exponent))),
        }
        if self.origin != 0.0 {
            parts.push(format!("counted from {}", grouped(self.origin, 0)));
        }
        parts.join(", ")
    }
}

/// The power of ten to count in: none up to ten million, then every third.
fn exponent(largest: f64) -> i32 {
    if (1e-3..1e7).contains(&largest) || largest == 0.0 {
        return 0;
    }
    (largest.log10() / 3.0).floor() as i32 * 3
}

/// 1, 2, 2.5 or 5 times a power of ten, at least as large as `raw`.
fn nice_step(raw: f64) -> f64 {
    if raw <= 0.0 || !raw.is_finite() {
        return 1.0;
    }
    let power = 10f64.powf(raw.log10().floor());
    let factor = [1.0, 2.0, 2.5, 5.0].into_iter().find(|factor| factor * power >= raw * 0.999_999).unwrap_or(10.0);
    factor * power
}

fn is_multiple(value: f64, of: f64) -> bool {
    let ratio = value / of;
    (ratio - ratio.round()).abs() < 1e-6
}

/// A range with padding at both ends that are not zero; never empty.
pub(crate) fn with_padding(low: f64, high: f64) -> (f64, f64) {
    let span = high - low;
    let least = (low.abs().max(high.abs()) * 1e-14).max(if span > 0.0 { 0.0 } else { 1.0 });
    let air = (span * 0.05).max(least);
    (if low == 0.0 && span > 0.0 { low } else { low - air }, if high == 0.0 && span > 0.0 { high } else { high + air })
}
