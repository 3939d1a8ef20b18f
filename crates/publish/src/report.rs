//! The privacy report: what was promised, to whom, and what a reader may conclude. Here it is data; `report/wording.rs`
//! has its sentences.

mod measures;
mod periods;
mod wording;

pub use measures::{MeasureFacts, PartFacts};
pub use periods::{ActiveFacts, PeriodFacts};

use crate::bounds::{fall_behind, natural_period};
use crate::rows::{half_width, own_band, seven_digits, std_error_behind};
use evertally::mechanism::MechanismName;
use evertally::noise::SecretKey;
use evertally::plan::Plan;
use evertally::privacy::composition::Odometer;
use evertally::privacy::{Budget, Delta, Epsilon};
use evertally::privacy::{Neighbours, Values};
use evertally_declare::groups::GroupFacts;
use evertally_declare::policy::Band;
use evertally_declare::problem::Wording;
use evertally_declare::stream::Stream;
use evertally_declare::view::View;
use evertally_ledger::ledger::LedgerFacts;
use serde::Serialize;

/// δ for which the report states ε.
const DELTAS: [f64; 4] = [1e-3, 1e-6, 1e-9, 1e-12];

/// The facts of a release that may be published with it: all of them follow from the plan, or from what is released.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// Version of this form.
    pub version: u32,
    /// Headline.
    pub title: String,
    /// The stream's name.
    pub stream: String,
    /// What is counted or summed, in words.
    pub quantity: String,
    /// The steps.
    pub horizon: HorizonFacts,
    /// The declared groups, if there are any.
    pub groups: Option<GroupFacts>,
    /// How groups that nobody declared are selected, if they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selection: Option<SelectionFacts>,
    /// The measures and what is summed for them, where there are several; then mechanism, noise and error are those of the
    /// first part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measures: Option<MeasureFacts>,
    /// The sketch, if items are counted in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sketch: Option<SketchFacts>,
    /// Who is protected.
    pub unit: UnitFacts,
    /// The budget; of each stream, where released values go on from earlier ones.
    pub budget: Budget,
    /// What the released values go on from, where they do: guarantee and errors are those of all these streams together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub follows: Option<FollowsFacts>,
    /// The mechanism.
    pub mechanism: MechanismName,
    /// Its noise.
    pub noise: NoiseFacts,
    /// What that gives.
    pub guarantee: GuaranteeFacts,
    /// What it gives to whoever is active in several periods, where the unit is of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub periods: Option<PeriodFacts>,
    /// What it does to the released values.
    pub error: ErrorFacts,
    /// What is shown beside the released values, in the order in which it is applied.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub views: Vec<View>,
    /// Public id of the key.
    pub key_id: String,
    /// Digest of the plan, in hexadecimal.
    pub plan_digest: String,
    /// Where the release is recorded, so that it can be held against a ledger.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ledger: Option<LedgerFacts>,
}

/// Streams before this one, whose last released values its own go on from.
#[derive(Debug, Serialize)]
pub struct FollowsFacts {
    /// The one just before.
    pub stream: String,
    /// When the first began.
    pub since: String,
    /// How many steps were before.
    pub steps: u64,
    /// How many streams there are with this one.
    pub streams: u32,
    /// How many of them one unit can be in, which the guarantee is of: all, or two where it is of one period.
    pub streams_of_a_unit: u32,
}

/// The steps.
#[derive(Debug, Serialize)]
pub struct HorizonFacts {
    /// Beginning of the first step.
    pub start: String,
    /// End of the last step of the horizon.
    pub end: Option<String>,
    /// Width of a step.
    pub every: String,
    /// Width of what is published, where that is not every step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub publish: Option<String>,
    /// Zone whose calendar the steps follow.
    pub time_zone: String,
    /// How many steps the horizon has, of those that are published.
    pub steps: Option<u64>,
    /// How many of them are released.
    pub released_steps: u64,
}

/// What is released.
#[derive(Debug)]
pub enum Released {
    /// One running sum.
    Sum,
    /// A running sum for each declared group.
    Groups(GroupFacts),
    /// A running sum for each group that is discovered.
    Discovered,
    /// Answers of a sketch.
    Sketch(SketchFacts),
}

