//! The objective used to choose open parameters: the number to minimise.

use super::{Mechanism, Mix, NoiseKind, Objective, Participation, SearchWatch, Workload, units};
use crate::privacy::Spread;

/// The value by which mechanisms are compared and open parameters are chosen: the squared error of a release under one
/// budget, up to a factor that all mechanisms share. It also carries the [watch](SearchWatch) over the search.
///
/// ```
/// use evertally::mechanism::{Criterion, Input, NoiseKind, Objective, Output};
/// let criterion = Criterion::new(NoiseKind::Gaussian, Objective::Max);
/// assert_eq!(criterion.figure(&Input::new(100)?), 100.0);
/// assert_eq!(criterion.figure(&Output::new(100)?), 100.0);
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Criterion<'a> {
    objective: Objective,
    workload: Workload,
    mix: Option<Mix>,
    change: HiddenChange,
    watch: SearchWatch<'a>,
}

/// The change that the noise hides.
#[derive(Clone, Copy, Debug, PartialEq)]
enum HiddenChange {
    /// A unit's events, hidden by discrete noise.
    Events {
        law: NoiseKind,
        spread: Spread,
        /// Use exact Gaussian accounting if available.
        exact: bool,
    },
    /// A unit's vectors, hidden by continuous Gaussian noise.
    Vectors(Participation),
}

impl Objective {
    /// `‖L_t‖²` of the step with the largest variance, or its mean over the steps.
    pub fn row_norm_squared(self, mechanism: &dyn Mechanism) -> f64 {
        self.of(mechanism.max_row_norm_squared(), mechanism.mean_row_norm_squared())
    }
}

impl Criterion<'static> {
    /// The least largest or mean variance under a noise distribution, with one event protected.
    pub const fn new(law: NoiseKind, objective: Objective) -> Self {
        Self {
            objective,
            workload: Workload::Sum,
            mix: None,
            change: HiddenChange::Events { law, spread: Spread::ONE, exact: false },
            watch: SearchWatch::NONE,
        }
    }

    /// The least largest or mean variance under continuous Gaussian noise. The protected unit takes part in several
    /// steps, with a vector of norm at most 1 in each.
    pub const fn from_vectors(objective: Objective, participation: Participation) -> Self {
        Self {
            objective,
            workload: Workload::Sum,
            mix: None,
            change: HiddenChange::Vectors(participation),
            watch: SearchWatch::NONE,
        }
    }
}

