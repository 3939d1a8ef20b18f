//! The plans of all parts of some measures, and the split of the budget between them.
//!
//! Every part is first planned for the whole budget. The variance of each measure is then a sum of variances of parts,
//! each divided by the part's share. The split minimises the weighted sum of these variances over measures, each in
//! units of its least possible variance with the whole budget: a small convex problem with a closed form ([`Split`]).
//! Then each part is planned for its share, by the same mechanism.
//!
//! If a measure is not a linear function of parts (a mean, a variance), its variance depends on the data. It is
//! computed for values that are spread evenly between their bounds; only the split depends on that.

use super::measure::{Measure, Wanted};
use super::parts::{Centre, Part};
use super::planned::{PlannedPart, RecordedPart};
use super::ranks::RankTree;
use super::readings;
use evertally::hex;
use evertally::mechanism::{MechanismName, Workload};
use evertally::number::{parse_scaled, power};
use evertally::plan::{Guarantee, NoiseKind, Plan, PlanRequest};
use evertally::privacy::composition::Split;
use evertally::privacy::{Neighbours, PersonBounds, Unit, Values};
use evertally::{Error, Result};
use serde::Serialize;

/// A smaller variance counts as no noise at all.
const MIN_VARIANCE: f64 = 1e-200;

/// Name of the column with the measure of a row.
pub const MEASURE: &str = "measure";
/// Name of the column with the workload of a row.
pub const WORKLOAD: &str = "workload";

/// Measures and the plans of all their parts.
#[derive(Clone, Debug)]
pub struct Bundle {
    wanted: Vec<Wanted>,
    parts: Vec<PlannedPart>,
    centre: Option<Centre>,
    /// The declared grid of values, in units of the data.
    grid: f64,
    guarantee: Guarantee,
    digest: [u8; 32],
}

impl Bundle {
    /// The plans of all parts of some measures, under the budget of a plan `head` of the same stream for the whole
    /// budget. `asked` is the request for that plan, and `began` the parts with which the stream began, if it has
    /// begun.
    ///
    /// # Errors
    /// If a part cannot be planned, or the bounds of the values are equal.
    pub fn plan(wanted: &[Wanted], head: &Plan, asked: &PlanRequest, began: &[RecordedPart]) -> Result<Self> {
        let centre = centre(wanted, head.request())?;
        let planner = Planner::new(head, asked, centre)?;
        let parts = planner.parts(wanted)?;
        let parts = match planner.as_recorded(&parts, began)? {
            Some(parts) => parts,
            None => planner.planned(wanted, parts)?,
        };
        let budget = head.request().budget();
        let own: Vec<_> = parts.iter().filter(|planned| planned.share.is_some()).collect();
        let promises: Vec<_> = own.iter().map(|own| (own.plan.request().budget(), own.plan.guarantee())).collect();
        let guarantee = Guarantee::composed(budget, &promises)?;
        let digest = digest(head, &parts);
        let grid = head.request().grid().to_f64(1);
        Ok(Self { wanted: wanted.to_vec(), parts, centre, grid, guarantee, digest })
    }

    /// The plans of several workloads of one stream, for a request of all of them, and the plan of the stream, which
    /// has the whole budget. The workloads are read from one release, or each from its own release under a share of the
    /// budget, whichever is better. A stream that has begun keeps the plans with which it began.
    ///
    /// # Errors
    /// If they cannot be planned.
    pub fn from_workloads(wanted: &[Wanted], request: &PlanRequest, began: &[RecordedPart]) -> Result<(Self, Plan)> {
        let parts = readings::planned(request, began)?;
        let head = readings::head(request, &parts)?;
        let own: Vec<_> = parts.iter().filter(|planned| planned.share.is_some()).collect();
        let promises: Vec<_> = own.iter().map(|own| (own.plan.request().budget(), own.plan.guarantee())).collect();
        let guarantee = match promises.as_slice() {
            [(_, one)] => *one,
            several => Guarantee::composed(request.budget(), several)?,
        };
        let digest = digest(&head, &parts);
        let grid = request.grid().to_f64(1);
        Ok((Self { wanted: wanted.to_vec(), parts, centre: None, grid, guarantee, digest }, head))
    }

