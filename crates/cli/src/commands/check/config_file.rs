//! A configuration file to start from.

#![expect(clippy::disallowed_methods, reason = "a new file, which replaces none")]

use super::suggest::{Suggestions, values};
use crate::failure::usage;
use anyhow::Result;
use evertally_declare::declaration::{Parameter, Use};
use evertally_declare::url::is_url;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Flags of a single run, and paths of this file itself.
const NOT_WRITTEN: [Parameter; 5] =
    [Parameter::Config, Parameter::PlanOnly, Parameter::Json, Parameter::Quiet, Parameter::Yes];

/// The problem of a file that exists.
pub(super) const EXISTS: &str = "the file exists, and is never overwritten; name another one";

/// Writes the file; it must not exist.
pub(super) fn write(path: &Path, suggested: &Suggestions, categories: &[String]) -> Result<()> {
    let text = text(path, suggested, categories)?;
    let shown = path.display();
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).open(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => usage(format!("--write {shown}: {EXISTS}")),
        _ => usage(format!("--write {shown}: it cannot be created ({error})")),
    })?;
    file.write_all(text.as_bytes()).map_err(|error| anyhow::anyhow!("--write {shown}: {error}"))
}

fn text(path: &Path, suggested: &Suggestions, categories: &[String]) -> Result<String> {
    let mut text = String::from(
        "# Written by `evertally check`, to start from. Read every line before the first release: what shapes it must\n\
         # be chosen without looking at the data. Lines that begin with `# ` and a name are to be completed.\n",
    );
    let values = values(&suggested.written);
    let mut heading = None;
    let all = Parameter::used_by(Use::Release).filter(|parameter| !NOT_WRITTEN.contains(parameter));
    for parameter in all {
        let line = match values.iter().find(|(given, _)| *given == parameter) {
            Some((_, value)) => Some(declared(path, parameter, value.clone(), suggested)?),
            None => open(parameter, suggested, categories),
        };
        let Some(line) = line else { continue };
        let title = parameter.heading().title();
        if heading != Some(title) {
            writeln!(text, "{}", title.map_or(String::new(), |title| format!("\n# {title}")))?;
        }
        heading = Some(title);
        writeln!(text, "{line}")?;
    }
    Ok(text)
}

/// The line of a declared or suggested value.
fn declared(path: &Path, parameter: Parameter, value: toml::Value, suggested: &Suggestions) -> Result<String> {
    let value = if is_path(parameter) { from_folder_of(path, value)? } else { value };
    let flag = suggested.flags.iter().find(|flag| flag.parameter == parameter);
    let why = flag.map_or(String::new(), |flag| format!("  # {}", flag.why));
    Ok(format!("{} = {value}{why}", parameter.name()))
}

/// The line of a value that only the operator can choose.
fn open(parameter: Parameter, suggested: &Suggestions, categories: &[String]) -> Option<String> {
    let declared = &suggested.written.declaration;
    let example = match parameter {
        Parameter::Rho => "0.5".to_owned(),
        Parameter::Key => "\"my.key\"".to_owned(),
        Parameter::Bounds => "[\"LOW\", \"HIGH\"]".to_owned(),
        _ => "[\"NAME\", \"NAME\"]".to_owned(),
    };
    if let Some(choice) = suggested.choices.iter().find(|choice| choice.parameter == parameter) {
        return Some(format!("# {} = {example}  # {}", parameter.name(), choice.why));
    }
    let has_candidates = declared.group_by.is_none() && !categories.is_empty();
    match parameter {
        Parameter::GroupBy if has_candidates => {
            let columns = toml::Value::from(vec![categories[0].clone()]);
            let others =
                if categories.len() > 1 { format!("; or {}", categories[1..].join(", ")) } else { String::new() };
            Some(format!("# group-by = {columns}  # a sum for each group{others}"))
        }
        Parameter::Groups if has_candidates => {
            Some(format!("# groups = {example}  # from a public list, never from the data"))
        }
        _ => None,
    }
}

fn is_path(parameter: Parameter) -> bool {
    use Parameter::{BudgetFile, GroupsFile, Input, Key, Out};
    matches!(parameter, Input | Key | BudgetFile | Out | GroupsFile)
}

/// Paths as they are read from a configuration file: relative to its folder. They stay as they are if that is the
/// working directory; otherwise they become absolute.
fn from_folder_of(config: &Path, value: toml::Value) -> Result<toml::Value> {
    let is_here = config.parent().is_none_or(|folder| folder.as_os_str().is_empty());
    Ok(match value {
        value if is_here => value,
        toml::Value::Array(paths) => {
            toml::Value::Array(paths.into_iter().map(|path| from_folder_of(config, path)).collect::<Result<_>>()?)
        }
        toml::Value::String(path) if path != "-" && !is_url(Path::new(&path)) => {
            let absolute: PathBuf = std::path::absolute(&path)?;
            toml::Value::String(absolute.to_string_lossy().into_owned())
        }
        value => value,
    })
}
