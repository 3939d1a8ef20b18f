//! The privacy unit and the neighbouring relation.

use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// The possible spread of a privacy unit's events: at most `total` in total, `per_step` in one step, and `per_group`
/// in one running sum; steps with events are at least `separation` apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    /// Maximum number of events in total.
    pub total: u64,
    /// Maximum number of events in one step; equal to `total` if nothing limits it.
    pub per_step: u64,
    /// Maximum number of events in one group, that is, in one running sum; equal to `total` if nothing limits it.
    pub per_group: u64,
    /// Minimum distance of two steps with events: 1 for any steps.
    pub separation: u64,
    /// The signs of the changes.
    pub signs: Signs,
}

/// The signs of a unit's changes. They matter if a factorization has negative entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signs {
    /// All of one sign.
    One,
    /// Of either sign, within the bounds.
    Either,
    /// Events within the bounds are added, and others within the bounds are removed.
    Exchanged,
}

impl Spread {
    /// A single event.
    pub const ONE: Spread = Spread::new(1, 1);

    /// At most `total` events in total and `per_step` in one step, in any steps and groups.
    pub const fn new(total: u64, per_step: u64) -> Self {
        Self { total, per_step, per_group: total, separation: 1, signs: Signs::One }
    }

    /// The part of it that falls into one running sum.
    pub(crate) fn in_one_sum(self, events: u64) -> Self {
        Self { total: events, per_step: self.per_step.min(events), per_group: events, ..self }
    }

    /// Maximum number of events in `width` consecutive steps: `min(total, per_step · ⌈width/separation⌉)`.
    pub(crate) fn within(self, width: u128) -> u128 {
        let steps = width.div_ceil(self.separation.into());
        u128::from(self.per_step).saturating_mul(steps).min(self.total.into())
    }

    /// The same, limited to the events that fit into this many steps.
    pub(crate) fn over(self, horizon: u64) -> Self {
        let room = self.per_step.saturating_mul(horizon.div_ceil(self.separation));
        let total = self.total.min(room);
        Self { total, per_group: self.per_group.min(total), ..self }
    }

    /// The same counted in grid steps, for values of at most this many grid steps and a cap on their total.
    pub(super) fn in_grid_steps(self, largest: u128, cap: u64) -> Self {
        let steps = |events: u64| u64::try_from(u128::from(events) * largest).unwrap_or(u64::MAX).min(cap);
        let Self { total, per_step, per_group, .. } = self;
        Self { total: steps(total), per_step: steps(per_step), per_group: steps(per_group), ..self }
    }

    /// The largest `Σ s_n²` over `nodes` disjoint nodes of this many steps each: the fewest nodes that hold all
    /// events, all full except one. Saturates.
    pub(crate) fn squares(self, width: u64, nodes: u64) -> u128 {
        let (cap, total) = (self.within(width.into()), u128::from(self.total));
        let full = (total / cap).min(nodes.into());
        let rest = if full < u128::from(nodes) { total - full * cap } else { 0 };
        // fits: cap · full ≤ total < 2^64, and so does the square of the rest
        full * cap * cap + rest * rest
    }

    /// The same over levels of such nodes, each of which holds all events.
    pub(crate) fn squares_of_levels(self, levels: impl Iterator<Item = (u64, u64)>) -> u128 {
        levels.map(|(width, nodes)| self.squares(width, nodes)).fold(0, u128::saturating_add)
    }
}

/// Bounds on the kept events of one person. The caller that feeds the stream must enforce them.
///
/// All bounds hold together; `None` means no bound. If a period is declared, all bounds start again in each period,
/// and the protected unit is one person's events in one period.
///
/// ```
/// use evertally::privacy::Unit;
/// // At most 60 events a month (of 31 days at most), two a day, in at most ten groups.
/// let monthly = Unit::person(60).per_step(2).in_groups(10).per_period(31);
/// assert_eq!(monthly.bounds().unwrap().period, Some(31));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PersonBounds {
    /// Maximum number of kept events, at least 1.
    pub max_events: u64,
    /// Maximum number of kept events in one step, over all groups; `None` = as many as in total. A smaller bound
    /// needs less Gaussian noise.
    pub max_events_per_step: Option<u64>,
    /// Maximum number of kept events in one group, over all steps.
    pub max_events_per_group: Option<u64>,
    /// Maximum number of groups.
    pub max_groups: Option<u64>,
    /// Minimum distance of two different steps with events.
    pub min_gap: Option<u64>,
    /// Maximum sum of the absolute values, in multiples of the grid.
    pub max_total: Option<u64>,
    /// The longest period in steps; `None` = the bounds hold for the whole history.
    pub period: Option<u64>,
}

/// The privacy unit: whose data may change between neighbouring data sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Unit {
    /// One event.
    Event,
    /// The events of one person, within these bounds.
    Person(PersonBounds),
}

impl Unit {
    /// One person with at most `max_events` events in total.
    pub fn person(max_events: u64) -> Self {
        Self::Person(PersonBounds { max_events, ..PersonBounds::default() })
    }

    /// The same person with at most this many events in one step. [`Unit::Event`] has no such bound and stays
    /// unchanged, here and below.
    pub fn per_step(self, max_events: u64) -> Self {
        self.with_optional_per_step(Some(max_events))
    }