    /// Whether the rows of a group are workloads of one count or sum instead of measures.
    pub fn contains_workloads(&self) -> bool {
        self.parts.iter().all(|planned| matches!(planned.part, Part::Reading(_)))
    }

    /// The name of the column that distinguishes the rows of a group.
    pub fn column(&self) -> &'static str {
        if self.contains_workloads() { WORKLOAD } else { MEASURE }
    }

    /// The measures, in the requested order.
    pub fn wanted(&self) -> &[Wanted] {
        &self.wanted
    }

    /// The parts from which they are computed.
    pub fn parts(&self) -> &[PlannedPart] {
        &self.parts
    }

    /// The centre of the values; `None` if only events and people are counted.
    pub fn centre(&self) -> Option<&Centre> {
        self.centre.as_ref()
    }

    /// The place of a part, if there is one.
    pub fn find(&self, is: impl Fn(&Part) -> bool) -> Option<usize> {
        self.parts.iter().position(|planned| is(&planned.part))
    }

    /// The names of the rows of a group: one for each measure, and one for each bin of a histogram.
    pub fn labels(&self) -> Vec<String> {
        let of = |wanted: &Wanted| match &wanted.measure {
            Measure::Histogram(cuts) => {
                let first = format!("below {}", cuts[0]);
                let between = cuts.windows(2).map(|pair| format!("{} to {}", pair[0], pair[1]));
                let last = format!("from {}", cuts[cuts.len() - 1]);
                std::iter::once(first).chain(between).chain([last]).collect()
            }
            measure => vec![measure.to_string()],
        };
        self.wanted.iter().flat_map(of).collect()
    }

    /// The declared grid of values, in units of the data.
    pub fn grid(&self) -> f64 {
        self.grid
    }

    /// The guarantee of all parts together.
    pub fn guarantee(&self) -> Guarantee {
        self.guarantee
    }

    /// Digest of all plans.
    pub fn digest(&self) -> [u8; 32] {
        self.digest
    }

    /// The text of all parts, which follows the plan of the whole stream in files.
    pub fn text(&self) -> String {
        #[derive(Serialize)]
        struct Parts {
            part: Vec<RecordedPart>,
        }
        let of = |planned: &PlannedPart| {
            let request = planned.plan.request();
            RecordedPart {
                name: planned.part.name(),
                digest: hex(&planned.plan.digest()),
                mechanism: request.mechanism().expect("a plan names its mechanism"),
                noise: *planned.plan.law(),
                share: planned.share,
                budget: request.budget(),
            }
        };
        toml::to_string(&Parts { part: self.parts.iter().map(of).collect() }).expect("plain data")
    }
}

fn digest(head: &Plan, parts: &[PlannedPart]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_derive_key("evertally 1 measures");
    hasher.update(&head.digest());
    for PlannedPart { part, plan, .. } in parts {
        let name = part.name();
        hasher.update(&(name.len() as u64).to_le_bytes()).update(name.as_bytes()).update(&plan.digest());
    }
    *hasher.finalize().as_bytes()
}

fn centre(wanted: &[Wanted], request: &PlanRequest) -> Result<Option<Centre>> {
    let is_summed = |wanted: &Wanted| {
        matches!(wanted.measure, Measure::Sum | Measure::Mean | Measure::Variance | Measure::Deviation)
    };
    if !wanted.iter().any(is_summed) {
        return Ok(None);
    }
    let squares = wanted.iter().any(|wanted| matches!(wanted.measure, Measure::Variance | Measure::Deviation));
    let (lower, upper) = request.values().bounds();
    let centre = Centre::new(lower, upper, request.grid(), squares);
    centre.map(Some).ok_or_else(|| {
        let grid = request.grid();
        let (lower, upper) = (grid.format(lower.into()), grid.format(upper.into()));
        Error::invalid(format!("between {lower} and {upper} there is nothing to average on a grid of {grid}"))
    })
}

