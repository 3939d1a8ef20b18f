//! `evertally deployment-record`: a report as an entry of the public registry of deployments.

mod fields;
mod wording;

use crate::failure::usage;
use anyhow::Result;
use clap::{Args, ValueEnum};
use evertally_publish::report::Report;
use fields::{DeploymentRecord, Missing};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// Flags of `evertally deployment-record`.
#[derive(Args, Debug)]
pub(super) struct DeploymentRecordArgs {
    /// The report to export: NAME.report.json, the table next to it, or `-` for standard input.
    #[arg(value_name = "REPORT")]
    report: PathBuf,
    /// TOML file that sets any of the options below, written without the leading dashes.
    #[arg(long, value_name = "FILE.toml")]
    config: Option<PathBuf>,
    #[command(flatten)]
    statements: Statements,
}

/// The facts that a report does not contain, as the operator states them.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct Statements {
    /// Name of the data product [default: the title of the release]
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    /// Description of the data product [default: a sentence made from the report]
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Organization that publishes the data product; may be repeated.
    #[arg(long, value_name = "NAME")]
    curator: Vec<String>,
    /// Intended use of the data product.
    #[arg(long, value_name = "TEXT")]
    intended_use: Option<String>,
    /// Region that the data describe, or whose laws apply.
    #[arg(long, value_name = "TEXT")]
    region: Option<String>,
    /// Date of the first publication, such as 2024-06-01.
    #[arg(long, value_name = "DATE")]
    published: Option<String>,
    /// Sector that the data describe.
    #[arg(long)]
    sector: Option<Sector>,
    /// Author of the record; may be repeated.
    #[arg(long, value_name = "NAME")]
    author: Vec<String>,
    /// Whether the steps were published once, all together, or one after the other.
    #[arg(long)]
    release_type: Option<ReleaseType>,
    /// Whether new events arrive over time [default: dynamic for a stream without an end or that continues another]
    #[arg(long)]
    data_source: Option<DataSource>,
    /// Parties that see the data or the releases, how far each of them is trusted, and why.
    #[arg(long, value_name = "TEXT")]
    actors: Option<String>,
    /// Steps before the release (cleaning, exploration, choice of parameters), and whether their privacy loss counts.
    #[arg(long, value_name = "TEXT")]
    preprocessing: Option<String>,
    /// Reasons for the privacy unit, the budget, the bounds and the mechanism.
    #[arg(long, value_name = "TEXT")]
    justification: Option<String>,
    /// Links to the data product and to documents about it.
    #[arg(long, value_name = "TEXT")]
    sources: Option<String>,
    /// Anything else.
    #[arg(long, value_name = "TEXT")]
    notes: Option<String>,
}

/// The registry's sectors.
#[derive(ValueEnum, Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(rename_all(serialize = "PascalCase", deserialize = "kebab-case"))]
enum Sector {
    Technology,
    Healthcare,
    Education,
    Government,
    Energy,
    Finance,
}