    /// The same person with at most this many events in one step; for `None` as many as in total.
    pub fn with_optional_per_step(self, max_events_per_step: Option<u64>) -> Self {
        self.bounded(|bounds| PersonBounds { max_events_per_step, ..bounds })
    }

    /// The same person with at most this many events in one group, over all steps.
    pub fn per_group(self, max_events: u64) -> Self {
        self.bounded(|bounds| PersonBounds { max_events_per_group: Some(max_events), ..bounds })
    }

    /// The same person with events in at most this many groups.
    pub fn in_groups(self, max_groups: u64) -> Self {
        self.bounded(|bounds| PersonBounds { max_groups: Some(max_groups), ..bounds })
    }

    /// The same person, whose steps with events are at least this many steps apart.
    pub fn apart(self, min_gap: u64) -> Self {
        self.bounded(|bounds| PersonBounds { min_gap: Some(min_gap), ..bounds })
    }

    /// The same person, whose absolute values sum to at most this many multiples of the grid.
    pub fn with_max_total(self, max_total: u64) -> Self {
        self.bounded(|bounds| PersonBounds { max_total: Some(max_total), ..bounds })
    }

    /// The same person's events in one period, of at most this many steps: all bounds start again in each.
    pub fn per_period(self, steps: u64) -> Self {
        self.bounded(|bounds| PersonBounds { period: Some(steps), ..bounds })
    }

    fn bounded(self, change: impl FnOnce(PersonBounds) -> PersonBounds) -> Self {
        match self {
            Self::Person(bounds) => Self::Person(change(bounds)),
            Self::Event => self,
        }
    }

    /// The same person's events in this many consecutive periods; unchanged if no period is declared.
    ///
    /// ```
    /// use evertally::privacy::Unit;
    /// assert_eq!(Unit::person(5).per_step(2).per_period(30).over_periods(3), Unit::person(15).per_step(2));
    /// ```
    pub fn over_periods(self, periods: u64) -> Self {
        self.bounded(|bounds| {
            let times = |bound: u64| bound.saturating_mul(periods);
            if bounds.period.is_none() {
                return bounds;
            }
            PersonBounds {
                max_events: times(bounds.max_events),
                max_events_per_step: bounds.max_events_per_step.or(Some(bounds.max_events)),
                max_events_per_group: bounds.max_events_per_group.map(times),
                max_groups: bounds.max_groups.map(times),
                max_total: bounds.max_total.map(times),
                // At the end of a period, the next step may be near.
                min_gap: bounds.min_gap.filter(|_| periods == 1),
                period: None,
            }
        })
    }

    /// The bounds of a person; `None` if single events are protected.
    pub fn bounds(self) -> Option<PersonBounds> {
        match self {
            Self::Event => None,
            Self::Person(bounds) => Some(bounds),
        }
    }

    /// Maximum number of kept events of one person; `None` if single events are protected.
    pub fn max_events(self) -> Option<u64> {
        self.bounds().map(|bounds| bounds.max_events)
    }

    /// Maximum number of kept events in one step; `None` if only the total bound is declared.
    pub fn max_events_per_step(self) -> Option<u64> {
        self.bounds()?.max_events_per_step
    }

    /// The possible spread of the unit's events, over any number of steps and groups.
    ///
    /// # Errors
    /// If a bound is 0.
    pub fn spread(self) -> Result<Spread> {
        match self {
            Self::Event => Ok(Spread::ONE),
            Self::Person(bounds) => bounds.spread(),
        }
    }
}

impl PersonBounds {
    /// The spread that the bounds allow: a bound that others make redundant is replaced by the limit that they
    /// imply.
    fn spread(self) -> Result<Spread> {
        let Self { max_events, max_events_per_step, max_events_per_group, max_groups, min_gap, max_total, period } =
            self;
        let all = [Some(max_events), max_events_per_step, max_events_per_group, max_groups, min_gap, max_total, period];
        if all.contains(&Some(0)) {
            return Err(Error::invalid(
                "the kept events of a person must be at least 1, in total, in a step, in a group and in a period, \
                 and so must be the groups, the gap and the total: with 0 nothing is kept",
            ));
        }
        let separation = min_gap.unwrap_or(1);
        let per_step = max_events_per_step.unwrap_or(max_events).min(max_events);
        let of_period = period.map_or(u64::MAX, |steps| per_step.saturating_mul(steps.div_ceil(separation)));
        let mut total = max_events.min(of_period);
        let per_group = max_events_per_group.unwrap_or(total).min(total);
        total = total.min(max_groups.map_or(u64::MAX, |groups| per_group.saturating_mul(groups)));
        let per_group = if max_groups == Some(1) { total } else { per_group };
        Ok(Spread { total, per_step: per_step.min(total), per_group, separation, signs: Signs::One })
    }
}

/// The kind of change of one unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Neighbours {
    /// The unit's events are added or removed.
    AddRemove,
    /// The unit's events are replaced by as many others: an event may change its value within its step, or move to
    /// another step or group, which counts as a removal and an addition.
    ReplaceOne,
}
