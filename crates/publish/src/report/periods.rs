//! The guarantee for a person who is active in several periods.

use super::GuaranteeFacts;
use evertally::plan::Guarantee;
use evertally::privacy::conversions::epsilon_of_zcdp;
use evertally::privacy::{Delta, Rho};
use evertally_declare::stream::Stream;
use evertally_declare::words::at_most;
use serde::{Deserialize, Serialize};

/// The numbers of active periods in the rows: one day, a week, a month and a year of days.
const ACTIVE_PERIODS: [u64; 4] = [1, 7, 30, 365];
/// The δ of a row.
const DELTA: f64 = 1e-6;

/// The guarantee for people who are active for longer than the one period of the unit.
#[derive(Debug, Serialize, Deserialize)]
pub struct PeriodFacts {
    /// The period in words.
    pub period: String,
    /// Steps of the longest period.
    pub longest_steps: u64,
    /// The guarantee for a person, by the number of periods in which they are active.
    pub active: Vec<ActiveFacts>,
}

/// The guarantee for a person who is active in several periods.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ActiveFacts {
    /// The number of periods.
    pub periods: u64,
    /// The number of periods, in words.
    pub in_words: String,
    /// ε, if the guarantee is pure ε-differential privacy.
    pub pure_epsilon: Option<f64>,
    /// ρ of zero-concentrated differential privacy; if groups are selected, except with probability `selection_delta`.
    pub rho: f64,
    /// The probability that a group with only this person is shown, if groups are selected; `epsilon` includes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selection_delta: Option<f64>,
    /// The δ for which `epsilon` holds.
    pub delta: f64,
    /// ε at this δ; `None` if it is infinite.
    pub epsilon: Option<f64>,
}

impl PeriodFacts {
    /// For a stream whose unit has periods, given the guarantee of one period.
    pub(super) fn new(stream: &Stream, of_one: &GuaranteeFacts) -> Option<Self> {
        if stream.window().is_some() {
            return Self::of_windows(stream, of_one);
        }
        let (period, longest) = (stream.period()?, stream.periods.longest()?);
        let there_are = stream.periods.count(stream.calendar.steps());
        let mut counts: Vec<u64> = ACTIVE_PERIODS.into_iter().filter(|periods| *periods <= there_are).collect();
        if there_are < ACTIVE_PERIODS[3] && !counts.contains(&there_are) {
            counts.push(there_are);
        }
        let active = |periods| {
            let joint = ActiveFacts::over(periods, period.several_in_words(periods), of_one);
            // A stream that continues others also has their budgets to count; several plans together have no such
            // guarantee; and if only some steps are published, periods end inside of the plan's steps.
            let is_one = stream.follows.is_none() && stream.measures.is_none() && !stream.is_read_in_slots();
            let alone = if is_one { stream.plan.over_periods(periods).ok() } else { None };
            match (stream.plan.threshold(), alone) {
                (None, None) => Some(joint),
                (None, Some(guarantee)) => Some(joint.or(&guarantee)),
                // Only the plan itself knows the δ of selection over several periods. Without it, or if it is not a
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

impl PeriodFacts {
    /// For a stream whose unit is any window of steps: a person who is active in `j` windows has `j` units.
    fn of_windows(stream: &Stream, of_one: &GuaranteeFacts) -> Option<Self> {
        let (window, words) = (stream.window()?, stream.window_in_words()?);
        let there_are = stream.calendar.steps().div_ceil(window.steps);
        let mut counts: Vec<u64> = ACTIVE_PERIODS.into_iter().filter(|windows| *windows <= there_are).collect();
        if there_are < ACTIVE_PERIODS[3] && !counts.contains(&there_are) {
            counts.push(there_are);
        }
        let length = words.strip_prefix("any window of ").unwrap_or(&words);
        let active = |windows: u64| {
            let plural = if windows == 1 { "" } else { "s" };
            let joint = ActiveFacts::over(windows, format!("{windows} window{plural} of {length}"), of_one);
            match of_one.selection_delta {
                None => Some(joint),
                // The δ of selection is known for one window only.
                Some(_) if windows > 1 => None,
                selection_delta => {
                    let stated = of_one.epsilon_at_delta.iter().find(|row| row.delta == DELTA);
                    let epsilon = stated.map(|row| row.epsilon);
                    Some(ActiveFacts { pure_epsilon: None, selection_delta, epsilon, ..joint })
                }
            }
        };
        let active = counts.into_iter().filter_map(active).collect();
        Some(Self { period: words, longest_steps: window.steps, active })
    }
}

/// A protected window of steps, compared with the protection of one period.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WindowFacts {
    /// The window in words.
    pub window: String,
    /// Its number of steps.
    pub steps: u64,
    /// The largest number of periods that it touches.
    pub periods: u64,
    /// The standard deviation of the noise over that which would protect one period, under the same mechanism.
    pub noise_factor: f64,
}

impl WindowFacts {
    pub(super) fn new(stream: &Stream) -> Option<Self> {
        let (window, noise_factor) = (stream.window()?, stream.plan.noise_of_window().ok()??);
        Some(Self { window: stream.window_in_words()?, steps: window.steps, periods: window.periods, noise_factor })
    }
}

/// The product, rounded up.
fn product_up(x: f64, y: f64) -> f64 {
    let product = x * y;
    if x.mul_add(y, -product) > 0.0 { product.next_up() } else { product }
}

impl ActiveFacts {
    /// A person who is active in `j` periods has `j` units. The changes of all of them are one change of at most `j`
    /// times the norm: ε is `j` times as large (group privacy), ρ `j²` times (Bun and Steinke 2016, proposition 1.9).
    /// That holds for every mechanism; the plan's own accounting of several periods is mostly far smaller
    /// ([`evertally::plan::Plan::over_periods`]). One unit has the stated ε, which may be less than that of ρ.
    fn over(periods: u64, in_words: String, of_one: &GuaranteeFacts) -> Self {
        let times = periods as f64;
        let pure_epsilon = of_one.pure_epsilon.map(|epsilon| product_up(epsilon, times));
        let rho = product_up(of_one.rho, times * times);
        let delta = Delta::new(DELTA).expect("a constant");
        let by_rho = Rho::new_even_if_weak(rho).map_or(f64::INFINITY, |rho| epsilon_of_zcdp(rho, delta));
        let stated = of_one.epsilon_at_delta.iter().find(|row| periods == 1 && row.delta == DELTA);
        let known = [pure_epsilon, stated.map(|row| row.epsilon)];
        let epsilon = Some(known.into_iter().flatten().fold(by_rho, f64::min)).filter(|epsilon| epsilon.is_finite());
        Self { periods, in_words, pure_epsilon, rho, selection_delta: None, delta: DELTA, epsilon }
    }

    /// The same, or the plan mechanism's own guarantee for several periods if that is stronger.
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

    /// The row of a Markdown table.
    pub(super) fn row(&self) -> String {
        let pure = self.pure_epsilon.map_or("–".to_owned(), at_most);
        let epsilon = self.epsilon.map_or("–".to_owned(), at_most);
        let apart = self.selection_delta.map_or(String::new(), |delta| format!(", apart from {}", at_most(delta)));
        format!("| {} | {pure} | {}{apart} | {epsilon} |", self.in_words, at_most(self.rho))
    }
}
