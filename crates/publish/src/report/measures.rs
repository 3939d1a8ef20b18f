//! The report's facts on several measures under one budget.

use super::CorrelationFacts;
use evertally::mechanism::MechanismName;
use evertally_declare::measures::parts::Part;
use evertally_declare::stream::Stream;
use evertally_declare::titles::reading_in_words;
use evertally_declare::words::{at_most, short};
use serde::{Deserialize, Serialize};

/// Several measures, and the parts whose sums they need.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MeasureFacts {
    /// The measures as they were declared, with their weights.
    pub measures: Vec<String>,
    /// The names of the lines for readers, in the order of the lines of each group.
    #[serde(default)]
    pub titles: Vec<String>,
    /// Whether they are workloads of one count or sum.
    pub is_of_workloads: bool,
    /// The parts, each under its own plan.
    pub parts: Vec<PartFacts>,
}

/// One part of the sums.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PartFacts {
    /// The summed part.
    pub part: String,
    /// Its share of the budget; null for squares, which share the budget of the sum.
    pub share: Option<f64>,
    /// The number of running sums per group.
    pub cells: usize,
    /// The mechanism.
    pub mechanism: MechanismName,
    /// The distribution of its noise.
    pub noise: String,
    /// Largest standard error of one of its sums, in units of the data.
    pub max_std_error: f64,
    /// How the noise of groups is correlated, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation: Option<CorrelationFacts>,
    /// Digest of its plan, in hexadecimal.
    pub plan_digest: String,
}

impl MeasureFacts {
    /// The facts of a stream's plans; `None` if only running sums are released.
    pub fn new(stream: &Stream) -> Option<Self> {
        let bundle = stream.measures.as_ref()?;
        let part = |planned: &evertally_declare::measures::PlannedPart| PartFacts {
            part: name_of(&planned.part, stream),
            share: planned.share,
            cells: planned.part.cells(),
            mechanism: planned.plan.mechanism().name(),
            noise: planned.plan.noise_kind().to_string(),
            max_std_error: planned.plan.errors_through(stream.slot_of_row(stream.last_row())).0,
            correlation: planned.plan.correlation().map(CorrelationFacts::from),
            plan_digest: blake3::Hash::from_bytes(planned.plan.digest()).to_hex().to_string(),
        };
        Some(Self {
            measures: bundle.wanted().iter().map(ToString::to_string).collect(),
            titles: stream.lines().into_iter().map(|line| line.title).collect(),
            is_of_workloads: bundle.contains_workloads(),
            parts: bundle.parts().iter().map(part).collect(),
        })
    }

    /// A description of each part, in one line.
    pub fn in_words(&self) -> impl Iterator<Item = String> {
        self.parts.iter().map(|part| {
            let share = match part.share {
                Some(share) => format!("{} % of the budget", short(100.0 * share)),
                None if self.is_of_workloads => "read from the same release".to_owned(),
                None => "no budget in addition to that of the sum".to_owned(),
            };
            let (mechanism, noise, error) = (part.mechanism.brief(), &part.noise, at_most(part.max_std_error));
            let each = if part.cells > 1 { format!(" on each of {} sums", part.cells) } else { String::new() };
            let correlated = part.correlation.map(|facts| format!("; between groups {}", facts.in_words()));
            let of_groups = correlated.unwrap_or_default();
            format!(
                "{}: {share}, {mechanism}, {noise} noise{each}, standard error at most {error}{of_groups}",
                part.part
            )
        })
    }
}

fn name_of(part: &Part, stream: &Stream) -> String {
    match part {
        Part::Reading(workload) => {
            let of = stream.columns.value.as_ref().map_or("events".into(), |column| format!("values of {column}"));
            format!("{of} {}", reading_in_words(*workload, stream.rows().every()))
        }
        Part::Count => "events".into(),
        Part::Sum => "values from the middle of their bounds".into(),
        Part::Squares => "squares of values".into(),
        Part::People => "people".into(),
        Part::Active(window) => format!("people who become active within {window} steps, and inactive"),
        Part::Present(window) => format!("people active within {window} steps, counted again in every step"),
        Part::Bins(_) => "events by bin".into(),
        Part::Ranks(_) => "events by rank".into(),
    }
}
