//! The bound of least total error: what is left out, and noise.

use super::{Estimate, Figure, edges};
use evertally::plan::Objective;
use evertally_declare::error::Result;
use std::collections::HashMap;

/// Points of time at which the mean error is taken.
const TIMES: u32 = 16;
/// How far around the best bound others are shown: so many edges of the histogram to either side.
const AROUND: usize = 6;

/// How the stream that is planned lies to the time that was looked at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stretch {
    /// For how many looks the bounds hold: a period, or the whole horizon.
    pub looks: f64,
    /// How many such stretches the horizon has.
    pub count: f64,
    /// Among how many groups the events are divided, evenly.
    pub groups: f64,
    /// Whether the error at the end matters, or that over all steps.
    pub objective: Objective,
}

/// Bounds on a person, and what they cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// Events in all.
    pub max_events: u64,
    /// Events in a step; `None` for no bound.
    pub max_events_per_step: Option<u64>,
    /// The share of the events that is kept at least, 0 to 1.
    pub share: f64,
    /// Its standard error, by the noise of the estimate.
    pub share_std_error: f64,
    /// What one group's running count lacks at most.
    pub missing: f64,
    /// The standard error of the planned release.
    pub noise: f64,
}

impl Choice {
    /// Root of the sum of the squares of what is missing and of the noise.
    pub fn total(&self) -> f64 {
        self.missing.hypot(self.noise)
    }
}

/// The best bounds, and those around them.
#[derive(Clone, Debug)]
pub struct Choices {
    /// The best.
    pub best: Choice,
    /// Other bounds in all beside the best bound a step, rising, with the best among them.
    pub in_all: Vec<Choice>,
    /// Other bounds a step beside the best bound in all, rising, with the best among them.
    pub per_step: Vec<Choice>,
}

/// Tries bounds, each once.
struct Tried<'a> {
    estimate: &'a Estimate,
    stretch: Stretch,
    noise_of: &'a mut dyn FnMut(u64, Option<u64>) -> Result<f64>,
    known: HashMap<(u64, usize), Choice>,
}

impl Choices {
    /// Looks for the bounds of least total error, where the standard error of the planned release under bounds in all and
    /// in a step is `noise_of`: greater for greater bounds.
    ///
    /// Bounds are planned as long as they may be the best: what is missing falls with a bound and noise grows with it, so
    /// that neither of two neighbours need be tried where one of both alone is more than the best total.
    ///
    /// # Errors
    /// What `noise_of` returns.
    pub fn new(
        estimate: &Estimate,
        stretch: Stretch,
        noise_of: &mut dyn FnMut(u64, Option<u64>) -> Result<f64>,
    ) -> Result<Self> {
        let tried_per_step = estimate.candidates().per_step().len();
        let most = *estimate.candidates().edges().last().expect("there is one") as f64;
        // Whoever has more than the last edge is taken to have one event more.
        let bounds = edges(((most + 1.0) * stretch.looks.max(1.0)).ceil() as u64); // saturates
        let mut tried = Tried { estimate, stretch, noise_of, known: HashMap::new() };
        let mut best: Option<(usize, usize, f64)> = None;
        for step in 0..tried_per_step {
            for (place, bound) in bounds.iter().enumerate() {
                // A bound a step that is no less than that in all is none.
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
        let around = place.saturating_sub(AROUND)..(place + AROUND + 1).min(bounds.len());
        let in_all = bounds[around].iter().map(|bound| tried.choice(*bound, step)).collect::<Result<_>>()?;
        let per_step = (0..tried_per_step).map(|step| tried.choice(bounds[place], step)).collect::<Result<_>>()?;
        Ok(Self { best: tried.choice(bounds[place], step)?, in_all, per_step })
    }
}

impl Tried<'_> {
    /// What one group's running count lacks, and of what is left out in a stretch its share in all events.
    fn missing(&self, bound: u64, step: usize) -> (f64, Figure) {
        let Stretch { looks, count, groups, objective } = self.stretch;
        let lacks_after = |share: f64| self.estimate.left_out(step, bound as f64, looks * share);
        let whole = lacks_after(1.0);
        let missing = match objective {
            Objective::Max => whole.value * count,
            Objective::Mean => {
                let at = |time: u32| {
                    let stretches = count * f64::from(time) / f64::from(TIMES);
                    stretches.floor() * whole.value + lacks_after(stretches.fract()).value
                };
                ((1..=TIMES).map(|time| at(time).powi(2)).sum::<f64>() / f64::from(TIMES)).sqrt()
            }
        };
        let events = (looks * self.estimate.events().value).max(f64::MIN_POSITIVE);
        (missing / groups, Figure { value: (whole.value / events).min(1.0), std_error: whole.std_error / events })
    }

    fn choice(&mut self, bound: u64, step: usize) -> Result<Choice> {
        if let Some(known) = self.known.get(&(bound, step)) {
            return Ok(*known);
        }
        let per_step = self.estimate.candidates().per_step()[step];
        let (missing, left_out) = self.missing(bound, step);
        let noise = (self.noise_of)(bound, per_step)?;
        let choice = Choice {
            max_events: bound,
            max_events_per_step: per_step,
            share: 1.0 - left_out.value,
            share_std_error: left_out.std_error,
            missing,
            noise,
        };
        self.known.insert((bound, step), choice);
        Ok(choice)
    }
}
