//! Heavy keys, found without a list in a tree of counts.

use super::querier::{AnswerError, ItemAnswer, Querier, QueryResults};
use super::questions::{QueryKind, Questions};
use anyhow::Result;
use evertally::sketch::{Choice, DyadicCounts, KeyTree, Shape, SketchPlan};
use evertally_declare::error::refuse_if;
use evertally_publish::session::{KeyCounts, Session};
use std::collections::HashMap;
use std::sync::atomic::AtomicBool;

/// The keys found so far.
pub(super) struct HeavyKeys<'a> {
    questions: &'a Questions,
    confidence: f64,
    cancelled: &'a AtomicBool,
    /// The index of each key among the names.
    places: HashMap<u64, usize>,
    /// The keys, in the order in which they were found.
    names: Vec<Vec<String>>,
    given: Vec<ItemAnswer>,
    off: AnswerError,
    /// At the last step, a key with at least this count is listed with the declared confidence.
    surely: f64,
}

impl<'a> HeavyKeys<'a> {
    pub(super) fn new(questions: &'a Questions, confidence: f64, cancelled: &'a AtomicBool) -> Self {
        Self {
            questions,
            confidence,
            cancelled,
            places: HashMap::new(),
            names: Vec::new(),
            given: Vec::new(),
            off: AnswerError::default(),
            surely: 0.0,
        }
    }

    fn find(&mut self, tree: &mut DyadicCounts) -> Result<()> {
        let QueryKind::Heaviest { top, threshold: Some(threshold) } = self.questions.asked else {
            unreachable!("a tree is asked for keys that reach a threshold");
        };
        let mut found = tree.heavy_hitters(threshold)?;
        let (errors, all) = (tree.errors()?, 1usize << tree.tree().bits());
        let mut least = threshold;
        if let Some(next) = top.and_then(|top| found.get(top)) {
            least = next.estimate.value;
        }
        found.truncate(top.unwrap_or(usize::MAX));
        let chosen = errors.chosen(self.confidence, Choice { least, listed: found.len(), of: all })?;
        let (step, std_error) = (tree.step(), errors.std_error());
        for hit in found {
            let (places, names) = (&mut self.places, &mut self.names);
            let item = *places.entry(hit.key).or_insert_with(|| {
                names.push(vec![hit.key.to_string()]);
                names.len() - 1
            });
            let value = hit.estimate.value;
            let (lower, upper) = chosen.of(value);
            self.given.push(ItemAnswer { item, step, value, std_error, lower, upper });
        }
        self.off = AnswerError { std_error, collisions: 0.0, half_width: errors.half_width(self.confidence)? };
        // Noise may pull any block of the key below the threshold, on every level except the root's.
        let missed = (1.0 - self.confidence) / f64::from(tree.tree().height());
        self.surely = threshold + errors.half_width(1.0 - 2.0 * missed.min(0.49))?;
        Ok(())
    }
}

impl Querier<KeyCounts> for HeavyKeys<'_> {
    fn answer_due(&mut self, session: &mut Session<KeyCounts>) -> Result<()> {
        while let Some(tree) = session.next_step()? {
            refuse_if(self.cancelled)?;
            if self.questions.is_asked_at(tree.step()) {
                self.find(tree)?;
            }
        }
        Ok(())
    }

    fn found(self) -> QueryResults {
        QueryResults { names: self.names, given: self.given, off: self.off, surely: Some(self.surely) }
    }
}

/// The tree of a plan, if it is a plan for a tree of counts.
pub(super) fn tree_of(plan: &SketchPlan) -> Option<KeyTree> {
    match plan.shape() {
        Shape::DyadicCounts(tree) => Some(tree),
        _ => None,
    }
}
