//! What may change in a stream that has begun, without another plan.
//!
//! A plan says what became of events that do not fit, and which groups there are, as it was when the stream began. A
//! stream goes on under that plan, and so with the same noise, when such events are treated otherwise from now on, or
//! when groups join: neither lets a person move more than before. Everything else in a plan stays, or is another
//! stream.

use crate::error::{Result, usage};
use crate::measures::BegunPart;
use crate::records::Records;
use crate::settings::{Labels, Settings};
use evertally::mechanism::MechanismName;
use evertally::noise::DiscreteLaw;
use serde::Deserialize;
use std::collections::BTreeMap;

/// What a plan means that may change.
const POLICIES: [&str; 3] = ["outside", "missing", "unknown-group"];

/// How many groups a stream has, as far as it has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Present {
    /// How many it began with.
    pub first: usize,
    /// How many are released so far; those behind join now.
    pub present: usize,
}

impl Settings {
    /// The same settings for a stream that the ledger may know: then under the plan with which it began, and with its
    /// groups in the order in which they are released.
    ///
    /// # Errors
    /// If groups that are released already are missing or stand elsewhere.
    pub fn begun(mut self, records: &dyn Records) -> Result<(Self, Option<Present>)> {
        #[derive(Deserialize)]
        struct Plan {
            mechanism: MechanismName,
            noise: DiscreteLaw,
            #[serde(default)]
            meaning: BTreeMap<String, String>,
            #[serde(default)]
            part: Vec<BegunPart>,
        }
        let Some(text) = records.plan_text(&self.name) else { return Ok((self, None)) };
        let Plan { mechanism, noise, meaning: began, part } = toml::from_str(text)
            .map_err(|e| usage(format!("the ledger's plan of stream `{}` cannot be read: {e}", self.name)))?;
        self.measures.began = part;
        // Another version or machine may rank mechanisms otherwise: a stream keeps what it began with.
        if self.request.mechanism().is_none() {
            self.request = self.request.with_mechanism(mechanism);
        }
        if self.request.noise().is_none() {
            self.request = self.request.with_noise(noise.into());
        }
        let mut meaning = self.request.meaning().clone();
        let mut take = |name: &str| match began.get(name) {
            Some(text) => drop(meaning.insert(name.to_owned(), text.clone())),
            None => drop(meaning.remove(name)),
        };
        POLICIES.iter().for_each(|name| take(name));
        let mut present = None;
        if let (Labels::Groups(table), Some(groups)) = (&self.labels, began.get("groups")) {
            take("rest");
            let begun = table.clone().as_begun(groups, began.contains_key("rest"), records.joined(&self.name))?;
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
