//! Vector plans as readable files, and their digest.

use super::{Series, VectorPlan, VectorRequest};
use crate::{Optimizer, Sampling};
use evertally::mechanism::{MechanismName, Participation};
use evertally::plan::{Objective, PlanKind, plan_digest};
use evertally::privacy::Budget;
use evertally::privacy::Neighbours;
use evertally::{Error, Result, hex};
use evertally_kernels::Cipher;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;

/// The version this library writes.
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct VectorPlanFile {
    version: u32,
    horizon: u64,
    mechanism: MechanismName,
    objective: Objective,
    series: Series,
    neighbours: Neighbours,
    participation: Participation,
    norm: f64,
    budget: Budget,
    #[serde(with = "by_name")]
    cipher: Cipher,
    sigma: f64,
    meaning: BTreeMap<String, String>,
    optimizer: Option<Optimizer>,
    sampling: Option<Sampling>,
    /// In hexadecimal; empty while it is computed.
    digest: String,
}

/// Ciphers as text.
mod by_name {
    use super::{Cipher, Deserialize, Deserializer, Serializer};
    use serde::de::Error;

    pub(super) fn serialize<S: Serializer>(cipher: &Cipher, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(cipher.name())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Cipher, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl VectorPlanFile {
    fn without_digest(plan: &VectorPlan) -> Self {
        let request = &plan.request;
        Self {
            version: VERSION,
            horizon: request.horizon,
            mechanism: plan.chosen.name,
            objective: request.objective,
            series: request.series,
            neighbours: request.neighbours,
            participation: request.participation,
            norm: request.norm,
            budget: request.budget,
            cipher: request.cipher,
            sigma: plan.chosen.sigma,
            meaning: request.meaning.clone(),
            optimizer: request.optimizer.clone(),
            sampling: request.sampling,
            digest: String::new(),
        }
    }
}

/// The digest of a plan: of everything in its file but the digest.
pub(super) fn digest(plan: &VectorPlan) -> [u8; 32] {
    plan_digest(PlanKind::Vector, &VectorPlanFile::without_digest(plan))
}

impl TryFrom<VectorPlanFile> for VectorPlan {
    type Error = Error;

    fn try_from(file: VectorPlanFile) -> Result<Self> {
        if file.version != VERSION {
            return Err(Error::invalid(format!(
                "this vector plan has version {}, and this program reads version {VERSION}",
                file.version
            )));
        }
        let plan = VectorRequest {
            horizon: file.horizon,
            budget: file.budget,
            norm: file.norm,
            neighbours: file.neighbours,
            participation: file.participation,
            mechanism: Some(file.mechanism),
            objective: file.objective,
            series: file.series,
            cipher: file.cipher,
            meaning: file.meaning,
            optimizer: file.optimizer,
            sampling: file.sampling,
            max_memory: evertally::mechanism::MAX_CONSTANT_MEMORY, // the mechanism is named
            effort: super::SearchEffort::default(),
            rival: f64::INFINITY,
            observer: evertally::plan::SearchObserver::default(),
        }
        .plan()?;
        if plan.sigma().to_bits() != file.sigma.to_bits() {
            return Err(Error::invalid(format!(
                "the vector plan's sigma ({}) is not the one its budget needs ({}); the file was changed by hand or by \
                 another version",
                file.sigma,
                plan.sigma()
            )));
        }
        if hex(&plan.digest) != file.digest {
            return Err(Error::invalid(
                "the vector plan's digest does not match its contents; the file was changed by hand or by another \
                 version",
            ));
        }
        Ok(plan)
    }
}

impl Serialize for VectorPlan {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        VectorPlanFile { digest: hex(&self.digest), ..VectorPlanFile::without_digest(self) }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for VectorPlan {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        VectorPlanFile::deserialize(deserializer)?.try_into().map_err(serde::de::Error::custom)
    }
}
