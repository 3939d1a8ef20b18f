//! Released values as samples of Prometheus: their names and labels, and those of a publication for a sink.

use crate::engine::{RowsQuery, Service, StreamInfo};
use evertally_declare::error::Result;
use evertally_feeds::Samples;
use evertally_publish::rows::ReleaseRow;

/// The metrics of a released row, with their meanings.
pub(super) const RELEASED: [(&str, &str); 4] = [
    ("evertally_released_value", "The released value, with its noise."),
    ("evertally_released_std_error", "The standard error of the released value."),
    ("evertally_released_lower", "The lower end of its interval."),
    ("evertally_released_upper", "The upper end of its interval."),
];

/// The metric with the number of the last publication.
pub(super) const RELEASED_STEP: &str = "evertally_released_step";

/// The values of the [metrics](RELEASED) of a row.
pub(super) fn released_of(row: &ReleaseRow<'_>) -> [f64; 4] {
    [row.value.number, row.std_error, row.lower, row.upper]
}

/// The label of each group column.
pub(super) fn label_names(info: &StreamInfo) -> Vec<String> {
    let mut columns: Vec<String> = Vec::new();
    for name in info.table.groups() {
        let mut own = label(name);
        while columns.contains(&own) {
            own.push('_'); // two columns whose names differ only in characters that labels cannot have
        }
        columns.push(own);
    }
    columns
}

/// A column as a label name: invalid characters become `_`, and reserved names get a prefix.
fn label(column: &str) -> String {
    let letter = |letter: char| if letter.is_ascii_alphanumeric() || letter == '_' { letter } else { '_' };
    let name: String = column.chars().map(letter).collect();
    let is_ours = name == "stream" || name.starts_with("__") || name.starts_with(|c: char| c.is_ascii_digit());
    if is_ours || name.is_empty() { format!("group_{name}") } else { name }
}

/// All values of a publication, each at the end of its step. The series are those of `/metrics`.
///
/// # Errors
/// If the store cannot be read.
pub(super) fn publication_samples(service: &Service, info: &StreamInfo, publication: u64) -> Result<Vec<u8>> {
    let (columns, mut samples) = (label_names(info), Samples::default());
    service.rows(info, &RowsQuery::new(publication..=publication), &mut |_, row| {
        let groups = columns.iter().map(String::as_str).zip(row.groups.iter().copied());
        let labels: Vec<(&str, &str)> = [("stream", info.name())].into_iter().chain(groups).collect();
        let millis = row.span.1.micros().div_euclid(1000);
        for ((name, _), value) in RELEASED.into_iter().zip(released_of(row)) {
            samples.add(name, &labels, value, millis);
        }
        Ok(())
    })?;
    let millis = info.stream.rows().end_of(publication).micros().div_euclid(1000);
    let step = publication + info.stream.steps_before();
    samples.add(RELEASED_STEP, &[("stream", info.name())], step as f64, millis);
    Ok(samples.into_bytes())
}
