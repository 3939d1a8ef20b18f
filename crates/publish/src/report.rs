//! The privacy report: the guarantee, the people it protects, and a reader's conclusions. This module holds the data;
//! `report/wording.rs` holds the sentences.

mod contents;
mod correlation;
mod joined;
mod measures;
mod periods;
mod selection;
mod wording;

pub use correlation::{CORRELATION_GAINS_NOTHING, CorrelationFacts};
pub use joined::later_groups;
pub use measures::{MeasureFacts, PartFacts};
pub use periods::{ActiveFacts, PeriodFacts, WindowFacts};
pub use selection::SelectionFacts;

use crate::bounds::{fall_behind, natural_period};
use crate::rows::{half_width, own_band, seven_digits, std_error_after};
use evertally::mechanism::MechanismName;
use evertally::noise::SecretKey;
use evertally::plan::Plan;
use evertally::privacy::composition::Odometer;
use evertally::privacy::{Budget, Delta, Epsilon};
use evertally::privacy::{Neighbours, Values};
use evertally_declare::groups::GroupFacts;
use evertally_declare::policy::{Coverage, DateOnly};
use evertally_declare::problem::{Sentence, Wording};
use evertally_declare::stream::Stream;
use evertally_declare::view::View;
use evertally_ledger::ledger::LedgerFacts;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The δ at which the report states ε.
const DELTAS: [f64; 4] = [1e-3, HEADLINE_DELTA, 1e-9, 1e-12];
/// The δ of the noise in the first sentence, if the budget states none.
const HEADLINE_DELTA: f64 = 1e-6;

/// The facts of a release that may be published with it: all of them follow from the plan, or from the released values.
#[derive(Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Report {
    /// Version of this format.
    pub version: u32,
    /// The program that made the release, with its version.
    pub made_with: String,
    /// Title.
    pub title: String,
    /// The stream's name.
    pub stream: String,
    /// The quantity that is counted or summed, in words.
    pub quantity: String,
    /// The expression that is true for the counted rows, if not all are counted.
    #[serde(rename = "where", default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// The steps.
    pub horizon: HorizonFacts,
    /// The declared groups, if there are any.
    pub groups: Option<GroupFacts>,
    /// How discovered groups are selected, if groups are discovered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selection: Option<SelectionFacts>,
    /// The measures and the sums computed for them, if there are several; mechanism, noise and error are then those of
    /// the first part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measures: Option<MeasureFacts>,
    /// The sketch, if items are counted in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sketch: Option<SketchFacts>,
    /// Who is protected.
    pub unit: UnitFacts,
    /// The budget; per stream, if the released values continue from earlier streams.
    pub budget: Budget,
    /// The earlier streams that the released values continue, if any: errors are then those of all these streams
    /// together, and the guarantee that of as many as can contain data of one unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub follows: Option<ContinuationFacts>,
    /// The mechanism.
    pub mechanism: MechanismName,
    /// Its noise.
    pub noise: NoiseFacts,
    /// The guarantee that the noise gives.
    pub guarantee: GuaranteeFacts,
    /// The guarantee for people who are active in several periods, if the unit is one period.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub periods: Option<PeriodFacts>,
    /// The error that the noise adds to the released values.
    pub error: ErrorFacts,
    /// The views shown alongside the released values, in the order in which they are applied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub views: Vec<View>,
    /// Policies other than to refuse an event, by their names in declarations: `missing`, `outside`, `unknown-group`,
    /// `late`, `date-only` and `bad-rows`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub policies: BTreeMap<String, String>,
    /// Public id of the key.
    pub key_id: String,
    /// Digest of the plan, in hexadecimal.
    pub plan_digest: String,
    /// The record of the release, so that it can be checked against a ledger.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ledger: Option<LedgerFacts>,
}

