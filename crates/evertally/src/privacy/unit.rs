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
    /// Events that are kept only if the unit's events are absent; `None` if no event depends on others like that.
    pub substitutes: Option<Substitutes>,
}

/// Events of a person outside the protected [window](RollingWindow) that are kept only without the events in it: those
/// use up the bounds of their period. They are in other steps, and move the node sums in the opposite direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Substitutes {
    /// Maximum number of events in total.
    pub total: u64,
    /// Maximum number of events in one step.
    pub per_step: u64,
    /// Maximum number of events in one group.
    pub per_group: u64,
    /// Minimum distance of two steps with events.
    pub separation: u64,
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
        Self { total, per_step, per_group: total, separation: 1, signs: Signs::One, substitutes: None }
    }

    /// The spread of the substitutes, if there are any.
    pub(crate) fn of_substitutes(self) -> Option<Self> {
        self.substitutes.map(|Substitutes { total, per_step, per_group, separation }| Self {
            total,
            per_step,
            per_group,
            separation,
            signs: self.signs,
            substitutes: None,
        })
    }

    /// Without the substitutes.
    pub(crate) fn without_substitutes(self) -> Self {
        Self { substitutes: None, ..self }
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
        let substitutes = self.of_substitutes().map(|others| Substitutes::from(others.over(horizon)));
        Self { total, per_group: self.per_group.min(total), substitutes, ..self }
    }

    /// The same counted in grid steps, for values of at most this many grid steps and a cap on their total.
    pub(super) fn in_grid_steps(self, largest: u128, cap: u64, cap_of_substitutes: u64) -> Self {
        let steps = |events: u64| u64::try_from(u128::from(events) * largest).unwrap_or(u64::MAX).min(cap);
        let Self { total, per_step, per_group, .. } = self;
        let substitutes = self
            .of_substitutes()
            .map(|others| Substitutes::from(others.in_grid_steps(largest, cap_of_substitutes, cap_of_substitutes)));
        Self { total: steps(total), per_step: steps(per_step), per_group: steps(per_group), substitutes, ..self }
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

impl From<Spread> for Substitutes {
    fn from(Spread { total, per_step, per_group, separation, .. }: Spread) -> Self {
        Self { total, per_step, per_group, separation }
    }
}

/// A protected window of consecutive steps, wherever it begins: w-event privacy (Kellaris et al. 2014). The bounds on a
/// person still restart in each period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RollingWindow {
    /// The number of consecutive steps.
    pub steps: u64,
    /// The largest number of periods that this many consecutive steps touch.
    pub periods: u64,
}

impl RollingWindow {
    /// A window of this many steps, if all periods have `period` steps.
    ///
    /// ```
    /// use evertally::privacy::RollingWindow;
    /// assert_eq!(RollingWindow::new(30, 30).periods, 2);
    /// assert_eq!(RollingWindow::new(30, 1).periods, 30);
    /// assert_eq!(RollingWindow::new(30, 7).periods, 6);
    /// ```
    pub fn new(steps: u64, period: u64) -> Self {
        // `steps - 1` ends of steps lie within the window; saturates for a window or a period of 0, refused later.
        Self { steps, periods: steps.saturating_sub(1).div_ceil(period.max(1)).saturating_add(1) }
    }
}

