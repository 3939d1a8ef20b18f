//! `evertally deployment-record`: a report as an entry of the public registry of deployments.

mod fields;
mod statements;
mod wording;

use crate::failure::usage;
use anyhow::Result;
use clap::Args;
use evertally_publish::report::Report;
use fields::{DeploymentRecord, MissingField};
use serde_json::Value;
use statements::Statements;
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

impl DeploymentRecordArgs {
    /// Prints the record, and the fields that it lacks on standard error.
    pub(super) fn run(self) -> Result<()> {
        let report = read_report(&self.report)?;
        let statements = match &self.config {
            Some(path) => self.statements.or(Statements::from_file(path)?),
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

fn report_missing(missing: &[MissingField]) {
    let of = |is_one: &dyn Fn(&MissingField) -> bool| {
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
}