/// The common inputs of the plans of all parts.
struct Planner<'a> {
    /// The stream as declared, without the choices of its plan.
    base: PlanRequest,
    asked: &'a PlanRequest,
    split: Split,
    /// Mechanism and noise of counts of events under the declared unit.
    chosen: (MechanismName, NoiseKind),
    centre: Option<Centre>,
}

impl<'a> Planner<'a> {
    fn new(head: &Plan, asked: &'a PlanRequest, centre: Option<Centre>) -> Result<Self> {
        let request = head.request();
        let split = Split::new(request.budget());
        let base = request
            .clone()
            .with_optional_mechanism(asked.mechanism())
            .with_optional_noise(asked.noise())
            .with_search(asked.search().clone())
            .with_groups_of(asked);
        let chosen_by = |plan: &Plan| (plan.mechanism().name(), plan.noise_kind());
        // If only the size of a value differs, only the size of the noise does.
        let is_alike = split.whole() == request.budget() && request.neighbours() == Neighbours::AddRemove;
        let chosen = if is_alike {
            chosen_by(head)
        } else {
            let count = base.clone().with_values(Values::Count).with_grid(evertally::Grid::ONE);
            chosen_by(&count.with_budget(split.whole()).plan()?)
        };
        Ok(Self { base, asked, split, chosen, centre })
    }

    /// The parts that some measures need.
    fn parts(&self, wanted: &[Wanted]) -> Result<Vec<Part>> {
        let request = self.asked;
        let (lower, upper) = request.values().bounds();
        let mut parts = Vec::new();
        let mut add = |part: Part| {
            if !parts.contains(&part) {
                parts.push(part);
            }
        };
        let is_centred = self.centre.as_ref().is_some_and(|centre| centre.middle_value() == 0.0);
        for Wanted { measure, .. } in wanted {
            match measure {
                Measure::Count => add(Part::Count),
                Measure::Sum if is_centred => add(Part::Sum),
                Measure::Sum | Measure::Mean => [Part::Count, Part::Sum].into_iter().for_each(&mut add),
                Measure::Variance | Measure::Deviation => {
                    [Part::Count, Part::Sum, Part::Squares].into_iter().for_each(&mut add);
                }
                Measure::Distinct => add(Part::People),
                Measure::Active(window) => add(Part::Active(*window)),
                Measure::Within(_) => unreachable!("a declaration has widths in steps once it is resolved"),
                Measure::Histogram(cuts) => {
                    let multiple = |text: &String| parse_scaled(text, request.grid()).ok();
                    let cuts: Option<Vec<i64>> = cuts.iter().map(multiple).collect();
                    let rises = |cuts: &Vec<i64>| {
                        cuts.windows(2).all(|pair| pair[0] < pair[1])
                            && cuts.first().is_some_and(|first| lower < *first)
                            && cuts.last().is_some_and(|last| *last <= upper)
                    };
                    add(Part::Bins(cuts.filter(rises).ok_or_else(|| {
                        Error::invalid(format!("{measure}: bins are cut at rising values within the bounds"))
                    })?));
                }
                Measure::Quantile(_) => add(Part::Ranks(RankTree::new(lower, upper, self.chosen.1))),
                Measure::Workload(..) => return Err(Error::invalid("a workload is not a measure")),
            }
        }
        // Squares go with the sum, whose plan they share.
        parts.sort_by_key(|part| matches!(part, Part::Squares));
        Ok(parts)
    }

