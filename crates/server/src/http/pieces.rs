//! Answers with many rows, created piece by piece.
//!
//! Each piece is created when the client has read the previous one. Therefore a slow client holds the memory of one
//! piece and no thread, and compressing a piece occupies a thread of the runtime only briefly.

use super::answers::JsonRows;
use super::app::App;
use super::threads::Work;
use super::work::in_thread;
use crate::engine::{RowsQuery, StreamInfo};
use arrow_ipc::writer::StreamWriter;
use axum::BoxError;
use bytes::Bytes;
use evertally_declare::error::{Result as PublishResult, failure};
use evertally_declare::format::Format;
use evertally_publish::rows::ReleaseRow;
use evertally_tables::output::{TableColumns, TableWriter};
use hyper::body::{Body, Frame};
use std::future::Future;
use std::ops::RangeInclusive;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// About the number of rows of a piece.
const ROWS: u64 = 2048;

/// The rest of an answer.
pub(super) struct AnswerPieces {
    info: Arc<StreamInfo>,
    query: RowsQuery,
    format: Format,
    lines: u64,
    /// The next publication, and the place of its next line if it has too many lines for a piece; `None` once
    /// everything is written.
    next: Option<(u64, u64)>,
    has_begun: bool,
    has_rows: bool,
    arrow: Option<StreamWriter<Vec<u8>>>,
}

impl AnswerPieces {
    /// The answer to a query for `lines` lines of each publication.
    pub(super) fn new(info: Arc<StreamInfo>, query: RowsQuery, lines: u64, format: Format) -> Self {
        let (first, last) = (*query.publications.start(), *query.publications.end());
        let next = (first <= last).then_some((first, 0));
        Self { info, query, format, lines: lines.max(1), next, has_begun: false, has_rows: false, arrow: None }
    }

    /// Whether the next piece is the last one.
    pub(super) fn is_over(&self) -> bool {
        self.has_begun && self.next.is_none()
    }

    /// The next piece.
    pub(super) fn next(&mut self, app: &App) -> PublishResult<Vec<u8>> {
        let mut piece = Vec::new();
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        let query = self.take_query();
        let each = |visit: &mut dyn FnMut(&ReleaseRow<'_>) -> PublishResult<()>| match &query {
            Some(query) => app.service.rows(&self.info, query, &mut |_, row| visit(row)),
            None => Ok(()),
        };
        match self.format {
            Format::Json => {
                if is_first {
                    let (from, to) = (self.query.publications.start(), self.query.publications.end());
                    let name = serde_json::to_string(self.info.name()).map_err(failure)?;
                    let head = format!("{{\"stream\":{name},\"from\":{from},\"to\":{to},\"rows\":[");
                    piece.extend(head.into_bytes());
                }
                let mut rows = JsonRows::new(&self.info.stream, &self.info.table)?;
                each(&mut |row| rows.add(row))?;
                let rows = rows.finish()?;
                if self.has_rows && !rows.is_empty() {
                    piece.push(b',');
                }
                self.has_rows |= !rows.is_empty();
                piece.extend(rows.into_bytes());
                if self.next.is_none() {
                    piece.extend(b"]}");
                }
            }
            Format::Csv
            | Format::JsonLines
            | Format::Parquet
            | Format::Xes
            | Format::Xlsx
            | Format::CommonLog
            | Format::CombinedLog => {
                // Only the first piece has the header.
                let header = match is_first {
                    true => 0,
                    false => TableWriter::new(self.format, &self.info.table, Vec::new())?.finish()?.len(),
                };
                let mut table = TableWriter::new(self.format, &self.info.table, Vec::new())?;
                each(&mut |row| table.write(row))?;
                piece.extend(&table.finish()?[header..]);
            }
            Format::Arrow => {
                let mut columns = TableColumns::new(&self.info.table);
                each(&mut |row| columns.push(row))?;
                let batch = columns.finish()?;
                let mut writer = match self.arrow.take() {
                    Some(writer) => writer,
                    None => StreamWriter::try_new(Vec::new(), &batch.schema()).map_err(failure)?,
                };
                writer.write(&batch).map_err(failure)?;
                if self.next.is_none() {
                    writer.finish().map_err(failure)?;
                }
                piece = std::mem::take(writer.get_mut());
                self.arrow = Some(writer);
            }
        }
        Ok(piece)
    }

