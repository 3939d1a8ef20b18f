//! The privacy report: what was promised, to whom, and what a reader may conclude.

mod markdown;

use crate::stream::Stream;
use crate::words::at_most;
use evertally::mechanism::MechanismName;
use evertally::noise::SecretKey;
use evertally::privacy::{Budget, Delta, Epsilon};
use evertally::privacy::{Neighbours, Values};
use serde::Serialize;

/// δ for which the report states ε.
const DELTAS: [f64; 4] = [1e-3, 1e-6, 1e-9, 1e-12];

/// The facts of a release that may be published with it: all of them follow from the plan, or from what is released.
#[derive(Debug, Serialize)]
pub struct Report {
    version: u32,
    title: String,
    stream: String,
    quantity: String,
    horizon: HorizonFacts,
    groups: Option<GroupFacts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sketch: Option<SketchFacts>,
    unit: UnitFacts,
    budget: Budget,
    mechanism: MechanismName,
    noise: NoiseFacts,
    guarantee: GuaranteeFacts,
    error: ErrorFacts,
    key_id: String,
    plan_digest: String,
}

#[derive(Debug, Serialize)]
struct HorizonFacts {
    start: String,
    end: String,
    every: String,
    time_zone: String,
    steps: u64,
    released_steps: u64,
}

/// What is released: declared groups, a sketch, or, with neither, one running sum.
#[derive(Debug, Default)]
pub struct Extent {
    /// The declared groups.
    pub groups: Option<GroupFacts>,
    /// The sketch.
    pub sketch: Option<SketchFacts>,
}

/// The declared groups.
#[derive(Debug, Serialize)]
pub struct GroupFacts {
    /// The columns that name the group.
    pub columns: Vec<String>,
    /// How many groups are declared, without the rest.
    pub declared: usize,
    /// The name under which all undeclared groups are released, if they are.
    pub rest: Option<String>,
}

/// The table of a sketch, and what is asked of it.
#[derive(Debug, Serialize)]
pub struct SketchFacts {
    /// Which sketch it is.
    pub kind: String,
    /// Rows of the table.
    pub rows: u32,
    /// Cells of a row.
    pub width: u64,
    /// The columns that name the item.
    pub key_columns: Vec<String>,
    /// Where its hash functions come from.
    pub hashing: &'static str,
    /// Largest standard error of one cell.
    pub max_cell_std_error: f64,
    /// What is asked, in words.
    pub answers: String,
    /// Standard error that items in the same cells add to an answer, estimated from the released cells; null for large tables.
    pub collision_std_error: Option<f64>,
    /// Errors of answers, in the place of those of cells.
    #[serde(skip)]
    pub error: ErrorFacts,
}

#[derive(Debug, Serialize)]
struct UnitFacts {
    unit: String,
    neighbours: Neighbours,
    /// Largest number of events of one unit that are kept.
    max_events: u64,
    /// Largest number of them in one step.
    max_events_per_step: u64,
    /// Bounds of one event's value; 1 and 1 for counts.
    lower: String,
    upper: String,
    grid: String,
}

#[derive(Debug, Serialize)]
struct NoiseFacts {
    law: String,
    /// Exact parameter in units of the noise grid: the scale of the Laplace law, the variance of the Gaussian.
    parameter: String,
    /// The noise grid is the data's grid over this number.
    noise_divisor: u64,
    /// Standard deviation of one noise variable, in units of the data.
    std: f64,
    /// Whether the covariance of the releases was counted, and not column norms.
    exact_accounting: bool,
    /// Largest column norms of the factorization: how far one unit of change moves the protected sums. Under exact accounting
    /// `s2` is how far it moves the noise, and `s1` does not matter.
    s1: Option<f64>,
    s2: f64,
}

#[derive(Debug, Serialize)]
struct GuaranteeFacts {
    pure_epsilon: Option<f64>,
    rho: f64,
    epsilon_at_delta: Vec<EpsilonAtDelta>,
}

#[derive(Debug, Serialize)]
struct EpsilonAtDelta {
    delta: f64,
    epsilon: f64,
}

/// What the noise does to the released values.
#[derive(Clone, Debug, Serialize)]
pub struct ErrorFacts {
    /// Largest standard error of a step, in units of the data.
    pub max_std_error: f64,
    /// Root of the mean variance over the steps, in units of the data.
    pub mean_std_error: f64,
    /// Confidence of the intervals.
    pub confidence: f64,
    /// Half the width of the interval at the last step.
    pub last_step_half_width: f64,
}

