//! Changes to a stream that has begun, without a new plan.
//!
//! A plan records the policies for events that do not fit, and the groups, as they were when the stream began. The
//! stream continues under that plan, and so with the same noise, when the policies change or when groups join: neither
//! lets a person change the sums by more than before. Any other change of the plan makes a different stream.

use crate::error::{Result, usage};
use crate::measures::RecordedPart;
use crate::records::Records;
use crate::settings::{Labels, Settings};
use evertally::mechanism::MechanismName;
use evertally::noise::DiscreteLaw;
use evertally::plan::Correlation;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The meanings of a plan that may change.
const POLICY_NAMES: [&str; 3] = ["outside", "missing", "unknown-group"];

/// The numbers of groups of a stream that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Present {
    /// The number that it began with.
    pub first: usize,
    /// The number released so far; the groups after these join now.
    pub present: usize,
}

impl Settings {
    /// The settings of a stream that the ledger may know. If it does, they use the plan with which the stream began,
    /// and its groups in the order in which they are released.
    ///
    /// # Errors
    /// If groups that are released already are missing or out of order.
    pub fn begun(mut self, records: &dyn Records) -> Result<(Self, Option<Present>)> {
        #[derive(Deserialize)]
        struct Plan {
            mechanism: MechanismName,
            noise: DiscreteLaw,
            #[serde(default)]
            meaning: BTreeMap<String, String>,
            #[serde(default)]
            part: Vec<RecordedPart>,
            #[serde(default)]
            correlation: Option<Correlation>,
        }
        let Some(text) = records.plan_text(&self.name) else { return Ok((self, None)) };
        let Plan { mechanism, noise, meaning: began, part, correlation } = toml::from_str(text)
            .map_err(|e| usage(format!("cannot read the ledger's plan of stream `{}`: {e}", self.name)))?;
        self.measures.began = part;
        // Another version or machine may rank mechanisms differently: a stream keeps its first mechanism and noise.
        if self.request.mechanism().is_none() {
            self.request = self.request.with_mechanism(mechanism);
        }
        if self.request.noise().is_none() {
            self.request = self.request.with_noise(noise.into());
        }
        // Parts of measures have plans with their own correlation.
        if let Some(correlation) = correlation.filter(|_| self.measures.wanted.is_empty()) {
            self.request = self.request.with_begun_correlation(correlation);
        }
        let mut meaning = self.request.meaning().clone();
        let mut take = |name: &str| match began.get(name) {
            Some(text) => drop(meaning.insert(name.to_owned(), text.clone())),
            None => drop(meaning.remove(name)),
        };
        POLICY_NAMES.iter().for_each(|name| take(name));
        let mut present = None;
        if let (Labels::Groups(table), Some(groups)) = (&self.labels, began.get("groups")) {
            take("rest");
            let begun = table.clone().as_recorded(groups, began.contains_key("rest"), records.joined(&self.name))?;
            let grid = self.request.grid();
            let request =
                Labels::Groups(begun.table.first(begun.first)).shape(self.request.with_meanings(meaning), grid);
            self.request = request;
            present = Some(Present { first: begun.first, present: begun.present });
            self.labels = Labels::Groups(begun.table);
        } else {
            self.request = self.request.with_meanings(meaning);
        }
        Ok((self, present))
    }
}