    /// The request for a part under the whole budget. It has the mechanism of counts of events if it has their unit.
    fn request(&self, part: &Part) -> Result<PlanRequest> {
        let counts = self.base.clone().with_values(Values::Count).with_grid(evertally::Grid::ONE);
        let named = |request: PlanRequest| request.with_mechanism(self.chosen.0).with_noise(self.chosen.1);
        let request = match part {
            Part::Count => named(counts),
            // Each bin of each group is a sum, and an event is in one bin.
            Part::Bins(_) => named(counts).with_independent_groups(),
            Part::Ranks(tree) => named(counts).with_sums_per_event(tree.levels().into()),
            Part::Sum | Part::Squares => {
                let centre = self.centre.expect("sums have bounds");
                let values = Values::Sum { lower: -centre.half(), upper: centre.half() };
                named(self.base.clone().with_values(values).with_grid(centre.grid()))
            }
            Part::People => counts.with_unit(once_a_group(self.base.unit(), self.is_grouped())),
            Part::Present(window) => {
                let unit = super::activity::presence(self.base.unit(), *window, self.base.horizon(), self.is_grouped());
                counts.with_unit(unit?).with_workload(Workload::Increments)
            }
            Part::Active(window) => {
                let unit = super::activity::unit(
                    self.base.unit(),
                    self.base.neighbours(),
                    *window,
                    self.base.horizon(),
                    self.is_grouped(),
                );
                counts.with_unit(unit?).with_neighbours(Neighbours::ReplaceOne)
            }
            Part::Reading(workload) => self.base.clone().with_workload(*workload),
        };
        Ok(request.with_budget(self.split.whole()).with_meaning("part", part.name()))
    }

    fn is_grouped(&self) -> bool {
        self.base.meaning().contains_key("group-by")
    }

    /// The parts under the plans with which a stream began, if it began with exactly these.
    fn as_recorded(&self, parts: &[Part], began: &[RecordedPart]) -> Result<Option<Vec<PlannedPart>>> {
        let count = parts.len();
        let as_recorded = |(part, begun): (&Part, &RecordedPart)| match part {
            // The stream keeps the way in which it began to count people.
            Part::Active(window) if Part::Present(*window).name() == begun.name => Part::Present(*window),
            part => part.clone(),
        };
        let parts: Vec<Part> = parts.iter().zip(began).map(as_recorded).collect();
        if began.len() != count || !parts.iter().zip(began).all(|(part, begun)| part.name() == begun.name) {
            return Ok(None);
        }
        let planned = |(part, begun): (&Part, &RecordedPart)| {
            let request = self.request(part)?.with_budget(begun.budget).with_mechanism(begun.mechanism);
            let plan = request.with_noise(begun.noise.into()).plan()?;
            Ok(PlannedPart { part: part.clone(), plan, share: begun.share })
        };
        parts.iter().zip(began).map(planned).collect::<Result<_>>().map(Some)
    }

    /// The better of two ways to count active people: by toggles, or afresh in every step.
    fn chosen(&self, part: Part) -> Result<Part> {
        let Part::Active(window) = part else { return Ok(part) };
        let present = Part::Present(window);
        let error = |part: &Part| Ok::<_, Error>(largest(&self.request(part)?.plan()?));
        // Some mechanisms only support running sums.
        match (error(&part), error(&present)) {
            (Ok(toggles), Ok(fresh)) if fresh < toggles => Ok(present),
            (Err(_), Ok(_)) => Ok(present),
            _ => Ok(part),
        }
    }