/// Streams before this one, from whose last released values it continues.
#[derive(Debug, Serialize, Deserialize)]
pub struct ContinuationFacts {
    /// The previous stream.
    pub stream: String,
    /// The start of the first stream.
    pub since: String,
    /// The number of steps before this stream.
    pub steps: u64,
    /// The number of streams, including this one.
    pub streams: u32,
    /// The number of streams that can contain data of one unit, for which the guarantee holds: all for a person, one or
    /// two for an event or a period.
    pub streams_of_a_unit: u32,
}

/// The steps.
#[derive(Debug, Serialize, Deserialize)]
pub struct HorizonFacts {
    /// Beginning of the first step.
    pub start: String,
    /// End of the last step of the horizon.
    pub end: Option<String>,
    /// Width of a step.
    pub every: String,
    /// The interval of publication, if not every step is published.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub publish: Option<String>,
    /// The time zone whose calendar the steps follow.
    pub time_zone: String,
    /// The number of published steps in the horizon.
    pub steps: Option<u64>,
    /// The number of released steps.
    pub released_steps: u64,
}

/// The kind of release.
#[doc(alias = "Released")]
#[derive(Debug)]
pub enum ReleaseKind {
    /// One running sum.
    Sum,
    /// A running sum for each declared group.
    Groups(GroupFacts),
    /// A running sum for each discovered group.
    Discovered,
    /// Answers of a sketch.
    Sketch(SketchFacts),
}

/// The table of a sketch, and the queries that it answers.
#[derive(Debug, Serialize, Deserialize)]
pub struct SketchFacts {
    /// The kind of sketch.
    pub kind: String,
    /// Rows of the table; null for a tree.
    pub rows: Option<u32>,
    /// Cells of a row; null for a tree.
    pub width: Option<u64>,
    /// The columns that name the item.
    pub key_columns: Vec<String>,
    /// The source of its hash functions; null if nothing is hashed.
    pub hashing: Option<String>,
    /// Largest standard error of one cell.
    pub max_cell_std_error: f64,
    /// The queries, in words.
    pub answers: String,
    /// Standard error that other items in the same cells add to an answer at the last step, computed from released
    /// cells.
    pub collision_std_error: f64,
    /// Standard error of an answer at the last step, from noise and collisions.
    pub answer_std_error: f64,
    /// Half the width of the interval for an answer at the last step, for an item that was not chosen by its estimate.
    pub answer_half_width: f64,
    /// Largest standard error of a release of the same items as groups, without collisions; null without a list of
    /// items.
    pub release_std_error: Option<f64>,
    /// Whether items were chosen by their estimates.
    pub chosen: bool,
    /// Errors of answers, instead of errors of cells.
    #[serde(skip)]
    pub error: ErrorFacts,
}

/// Who is protected.
#[derive(Debug, Serialize, Deserialize)]
pub struct UnitFacts {
    /// The privacy unit in words.
    pub unit: String,
    /// How neighbouring data differ in a unit's events.
    pub neighbours: Neighbours,
    /// Largest number of events of one unit that are kept, in total.
    pub max_events: u64,
    /// Largest number of kept events of one unit in one step.
    pub max_events_per_step: u64,
    /// Largest number of kept events of one unit in one group, if bounded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_events_per_group: Option<u64>,
    /// Largest number of groups of one unit, if bounded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_groups: Option<u64>,
    /// Minimum distance between steps with events of one unit, if bounded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_gap: Option<u64>,
    /// The period in which all these bounds hold, if one is declared: they restart in each period.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub period: Option<String>,
    /// The protected window, if that is not one period.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<WindowFacts>,
    /// Whether these bounds are an assumption about the data, which nothing enforces.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub asserted: bool,
    /// Who asserts them, or why they hold, if that is declared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asserted_by: Option<String>,
    /// The effect of whole-history bounds on late counts, if the bounds are used up before the history ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late_counts: Option<String>,
    /// Bounds of one event's value; 1 and 1 for counts.
    pub lower: String,
    /// See `lower`.
    pub upper: String,
    /// Distance between neighbouring values.
    pub grid: String,
}