/// How groups that nobody declared are selected: all of it known before any event is read.
#[derive(Clone, Debug, Serialize)]
pub struct SelectionFacts {
    /// The columns that name the group.
    pub columns: Vec<String>,
    /// The steps after which groups are selected, where they are released.
    pub after_steps: Vec<u64>,
    /// How many such steps the horizon has.
    pub times: u64,
    /// The distance of two of them.
    pub every: u64,
    /// What selection adds to δ.
    pub delta: f64,
    /// The proven bound of the probability that a unit's own group is shown: at most `delta`.
    pub failure: f64,
    /// The same for a group of one person who does all they may in it in every period; `None` where the unit has none.
    pub failure_over_periods: Option<f64>,
    /// The proven bound of the probability that a group of fewer persons than the floor is shown, whatever they do in every
    /// period: at most `delta`. `None` without a floor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_below_floor: Option<f64>,
    /// Whether only some steps are published, so that no floor holds for several periods.
    #[serde(skip)]
    is_read_in_slots: bool,
    /// Most groups in which one unit has events.
    pub new_groups: u64,
    /// Most events of one unit in a group.
    pub events_per_group: u64,
    /// How many units a group must have, apart from the same probability; 1 where nothing more was asked.
    pub floor: u64,
    /// What a released value must reach, in units of the data.
    pub threshold: f64,
    /// The sum with which a group is shown at any one selection time with probability ½.
    pub shown_half: f64,
    /// The same with probability 0.95.
    pub shown_almost: f64,
}

impl SelectionFacts {
    /// What a stream's plan says; `None` where groups are not discovered.
    pub fn of(stream: &Stream) -> Option<Self> {
        let threshold = stream.plan.threshold()?;
        let (selection, grid) = (threshold.selection(), stream.plan.request().grid());
        let last_slot = stream.slot_of_row(stream.last_row());
        let times = selection.times();
        let number = |multiple: i64| grid.to_f64(multiple.into());
        Some(Self {
            columns: stream.columns.labels.clone(),
            after_steps: times.iter().filter(|slot| *slot <= last_slot).collect(),
            times: times.iter().count() as u64,
            every: times.distance(),
            delta: selection.delta().get(),
            failure: threshold.failure(),
            // Periods do not end with publications, and what one does in several may be in one: then nothing is promised.
            failure_over_periods: threshold
                .failure_over_periods()
                .map(|own| if stream.is_read_in_slots() { 1.0 } else { own }),
            failure_below_floor: threshold.failure_of_few(),
            is_read_in_slots: stream.is_read_in_slots(),
            new_groups: threshold.new_keys(),
            events_per_group: threshold.events_per_key(),
            floor: selection.floor(),
            threshold: number(threshold.value()),
            shown_half: number(threshold.shown_half()),
            shown_almost: number(threshold.shown_almost()),
        })
    }
}

/// The table of a sketch, and what is asked of it.
#[derive(Debug, Serialize)]
pub struct SketchFacts {
    /// Which sketch it is.
    pub kind: String,
    /// Rows of the table; null for a tree.
    pub rows: Option<u32>,
    /// Cells of a row; null for a tree.
    pub width: Option<u64>,
    /// The columns that name the item.
    pub key_columns: Vec<String>,
    /// Where its hash functions come from; null where nothing is hashed.
    pub hashing: Option<&'static str>,
    /// Largest standard error of one cell.
    pub max_cell_std_error: f64,
    /// What is asked, in words.
    pub answers: String,
    /// Standard error that items in the same cells add to an answer at the last step, computed from released cells.
    pub collision_std_error: f64,
    /// Standard error of an answer at the last step, by noise and by collisions.
    pub answer_std_error: f64,
    /// Half the width of the interval of an answer at the last step, of an item that was not chosen by its estimate.
    pub answer_half_width: f64,
    /// Largest standard error of a release of the same items as groups, without collisions; null where there is no list.
    pub release_std_error: Option<f64>,
    /// Whether items were chosen by their estimates.
    pub chosen: bool,
    /// Errors of answers, in the place of those of cells.
    #[serde(skip)]
    pub error: ErrorFacts,
}

