//! The facts that an operator states about a deployment.

use crate::failure::usage;
use anyhow::Result;
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The facts that a report does not contain, as the operator states them.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Statements {
    /// Name of the data product [default: the title of the release]
    #[arg(long, value_name = "TEXT")]
    pub(super) name: Option<String>,
    /// Description of the data product [default: a sentence made from the report]
    #[arg(long, value_name = "TEXT")]
    pub(super) description: Option<String>,
    /// Organization that publishes the data product; may be repeated.
    #[arg(long, value_name = "NAME")]
    pub(super) curator: Vec<String>,
    /// Intended use of the data product.
    #[arg(long, value_name = "TEXT")]
    pub(super) intended_use: Option<String>,
    /// Region that the data describe, or whose laws apply.
    #[arg(long, value_name = "TEXT")]
    pub(super) region: Option<String>,
    /// Date of the first publication, such as 2024-06-01.
    #[arg(long, value_name = "DATE")]
    pub(super) published: Option<String>,
    /// Sector that the data describe.
    #[arg(long)]
    pub(super) sector: Option<Sector>,
    /// Author of the record; may be repeated.
    #[arg(long, value_name = "NAME")]
    pub(super) author: Vec<String>,
    /// Whether the steps were published once, all together, or one after the other.
    #[arg(long)]
    pub(super) release_type: Option<ReleaseType>,
    /// Whether new events arrive over time [default: dynamic for a stream without an end or that continues another]
    #[arg(long)]
    pub(super) data_source: Option<DataSource>,
    /// Parties that see the data or the releases, how far each of them is trusted, and why.
    #[arg(long, value_name = "TEXT")]
    pub(super) actors: Option<String>,
    /// Steps before the release (cleaning, exploration, choice of parameters), and whether their privacy loss counts.
    #[arg(long, value_name = "TEXT")]
    pub(super) preprocessing: Option<String>,
    /// Reasons for the privacy unit, the budget, the bounds and the mechanism.
    #[arg(long, value_name = "TEXT")]
    pub(super) justification: Option<String>,
    /// Links to the data product and to documents about it.
    #[arg(long, value_name = "TEXT")]
    pub(super) sources: Option<String>,
    /// Anything else.
    #[arg(long, value_name = "TEXT")]
    pub(super) notes: Option<String>,
}

/// The registry's sectors.
#[derive(ValueEnum, Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(rename_all(serialize = "PascalCase", deserialize = "kebab-case"))]
pub(super) enum Sector {
    Technology,
    Healthcare,
    Education,
    Government,
    Energy,
    Finance,
}

/// The number of publications.
#[derive(ValueEnum, Clone, Copy, Debug, Deserialize, Serialize)]
pub(super) enum ReleaseType {
    /// All steps are published once, together.
    #[serde(rename(serialize = "One release", deserialize = "one"))]
    One,
    /// Steps are published one after the other.
    #[serde(rename(serialize = "Many releases", deserialize = "many"))]
    Many,
}

/// Whether new events arrive.
#[derive(ValueEnum, Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(rename_all(serialize = "PascalCase", deserialize = "kebab-case"))]
pub(super) enum DataSource {
    /// The data are complete.
    Static,
    /// New events arrive over time.
    Dynamic,
}

impl Statements {
    /// The statements of a TOML file.
    ///
    /// # Errors
    /// If the file cannot be read, or has unknown fields.
    pub(super) fn from_file(path: &Path) -> Result<Self> {
        let shown = path.display();
        let text = std::fs::read_to_string(path).map_err(|e| usage(format!("cannot read --config {shown}: {e}")))?;
        toml::from_str(&text).map_err(|e| usage(format!("{shown}: {}", e.to_string().trim_end())))
    }

    /// These statements, and those of a file where there is none.
    pub(super) fn or(self, file: Self) -> Self {
        let several = |own: Vec<String>, other| if own.is_empty() { other } else { own };
        Self {
            name: self.name.or(file.name),
            description: self.description.or(file.description),
            curator: several(self.curator, file.curator),
            intended_use: self.intended_use.or(file.intended_use),
            region: self.region.or(file.region),
            published: self.published.or(file.published),
            sector: self.sector.or(file.sector),
            author: several(self.author, file.author),
            release_type: self.release_type.or(file.release_type),
            data_source: self.data_source.or(file.data_source),
            actors: self.actors.or(file.actors),
            preprocessing: self.preprocessing.or(file.preprocessing),
            justification: self.justification.or(file.justification),
            sources: self.sources.or(file.sources),
            notes: self.notes.or(file.notes),
        }
    }

    /// Checks the date of publication.
    ///
    /// # Errors
    /// If the date of publication has another form.
    pub(super) fn check(&self) -> Result<()> {
        let Some(date) = &self.published else { return Ok(()) };
        match date.parse::<jiff::civil::Date>() {
            Ok(parsed) if parsed.to_string() == *date => Ok(()),
            _ => Err(usage(format!("published: `{date}` is not a date; write it as YYYY-MM-DD, such as 2024-06-01"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_win_over_the_file() {
        let file: Statements = toml::from_str("curator = [\"A\", \"B\"]\nregion = \"X\"\nsector = \"energy\"").unwrap();
        let flags = Statements { region: Some("Y".into()), ..Statements::default() };
        let both = flags.or(file);
        assert_eq!((both.curator.len(), both.region.as_deref()), (2, Some("Y")));
        assert!(matches!(both.sector, Some(Sector::Energy)));
        assert!(toml::from_str::<Statements>("regoin = \"X\"").is_err());
    }
}