/// The number of publications.
#[derive(ValueEnum, Clone, Copy, Debug, Deserialize, Serialize)]
enum ReleaseType {
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
enum DataSource {
    /// The data are complete.
    Static,
    /// New events arrive over time.
    Dynamic,
}

impl DeploymentRecordArgs {
    /// Prints the record, and the fields that it lacks on standard error.
    pub(super) fn run(self) -> Result<()> {
        let report = read_report(&self.report)?;
        let statements = match &self.config {
            Some(path) => self.statements.or(read_statements(path)?),
            None => self.statements,
        };
        statements.check()?;
        let record = DeploymentRecord::new(&report, statements);
        let text = with_yaml_numbers(&serde_json::to_string_pretty(&record)?);
        writeln!(std::io::stdout().lock(), "{text}")?;
        report_missing(&record.missing());
        Ok(())
    }
}

impl Statements {
    /// These statements, and those of a file where there is none.
    fn or(self, file: Self) -> Self {
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

    fn check(&self) -> Result<()> {
        let Some(date) = &self.published else { return Ok(()) };
        match date.parse::<jiff::civil::Date>() {
            Ok(parsed) if parsed.to_string() == *date => Ok(()),
            _ => Err(usage(format!("published: `{date}` is not a date; write it as YYYY-MM-DD, such as 2024-06-01"))),
        }
    }
}

/// Reads a report, from the file itself or next to its table.
fn read_report(named: &Path) -> Result<Report> {
    let is_report = named.extension().is_some_and(|extension| extension == "json");
    let path = if is_report { named.to_owned() } else { named.with_extension("report.json") };
    let (text, shown) = if named.as_os_str() == "-" {
        let mut text = String::new();
        std::io::stdin().lock().read_to_string(&mut text)?;
        (text, "standard input".to_owned())
    } else {
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(&path).map_err(|e| {
            usage(format!("cannot read the report {shown}: {e}; name the table or its NAME.report.json"))
        })?;
        (text, shown)
    };
    let remedy = "name the NAME.report.json that `evertally release` writes next to the table";
    let wrong = |e: serde_json::Error| usage(format!("{shown}: this is not a report ({e}); {remedy}"));
    let report: Value = serde_json::from_str(&text).map_err(wrong)?;
    match report["version"].as_u64() {
        Some(version) if version != u64::from(Report::VERSION) => {
            let own = Report::VERSION;
            let problem = format!("{shown}: the report has version {version}, and this program reads version {own}");
            Err(usage(format!("{problem}; use the program that made it")))
        }
        _ => serde_json::from_value(report).map_err(wrong),
    }
}

fn read_statements(path: &Path) -> Result<Statements> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|e| usage(format!("cannot read --config {shown}: {e}")))?;
    toml::from_str(&text).map_err(|e| usage(format!("{shown}: {}", e.to_string().trim_end())))
}

/// The same JSON with numbers that YAML 1.1 also reads as numbers: they need a point and the sign of an exponent.
fn with_yaml_numbers(json: &str) -> String {
    let lines = json.lines().map(|line| {
        let Some((key, value)) = line.split_once(": ") else { return line.to_owned() };
        match value.split_once('e') {
            Some((digits, exponent)) if value.trim_end_matches(',').parse::<f64>().is_ok() => {
                let point = if digits.contains('.') { "" } else { ".0" };
                let sign = if exponent.starts_with('-') { "" } else { "+" };
                format!("{key}: {digits}{point}e{sign}{exponent}")
            }
            _ => line.to_owned(),
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn report_missing(missing: &[Missing]) {
    let of = |is_one: &dyn Fn(&Missing) -> bool| {
        missing.iter().filter(|own| is_one(own)).map(|own| format!("--{}", own.option)).collect::<Vec<_>>()
    };
    let lines = [
        ("required by the registry", of(&|own| own.is_required)),
        ("for tier 2", of(&|own| own.tier == 2)),
        ("for tier 3", of(&|own| own.tier == 3)),
        ("optional", of(&|own| own.tier == 1 && !own.is_required)),
    ];
    if !missing.is_empty() {
        eprintln!("the report does not contain these fields, and no option states them:");
    }
    for (title, options) in lines.iter().filter(|(_, options)| !options.is_empty()) {
        eprintln!("  {title}: {}", options.join(", "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_the_record_are_numbers_of_yaml() {
        let json = "{\n  \"delta\": 1e-6,\n  \"epsilon\": 2.5e16\n  \"rho\": 0.5,\n  \"name\": \"a: 1e-6\"\n}";
        let yaml = "{\n  \"delta\": 1.0e-6,\n  \"epsilon\": 2.5e+16\n  \"rho\": 0.5,\n  \"name\": \"a: 1e-6\"\n}";
        assert_eq!(with_yaml_numbers(json), yaml);
    }

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