/// Who is protected.
#[derive(Debug, Serialize)]
pub struct UnitFacts {
    /// The privacy unit in words.
    pub unit: String,
    /// What becomes of a unit's events in neighbouring data.
    pub neighbours: Neighbours,
    /// Largest number of events of one unit that are kept.
    pub max_events: u64,
    /// Largest number of them in one step.
    pub max_events_per_step: u64,
    /// Largest number of them in one group, where that is bounded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_events_per_group: Option<u64>,
    /// Largest number of groups, where that is bounded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_groups: Option<u64>,
    /// How many steps with events of one unit are apart at least, where that is bounded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_gap: Option<u64>,
    /// The period in which all these bounds hold, where one is declared: they start anew in each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub period: Option<String>,
    /// What bounds over the whole history do to late counts, where they are used up before it ends.
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
#[derive(Debug, Serialize)]
pub struct NoiseFacts {
    /// Its law.
    pub law: String,
    /// Exact parameter in units of the noise grid: the scale of the Laplace law, the variance of the Gaussian.
    pub parameter: String,
    /// The noise grid is the data's grid over this number.
    pub noise_divisor: u64,
    /// Released values are multiples of 2 to the power of minus this, in steps of the data's grid: 0 where they are as
    /// whole as the data.
    pub fraction_bits: u32,
    /// Standard deviation of one noise variable, in units of the data.
    pub std: f64,
    /// Whether the covariance of the releases was counted, and not column norms.
    pub exact_accounting: bool,
    /// Largest column norms of the factorization: how far one unit of change moves the protected sums. Under exact
    /// accounting `s2` is how far it moves the noise, and `s1` does not matter.
    pub s1: Option<f64>,
    /// See `s1`.
    pub s2: f64,
}

/// What the noise gives.
#[derive(Debug, Serialize)]
pub struct GuaranteeFacts {
    /// ε, where the promise is one in ε alone.
    pub pure_epsilon: Option<f64>,
    /// ρ of zero-concentrated differential privacy; apart from a failure of `selection_delta`, where groups are selected.
    pub rho: f64,
    /// What the selection of groups adds to δ: already counted where ε is stated at some δ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selection_delta: Option<f64>,
    /// ε at some δ.
    pub epsilon_at_delta: Vec<EpsilonAtDelta>,
}

/// One point of a curve of (ε, δ).
#[derive(Debug, Serialize)]
pub struct EpsilonAtDelta {
    /// δ.
    pub delta: f64,
    /// ε at this δ.
    pub epsilon: f64,
}

/// What the noise does to the released values; of the group with the greatest scale, where they differ.
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
    /// Where the intervals of all steps hold at once, as a band does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub band: Option<BandFacts>,
}

/// A band: intervals that hold at all steps of a group at once. It follows from the plan.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct BandFacts {
    /// Half its width in standard errors; missing where it differs from step to step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standard_errors: Option<f64>,
    /// How many histories of noise were simulated; none where horizons are too long, and steps count as independent.
    pub simulated: u32,
    /// Standard error of the simulation, of the probability that the band holds; the band allows for it.
    pub simulation_error: f64,
}

impl Report {
    /// What may be said of a stream that is released with this key.
    pub fn new(stream: &Stream, key: &SecretKey, released: Released) -> Self {
        Self::with_key_id(stream, key.id().to_string(), released)
    }

