//! Chooses contribution bounds from the data, privately.
//!
//! The number of events to keep per person trades noise, which is known beforehand, against dropped events, which are a
//! fact about the data. This module estimates that fact under a separate budget. It uses the events of a declared
//! stretch of time (the first period of a stream, or a file of earlier events) and counts persons by their number of
//! events.
//!
//! ```text
//! events ──PersonEventCounts──▶ per person: the number of events, and how many of them each bound per step drops
//!                        │
//!                        ▼   one histogram of persons per number, noise on every count
//!                    ContributionEstimate ──▶ events dropped by total and per-step bounds
//!                        │
//!                        ▼
//!                    BoundChoice ──▶ bounds of least total error
//! ```
//!
//! **Privacy.** A person is counted at most once in each histogram, whatever they do. So no event is dropped, and no
//! bound is needed. With c histograms, a person is one event that is added to c sums. The look is planned, released and
//! recorded in the key's ledger accordingly, as a stream of one step. Everything else is computed from the released
//! counts and the declaration.
//!
//! **Estimate.** Let a person have n events, of which a bound per step drops l. A total bound m then drops `max(n - m,
//! l)`, which is at most `max(n - m, 0) + l`; that upper bound is added up over the persons. Persons within the bounds
//! add nothing, and neither does the noise of cells within them. For stretches longer than the observed one, everyone
//! is assumed to continue at the same rate. Within a cell, persons are assumed to be spread evenly over its numbers.
//!
//! **Interval.** A few persons with very many events are hidden by the noise, and may have most of the events. So the
//! histograms extend far beyond the candidate bounds, at no cost: a person is in one cell. The interval of a share
//! takes each cell at the smallest or largest number of its persons, with the noise of all cells, and holds if nobody
//! has more events than declared.

mod choice;
mod estimate;
mod look;
mod whole_history;

#[cfg(test)]
mod tests;

pub use choice::{BoundChoice, Choices, Stretch};
pub use estimate::{CONFIDENCE, ContributionEstimate, EstimatedNumber, NumberInterval};
pub use look::{PersonEventCounts, ReleasedLook};
pub use whole_history::{fall_behind, natural_period};

use evertally::plan::PlanRequest;
use evertally::privacy::{Budget, Neighbours, Unit};
use evertally::stream::Groups;
use evertally_declare::error::{Result, usage};

/// The candidate bounds: declared, never derived from the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidates {
    /// Events per step, in increasing order; the last is `None`, for no bound.
    per_step: Vec<Option<u64>>,
    /// The largest number of events of each histogram cell, in increasing order; one more cell follows for larger
    /// numbers.
    edges: Vec<u64>,
    /// The number of cells up to the largest candidate bound. The cells after them show how many events lie beyond it.
    cells_within: usize,
    /// Nobody is assumed to have more events.
    largest: u64,
}

impl Candidates {
    /// Total bounds up to `most` events, and these bounds per step in addition to no bound. Intervals for events and
    /// shares hold if nobody has more than `largest` events.
    ///
    /// # Errors
    /// If a bound is 0, `largest` is below `most`, or there are more than 16 bounds per step.
    pub fn new(most: u64, largest: u64, per_step: &[u64]) -> Result<Self> {
        if most == 0 || per_step.contains(&0) {
            return Err(usage("candidate bounds must be at least 1: a bound of 0 keeps nothing"));
        }
        if largest < most {
            return Err(usage(format!(
                "people have at most {largest} events, so a bound of {most} events keeps all of them: try bounds up to \
                 {largest}"
            )));
        }
        if per_step.len() > 16 {
            return Err(usage(
                "at most 16 bounds per step: each one counts everyone again, which costs more noise than it is worth",
            ));
        }
        let mut per_step = per_step.to_vec();
        per_step.sort_unstable();
        per_step.dedup();
        let per_step = per_step.into_iter().map(Some).chain([None]).collect();
        let edges = edges(largest);
        let cells_within = edges.partition_point(|edge| *edge < most) + 1;
        Ok(Self { per_step, edges, cells_within, largest })
    }

    /// The largest candidate bound.
    fn most(&self) -> u64 {
        self.edges[self.cells_within - 1]
    }

    /// The largest number of events that anyone is assumed to have.
    pub fn largest(&self) -> u64 {
        self.largest
    }

    /// The candidate bounds on the events per step; the last is `None`, for no bound.
    pub fn per_step(&self) -> &[Option<u64>] {
        &self.per_step
    }

    /// The edges of the histograms, in events.
    pub fn edges(&self) -> &[u64] {
        &self.edges
    }

    /// Cells of each histogram.
    fn cells(&self) -> usize {
        self.edges.len() + 1
    }

    /// The cell of a person with this number of events.
    fn cell(&self, events: u64) -> usize {
        self.edges.partition_point(|edge| *edge < events)
    }

    /// The smallest and the largest number of events of the persons in a cell. Persons beyond the last edge are counted
    /// at the smallest number of their cell.
    fn range(&self, cell: usize) -> (u64, u64) {
        let first = if cell == 0 { 1 } else { self.edges[cell - 1].saturating_add(1) };
        (first, self.edges.get(cell).map_or(first, |edge| (*edge).min(self.largest)))
    }

    /// The groups of the stream of one step: one per histogram cell.
    fn groups(&self) -> Result<Groups> {
        let name = |per_step: &Option<u64>, cell: usize| {
            let step = per_step.map_or("any".to_owned(), |bound| bound.to_string());
            let upto = self.edges.get(cell).map_or("more".to_owned(), |edge| edge.to_string());
            format!("{step} a step, up to {upto}") // `step`: the bound whose dropped events are counted, or all events
        };
        let names = self.per_step.iter().flat_map(|bound| (0..self.cells()).map(move |cell| name(bound, cell)));
        Ok(Groups::new(names)?)
    }

    /// The plan request of these candidates: a person counts once in each histogram. With `may_move`, a part of a
    /// person's events may change, so the person moves from one cell to another; otherwise all of them come or go
    /// together.
    pub fn request(&self, budget: Budget, may_move: bool) -> PlanRequest {
        let histograms = self.per_step.len() as u64;
        let neighbours = if may_move { Neighbours::ReplaceOne } else { Neighbours::AddRemove };
        let per_step: Vec<String> = self.per_step.iter().flatten().map(u64::to_string).collect();
        PlanRequest::count(1, budget)
            .with_unit(Unit::person(1))
            .with_sums_per_event(histograms)
            .with_neighbours(neighbours)
            .with_meaning("what", "persons by number of events")
            .with_meaning("most-events", self.most().to_string())
            .with_meaning("largest-events", self.largest.to_string())
            .with_meaning("tried-per-step", per_step.join(","))
    }
}

/// 1, 2, 3, 4, 6, 8, 12, 16, … up to the first that is at least `most`.
fn edges(most: u64) -> Vec<u64> {
    let mut edges = vec![1, 2, 3];
    while *edges.last().expect("there are some") < most {
        edges.push(edges[edges.len() - 2].saturating_mul(2));
    }
    let enough = edges.iter().position(|edge| *edge >= most).expect("the last is");
    edges.truncate(enough + 1);
    edges
}