/// The noise of the mechanism.
#[derive(Debug, Serialize, Deserialize)]
pub struct NoiseFacts {
    /// Its distribution.
    pub law: String,
    /// Exact parameter in units of the noise grid: the scale of the Laplace law, or the variance of the Gaussian. If
    /// the noise of groups is correlated, that of the part that each group has for itself.
    pub parameter: String,
    /// The same for the part that is common to all groups, if the noise of groups is correlated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub common_parameter: Option<String>,
    /// The noise grid is the data's grid over this number.
    pub noise_divisor: u64,
    /// Released values are multiples of 2 to the power of minus this, in steps of the data's grid; 0 if they are
    /// multiples of the grid itself.
    pub fraction_bits: u32,
    /// Standard deviation of one noise variable, in units of the data; of both parts together, if there are two.
    pub std: f64,
    /// Whether the covariance of the releases was used for accounting, instead of column norms.
    pub exact_accounting: bool,
    /// Largest column norms of the factorization: how far a change of one input by 1 moves the protected sums. Under
    /// exact accounting `s2` is how far it moves the noise, and `s1` does not matter.
    pub s1: Option<f64>,
    /// See `s1`.
    pub s2: f64,
    /// How the noise of groups is correlated, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation: Option<CorrelationFacts>,
    /// Why it is not, if that was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_note: Option<String>,
}

/// The guarantee that the noise gives.
#[derive(Debug, Serialize, Deserialize)]
pub struct GuaranteeFacts {
    /// ε, if the guarantee is pure ε-differential privacy.
    pub pure_epsilon: Option<f64>,
    /// ρ of zero-concentrated differential privacy; if groups are selected, except with probability `selection_delta`.
    pub rho: f64,
    /// The δ that the selection of groups adds; it is included wherever ε is stated at some δ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selection_delta: Option<f64>,
    /// ε at some δ.
    pub epsilon_at_delta: Vec<EpsilonAtDelta>,
}

/// One point of a curve of (ε, δ).
#[derive(Debug, Serialize, Deserialize)]
pub struct EpsilonAtDelta {
    /// δ.
    pub delta: f64,
    /// ε at this δ.
    pub epsilon: f64,
}

/// The error that the noise adds to the released values; for the group with the greatest scale, if scales differ.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ErrorFacts {
    /// Largest standard error of a step, in units of the data.
    pub max_std_error: f64,
    /// Root of the mean variance over the steps, in units of the data.
    pub mean_std_error: f64,
    /// Confidence of the intervals.
    pub confidence: f64,
    /// Half the width of the interval at the last step.
    pub last_step_half_width: f64,
    /// The band, if the intervals of all steps hold at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub band: Option<BandFacts>,
}

/// A band: intervals that hold at all steps of a group at once. It depends only on the plan.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct BandFacts {
    /// Half its width in standard errors; missing if it differs from step to step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standard_errors: Option<f64>,
    /// The number of simulated noise histories; 0 if the horizon is too long, and steps count as independent.
    pub simulated: u32,
    /// Standard error of the simulated probability that the band holds; the band allows for it.
    pub simulation_error: f64,
}

/// The policies of a stream, except to refuse an event.
fn policies(stream: &Stream) -> BTreeMap<String, String> {
    let mut policies = stream.policies();
    if stream.date_only == DateOnly::Midnight {
        policies.insert("date-only".to_owned(), "midnight".to_owned());
    }
    policies
}

impl Report {
    /// The version of the format.
    pub const VERSION: u32 = 1;

    /// The report of a stream that is released with this key.
    pub fn new(stream: &Stream, key: &SecretKey, released: ReleaseKind) -> Self {
        Self::with_key_id(stream, key.id().to_string(), released)
    }