impl Criterion<'_> {
    /// The same criterion for a search that this watch may cancel.
    pub const fn with_watch(self, watch: SearchWatch<'_>) -> Criterion<'_> {
        let Self { objective, workload, mix, change, .. } = self;
        Criterion { objective, workload, mix, change, watch }
    }

    /// The watch over the search.
    pub fn watch(&self) -> SearchWatch<'_> {
        self.watch
    }

    /// The same criterion for a unit of several events. For vectors, the participation already states it.
    pub fn with_spread(self, spread: Spread) -> Self {
        let change = match self.change {
            HiddenChange::Events { law, exact, .. } => HiddenChange::Events { law, spread, exact },
            vectors @ HiddenChange::Vectors(_) => vectors,
        };
        Self { change, ..self }
    }

    /// The same criterion by exact Gaussian accounting if a mechanism supports it for discrete noise
    /// ([`Mechanism::gaussian_shift`]) and it is better. Changes nothing under Laplace noise, nor for vectors.
    pub fn exact(self) -> Self {
        let change = match self.change {
            HiddenChange::Events { law, spread, .. } => HiddenChange::Events { law, spread, exact: true },
            vectors @ HiddenChange::Vectors(_) => vectors,
        };
        Self { change, ..self }
    }

    /// The same criterion if something other than running sums is published.
    pub const fn with_workload(self, workload: Workload) -> Self {
        Self { workload, ..self }
    }

    /// The same criterion if other workloads are read from the same release, which is optimised for all of them.
    /// Weights apply to their variances.
    pub const fn with_mix(self, mix: Option<Mix>) -> Self {
        Self { mix, ..self }
    }

    /// The workloads that are read from one release, if there are several.
    pub fn mix(&self) -> Option<Mix> {
        self.mix
    }

    /// The published query.
    pub fn workload(&self) -> Workload {
        self.workload
    }

    /// The error that is minimised.
    pub fn objective(&self) -> Objective {
        self.objective
    }

    /// The noise distribution.
    pub fn law(&self) -> NoiseKind {
        match self.change {
            HiddenChange::Events { law, .. } => law,
            HiddenChange::Vectors(_) => NoiseKind::Gaussian,
        }
    }

    /// How units take part in the steps with vectors, if the noise hides vectors.
    pub fn participation(&self) -> Option<Participation> {
        match self.change {
            HiddenChange::Vectors(participation) => Some(participation),
            HiddenChange::Events { .. } => None,
        }
    }

    /// How a unit's events may be spread, if Gaussian noise hides them and they may be in several steps of one sum.
    pub(super) fn spread_over_steps(&self) -> Option<Spread> {
        match self.change {
            HiddenChange::Events { law: NoiseKind::Gaussian, spread, .. } => {
                Some(spread).filter(|spread| spread.per_step < spread.per_group)
            }
            _ => None,
        }
    }

    /// How many steps in a row a unit may have events in, and how far apart, if Gaussian noise hides several.
    pub(crate) fn runs(&self) -> Option<Participation> {
        let spread = self.spread_over_steps()?;
        Participation::new(spread.per_group.div_ceil(spread.per_step), spread.separation).ok()
    }

    /// The steps of a unit, as far as Gaussian noise hides several: those of its vectors, or those with its events in
    /// one sum.
    pub fn unit(&self) -> Participation {
        self.participation().or_else(|| self.runs()).unwrap_or(Participation::ONCE)
    }

    /// The value for one mechanism: 2ρ·variance or ε²·variance, up to a factor that all mechanisms share; infinite if
    /// the search is cancelled.
    pub fn figure(&self, mechanism: &dyn Mechanism) -> f64 {
        let by_column = self.by_column_norm(mechanism);
        match self.exactly_counted().filter(|_| by_column.is_finite()).zip(mechanism.gaussian_shift()) {
            Some((events, shift)) => {
                by_column.min(events * shift.squared() * self.objective.row_norm_squared(mechanism))
            }
            None => by_column,
        }
    }

    /// The value by column norms alone; infinite if the search is cancelled.
    pub(super) fn by_column_norm(&self, mechanism: &dyn Mechanism) -> f64 {
        if self.watch.is_cancelled() {
            return f64::INFINITY;
        }
        let amplified = match self.change {
            HiddenChange::Events { law: NoiseKind::Laplace, .. } => {
                let s1 = mechanism.column_norms().l1;
                2.0 * s1 * s1
            }
            HiddenChange::Events { law: NoiseKind::Gaussian, spread, .. } => {
                let noise_unit = libm::exp2(-f64::from(mechanism.noise_bits()));
                let Ok(squared) = units::squared_watched(mechanism, spread, self.watch) else { return f64::INFINITY };
                squared as f64 * noise_unit * noise_unit / spread.total as f64
            }
            HiddenChange::Vectors(participation) => {
                mechanism.participation_squared_watched(participation, self.watch).unwrap_or(f64::INFINITY)
            }
        };
        amplified * self.objective.row_norm_squared(mechanism)
    }

    /// The number of events that multiplies an exact squared sensitivity, if exact accounting is requested. (The values
    /// share the other factor of the squared number of events.)
    pub(super) fn exactly_counted(&self) -> Option<f64> {
        match self.change {
            HiddenChange::Events { law: NoiseKind::Gaussian, spread, exact: true } => {
                let others = spread.substitutes.map_or(0.0, |others| others.total as f64 * others.per_group as f64);
                Some(spread.per_group as f64 + others / spread.total as f64)
            }
            _ => None,
        }
    }
}
