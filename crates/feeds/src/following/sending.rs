//! Sends a batch until there is an answer, and sets refused rows aside.

use super::super::aside;
use super::super::target::{BatchAnswer, FeedTarget, RefusedRow, SendError};
use super::super::{SourceBatch, SourcePosition};
use super::patience::{FollowOptions, Observer, Patience, Stop};
use evertally_declare::error::{Context, PipelineError, Result, usage};
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;

/// The most rows that an error names.
const MAX_NAMED_ROWS: usize = 20;

/// Entries of the file for refused rows, each with the number of rows that have it.
pub(super) type WrittenRows = BTreeMap<String, usize>;

/// The rows of a partition that were set aside.
pub(super) struct AsideRows {
    /// Those of earlier attempts that were not refused again yet.
    pub(super) known: WrittenRows,
    /// Those of this attempt.
    pub(super) found: WrittenRows,
}

impl AsideRows {
    /// Notes that a row was refused, and returns whether it has not been written yet.
    fn is_new(&mut self, entry: &str) -> bool {
        *self.found.entry(entry.to_owned()).or_default() += 1;
        let Some(count) = self.known.get_mut(entry) else { return true };
        *count -= 1;
        if *count == 0 {
            self.known.remove(entry);
        }
        false
    }

    /// All of them, for the next attempt.
    pub(super) fn all(mut self) -> WrittenRows {
        for (entry, count) in self.found {
            *self.known.entry(entry).or_default() += count;
        }
        self.known
    }
}

/// What became of a batch.
pub(super) enum Delivered {
    Accepted {
        rows: u64,
        aside: u64,
    },
    Elsewhere(Option<SourcePosition>),
    /// Only this number of its first rows can be accepted now.
    Cut(usize),
    /// Its first rows are of a part of the stream that is not open yet, for this reason.
    NotOpen(String),
}

/// A batch on its way.
pub(super) struct Sending<'f> {
    pub(super) target: &'f dyn FeedTarget,
    /// The name of the source at the service.
    pub(super) name: &'f str,
    pub(super) batch: &'f SourceBatch,
    /// Its partition, for messages.
    pub(super) place: String,
    pub(super) options: &'f FollowOptions,
    /// Whether its first rows may be read again as a batch.
    pub(super) may_cut: bool,
}

impl Sending<'_> {
    /// Sends the batch, without the rows that are set aside, until there is an answer. It is not interrupted within an
    /// attempt: an answer on its way is worth waiting for.
    pub(super) async fn run(
        self,
        observer: &mut dyn Observer,
        patience: &mut Patience<'_>,
        set_aside: &mut AsideRows,
    ) -> Result<Delivered, Stop> {
        let Self { target, name, batch, options, may_cut, .. } = self;
        let mut left_out = BTreeSet::new();
        loop {
            let body = batch.rows.body(&left_out).into_owned();
            match target.send(name, batch, body).await {
                Ok(BatchAnswer::Accepted(rows)) => {
                    patience.reached(observer);
                    return Ok(Delivered::Accepted { rows, aside: left_out.len() as u64 });
                }
                Ok(BatchAnswer::Elsewhere(position)) => return Ok(Delivered::Elsewhere(position)),
                Ok(BatchAnswer::NotOpen { why, before_row }) => {
                    let first = before_row.filter(|_| may_cut).and_then(|row| batch.rows.row_of(row, &left_out));
                    let rows = first.map_or(0, |row| batch.rows.rows_before(row));
                    return Ok(if rows > 0 { Delivered::Cut(rows) } else { Delivered::NotOpen(why) });
                }
                Ok(BatchAnswer::BadRows(rows)) => {
                    let found = rows.iter().filter_map(|row| batch.rows.row_of(row.row?, &left_out));
                    let found: BTreeSet<usize> = found.filter(|row| !left_out.contains(row)).collect();
                    let Some(aside) = options.aside.as_ref().filter(|_| batch.rows.has_lines() && !found.is_empty())
                    else {
                        return Err(self.described(&rows, &left_out).into());
                    };
                    self.put_aside(aside, &rows, &left_out, set_aside)?;
                    left_out.extend(found);
                }
                Err(SendError::Refused(error)) => return Err(Stop::Error(error.context(self.place))),
                Err(SendError::Away(why)) => patience.wait(&why, observer).await?,
            }
        }
    }

    /// The problems of rows, with their places in the source.
    fn described(&self, rows: &[RefusedRow], left_out: &BTreeSet<usize>) -> PipelineError {
        let mut all: Vec<String> = Vec::new();
        for RefusedRow { row, field, problem, remedy } in rows.iter().take(MAX_NAMED_ROWS) {
            let row = row.and_then(|row| self.batch.rows.row_of(row, left_out));
            let place = row.and_then(|row| self.batch.rows.origin_of(row));
            let place = place.map_or(String::new(), |text| format!(", {text}"));
            let field = field.as_ref().map_or(String::new(), |field| format!(", field {field}"));
            if self.options.hides_values {
                all.push(format!("{}{place}{field} cannot be accepted", self.place));
                continue;
            }
            let remedy = remedy.as_ref().map_or(String::new(), |remedy| format!("; {remedy}"));
            all.push(format!("{}{place}{field}: {problem}{remedy}", self.place));
        }
        let remedy = match self.options.aside {
            None if self.batch.rows.has_lines() => {
                "correct the source, or set such rows aside with --aside FILE (in a configuration: aside)"
            }
            _ => "correct the source",
        };
        all.push(format!("nothing of the batch was accepted; {remedy}"));
        usage(all.join("\n"))
    }

    /// Appends refused rows, with their problems, to a file that nobody else may read: one JSON object per row. Rows
    /// that an earlier attempt has written are passed over.
    fn put_aside(
        &self,
        path: &Path,
        rows: &[RefusedRow],
        left_out: &BTreeSet<usize>,
        set_aside: &mut AsideRows,
    ) -> Result<()> {
        let path = match self.options.aside_by_day {
            true => aside::of_day(path, Timestamp::now()),
            false => path.to_owned(),
        };
        let cannot = || format!("cannot write {}", path.display());
        let mut file = aside::open(&path).context(cannot())?;
        let (mut text, content) = (String::new(), &self.batch.rows);
        for row in rows {
            let index = row.row.and_then(|row| content.row_of(row, left_out));
            let entry = serde_json::json!({
                "source": self.place, "place": index.and_then(|row| content.origin_of(row)), "field": row.field,
                "problem": row.problem, "row": index.and_then(|row| content.text_of(row)),
            });
            let entry = entry.to_string();
            if set_aside.is_new(&entry) {
                text.push_str(&entry);
                text.push('\n');
            }
        }
        file.write_all(text.as_bytes()).context(cannot())?;
        file.sync_data().context(cannot())
    }
}