    /// Like [`new`](Self::new), for a caller that has only the key's id.
    pub fn with_key_id(stream: &Stream, key_id: String, released: ReleaseKind) -> Self {
        let (plan, calendar) = (shown_plan(stream), &stream.calendar);
        let request = &stream.plan.request().clone().with_unit(stream.kept);
        let (groups, sketch) = match released {
            ReleaseKind::Sum | ReleaseKind::Discovered => (None, None),
            ReleaseKind::Groups(groups) => (Some(groups), None),
            ReleaseKind::Sketch(sketch) => (None, Some(sketch)),
        };
        let (lower, upper) = stream.values.bounds();
        let bound = |multiple: i64| match stream.values {
            Values::Count => "1".to_owned(),
            Values::Sum { .. } => request.grid().format(multiple.into()),
        };
        let spread = request.unit().without_window().spread().expect("the plan has checked it");
        let guarantee = guarantee(stream);
        let bounds = request.unit().bounds();
        let norms = plan.mechanism().column_norms();
        let exact = plan.mechanism().exact_l2_squared().filter(|_| plan.exact_accounting());
        Self {
            version: Self::VERSION,
            made_with: concat!("evertally ", env!("CARGO_PKG_VERSION")).to_owned(),
            title: stream.title.clone(),
            stream: stream.name.to_string(),
            quantity: stream.quantity(),
            filter: stream.filter.as_ref().map(ToString::to_string),
            horizon: HorizonFacts {
                start: calendar.format(calendar.start()),
                end: (!plan.is_unbounded()).then(|| calendar.format(calendar.end())),
                every: calendar.every().to_string(),
                time_zone: calendar.zone().to_string(),
                publish: (!stream.publishes_all()).then(|| stream.rows().every().to_string()),
                steps: (!plan.is_unbounded()).then(|| stream.rows().steps()),
                released_steps: stream.last_row(),
            },
            error: sketch.as_ref().map_or_else(|| ErrorFacts::for_releases(stream), |sketch| sketch.error.clone()),
            groups,
            selection: SelectionFacts::new(stream),
            measures: MeasureFacts::new(stream),
            sketch,
            unit: UnitFacts {
                unit: stream.unit(),
                neighbours: request.neighbours(),
                max_events: spread.total,
                max_events_per_step: spread.per_step,
                max_events_per_group: bounds.and_then(|bounds| bounds.max_events_per_group),
                max_groups: bounds.and_then(|bounds| bounds.max_groups),
                min_gap: bounds.and_then(|bounds| bounds.min_gap),
                period: stream.period().map(|period| period.in_words()),
                window: WindowFacts::new(stream),
                asserted: stream.assertion.is_some(),
                asserted_by: stream.assertion.as_ref().and_then(|assertion| assertion.by.clone()),
                late_counts: late_counts(stream).map(|says| says.worded(Wording::Flags)),
                lower: bound(lower),
                upper: bound(upper),
                grid: request.grid().to_string(),
            },
            budget: request.budget(),
            follows: stream.follows.as_ref().map(|follows| ContinuationFacts {
                stream: follows.stream.clone(),
                since: follows.since.clone(),
                steps: follows.steps,
                streams: stream.streams(),
                streams_of_a_unit: stream.streams_of_a_unit(),
            }),
            mechanism: plan.mechanism().name(),
            noise: NoiseFacts {
                law: plan.noise_kind().to_string(),
                parameter: plan.law().parameter().to_string(),
                common_parameter: plan.common_law().map(|law| law.parameter().to_string()),
                noise_divisor: plan.noise_divisor(),
                fraction_bits: plan.fraction_bits(),
                std: plan.node_variance().sqrt(),
                exact_accounting: plan.exact_accounting(),
                s1: Some(norms.l1).filter(|_| !plan.exact_accounting()),
                s2: exact.unwrap_or(norms.l2_squared).sqrt(),
                correlation: plan.correlation().map(CorrelationFacts::from),
                correlation_note: stream.gains_nothing_from_correlation().then(|| CORRELATION_GAINS_NOTHING.into()),
            },
            periods: PeriodFacts::new(stream, &guarantee),
            guarantee,
            views: stream.views.clone(),
            policies: policies(stream),
            key_id,
            plan_digest: blake3::Hash::from_bytes(stream.plan_digest()).to_hex().to_string(),
            ledger: None,
        }
    }

    /// Adds a policy of the run that is not part of the stream.
    #[must_use]
    pub fn with_policy(mut self, name: &str, policy: &str) -> Self {
        self.policies.insert(name.to_owned(), policy.to_owned());
        self
    }

