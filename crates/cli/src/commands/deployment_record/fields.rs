//! The fields of a deployment record.
//!
//! Their names, order and values are those of the registry's schema: `schemas/deployments-schema.yaml` in the
//! repository `opendp/deployments-registry-data`, commit 3e9c812 of 2026-07-15. The schema follows arXiv 2509.13509,
//! "Practitioners' Perspectives on a Differential Privacy Deployment Registry". A tier is a level of completeness.

use super::statements::{DataSource, ReleaseType, Sector, Statements};
use super::wording::Sentences;
use evertally::privacy::Budget;
use evertally_publish::report::Report;
use serde::Serialize;

/// A record of the registry.
#[derive(Debug, Serialize)]
pub(super) struct DeploymentRecord {
    url_slug: String,
    status: &'static str,
    tier: u8,
    deployment: Deployment,
}

#[derive(Debug, Serialize)]
struct Deployment {
    basic: BasicFields,
    dp_variant: VariantFields,
    privacy_loss: LossFields,
    deployment_model: ModelFields,
    accounting: AccountingFields,
    implementation: ImplementationFields,
    #[serde(skip_serializing_if = "AdministrativeFields::is_empty")]
    administrative: AdministrativeFields,
}

#[derive(Debug, Serialize)]
struct BasicFields {
    name: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    data_curators: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    intended_use: Option<String>,
    data_product_type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    data_product_region: Option<String>,
    description: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    publication_date: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data_product_sector: Option<Sector>,
}

#[derive(Debug, Serialize)]
struct VariantFields {
    variant_name: VariantName,
    data_domain: String,
    unprotected_quantities: String,
}

#[derive(Debug, Serialize)]
struct LossFields {
    privacy_unit: String,
    privacy_unit_details: String,
    privacy_parameters: LossParameters,
    privacy_parameters_details: String,
}

/// The numbers of the guarantee for the whole history.
#[derive(Debug, Default, Serialize)]
struct LossParameters {
    #[serde(skip_serializing_if = "Option::is_none")]
    epsilon: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delta: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rho: Option<f64>,
}

#[derive(Debug, Serialize)]
struct ModelFields {
    model_name: &'static str,
    model_name_details: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    actors: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    release_type: Option<ReleaseType>,
    release_type_details: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    data_source_type: Option<DataSource>,
    data_source_type_details: String,
    access_type: &'static str,
    access_type_details: String,
}

#[derive(Debug, Serialize)]
struct AccountingFields {
    post_processing: String,
    composition: String,
}

#[derive(Debug, Serialize)]
struct ImplementationFields {
    #[serde(skip_serializing_if = "Option::is_none")]
    preprocessing_and_hyperparameter_tuning: Option<String>,
    mechanisms: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    justification: Option<String>,
}

#[derive(Debug, Serialize)]
struct AdministrativeFields {
    #[serde(skip_serializing_if = "Option::is_none")]
    sources: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    notes: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    registry_authors: Vec<String>,
}

impl AdministrativeFields {
    fn is_empty(&self) -> bool {
        self.sources.is_none() && self.notes.is_none() && self.registry_authors.is_empty()
    }
}

/// The variant of differential privacy.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
enum VariantName {
    #[serde(rename = "Pure DP")]
    Pure,
    #[serde(rename = "Approximate DP")]
    Approximate,
    #[serde(rename = "Zero-concentrated DP")]
    ZeroConcentrated,
    /// Approximate zero-concentrated differential privacy, which the registry does not list.
    Custom,
}

/// A field that the record lacks.
#[derive(Debug)]
pub(super) struct MissingField {
    /// The option that states it.
    pub(super) option: &'static str,
    /// Its tier.
    pub(super) tier: u8,
    /// Whether the registry's schema requires it.
    pub(super) is_required: bool,
}

