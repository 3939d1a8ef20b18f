//! The number of consecutive streams in which one privacy unit can have data.
//!
//! A stream that [follows](crate::follows) another begins where the horizon of the other ends. The values that it
//! carries over are released already. So the loss of privacy over all of these streams is the composition of those
//! streams whose own events differ between neighbouring data, and no other stream adds to it:
//!
//! | unit | streams with different events |
//! |---|---|
//! | one event, added or removed | the one whose horizon contains the event |
//! | one event, replaced | that of the event, and that of the other event |
//! | a person | all |
//! | a person in a period that no end of a stream divides | one |
//! | a person in a period no longer than a stream | two: a stream between two others has more steps than the period |
//! | a person in any other period | all |
//! | a person in any window of steps | two, if window and period have no more steps than a stream; otherwise all |
//!
//! A replaced event changes each of its two streams by one event, which the plan of each protects: the sensitivity to a
//! replaced event covers that to an event which is only removed or only added
//! ([`Sensitivity`](evertally::privacy::Sensitivity)).

use evertally::privacy::{Neighbours, Unit};

/// The privacy unit of consecutive streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainUnit {
    /// Whether the events of a person are protected, or one event.
    pub persons: bool,
    /// Whether neighbouring data replace events, or add and remove them.
    pub replaced: bool,
    /// The period within which the events of a person are protected together.
    pub period: Option<ChainPeriod>,
}

/// A period of persons, compared with consecutive streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainPeriod {
    /// Whether an end of a stream can divide it: not if each of the streams begins with a new period.
    pub is_divided: bool,
    /// Whether no period, and no window with the rest of its last period, has more steps than a stream.
    pub fits: bool,
}

impl ChainUnit {
    /// The unit of a plan. The period is that of a person's events, if they are protected by period.
    pub fn new(unit: Unit, neighbours: Neighbours, period: Option<ChainPeriod>) -> Self {
        // A window can lie across any end of a stream.
        let is_window = unit.bounds().is_some_and(|bounds| bounds.window.is_some());
        let period = period.map(|period| ChainPeriod { is_divided: period.is_divided || is_window, ..period });
        Self { persons: unit != Unit::Event, replaced: neighbours == Neighbours::ReplaceOne, period }
    }

    /// The largest number of consecutive streams in which one unit can have data.
    pub fn max_streams(self) -> u32 {
        match (self.persons, self.period) {
            (false, _) if self.replaced => 2,
            (false, _) | (true, Some(ChainPeriod { is_divided: false, .. })) => 1,
            (true, Some(ChainPeriod { fits: true, .. })) => 2,
            (true, _) => u32::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evertally::privacy::RollingWindow;
    use std::collections::BTreeSet;

    /// All changes of one unit, by brute force: which steps of all streams together can differ. A set of steps stands
    /// for every change within it, as the number of streams only grows with the set.
    fn changes(unit: ChainUnit, steps: u64, first_period: u64, period: u64) -> Vec<Vec<u64>> {
        let all: Vec<u64> = (0..steps).collect();
        match (unit.persons, unit.replaced, unit.period) {
            (false, false, _) => all.iter().map(|step| vec![*step]).collect(),
            (false, true, _) => all.iter().flat_map(|from| all.iter().map(|to| vec![*from, *to])).collect(),
            (true, _, None) => vec![all],
            (true, _, Some(_)) => {
                let number = |step: u64| (step + period - first_period) / period;
                let numbers: BTreeSet<u64> = all.iter().map(|step| number(*step)).collect();
                let of = |wanted: &u64| all.iter().copied().filter(|step| number(*step) == *wanted).collect();
                numbers.iter().map(of).collect()
            }
        }
    }

    /// Windows of all lengths, with the rest of their last period, by brute force.
    #[test]
    fn no_window_is_in_more_streams() {
        let (length, streams) = (6u64, 4u64);
        for (period, window, first_period) in (1..5u64)
            .flat_map(|period| (1..9u64).flat_map(move |window| (1..=period).map(move |first| (period, window, first))))
        {
            let unit = Unit::person(1).per_period(period).in_any(RollingWindow::new(window, period));
            let fits = unit.bounds().unwrap().reach().unwrap() <= length;
            // Even if every stream begins with a period.
            let stated = ChainUnit::new(unit, Neighbours::AddRemove, Some(ChainPeriod { is_divided: false, fits }));
            for first in 0..length * streams {
                let last = (first..)
                    .skip(window as usize - 1)
                    .find(|step| (step + 1 + period - first_period).is_multiple_of(period));
                let last = last.unwrap().min(length * streams - 1);
                let touched = (last / length - first / length + 1) as u32;
                assert!(touched <= stated.max_streams(), "{period} {window} {first}: {touched}");
            }
            assert_eq!(stated.max_streams(), if fits { 2 } else { u32::MAX });
        }
    }

    #[test]
    fn no_change_of_a_unit_is_in_more_streams() {
        for (length, streams, period) in
            (1..5u64).flat_map(|length| (1..5u64).flat_map(move |n| (1..9u64).map(move |period| (length, n, period))))
        {
            for first_period in 1..=period {
                let begins = |step: u64| (step + period - first_period).is_multiple_of(period);
                let is_divided = !(1..streams).all(|stream| begins(stream * length));
                let periods = Some(ChainPeriod { is_divided, fits: period <= length });
                for (persons, replaced, period_of_unit) in [
                    (false, false, None),
                    (false, true, None),
                    (true, false, None),
                    (true, true, None),
                    (true, false, periods),
                    (true, true, periods),
                ] {
                    let unit = ChainUnit { persons, replaced, period: period_of_unit };
                    let touched = |change: &Vec<u64>| {
                        change.iter().map(|step| step / length).collect::<BTreeSet<u64>>().len() as u32
                    };
                    let changes = changes(unit, length * streams, first_period, period);
                    let truth = changes.iter().map(touched).max().unwrap();
                    let stated = unit.max_streams().min(streams as u32);
                    assert!(stated >= truth, "{unit:?}: {stated} for {truth}");
                    // Only a period that is longer than a stream may be in fewer streams than stated.
                    let is_exact = period_of_unit.is_none_or(|of| of.fits || !of.is_divided);
                    assert!(!is_exact || stated == truth, "{unit:?}: {stated} for {truth}");
                }
            }
        }
    }
}