impl Report {
    /// What may be said of a stream that is released with this key.
    pub fn new(setup: &Stream, key: &SecretKey, extent: Extent) -> Self {
        let (plan, calendar) = (&setup.plan, &setup.calendar);
        let request = plan.request();
        let (lower, upper) = setup.values.bounds();
        let bound = |multiple: i64| match setup.values {
            Values::Count => "1".to_owned(),
            Values::Sum { .. } => request.grid().format(multiple.into()),
        };
        let spread = request.unit().spread().expect("the plan has checked it");
        let norms = plan.mechanism().column_norms();
        let exact = plan.mechanism().exact_l2_squared().filter(|_| plan.exact_accounting());
        Self {
            version: 1,
            title: setup.title.clone(),
            stream: setup.name.to_string(),
            quantity: setup.quantity(),
            horizon: HorizonFacts {
                start: calendar.format(calendar.start()),
                end: calendar.format(calendar.end()),
                every: calendar.every().to_string(),
                time_zone: calendar.zone().to_string(),
                steps: calendar.steps(),
                released_steps: setup.last_step,
            },
            error: extent.sketch.as_ref().map_or_else(|| ErrorFacts::of_releases(setup), |sketch| sketch.error.clone()),
            groups: extent.groups,
            sketch: extent.sketch,
            unit: UnitFacts {
                unit: setup.unit(),
                neighbours: request.neighbours(),
                max_events: spread.total,
                max_events_per_step: spread.per_step,
                lower: bound(lower),
                upper: bound(upper),
                grid: request.grid().to_string(),
            },
            budget: request.budget(),
            mechanism: plan.mechanism().name(),
            noise: NoiseFacts {
                law: plan.noise_kind().to_string(),
                parameter: plan.law().parameter().to_string(),
                noise_divisor: plan.noise_divisor(),
                std: plan.node_variance().sqrt(),
                exact_accounting: plan.exact_accounting(),
                s1: Some(norms.l1).filter(|_| !plan.exact_accounting()),
                s2: exact.unwrap_or(norms.l2_squared).sqrt(),
            },
            guarantee: guarantee(setup),
            key_id: key.id().to_string(),
            plan_digest: blake3::Hash::from_bytes(plan.digest()).to_hex().to_string(),
        }
    }

    /// Budget, unit and mechanism in one line.
    pub fn headline(&self) -> String {
        format!("{} for {} · {} · {}", self.budget, self.unit.unit, self.mechanism.brief(), self.noise.law)
    }

    /// The guarantee in one sentence.
    pub fn promise(&self) -> String {
        let at = &self.guarantee.epsilon_at_delta[1];
        let approximate =
            |epsilon: f64, delta: f64| format!("({}, {delta:e})-differentially private", at_most(epsilon));
        let strength = match (self.budget, self.guarantee.pure_epsilon) {
            (Budget::Approximate(stated, delta), pure) if pure.is_none_or(|pure| pure > stated.get()) => {
                approximate(stated.get(), delta.get())
            }
            (_, Some(epsilon)) => format!("{}-differentially private", at_most(epsilon)),
            _ => approximate(at.epsilon, at.delta),
        };
        format!("The whole history shown is {strength} with respect to {}.", self.unit.unit)
    }
}

impl ErrorFacts {
    /// The errors of releases as they come from the mechanism.
    pub fn of_releases(setup: &Stream) -> Self {
        let plan = &setup.plan;
        Self {
            max_std_error: plan.max_std_error(),
            mean_std_error: plan.mean_std_error(),
            confidence: setup.confidence,
            last_step_half_width: last_half_width(setup),
        }
    }
}

fn guarantee(setup: &Stream) -> GuaranteeFacts {
    let guarantee = setup.plan.guarantee();
    let at =
        |delta: f64| EpsilonAtDelta { delta, epsilon: guarantee.epsilon_at(Delta::new(delta).expect("a constant")) };
    GuaranteeFacts {
        pure_epsilon: guarantee.pure_epsilon.map(Epsilon::get),
        rho: guarantee.rho.get(),
        epsilon_at_delta: DELTAS.map(at).into(),
    }
}

fn last_half_width(setup: &Stream) -> f64 {
    let mut intervals = setup.plan.intervals(setup.confidence).expect("checked by the setup");
    setup.plan.request().grid().to_f64(intervals.half_width(setup.last_step) as i128)
}
