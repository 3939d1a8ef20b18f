//! What is promised to a person who is active in several periods.

use evertally::plan::Guarantee;
use evertally::privacy::conversions::epsilon_of_zcdp;
use evertally::privacy::{Delta, Rho};
use evertally_declare::stream::Stream;
use evertally_declare::words::at_most;
use serde::Serialize;

/// In how many periods the person of a row is active: so many days, a week, a month and a year of days.
const ACTIVE: [u64; 4] = [1, 7, 30, 365];
/// δ of a row.
const DELTA: f64 = 1e-6;

/// What the unit of one period means for whoever is there for longer.
#[derive(Debug, Serialize)]
pub struct PeriodFacts {
    /// The period in words.
    pub period: String,
    /// Steps of the longest.
    pub longest_steps: u64,
    /// What is promised to a person by the number of periods in which they are active.
    pub active: Vec<ActiveFacts>,
}

/// What is promised to a person who is active in several periods.
#[derive(Clone, Debug, Serialize)]
pub struct ActiveFacts {
    /// In how many.
    pub periods: u64,
    /// The same in words.
    pub in_words: String,
    /// ε, where the promise is one in ε alone.
    pub pure_epsilon: Option<f64>,
    /// ρ of zero-concentrated differential privacy; apart from a failure of `selection_delta`, where groups are selected.
    pub rho: f64,
    /// The probability with which a group is shown that this person alone has, where groups are selected: already counted
    /// in `epsilon`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selection_delta: Option<f64>,
    /// δ for which `epsilon` holds.
    pub delta: f64,
    /// ε at this δ; `None` where it is beyond all numbers.
    pub epsilon: Option<f64>,
}

impl PeriodFacts {
    /// Of a stream whose unit has periods, where one of them is promised this ε and ρ.
    pub(super) fn of(stream: &Stream, pure_epsilon: Option<f64>, rho: f64) -> Option<Self> {
        let (period, longest) = (stream.period()?, stream.periods.longest()?);
        let there_are = stream.periods.count(stream.calendar.steps());
        let mut counts: Vec<u64> = ACTIVE.into_iter().filter(|periods| *periods <= there_are).collect();
        if there_are < ACTIVE[3] && !counts.contains(&there_are) {
            counts.push(there_are);
        }
        let active = |periods| {
            let joint = ActiveFacts::over(periods, period.several_in_words(periods), pure_epsilon, rho);
            // A stream that follows others has their promises to keep too.
            // Neither is what several plans make of it together; and where only some steps are published, periods end
            // inside of what the plan counts.
            let is_one = stream.follows.is_none() && stream.measures.is_none() && !stream.is_read_in_slots();
            let alone = if is_one { stream.plan.over_periods(periods).ok() } else { None };
            match (stream.plan.threshold(), alone) {
                (None, None) => Some(joint),
                (None, Some(guarantee)) => Some(joint.or(&guarantee)),
                // What several periods make of the δ of selection is known of the plan alone; where it is not, or is no
                // probability below 1, nothing is promised.
                (Some(_), None) => None,
                (Some(_), Some(guarantee)) => {
                    Some(ActiveFacts { pure_epsilon: None, epsilon: None, ..joint }.or(&guarantee))
                }
            }
        };
        Some(Self {
            period: period.in_words(),
            longest_steps: longest,
            active: counts.into_iter().filter_map(active).collect(),
        })
    }
}

/// A product, rounded up.
fn product_up(x: f64, y: f64) -> f64 {
    let product = x * y;
    if x.mul_add(y, -product) > 0.0 { product.next_up() } else { product }
}

impl ActiveFacts {
    /// Whoever is active in `j` periods has `j` units. The changes of all of them are one change of at most `j` times
    /// the norm: ε is `j` times as large (group privacy), ρ `j²` times (Bun and Steinke 2016, proposition 1.9). That
    /// holds for every mechanism; what the plan's own makes of several periods is mostly far less
    /// ([`evertally::plan::Plan::over_periods`]).
    fn over(periods: u64, in_words: String, pure_epsilon: Option<f64>, rho: f64) -> Self {
        let times = periods as f64;
        let (pure_epsilon, rho) =
            (pure_epsilon.map(|epsilon| product_up(epsilon, times)), product_up(rho, times * times));
        let delta = Delta::new(DELTA).expect("a constant");
        let by_rho = Rho::new_even_if_weak(rho).map_or(f64::INFINITY, |rho| epsilon_of_zcdp(rho, delta));
        let epsilon = Some(pure_epsilon.map_or(by_rho, |pure| pure.min(by_rho))).filter(|epsilon| epsilon.is_finite());
        Self { periods, in_words, pure_epsilon, rho, selection_delta: None, delta: DELTA, epsilon }
    }

    /// The same by what the plan's mechanism is known to hide of several periods, where that is more.
    fn or(self, guarantee: &Guarantee) -> Self {
        let delta = Delta::new(DELTA).expect("a constant");
        let epsilon = guarantee.epsilon_at(delta);
        Self {
            pure_epsilon: self.pure_epsilon,
            rho: self.rho.min(guarantee.rho.get()),
            selection_delta: guarantee.selection.map(Delta::get),
            epsilon: Some(self.epsilon.map_or(epsilon, |own| own.min(epsilon))).filter(|epsilon| epsilon.is_finite()),
            ..self
        }
    }

    /// Its row of a Markdown table.
    pub(super) fn row(&self) -> String {
        let pure = self.pure_epsilon.map_or("–".to_owned(), at_most);
        let epsilon = self.epsilon.map_or("–".to_owned(), at_most);
        let apart = self.selection_delta.map_or(String::new(), |delta| format!(", apart from {}", at_most(delta)));
        format!("| {} | {pure} | {}{apart} | {epsilon} |", self.in_words, at_most(self.rho))
    }
}
