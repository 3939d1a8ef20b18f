//! Finds the wanted columns among those of a file.

use evertally_declare::declaration::Parameter;
use evertally_declare::error::InputError;
use evertally_declare::problem::sentence;
use evertally_declare::words::quoted;

/// The maximum number of columns that a message lists.
const MAX_LISTED_COLUMNS: usize = 30;

/// The position of every wanted name among the columns; each must occur exactly once.
pub(super) fn locate(file: &str, wanted: &[String], present: &[&str]) -> Result<Vec<usize>, InputError> {
    wanted.iter().map(|name| locate_one(file, name, present)).collect()
}

fn locate_one(file: &str, wanted: &str, present: &[&str]) -> Result<usize, InputError> {
    let mut places = present.iter().enumerate().filter(|(_, name)| **name == wanted).map(|(i, _)| i);
    let Some(first) = places.next() else { return Err(missing_column(file, wanted, present)) };
    match places.next() {
        None => Ok(first),
        Some(second) => Err(repeated_column(file, wanted, &format!("columns {} and {}", first + 1, second + 1))),
    }
}

/// The error for a column that occurs twice; `places` says where.
pub(super) fn repeated_column(file: &str, wanted: &str, places: &str) -> InputError {
    let problem = format!("there are two columns named {} ({places}); rename one of them", quoted(wanted));
    InputError::in_file(file, problem)
}

/// The error for a missing column: lists the existing ones, and suggests the nearest.
pub(super) fn missing_column(file: &str, wanted: &str, present: &[&str]) -> InputError {
    let suggestion = match nearest(wanted, present) {
        Some(name) => format!(" (did you mean {}?)", quoted(name)),
        None => String::new(),
    };
    let (hint, remedy) = match other_delimiter(present) {
        Some((name, flag)) => {
            let hint = format!("; its cells look {name}-separated, but another delimiter was expected");
            (hint, Some(sentence!["declare ", (Parameter::Delimiter, flag)]))
        }
        None => (String::new(), None),
    };
    let problem = format!("there is no column {}{suggestion}; it has {}{hint}", quoted(wanted), list(present));
    let error = InputError::in_file(file, problem);
    match remedy {
        Some(remedy) => error.remedy(remedy),
        None => error,
    }
}

fn list(present: &[&str]) -> String {
    if present.is_empty() {
        return "no columns".into();
    }
    let names: Vec<String> = present.iter().take(MAX_LISTED_COLUMNS).map(|name| quoted(name)).collect();
    let more = present.len().saturating_sub(MAX_LISTED_COLUMNS);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{rest}", names.join(", "))
}

/// The name most similar to `wanted`, if any is similar; case and surrounding space count little. A value in an object
/// is also known by the last part of its name.
fn nearest<'n>(wanted: &str, present: &[&'n str]) -> Option<&'n str> {
    let plain = |s: &str| s.trim().to_lowercase();
    let target = plain(wanted);
    let score = |name: &&&str| {
        let name = plain(name);
        let last = name.rsplit_once('.').map_or(0.0, |(_, last)| strsim::jaro_winkler(&target, last));
        strsim::jaro_winkler(&target, &name).max(0.99 * last)
    };
    let best = present.iter().max_by(|a, b| score(a).total_cmp(&score(b)))?;
    (score(&best) > 0.75).then_some(*best)
}

/// A single "column" that contains another separator suggests that the delimiter is wrong: its name, and its flag
/// value.
fn other_delimiter(present: &[&str]) -> Option<(&'static str, &'static str)> {
    let [only] = present else { return None };
    [("semicolon", ";", "';'"), ("tab", "\t", "tab"), ("bar", "|", "'|'"), ("comma", ",", "','")]
        .into_iter()
        .find(|(_, separator, _)| only.contains(separator))
        .map(|(name, _, flag)| (name, flag))
}
