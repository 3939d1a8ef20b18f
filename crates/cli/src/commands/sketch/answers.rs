//! The answers of a run, computed as the queried steps close.

use super::querier::{AnswerError, ItemAnswer, Querier, QueryResults};
use super::questions::{QueryKind, Questions};
use anyhow::Result;
use evertally::sketch::{Answers as Given, Choice, CountSketch, ErrorLaw, Roster};
use evertally_declare::error::refuse_if;
use evertally_publish::session::{ItemCounts, Session};
use std::sync::atomic::AtomicBool;

/// The answers so far.
pub(super) struct CollectedAnswers<'a> {
    questions: &'a Questions,
    confidence: f64,
    cancelled: &'a AtomicBool,
    /// All items, if all are queried at the same steps.
    all: Option<Roster>,
    given: Vec<ItemAnswer>,
    /// The error of an answer at the last queried step.
    off: AnswerError,
}

impl<'a> CollectedAnswers<'a> {
    pub(super) fn new(questions: &'a Questions, confidence: f64, cancelled: &'a AtomicBool) -> Self {
        Self { questions, confidence, cancelled, all: None, given: Vec::new(), off: AnswerError::default() }
    }

    /// Answers the queries of the step that was just closed.
    fn answer(&mut self, sketch: &mut CountSketch) -> Result<()> {
        let asked = self.questions.items_at(sketch.step());
        if asked.is_empty() {
            return Ok(());
        }
        let roster = match self.all.take() {
            Some(roster) => roster,
            None => sketch.roster(asked.iter().map(|place| &*self.questions.items[*place]))?,
        };
        let given = sketch.answer(&roster)?;
        if !self.questions.has_own_times() {
            self.all = Some(roster);
        }
        let (std_error, half_width) = (given.errors.std_error(), given.errors.half_width(self.confidence)?);
        let collisions = (std_error * std_error - given.noise_std_error * given.noise_std_error).max(0.0).sqrt();
        self.off = AnswerError { std_error, collisions, half_width };
        let step = given.step;
        match &self.questions.asked {
            QueryKind::Each => self.given.extend(asked.iter().zip(&given.values).map(|(&item, &value)| {
                let (lower, upper) = (value - half_width, value + half_width);
                ItemAnswer { item, step, value, std_error, lower, upper }
            })),
            QueryKind::Heaviest { top, threshold } => {
                let heaviest = heaviest(&given, *top, *threshold);
                let ends = intervals(&given.errors, self.confidence, heaviest.choice)?;
                self.given.extend(heaviest.places.into_iter().map(|place| {
                    let value = given.values[place];
                    let (lower, upper) = ends(value);
                    ItemAnswer { item: asked[place], step, value, std_error, lower, upper }
                }));
            }
        }
        Ok(())
    }
}

impl Querier<ItemCounts> for CollectedAnswers<'_> {
    fn answer_due(&mut self, session: &mut Session<ItemCounts>) -> Result<()> {
        while let Some(sketch) = session.next_step()? {
            refuse_if(self.cancelled)?;
            self.answer(sketch)?;
        }
        Ok(())
    }

    fn found(self) -> QueryResults {
        QueryResults { names: self.questions.tuples.clone(), given: self.given, off: self.off, surely: None }
    }
}

/// The items with the greatest estimates.
struct Heaviest {
    /// Greatest first; ties in the order of the file.
    places: Vec<usize>,
    /// How they were selected, if others could have been.
    choice: Option<Choice>,
}

fn heaviest(given: &Given, top: Option<usize>, threshold: Option<f64>) -> Heaviest {
    let of = given.values.len();
    let mut places: Vec<usize> = (0..of).collect();
    places.retain(|place| threshold.is_none_or(|least| given.values[*place] >= least));
    let falling = |a: &usize, b: &usize| given.values[*b].total_cmp(&given.values[*a]).then(a.cmp(b));
    let mut least = threshold;
    if let Some(top) = top.filter(|top| *top < places.len()) {
        let (_, next, _) = places.select_nth_unstable_by(top, falling);
        least = Some(given.values[*next]);
        places.truncate(top);
    }
    places.sort_unstable_by(falling);
    let choice = least.map(|least| Choice { least, listed: places.len(), of });
    Heaviest { places, choice }
}

/// The ends of the interval of an estimate, which depend on how it was selected.
fn intervals(
    errors: &ErrorLaw,
    confidence: f64,
    choice: Option<Choice>,
) -> Result<Box<dyn Fn(f64) -> (f64, f64) + '_>> {
    Ok(match choice {
        Some(choice) => {
            let chosen = errors.chosen(confidence, choice)?;
            Box::new(move |value| chosen.of(value))
        }
        None => {
            let half_width = errors.half_width(confidence)?;
            Box::new(move |value| (value - half_width, value + half_width))
        }
    })
}