    /// All parts, each under its share.
    fn planned(&self, wanted: &[Wanted], parts: Vec<Part>) -> Result<Vec<PlannedPart>> {
        let parts = parts.into_iter().map(|part| self.chosen(part)).collect::<Result<Vec<_>>>()?;
        let own: Vec<&Part> = parts.iter().filter(|part| **part != Part::Squares).collect();
        let whole: Vec<Plan> = own.iter().map(|part| self.request(part)?.plan()).collect::<Result<_>>()?;
        // With a budget so large that nothing is protected, whole numbers have no noise, and any shares will do.
        let variances: Vec<f64> = whole.iter().map(|plan| power(largest(plan), 2).max(MIN_VARIANCE)).collect();
        let mut weighted = vec![0.0; own.len()];
        for Wanted { measure, weight } in wanted {
            let of_measure: Vec<f64> =
                own.iter().zip(&variances).map(|(part, variance)| variance * self.weight(measure, part)).collect();
            let least = self.split.least(&of_measure);
            weighted.iter_mut().zip(of_measure).for_each(|(sum, of)| *sum += weight * of / least);
        }
        let shares = self.split.shares(&weighted)?;
        let budgets = self.split.budgets(&shares)?;
        let under = |part: &Part| {
            // Squares use the plan of the sum.
            let place = own.iter().position(|own| *own == part || (*part == Part::Squares && **own == Part::Sum));
            let place = place.expect("it is there");
            let (mechanism, noise) = (whole[place].mechanism().name(), whole[place].noise_kind());
            let request = self.request(part)?.with_budget(budgets[place]);
            let plan = request.with_mechanism(mechanism).with_noise(noise).plan()?;
            let share = (*part != Part::Squares).then_some(shares[place]);
            Ok(PlannedPart { part: part.clone(), plan, share })
        };
        let planned: Vec<PlannedPart> = parts.iter().map(under).collect::<Result<_>>()?;
        check_squares(&planned);
        Ok(planned)
    }

    /// The factor of a part's variance in that of a measure, up to a factor that is the same for the whole measure; for
    /// values spread evenly between the bounds if it depends on them.
    fn weight(&self, measure: &Measure, part: &Part) -> f64 {
        let half = self.centre.map_or(1.0, |centre| centre.half_value());
        let middle = self.centre.map_or(0.0, |centre| centre.middle_value());
        // In units of half the distance between the bounds, values have the mean square 1/3, and means 1/12.
        match (measure, part) {
            (Measure::Count, Part::Count)
            | (Measure::Sum | Measure::Mean, Part::Sum)
            | (Measure::Distinct, Part::People)
            | (Measure::Histogram(_), Part::Bins(_))
            | (Measure::Quantile(_), Part::Ranks(_)) => 1.0,
            (Measure::Sum, Part::Count) => power(middle, 2),
            (Measure::Mean, Part::Count) => power(half, 2) / 3.0,
            // Squares, κ² ≥ 1/4 times, and twice the mean times the sum.
            (Measure::Variance | Measure::Deviation, Part::Sum) => match self.chosen.1 {
                NoiseKind::Gaussian => 1.0 + 4.0 / 12.0,
                NoiseKind::Laplace => 4.0 + 4.0 / 12.0,
            },
            (Measure::Variance | Measure::Deviation, Part::Count) => power(half, 2) * power(2.0 / 3.0, 2),
            (Measure::Active(window), Part::Active(own) | Part::Present(own)) if window == own => 1.0,
            _ => 0.0,
        }
    }
}

/// The largest standard error of a plan; if there is none, that of a late step.
fn largest(plan: &Plan) -> f64 {
    let largest = plan.max_std_error();
    if largest.is_finite() { largest } else { plan.compared_std_error() }
}

/// Squares must have exactly the noise law of the sum: their proof depends on it.
fn check_squares(planned: &[PlannedPart]) {
    let law = |is: Part| planned.iter().find(|planned| planned.part == is).map(|planned| &planned.plan);
    if let (Some(sum), Some(squares)) = (law(Part::Sum), law(Part::Squares)) {
        let same = sum.law() == squares.law()
            && sum.noise_divisor() == squares.noise_divisor()
            && sum.mechanism().name() == squares.mechanism().name();
        assert!(same, "the squares have the plan of the sum");
    }
}

/// A person counts once in a group: with the first kept event there.
fn once_a_group(unit: Unit, is_grouped: bool) -> Unit {
    match unit {
        Unit::Event => Unit::Event,
        _ if !is_grouped => Unit::person(1),
        unit => match unit.bounds() {
            Some(bounds) => Unit::Person(PersonBounds { max_events_per_group: Some(1), ..bounds }),
            None => unit,
        },
    }
}