impl DeploymentRecord {
    /// The record of a report, with the statements of an operator.
    pub(super) fn new(report: &Report, stated: Statements) -> Self {
        let (variant_name, privacy_parameters) = guarantee(report);
        let words = Sentences::new(report);
        let continues = report.horizon.end.is_none() || report.follows.is_some();
        let basic = BasicFields {
            name: stated.name.unwrap_or_else(|| words.title()),
            data_curators: stated.curator,
            intended_use: stated.intended_use,
            data_product_type: "Summary statistics",
            data_product_region: stated.region,
            description: stated.description.unwrap_or_else(|| words.description()),
            publication_date: stated.published,
            data_product_sector: stated.sector,
        };
        let deployment = Deployment {
            dp_variant: VariantFields {
                variant_name,
                data_domain: words.data_domain(),
                unprotected_quantities: words.unprotected_quantities(),
            },
            privacy_loss: LossFields {
                privacy_unit: report.unit.unit.clone(),
                privacy_unit_details: words.privacy_unit(),
                privacy_parameters,
                privacy_parameters_details: words.privacy_parameters(variant_name == VariantName::Custom),
            },
            deployment_model: ModelFields {
                model_name: "Central",
                model_name_details: words.model(),
                actors: stated.actors,
                release_type: stated.release_type,
                release_type_details: words.releases(),
                data_source_type: stated.data_source.or_else(|| continues.then_some(DataSource::Dynamic)),
                data_source_type_details: words.data_source(),
                access_type: "Non-interactive",
                access_type_details: words.access(),
            },
            accounting: AccountingFields { post_processing: words.post_processing(), composition: words.composition() },
            implementation: ImplementationFields {
                preprocessing_and_hyperparameter_tuning: stated.preprocessing,
                mechanisms: words.mechanisms(),
                justification: stated.justification,
            },
            administrative: AdministrativeFields {
                sources: stated.sources,
                notes: stated.notes,
                registry_authors: stated.author,
            },
            basic,
        };
        let mut record = Self { url_slug: slug(&deployment.basic), status: "Draft", tier: 3, deployment };
        let incomplete =
            record.missing().iter().filter(|own| own.is_required || own.tier > 1).map(|own| own.tier).min();
        record.tier = incomplete.map_or(3, |tier| (tier - 1).max(1));
        record
    }

    /// The fields that the record lacks, in the order of tiers.
    pub(super) fn missing(&self) -> Vec<MissingField> {
        let Deployment { basic, deployment_model: model, implementation, administrative, .. } = &self.deployment;
        let all = [
            (basic.data_curators.is_empty(), "curator", 1, true),
            (basic.intended_use.is_none(), "intended-use", 1, true),
            (basic.data_product_region.is_none(), "region", 1, true),
            (basic.publication_date.is_none(), "published", 1, true),
            (administrative.registry_authors.is_empty(), "author", 1, true),
            (basic.data_product_sector.is_none(), "sector", 1, false),
            (administrative.sources.is_none(), "sources", 1, false),
            (model.release_type.is_none(), "release-type", 2, false),
            (model.data_source_type.is_none(), "data-source", 2, false),
            (model.actors.is_none(), "actors", 3, false),
            (implementation.preprocessing_and_hyperparameter_tuning.is_none(), "preprocessing", 3, false),
            (implementation.justification.is_none(), "justification", 3, false),
        ];
        let is_missing = all.into_iter().filter(|(is_missing, ..)| *is_missing);
        is_missing.map(|(_, option, tier, is_required)| MissingField { option, tier, is_required }).collect()
    }
}

/// The guarantee in the form in which the budget was declared. If groups are selected under a budget ρ, that is
/// δ-approximate ρ-zCDP (Bun and Steinke 2016, section 8).
fn guarantee(report: &Report) -> (VariantName, LossParameters) {
    let own = &report.guarantee;
    let (epsilon_delta, rho) = (report.strength(), Some(own.rho));
    match (report.budget, own.selection_delta, epsilon_delta) {
        (Budget::Zcdp(_), None, _) => (VariantName::ZeroConcentrated, LossParameters { rho, ..Default::default() }),
        (Budget::Zcdp(_), delta, _) => (VariantName::Custom, LossParameters { rho, delta, epsilon: None }),
        (_, _, Some((epsilon, 0.0))) => {
            (VariantName::Pure, LossParameters { epsilon: Some(epsilon), ..Default::default() })
        }
        (_, _, Some((epsilon, delta))) => (
            VariantName::Approximate,
            LossParameters { epsilon: Some(epsilon), delta: Some(delta), ..Default::default() },
        ),
        // Next to nothing is promised: the details state the reason.
        (_, _, None) => (VariantName::Approximate, LossParameters::default()),
    }
}

/// Name, curators and year, as the registry's own script joins them.
fn slug(basic: &BasicFields) -> String {
    let year = basic.publication_date.as_deref().and_then(|date| date.split('-').next());
    let parts = std::iter::once(basic.name.as_str()).chain(basic.data_curators.iter().map(String::as_str)).chain(year);
    let text = parts.collect::<Vec<_>>().join(" ").to_lowercase();
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-")
}
