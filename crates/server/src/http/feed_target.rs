//! Streams of this service, as the targets of feeds.

use super::app::App;
use super::body::decoded;
use crate::engine::{BatchId, Refusal, RowProblem, SourceRange};
use crate::extensions::SentBatch;
use crate::feeds::TargetOf;
use async_trait::async_trait;
use evertally_declare::error::{failure, usage};
use evertally_feeds::{BatchAnswer, FeedTarget, RefusedRow, SendError, SourceBatch, SourcePosition, blocking};
use std::collections::BTreeMap;
use std::io::Cursor;
use std::sync::{Arc, Weak};

/// The streams of a service.
pub(crate) fn feed_targets(app: &Arc<App>) -> TargetOf {
    let app = Arc::downgrade(app);
    Arc::new(move |stream| Box::new(ServiceTarget { app: app.clone(), stream: stream.to_owned() }))
}

struct ServiceTarget {
    app: Weak<App>,
    stream: String,
}

impl ServiceTarget {
    fn app(&self) -> Result<Arc<App>, SendError> {
        self.app.upgrade().ok_or_else(|| SendError::Away(Refusal::Stopping.to_string()))
    }
}

#[async_trait]
impl FeedTarget for ServiceTarget {
    fn shown(&self) -> String {
        format!("stream `{}`", self.stream)
    }

    async fn positions(&self, source: &str) -> Result<BTreeMap<String, SourcePosition>, SendError> {
        let (app, stream, source) = (self.app()?, self.stream.clone(), source.to_owned());
        blocking(move || app.service.ask(move |core| core.positions(&stream, &source)).map_err(refused)).await
    }

    async fn send(&self, source: &str, batch: &SourceBatch, body: Vec<u8>) -> Result<BatchAnswer, SendError> {
        let (app, stream) = (self.app()?, self.stream.clone());
        let range = SourceRange::new(source, &batch.partition, batch.after.as_deref(), &batch.position)?;
        let (format, coding) = (batch.rows.format, batch.rows.compression);
        blocking(move || {
            let Some(info) = app.service.stream(&stream) else { return Err(refused(Refusal::NoStream)) };
            if !app.has_free_disk() {
                return Err(SendError::Away("the data disk is almost full".to_owned()));
            }
            let limit = app.settings().limits.decoded_bytes;
            let bytes = decoded(Cursor::new(body), coding, limit, &app.service.decoding()).map_err(refused)?;
            let sent = SentBatch { id: BatchId::Source(Box::new(range)), open_step: None, format, bytes };
            match app.extensions.accept(&app.service, info, sent) {
                Ok((_, receipt)) => Ok(BatchAnswer::Accepted(receipt.rows)),
                Err(Refusal::Elsewhere(position)) => Ok(BatchAnswer::Elsewhere(position)),
                Err(Refusal::NotOpen { why, row, .. }) => Ok(BatchAnswer::NotOpen { why, before_row: row }),
                Err(Refusal::Rows { rows, .. }) => {
                    Ok(BatchAnswer::BadRows(rows.into_iter().map(refused_row).collect()))
                }
                Err(refusal) => Err(refused(refusal)),
            }
        })
        .await
    }
}

fn refused_row(RowProblem { row, field, problem, remedy }: RowProblem) -> RefusedRow {
    RefusedRow { row, field, problem, remedy }
}

fn refused(refusal: Refusal) -> SendError {
    let why = refusal.to_string();
    match refusal {
        Refusal::Busy | Refusal::Stopping | Refusal::Halted(_) | Refusal::TooManyIds(_) | Refusal::DiskFull(_) => {
            SendError::Away(why)
        }
        Refusal::Other(error) if !error.is_usage() => SendError::Refused(failure(why)),
        _ => SendError::Refused(usage(why)),
    }
}