/// Bounds on the kept events of one person. The caller that feeds the stream must enforce them.
///
/// All bounds hold together; `None` means no bound. If a period is declared, all bounds start again in each period,
/// and the protected unit is one person's events in one period, or in any [window](RollingWindow) of consecutive steps.
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
    /// The protected window, if that is not one period; it needs a period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<RollingWindow>,
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

    /// The same person's events in any window of consecutive steps: the bounds start again in each period, and the
    /// protected unit is what the person does in the window, however it lies in the periods. See
    /// [`sensitivity`](super::Sensitivity) for its cost.
    pub fn in_any(self, window: RollingWindow) -> Self {
        self.bounded(|bounds| PersonBounds { window: Some(window), ..bounds })
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
                window: None,
            }
        })
    }

    /// The part of a window's unit that certainly occurs: the events of one period, as far as they are in one window.
    /// Other units are unchanged.
    pub(crate) fn in_part_of_window(self) -> Self {
        self.bounded(|bounds| match bounds.window {
            Some(window) => {
                let period = bounds.period.map(|steps| steps.min(window.steps));
                PersonBounds { period, window: None, ..bounds }
            }
            None => bounds,
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

    /// The same bounds without a protected window: the unit of one period.
    pub fn without_window(self) -> Self {
        self.bounded(|bounds| PersonBounds { window: None, ..bounds })
    }

    /// The spread of all kept events that depend on a window, if other events replace those in it.
    pub(super) fn spread_of_replaced(self) -> Result<Spread> {
        self.spread()?;
        let Some((bounds, window)) = self.bounds().and_then(|bounds| Some((bounds, bounds.window?))) else {
            return self.spread();
        };
        bounds.spread_of_periods(window, bounds.period.unwrap_or(1) - 1)
    }

    /// The spread of all kept events that depend on a window, together with the substitutes.
    pub(super) fn spread_with_substitutes(self) -> Result<Spread> {
        let all = self.spread_of_replaced()?;
        let others = self.without_window().spread()?;
        let add = |a: u64, b: u64| a.saturating_add(b);
        let total = add(all.total, others.total);
        let per_step = add(all.per_step, others.per_step).min(total);
        let per_group = add(all.per_group, others.per_group).min(total);
        Ok(Spread { total, per_step, per_group, separation: 1, ..all })
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
        let of_period = self.spread_of_period()?;
        let Some(window) = self.window else { return Ok(of_period) };
        let Some(period) = self.period else {
            return Err(Error::invalid(
                "a protected window needs a period, in each of which the bounds on a person restart; declare one, such \
                 as the length of the window",
            ));
        };
        // Shorter periods than the longest can only be more.
        let fewest = RollingWindow::new(window.steps, period).periods;
        if window.periods < fewest {
            return Err(Error::invalid(format!(
                "{} consecutive steps can touch {fewest} periods of at most {period} steps, and not only {}",
                window.steps, window.periods
            )));
        }
        let several = self.spread_of_periods(window, if self.is_hereditary() { 0 } else { period - 1 })?;
        if period == 1 {
            return Ok(several);
        }
        let total = several.total.min(of_period.total);
        let per_group = of_period.per_group.min(several.per_group);
        Ok(Spread { substitutes: Some(Substitutes { total, per_group, ..of_period.into() }), ..several })
    }

    /// Whether only the number of events in total and per step is bounded.
    fn is_hereditary(&self) -> bool {
        let gap = self.min_gap.filter(|gap| *gap > 1);
        [self.max_events_per_group, self.max_groups, self.max_total, gap] == [None; 4]
    }

    /// The spread of the kept events in the window and `later` further steps of its last period.
    fn spread_of_periods(self, window: RollingWindow, later: u64) -> Result<Spread> {
        let Self { max_events, max_events_per_step, max_events_per_group, max_groups, .. } = self;
        let periods = window.periods;
        let all = Self {
            max_events: max_events.saturating_mul(periods),
            max_events_per_step: max_events_per_step.or(Some(max_events)),
            max_events_per_group: max_events_per_group.map(|bound| bound.saturating_mul(periods)),
            max_groups: max_groups.map(|bound| bound.saturating_mul(periods)),
            // At the end of a period, the next step may be near.
            min_gap: self.min_gap.filter(|_| periods == 1),
            max_total: None,
            period: Some(window.steps.saturating_add(later)),
            window: None,
        };
        all.spread_of_period()
    }

    fn spread_of_period(self) -> Result<Spread> {
        let Self { max_events, max_events_per_step, max_events_per_group, max_groups, min_gap, max_total, .. } = self;
        let (period, window) = (self.period, self.window.map(|window| window.steps.min(window.periods)));
        let all = [Some(max_events), max_events_per_step, max_events_per_group, max_groups, min_gap, max_total, period];
        if all.contains(&Some(0)) || window == Some(0) {
            return Err(Error::invalid(
                "the kept events of a person must be at least 1, in total, in a step, in a group and in a period, \
                 and so must be the groups, the gap, the total and the window: with 0 nothing is kept",
            ));
        }
        let separation = min_gap.unwrap_or(1);
        let per_step = max_events_per_step.unwrap_or(max_events).min(max_events);
        let of_period = period.map_or(u64::MAX, |steps| per_step.saturating_mul(steps.div_ceil(separation)));
        let mut total = max_events.min(of_period);
        let per_group = max_events_per_group.unwrap_or(total).min(total);
        total = total.min(max_groups.map_or(u64::MAX, |groups| per_group.saturating_mul(groups)));
        let per_group = if max_groups == Some(1) { total } else { per_group };
        Ok(Spread { total, per_step: per_step.min(total), per_group, separation, signs: Signs::One, substitutes: None })
    }

    /// The largest number of steps in which one unit's change can alter the kept events; `None` for all steps.
    pub fn reach(&self) -> Option<u64> {
        let period = self.period?;
        Some(self.window.map_or(period, |window| window.steps.saturating_add(period - 1)))
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