    /// The same, where the key itself is not at hand.
    pub fn with_key_id(stream: &Stream, key_id: String, released: Released) -> Self {
        let (plan, calendar) = (shown_plan(stream), &stream.calendar);
        let request = &stream.plan.request().clone().with_unit(stream.kept);
        let (groups, sketch) = match released {
            Released::Sum | Released::Discovered => (None, None),
            Released::Groups(groups) => (Some(groups), None),
            Released::Sketch(sketch) => (None, Some(sketch)),
        };
        let (lower, upper) = stream.values.bounds();
        let bound = |multiple: i64| match stream.values {
            Values::Count => "1".to_owned(),
            Values::Sum { .. } => request.grid().format(multiple.into()),
        };
        let spread = request.unit().spread().expect("the plan has checked it");
        let guarantee = guarantee(stream);
        let bounds = request.unit().bounds();
        let norms = plan.mechanism().column_norms();
        let exact = plan.mechanism().exact_l2_squared().filter(|_| plan.exact_accounting());
        Self {
            version: 1,
            title: stream.title.clone(),
            stream: stream.name.to_string(),
            quantity: stream.quantity(),
            horizon: HorizonFacts {
                start: calendar.format(calendar.start()),
                end: (!plan.is_unbounded()).then(|| calendar.format(calendar.end())),
                every: calendar.every().to_string(),
                time_zone: calendar.zone().to_string(),
                publish: (!stream.publishes_all()).then(|| stream.rows().every().to_string()),
                steps: (!plan.is_unbounded()).then(|| stream.rows().steps()),
                released_steps: stream.last_row(),
            },
            error: sketch.as_ref().map_or_else(|| ErrorFacts::of_releases(stream), |sketch| sketch.error.clone()),
            groups,
            selection: SelectionFacts::of(stream),
            measures: MeasureFacts::of(stream),
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
                late_counts: fall_behind(request, &natural_period(calendar)).map(|says| says.worded(Wording::Flags)),
                lower: bound(lower),
                upper: bound(upper),
                grid: request.grid().to_string(),
            },
            budget: request.budget(),
            follows: stream.follows.as_ref().map(|follows| FollowsFacts {
                stream: follows.stream.clone(),
                since: follows.since.clone(),
                steps: follows.steps,
                streams: stream.streams(),
                streams_of_a_unit: streams_of_a_unit(stream),
            }),
            mechanism: plan.mechanism().name(),
            noise: NoiseFacts {
                law: plan.noise_kind().to_string(),
                parameter: plan.law().parameter().to_string(),
                noise_divisor: plan.noise_divisor(),
                fraction_bits: plan.fraction_bits(),
                std: plan.node_variance().sqrt(),
                exact_accounting: plan.exact_accounting(),
                s1: Some(norms.l1).filter(|_| !plan.exact_accounting()),
                s2: exact.unwrap_or(norms.l2_squared).sqrt(),
            },
            periods: PeriodFacts::of(stream, guarantee.pure_epsilon, guarantee.rho),
            guarantee,
            views: stream.views.clone(),
            key_id,
            plan_digest: blake3::Hash::from_bytes(stream.plan_digest()).to_hex().to_string(),
            ledger: None,
        }
    }

    /// The same with the place where the release is about to be recorded, or was before.
    #[must_use]
    pub fn recorded_in(self, ledger: LedgerFacts) -> Self {
        Self { ledger: Some(ledger), ..self }
    }
}

impl ErrorFacts {
    /// The errors of releases as they come from the mechanism; of values that go on from earlier streams, with theirs.
    pub fn of_releases(stream: &Stream) -> Self {
        let plan = shown_plan(stream);
        let with = |own: f64| stream.scales.greatest * std_error_behind(own, plan, stream.streams() - 1);
        let (max, mean) = stream.errors_of_rows(plan);
        Self {
            max_std_error: with(max),
            mean_std_error: with(mean),
            confidence: stream.confidence,
            last_step_half_width: last_half_width(stream),
            band: BandFacts::of(stream),
        }
    }
}

impl BandFacts {
    fn of(stream: &Stream) -> Option<Self> {
        let band = match stream.band {
            Band::Pointwise => return None,
            Band::Simultaneous => own_band(stream),
        };
        let standard_errors = band.standard_errors.map(seven_digits);
        Some(Self { standard_errors, simulated: band.paths, simulation_error: seven_digits(band.simulation_error) })
    }
}

/// How many of the streams that follow one another have data of one unit: any number of a person, and two at most of what
/// a person does in a period that no horizon is shorter than.
fn streams_of_a_unit(stream: &Stream) -> u32 {
    let is_shorter = stream.periods.longest().is_some_and(|longest| longest <= stream.calendar.steps());
    if is_shorter { stream.streams().min(2) } else { stream.streams() }
}

/// Of all streams whose noise is in the released values and whose data one unit can be in.
fn guarantee(stream: &Stream) -> GuaranteeFacts {
    let (guarantee, streams) = (stream.guarantee(), streams_of_a_unit(stream));
    let mut all = Odometer::default();
    (0..streams).for_each(|_| all.record(guarantee.expense()));
    let is_one = streams == 1;
    let at = |delta: f64| {
        let at = Delta::new(delta).expect("a constant");
        EpsilonAtDelta { delta, epsilon: if is_one { guarantee.epsilon_at(at) } else { all.epsilon_at(at) } }
    };
    GuaranteeFacts {
        pure_epsilon: if is_one { guarantee.pure_epsilon.map(Epsilon::get) } else { all.pure_epsilon() },
        rho: if is_one { guarantee.rho.get() } else { all.rho().expect("every plan has a ρ") },
        selection_delta: guarantee.selection.map(|_| all.selection()),
        // Below the δ of selection nothing is promised.
        epsilon_at_delta: DELTAS.map(at).into_iter().filter(|row| row.epsilon.is_finite()).collect(),
    }
}

/// The plan of the released values; with measures, that of the first part.
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