    /// Adds the place where the release is about to be recorded, or was recorded.
    #[must_use]
    pub fn recorded_in(self, ledger: LedgerFacts) -> Self {
        Self { ledger: Some(ledger), ..self }
    }
}

impl ErrorFacts {
    /// The errors of releases as the mechanism produces them; if values continue from earlier streams, including their
    /// errors.
    pub fn for_releases(stream: &Stream) -> Self {
        let plan = shown_plan(stream);
        let with = |own: f64| stream.scales.greatest * std_error_after(own, plan, stream.streams() - 1);
        let (max, mean) = stream.errors_of_rows(plan);
        Self {
            max_std_error: with(max),
            mean_std_error: with(mean),
            confidence: stream.confidence,
            last_step_half_width: last_half_width(stream),
            band: BandFacts::new(stream),
        }
    }
}

impl BandFacts {
    fn new(stream: &Stream) -> Option<Self> {
        let band = match stream.band {
            Coverage::Pointwise => return None,
            Coverage::Simultaneous => own_band(stream),
        };
        let standard_errors = band.standard_errors.map(seven_digits);
        Some(Self { standard_errors, simulated: band.paths, simulation_error: seven_digits(band.simulation_error) })
    }
}

/// The warning about late counts; bounds that nothing enforces drop no events.
fn late_counts(stream: &Stream) -> Option<Sentence> {
    let request = stream.plan.request().clone().with_unit(stream.kept);
    if stream.assertion.is_some() { None } else { fall_behind(&request, natural_period(&stream.calendar)) }
}

/// The guarantee over all streams whose noise is in the released values and that can contain data of one unit.
fn guarantee(stream: &Stream) -> GuaranteeFacts {
    let (guarantee, streams) = (stream.guarantee(), stream.streams_of_a_unit());
    let mut all = Odometer::default();
    (0..streams).for_each(|_| all.record(guarantee.expense()));
    let is_one = streams == 1;
    let at = |delta: f64| {
        let at = Delta::new(delta).expect("a constant");
        EpsilonAtDelta { delta, epsilon: if is_one { guarantee.epsilon_at(at) } else { all.epsilon_at(at) } }
    };
    let selection = guarantee.selection.map(|_| all.selection());
    let mut deltas = DELTAS.to_vec();
    deltas.extend(selection.map(headline_delta).filter(|delta| *delta < 1.0));
    deltas.sort_by(|a, b| b.total_cmp(a));
    GuaranteeFacts {
        pure_epsilon: if is_one { guarantee.pure_epsilon.map(Epsilon::get) } else { all.pure_epsilon() },
        rho: if is_one { guarantee.rho.get() } else { all.rho().expect("every plan has a ρ") },
        selection_delta: selection,
        // Below the δ of selection nothing is promised.
        epsilon_at_delta: deltas.into_iter().map(at).filter(|row| row.epsilon.is_finite()).collect(),
    }
}

/// The δ of the first sentence next to this δ of selection: its sum with that of the noise, rounded up.
fn headline_delta(selection: f64) -> f64 {
    let noise = Delta::new(HEADLINE_DELTA).expect("a constant");
    Delta::new(selection).map_or(1.0, |selection| selection.plus(noise))
}

/// The plan of the released values; with several measures, the plan of the first part.
fn shown_plan(stream: &Stream) -> &Plan {
    stream.measures.as_ref().map_or(&stream.plan, |bundle| &bundle.parts()[0].plan)
}

fn last_half_width(stream: &Stream) -> f64 {
    let last = stream.slot_of_row(stream.last_row()).max(1);
    if stream.measures.is_some() {
        let plan = shown_plan(stream);
        let mut intervals = plan.intervals(stream.confidence).expect("checked by the setup");
        return plan.request().grid().to_f64(intervals.half_width(last) as i128);
    }
    let width = half_width(stream, last, stream.streams()).expect("checked by the setup");
    stream.scales.greatest * stream.plan.request().grid().to_f64(width as i128)
}
