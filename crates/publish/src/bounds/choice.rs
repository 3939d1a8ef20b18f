//! The bounds of least total error: dropped events and noise.

use super::{ContributionEstimate, NumberInterval, edges};
use evertally::number::power;
use evertally::plan::Objective;
use evertally_declare::error::Result;
use std::collections::HashMap;

/// Points in time over which the mean error is taken.
const ERROR_SAMPLES: u32 = 16;
/// How many neighbours of the best bound are shown on either side, in edges of the histogram.
const NEIGHBOURS_SHOWN: usize = 6;

/// How the planned stream relates to the observed stretch of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stretch {
    /// How long the bounds hold, as a multiple of the observed stretch: a period, or the whole horizon.
    pub looks: f64,
    /// How many such stretches the horizon has.
    pub count: f64,
    /// The number of groups, among which the events are divided evenly.
    pub groups: f64,
    /// Whether the error at the end matters, or the error over all steps.
    pub objective: Objective,
}

/// Bounds on a person, and their costs.
#[doc(alias = "Choice")]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BoundChoice {
    /// Events in total.
    pub max_events: u64,
    /// Events per step; `None` for no bound.
    pub max_events_per_step: Option<u64>,
    /// The estimated share of events that are kept, 0 to 1.
    pub share: f64,
    /// An interval for the share, with [`CONFIDENCE`](super::CONFIDENCE).
    pub share_interval: NumberInterval,
    /// The most that one group's running count misses.
    pub missing: f64,
    /// The standard error of the planned release.
    pub noise: f64,
}

impl BoundChoice {
    /// Root of the sum of the squares of the missing count and the noise.
    pub fn total(&self) -> f64 {
        libm::hypot(self.missing, self.noise)
    }
}

/// The best bounds, and their neighbours.
#[derive(Clone, Debug)]
pub struct Choices {
    /// The best.
    pub best: BoundChoice,
    /// Other total bounds with the best bound per step, in increasing order, including the best.
    pub in_all: Vec<BoundChoice>,
    /// Other bounds per step with the best total bound, in increasing order, including the best.
    pub per_step: Vec<BoundChoice>,
}

/// Tries each pair of bounds once.
struct BoundSearch<'a> {
    estimate: &'a ContributionEstimate,
    stretch: Stretch,
    noise_of: &'a mut dyn FnMut(u64, Option<u64>) -> Result<f64>,
    known: HashMap<(u64, usize), BoundChoice>,
}

impl Choices {
    /// Searches for the bounds of least total error. `noise_of` returns the standard error of the planned release under
    /// a total bound and a bound per step; it grows with the bounds.
    ///
    /// Only bounds that may be the best are planned. The missing count falls with a bound and the noise grows, so the
    /// search stops where one of them alone exceeds the best total.
    ///
    /// # Errors
    /// Errors of `noise_of`.
    pub fn new(
        estimate: &ContributionEstimate,
        stretch: Stretch,
        noise_of: &mut dyn FnMut(u64, Option<u64>) -> Result<f64>,
    ) -> Result<Self> {
        let tried_per_step = estimate.candidates().per_step().len();
        let most = estimate.candidates().most() as f64;
        // One more keeps all events of a person just beyond the largest bound.
        let bounds = edges(((most + 1.0) * stretch.looks.max(1.0)).ceil() as u64); // saturates
        let mut tried = BoundSearch { estimate, stretch, noise_of, known: HashMap::new() };
        let mut best: Option<(usize, usize, f64)> = None;
        for step in 0..tried_per_step {
            for (place, bound) in bounds.iter().enumerate() {
                // A bound per step that is at least the total bound has no effect.
                let idle = estimate.candidates().per_step()[step].is_some_and(|per_step| per_step >= *bound);
                let (missing, _) = tried.missing(*bound, step);
                if idle || best.is_some_and(|best| missing >= best.2) {
                    continue;
                }
                let choice = tried.choice(*bound, step)?;
                if best.is_none_or(|best| choice.total() < best.2) {
                    best = Some((place, step, choice.total()));
                }
                if best.is_some_and(|best| choice.noise >= best.2) {
                    break;
                }
            }
        }
        let (place, step, _) = best.expect("the last bound, without one a step, is never idle");
        let around = place.saturating_sub(NEIGHBOURS_SHOWN)..(place + NEIGHBOURS_SHOWN + 1).min(bounds.len());
        let in_all = bounds[around].iter().map(|bound| tried.choice(*bound, step)).collect::<Result<_>>()?;
        let per_step = (0..tried_per_step).map(|step| tried.choice(bounds[place], step)).collect::<Result<_>>()?;
        Ok(Self { best: tried.choice(bounds[place], step)?, in_all, per_step })
    }
}

impl BoundSearch<'_> {
    /// The count that one group's running count misses, and the share of all events that is dropped in a stretch.
    fn missing(&self, bound: u64, step: usize) -> (f64, f64) {
        let Stretch { looks, count, groups, objective } = self.stretch;
        let lacks_after = |share: f64| self.estimate.left_out(step, bound as f64, looks * share);
        let whole = lacks_after(1.0);
        let missing = match objective {
            Objective::Max => whole.value * count,
            Objective::Mean => {
                let at = |time: u32| {
                    let stretches = count * f64::from(time) / f64::from(ERROR_SAMPLES);
                    stretches.floor() * whole.value + lacks_after(stretches.fract()).value
                };
                ((1..=ERROR_SAMPLES).map(|time| power(at(time), 2)).sum::<f64>() / f64::from(ERROR_SAMPLES)).sqrt()
            }
        };
        let events = (looks * self.estimate.events().value).max(f64::MIN_POSITIVE);
        (missing / groups, (whole.value / events).min(1.0))
    }

    fn choice(&mut self, bound: u64, step: usize) -> Result<BoundChoice> {
        if let Some(known) = self.known.get(&(bound, step)) {
            return Ok(*known);
        }
        let per_step = self.estimate.candidates().per_step()[step];
        let (missing, left_out) = self.missing(bound, step);
        let noise = (self.noise_of)(bound, per_step)?;
        let share_interval = self.estimate.share_interval(step, bound as f64, self.stretch.looks);
        let choice = BoundChoice {
            max_events: bound,
            max_events_per_step: per_step,
            share: (1.0 - left_out).clamp(share_interval.lower, share_interval.upper),
            share_interval,
            missing,
            noise,
        };
        self.known.insert((bound, step), choice);
        Ok(choice)
    }
}
