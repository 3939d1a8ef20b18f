//! Choosing the bounds on persons from data, privately.
//!
//! How many events of a person to keep is a choice between noise, which is known beforehand, and what is left out, which is
//! a fact about the data. Here that fact is estimated, under a budget of its own: from the events of a declared stretch of
//! time (the first period of a stream, or a file of earlier events), whose persons are counted by how many events they have.
//!
//! ```text
//! events ──Look──▶ of each person: how many events there are, and how many of them each bound a step leaves out
//!                        │
//!                        ▼   a histogram of persons for each of these numbers, noise on every count
//!                    Estimate ──▶ what bounds in all and in a step leave out ──Choice──▶ those of least total error
//! ```
//!
//! **What it promises.** A person is counted once in each histogram at most, whatever they do: none of their events is
//! left out, and no bound is needed. With c histograms a person is one event that is added to c sums, and so it is planned, released and recorded in the ledger of the key: as a stream of one step. Whatever follows is computed from the
//! released counts, and from what was declared.
//!
//! **What it estimates.** With n events of a person, of which a bound a step leaves out l, a bound m in all leaves out
//! `max(n - m, l)`, and at most `max(n - m, 0) + l`, which is what is added up over the persons. Whoever is within the
//! bounds adds nothing, and neither does the noise of cells within them. Of longer stretches than was looked at, everybody
//! is taken to go on at their rate; in a cell, persons are taken as spread evenly over its numbers.

mod choice;
mod estimate;
mod look;
mod whole_history;

#[cfg(test)]
mod tests;

pub use choice::{Choice, Choices, Stretch};
pub use estimate::{Estimate, Figure};
pub use look::{Look, Looked};
pub use whole_history::{fall_behind, natural_period};

use evertally::plan::PlanRequest;
use evertally::privacy::{Budget, Neighbours, Unit};
use evertally::stream::Groups;
use evertally_declare::error::{Result, usage};

/// The bounds that are tried: declared, and never made from the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidates {
    /// Events a step, rising; the last, `None`, is no bound.
    per_step: Vec<Option<u64>>,
    /// Greatest numbers of events of the histograms' cells, rising; behind the last is a cell for more.
    edges: Vec<u64>,
}

impl Candidates {
    /// Bounds up to `most` events, and these in a step beside none.
    ///
    /// # Errors
    /// If one is 0 or there are more than 16 bounds a step.
    pub fn new(most: u64, per_step: &[u64]) -> Result<Self> {
        if most == 0 || per_step.contains(&0) {
            return Err(usage("the bounds that are tried must be at least 1: with 0 nothing is kept"));
        }
        if per_step.len() > 16 {
            return Err(usage(
                "more than 16 bounds a step cost more than they tell: each is another count of everybody",
            ));
        }
        let mut per_step = per_step.to_vec();
        per_step.sort_unstable();
        per_step.dedup();
        let per_step = per_step.into_iter().map(Some).chain([None]).collect();
        Ok(Self { per_step, edges: edges(most) })
    }

    /// The bounds on the events in a step, the last of which is none.
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

    /// The cell of a person with so many events.
    fn cell(&self, events: u64) -> usize {
        self.edges.partition_point(|edge| *edge < events)
    }

    /// The groups of the stream of one step: a cell of a histogram each.
    fn groups(&self) -> Result<Groups> {
        let name = |per_step: &Option<u64>, cell: usize| {
            let step = per_step.map_or("any".to_owned(), |bound| bound.to_string());
            let upto = self.edges.get(cell).map_or("more".to_owned(), |edge| edge.to_string());
            format!("{step} a step, up to {upto}") // of events that such a bound leaves out, or of all
        };
        let names = self.per_step.iter().flat_map(|bound| (0..self.cells()).map(move |cell| name(bound, cell)));
        Ok(Groups::new(names)?)
    }

    /// What its plan is asked for: a person counts once in each histogram. Where a part of what a person does may change,
    /// and not all of it come or go, they move from one cell to another.
    pub fn request(&self, budget: Budget, may_move: bool) -> PlanRequest {
        let histograms = self.per_step.len() as u64;
        let neighbours = if may_move { Neighbours::ReplaceOne } else { Neighbours::AddRemove };
        let per_step: Vec<String> = self.per_step.iter().flatten().map(u64::to_string).collect();
        let most = self.edges.last().expect("there is one").to_string();
        PlanRequest::count(1, budget)
            .with_unit(Unit::person(1))
            .with_sums_per_event(histograms)
            .with_neighbours(neighbours)
            .with_meaning("what", "persons by number of events")
            .with_meaning("most-events", most)
            .with_meaning("tried-per-step", per_step.join(","))
    }
}

/// 1, 2, 3, 4, 6, 8, 12, 16, … and the last, which is not below `most`.
fn edges(most: u64) -> Vec<u64> {
    let mut edges = vec![1, 2, 3];
    while *edges.last().expect("there are some") < most {
        edges.push(edges[edges.len() - 2].saturating_mul(2));
    }
    let enough = edges.iter().position(|edge| *edge >= most).expect("the last is");
    edges.truncate(enough + 1);
    edges
}
