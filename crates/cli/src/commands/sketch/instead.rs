//! The same list released as groups: its error, and the command for it.
//!
//! If only the items of the list will ever be queried, each of them can have its own running sum. An event is then in
//! one sum instead of one per row, any mechanism can be used, and nothing collides; in exchange, other items can never
//! be queried. Which of the two is better follows from the plans alone.

use anyhow::Result;
use evertally::plan::PlanRequest;
use evertally_declare::declaration::{Declaration, Files};
use evertally_declare::stream::Refusable;
use evertally_declare::words::short;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// A release has a row for every group and step; no release with more rows is proposed.
const MOST_ROWS: u64 = 100_000_000;

/// A release with the items of a list as its groups.
pub(super) struct Instead {
    items: u64,
    steps: u64,
    /// Largest standard error of its rows.
    pub(super) max_std_error: f64,
    pub(super) command: String,
}

impl Instead {
    /// The release of `items` groups, from the declaration of the sketch and the request for one running sum.
    ///
    /// # Errors
    /// If there is no plan for it.
    pub(super) fn new(
        declaration: &Declaration,
        files: &Files,
        list: &Path,
        items: usize,
        request: &PlanRequest,
    ) -> Result<Self> {
        // Mechanisms with a search of minutes are left out: they could only lower the error.
        let search = request.search().clone().with_light_steps(true);
        let plan = request.clone().with_search(search).plan()?;
        let command = command(declaration.clone(), files.clone(), list);
        Ok(Self { items: items as u64, steps: plan.horizon(), max_std_error: plan.max_std_error(), command })
    }

    /// A note, if the release is better.
    pub(super) fn in_words(&self, sketch_std_error: f64) -> Option<String> {
        let Self { items, steps, max_std_error, command } = self;
        if *max_std_error >= sketch_std_error || items.saturating_mul(*steps) > MOST_ROWS {
            return None;
        }
        let (theirs, ours) = (short(*max_std_error), short(sketch_std_error));
        let groups = if *items == 1 { "item as the group".to_owned() } else { format!("{items} items as groups") };
        Some(format!(
            "a release of the same {groups} would have a standard error of at most {theirs} instead of {ours} plus \
             collisions, for the same budget and unit. If no other items will be queried, run it instead of this \
             sketch, not in addition:\n  {command}"
        ))
    }
}

/// The command for the release, with all settings as flags.
fn command(mut declaration: Declaration, mut files: Files, list: &Path) -> String {
    declaration.group_by = declaration.key_columns.take();
    (declaration.rows, declaration.width) = (None, None);
    declaration.unknown_group = Some(Refusable::Skip);
    // Another plan is another stream.
    declaration.stream = Some(format!("{} by group", declaration.stream.as_deref().unwrap_or("main")));
    files.groups_file = Some(list.to_owned());
    files.out = files.out.map(|out| beside(&out));
    (files.config, files.plan_only, files.json, files.quiet) = (None, None, None, None);
    let inputs = files.input.take().map(|paths| paths.0).unwrap_or_default();
    let mut words = vec!["evertally".to_owned(), "release".to_owned()];
    words.extend(inputs.iter().map(|path| quoted(&path.to_string_lossy())));
    for part in [serde_json::to_value(&declaration), serde_json::to_value(&files)] {
        flags(part.ok().and_then(|part| part.as_object().cloned()).unwrap_or_default(), &mut words);
    }
    words.join(" ")
}

/// The path of the table of the release, different from the sketch's.
fn beside(out: &Path) -> PathBuf {
    if out.as_os_str() == "-" {
        return out.to_owned();
    }
    let (stem, ending) = (out.file_stem().unwrap_or_default(), out.extension().unwrap_or_default());
    let name = format!("{}-by-group.{}", stem.to_string_lossy(), ending.to_string_lossy());
    out.with_file_name(name.trim_end_matches('.'))
}

fn flags(given: Map<String, Value>, words: &mut Vec<String>) {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    for (name, value) in given {
        let value = match &value {
            Value::Bool(true) => {
                words.push(format!("--{name}"));
                continue;
            }
            Value::Array(values) => values.iter().map(text).collect::<Vec<_>>().join(","),
            value => text(value),
        };
        let between = if value.starts_with('-') || value == "false" { '=' } else { ' ' };
        words.push(format!("--{name}{between}{}", quoted(&value)));
    }
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./,:+=@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(["a,b", "", "it's 1", "$x"].map(quoted), ["a,b", "''", r"'it'\''s 1'", "'$x'"]);
        assert_eq!(beside(Path::new("out/top.csv")), Path::new("out/top-by-group.csv"));
        assert_eq!((beside(Path::new("-")), beside(Path::new("top"))), ("-".into(), "top-by-group".into()));
    }
}
