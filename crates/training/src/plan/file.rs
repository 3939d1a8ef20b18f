//! Vector plans as readable files, and their digest.

use super::{Series, VectorPlan, VectorRequest};
use crate::{Optimizer, Sampling};
use evertally::mechanism::{MechanismName, Participation};
use evertally::plan::Objective;
use evertally::privacy::Budget;
use evertally::privacy::Neighbours;
use evertally::{Error, Result};
use evertally_kernels::Cipher;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt::Write;

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
    #[serde(default)]
    meaning: BTreeMap<String, String>,
    /// Omitted, also from the digest, if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    optimizer: Option<Optimizer>,
    /// Likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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

/// BLAKE3 of the whole file except the digest, in postcard form (numbers by their bits), in a separate context. Plans
/// with an optimizer or sampling use other contexts, so that they share no bytes with plans without one. Postcard
/// distinguishes a fraction from a number of bins, but not the kinds of bins: fresh ones have their own context.
pub(super) fn digest(plan: &VectorPlan) -> [u8; 32] {
    let bytes = postcard::to_allocvec(&VectorPlanFile::without_digest(plan)).expect("a plan is plain data");
    let context = match (&plan.request.optimizer, plan.request.sampling) {
        (None, None) => "evertally 1 vector plan",
        (Some(_), None) => "evertally 1 vector plan for an optimizer",
        (None, Some(own)) if own.fresh_bins().is_some() => "evertally 1 vector plan with fresh bins",
        (Some(_), Some(own)) if own.fresh_bins().is_some() => {
            "evertally 1 vector plan with fresh bins for an optimizer"
        }
        (None, Some(_)) => "evertally 1 vector plan with sampling",
        (Some(_), Some(_)) => "evertally 1 vector plan with sampling for an optimizer",
    };
    blake3::derive_key(context, &bytes)
}

fn hexadecimal(digest: &[u8; 32]) -> String {
    digest.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string");
        text
    })
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
            most_vectors: evertally::mechanism::LIGHT, // the mechanism is named
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
        if hexadecimal(&plan.digest) != file.digest {
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
        VectorPlanFile { digest: hexadecimal(&self.digest), ..VectorPlanFile::without_digest(self) }
            .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for VectorPlan {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        VectorPlanFile::deserialize(deserializer)?.try_into().map_err(serde::de::Error::custom)
    }
}