    /// The query of the next piece; advances `next`.
    fn take_query(&mut self) -> Option<RowsQuery> {
        let (publication, line) = self.next?;
        let last = *self.query.publications.end();
        let of = |publications: RangeInclusive<u64>, places: Option<Vec<u32>>| RowsQuery {
            publications,
            places,
            every: self.query.every,
            kept: self.query.kept.or(Some(last)),
        };
        if !self.format.is_streamable() {
            self.next = None;
            return Some(of(publication..=last, self.query.places.clone()));
        }
        // Discovered groups have rows of earlier steps before the lines of a publication, which is not divided then.
        if self.lines <= ROWS || self.info.stream.plan.threshold().is_some() {
            let count = (ROWS / self.lines).max(1).saturating_mul(self.query.every);
            let end = publication.saturating_add(count - 1).min(last);
            self.next = (end < last).then(|| (end + 1, 0));
            return Some(of(publication..=end, self.query.places.clone()));
        }
        // With `every`, the steps between have no rows.
        let kept = publication.checked_next_multiple_of(self.query.every);
        let publication = kept.map_or(last, |kept| kept.min(last));
        let end = (line + ROWS).min(self.lines);
        let places = match &self.query.places {
            Some(places) => places[line as usize..end as usize].to_vec(),
            None => (line as u32..end as u32).collect(), // fits: places are numbers of 32 bits
        };
        self.next = match end < self.lines {
            true => Some((publication, end)),
            false => (publication < last).then(|| (publication + 1, 0)),
        };
        Some(of(publication..=publication, Some(places)))
    }
}

type Made = Pin<Box<dyn Future<Output = (Option<Box<AnswerPieces>>, Result<Vec<u8>, BoxError>)> + Send>>;

/// Pieces as the body of an answer.
pub(super) struct PiecewiseBody {
    app: Arc<App>,
    state: PieceState,
}

enum PieceState {
    Made(Vec<u8>, Box<AnswerPieces>),
    Waiting(Box<AnswerPieces>),
    Making(Made),
    Over,
}

impl PiecewiseBody {
    /// The first piece, and the remaining ones.
    pub(super) fn new(app: Arc<App>, first: Vec<u8>, pieces: AnswerPieces) -> Self {
        Self { app, state: PieceState::Made(first, Box::new(pieces)) }
    }
}

impl Body for PiecewiseBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        loop {
            match std::mem::replace(&mut self.state, PieceState::Over) {
                PieceState::Over => return Poll::Ready(None),
                PieceState::Made(piece, pieces) => {
                    self.state = PieceState::Waiting(pieces);
                    return Poll::Ready(Some(Ok(Frame::data(piece.into()))));
                }
                PieceState::Waiting(pieces) if pieces.is_over() => return Poll::Ready(None),
                PieceState::Waiting(mut pieces) => {
                    let app = Arc::clone(&self.app);
                    self.state = PieceState::Making(Box::pin(async move {
                        let made = in_thread(&app, Work::Rows, move |app| {
                            let piece = pieces.next(app);
                            Ok((pieces, piece))
                        });
                        match made.await {
                            Ok((pieces, piece)) => (Some(pieces), piece.map_err(|error| error.to_string().into())),
                            Err(_) => (None, Err("the thread that made the rows is gone".into())),
                        }
                    }));
                }
                PieceState::Making(mut made) => match made.as_mut().poll(context) {
                    Poll::Pending => {
                        self.state = PieceState::Making(made);
                        return Poll::Pending;
                    }
                    Poll::Ready((Some(pieces), Ok(piece))) => self.state = PieceState::Made(piece, pieces),
                    Poll::Ready((_, Err(error))) => return Poll::Ready(Some(Err(error))),
                    Poll::Ready((None, Ok(_))) => return Poll::Ready(None),
                },
            }
        }
    }
}
