//! An axis with even or logarithmic spacing, and its name.

#![expect(clippy::disallowed_methods, reason = "ticks of a picture")]

use super::ValueAxis;
use crate::text::{grouped, superscript};

/// The spacing of numbers on an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Spacing {
    /// Evenly, labelled at whole numbers.
    Linear,
    /// By their logarithms, labelled at powers of two.
    PowersOfTwo,
    /// By their logarithms, labelled at round decimal numbers.
    Decades,
}

/// One axis: its range and its quantity.
#[derive(Clone, Debug)]
pub struct Axis {
    /// The spacing of numbers.
    pub spacing: Spacing,
    /// Its ends.
    pub range: (f64, f64),
    /// Name and unit.
    pub caption: String,
}

impl Axis {
    /// An axis over all the numbers.
    pub fn over(spacing: Spacing, numbers: impl Iterator<Item = f64>, caption: &str) -> Self {
        let (low, high) = numbers.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), x| (l.min(x), h.max(x)));
        let range = match spacing {
            Spacing::Linear if high > low => (low, high),
            Spacing::Linear => (low - 0.5, high + 0.5),
            _ if high > low => (low, high),
            _ => (low / 2.0, high * 2.0),
        };
        Self { spacing, range, caption: caption.into() }
    }

    /// The same with some padding at both ends.
    pub fn padded(mut self) -> Self {
        let (low, high) = self.range;
        self.range = if self.spacing == Spacing::Linear {
            (low - 0.04 * (high - low), high + 0.04 * (high - low))
        } else {
            let air = (high / low).powf(0.04);
            (low / air, high * air)
        };
        self
    }

    /// The position of a number, from 0 at the low end to 1 at the high one.
    pub fn place(&self, value: f64) -> f64 {
        let (low, high) = self.range;
        match self.spacing {
            Spacing::Linear => (value - low) / (high - low),
            Spacing::PowersOfTwo | Spacing::Decades => (value / low).ln() / (high / low).ln(),
        }
    }

    /// Ticks with their labels, at most about `room` of them.
    pub fn ticks(&self, room: usize) -> Vec<(f64, String)> {
        let (low, high) = self.range;
        match self.spacing {
            Spacing::Linear => {
                let axis = ValueAxis::new(low, high, room, true);
                axis.ticks.iter().map(|&tick| (tick, axis.label(tick))).collect()
            }
            Spacing::PowersOfTwo => powers(2.0, low, high, room),
            Spacing::Decades => decades(low, high, room),
        }
    }
}

/// Every power of a base in the range, or every second, third, … if there are too many.
fn powers(base: f64, low: f64, high: f64, room: usize) -> Vec<(f64, String)> {
    let (first, last) = ((low.log(base) - 1e-9).ceil() as i32, (high.log(base) + 1e-9).floor() as i32);
    let count = (last - first + 1).max(0) as usize;
    let stride = count.div_ceil(room.max(1)).max(1) as i32;
    let plainly = base == 10.0 && first >= -2 && last <= 6;
    let label = |power| if plainly { plain(base.powi(power)) } else { format!("{base}{}", superscript(power)) };
    (first..=last).filter(|power| power % stride == 0).map(|power| (base.powi(power), label(power))).collect()
}

/// Powers of ten, with round numbers between them where there is room.
fn decades(low: f64, high: f64, room: usize) -> Vec<(f64, String)> {
    const FACTORS: [&[f64]; 4] =
        [&[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0], &[1.0, 2.0, 3.0, 5.0, 7.0], &[1.0, 2.0, 5.0], &[1.0, 3.0]];
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let inside = |value: &f64| *value >= low * (1.0 - 1e-9) && *value <= high * (1.0 + 1e-9);
    for factors in FACTORS.into_iter().filter(|_| first >= -4 && last <= 7) {
        let all = (first..=last).flat_map(|power| factors.iter().map(move |factor| factor * 10f64.powi(power)));
        let ticks: Vec<f64> = all.filter(inside).collect();
        if (2..=room).contains(&ticks.len()) {
            return ticks.into_iter().map(|tick| (tick, plain(tick))).collect();
        }
    }
    powers(10.0, low, high, room)
}

/// A round number without needless digits.
fn plain(value: f64) -> String {
    if value >= 1.0 && value == value.round() { grouped(value, 0) } else { format!("{}", (value * 1e9).round() / 1e9) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        let labels = |axis: &Axis, room| axis.ticks(room).into_iter().map(|tick| tick.1).collect::<Vec<_>>();
        let steps = Axis::over(Spacing::PowersOfTwo, [2.0, 1024.0].into_iter(), "T");
        assert_eq!(labels(&steps, 10).len(), 10);
        assert_eq!(labels(&steps, 5), ["2²", "2⁴", "2⁶", "2⁸", "2¹⁰"]);
        let ratio = Axis::over(Spacing::Decades, [1.0, 8.0].into_iter(), "ratio");
        assert_eq!(labels(&ratio, 9), ["1", "1.5", "2", "3", "4", "5", "6", "8"]);
        let delta = Axis::over(Spacing::Decades, [1e-20, 0.1].into_iter(), "δ");
        assert_eq!(
            labels(&delta, 12),
            ["10⁻²⁰", "10⁻¹⁸", "10⁻¹⁶", "10⁻¹⁴", "10⁻¹²", "10⁻¹⁰", "10⁻⁸", "10⁻⁶", "10⁻⁴", "10⁻²"]
        );
    }

    #[test]
    fn ends_of_the_range_are_ends_of_the_axis() {
        for spacing in [Spacing::Linear, Spacing::PowersOfTwo, Spacing::Decades] {
            let axis = Axis::over(spacing, [3.0, 700.0].into_iter(), "");
            assert!(axis.place(3.0).abs() < 1e-12 && (axis.place(700.0) - 1.0).abs() < 1e-12);
            assert!(axis.clone().padded().place(3.0) > 0.0);
        }
        assert!(Axis::over(Spacing::Decades, [5.0].into_iter(), "").place(5.0).is_finite());
    }
}
