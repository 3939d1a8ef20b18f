//! Commits messages in batches.
//!
//! The listener is a source of the stream with one partition, whose position is a number: the service keeps one record
//! of it, and no id for each batch. A batch whose answer was lost has the same position when it is sent again.

use super::progress::{MessageRows, SyslogProgress, SyslogRefusal};
use crate::config::SyslogConfig;
use evertally_declare::error::{Context, Result};
use evertally_feeds::{BatchAnswer, FeedTarget, RefusedRow, Rows, SendError, SourceBatch};
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// How long the first message of a batch waits for others.
const WAIT: Duration = Duration::from_millis(200);
/// The most rows and bytes of a batch.
const MAX_ROWS: usize = 5000;
const MAX_BYTES: usize = 1 << 20;
/// The first and the longest pause before a batch is sent again.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const MAX_PAUSE: Duration = Duration::from_secs(15);

/// The file for refused messages.
#[derive(Clone)]
struct AsideFile {
    path: PathBuf,
    /// The most bytes: senders decide how much is refused.
    most: u64,
    /// Whether the last rows had no room.
    is_full: bool,
}

/// Commits the messages of a listener.
pub(super) struct Committer {
    target: Box<dyn FeedTarget>,
    /// The name of the listener as a source.
    source: String,
    aside: Option<AsideFile>,
    progress: Arc<SyslogProgress>,
    stopping: watch::Receiver<bool>,
    /// The position at the service, once it is known.
    position: Option<Option<String>>,
}

impl Committer {
    pub(super) fn new(
        config: &SyslogConfig,
        target: Box<dyn FeedTarget>,
        progress: Arc<SyslogProgress>,
        stopping: watch::Receiver<bool>,
    ) -> Self {
        let source = format!("syslog:{}", config.listen);
        let aside = config.aside.clone().map(|path| AsideFile { path, most: config.aside_bytes, is_full: false });
        Self { target, source, aside, progress, stopping, position: None }
    }

    /// Commits until the queue is closed and empty.
    pub(super) async fn run(mut self, mut queue: mpsc::Receiver<MessageRows>) {
        while let Some(rows) = gathered(&mut queue).await {
            self.commit(rows).await;
        }
    }

    /// Commits rows, except those that are refused, however long it takes. At a shutdown it gives up if the stream
    /// accepts nothing any more.
    async fn commit(&mut self, rows: MessageRows) {
        let mut pause = FIRST_PAUSE;
        let mut left = vec![rows];
        let mut is_closed = false;
        while let Some(mut rows) = left.pop() {
            loop {
                let problem = match self.send(&rows).await {
                    Ok(BatchAnswer::Accepted(_)) => {
                        self.progress.rows.fetch_add(rows.len() as u64, std::sync::atomic::Ordering::Relaxed);
                        self.is_well();
                        (pause, is_closed) = (FIRST_PAUSE, false);
                        break;
                    }
                    Ok(BatchAnswer::Elsewhere(position)) => {
                        self.position = Some(position);
                        continue;
                    }
                    Ok(BatchAnswer::BadRows(bad)) => {
                        self.refuse(&mut rows, &bad).await;
                        if rows.is_empty() {
                            break;
                        }
                        continue;
                    }
                    Ok(BatchAnswer::NotOpen { why, before_row }) => {
                        let own = before_row.and_then(|row| usize::try_from(row - 1).ok()).unwrap_or(0);
                        if (1..rows.len()).contains(&own) {
                            left.push(rows.split_off(own));
                            continue;
                        }
                        is_closed = true;
                        why
                    }
                    // Either the stream accepts nothing, or something in these rows cannot even be read.
                    Err(SendError::Refused(error)) => match self.send(&[]).await {
                        Ok(BatchAnswer::Accepted(_)) if rows.len() > 1 => {
                            left.push(rows.split_off(rows.len() / 2));
                            continue;
                        }
                        Ok(BatchAnswer::Accepted(_)) => {
                            let bad =
                                RefusedRow { row: Some(1), field: None, problem: error.to_string(), remedy: None };
                            self.refuse(&mut rows, &[bad]).await;
                            break;
                        }
                        // The error of no rows quotes none.
                        Err(SendError::Refused(error)) => {
                            is_closed = true;
                            error.to_string()
                        }
                        Err(SendError::Away(why)) | Ok(BatchAnswer::NotOpen { why, .. }) => why,
                        Ok(_) => "the stream accepts nothing".to_owned(),
                    },
                    Err(SendError::Away(why)) => why,
                };
                self.has_problem(problem);
                if is_closed && *self.stopping.borrow() {
                    return; // a stream that accepts nothing does not delay the end of the service
                }
                self.wait(pause).await;
                pause = MAX_PAUSE.min(2 * pause);
            }
        }
    }

    /// Sends rows as the next batch.
    async fn send(&mut self, rows: &[Vec<u8>]) -> Result<BatchAnswer, SendError> {
        let after = match &self.position {
            Some(position) => position.clone(),
            None => self.target.positions(&self.source).await?.remove(""),
        };
        self.position = Some(after.clone());
        let next = after.as_deref().and_then(|after| after.parse::<u64>().ok()).unwrap_or(0).wrapping_add(1);
        let batch = SourceBatch { partition: String::new(), after, position: next.to_string(), rows: Rows::none() };
        let answer = self.target.send(&self.source, &batch, rows.concat()).await?;
        if matches!(answer, BatchAnswer::Accepted(_)) {
            self.position = Some(Some(batch.position));
        }
        Ok(answer)
    }

    /// Removes refused rows, counts them, and sets them aside if it can.
    async fn refuse(&mut self, rows: &mut MessageRows, bad: &[RefusedRow]) {
        let mut refused = BTreeMap::new();
        for problem in bad {
            let index = problem.row.and_then(|row| usize::try_from(row).ok()).and_then(|row| row.checked_sub(1));
            if let Some(index) = index.filter(|index| *index < rows.len()) {
                refused.entry(index).or_insert(problem);
            }
        }
        if refused.is_empty() {
            // Nothing is named: refuse the first row, and learn more about the others.
            refused.extend(bad.first().filter(|_| !rows.is_empty()).map(|problem| (0, problem)));
        }
        if self.aside.is_some() {
            let entry = |(index, problem): (&usize, &&RefusedRow)| {
                let row = String::from_utf8_lossy(&rows[*index]).trim_end().to_owned();
                serde_json::json!({"field": problem.field, "problem": problem.problem, "row": row}).to_string() + "\n"
            };
            let text: String = refused.iter().map(entry).collect();
            self.set_aside(text).await;
        }
        self.progress.refuse(SyslogRefusal::NotAccepted, refused.len() as u64);
        let mut index = 0;
        rows.retain(|_| {
            index += 1;
            !refused.contains_key(&(index - 1))
        });
    }

    /// Writes refused rows to their file. Good rows do not wait until that is possible: the operator learns of it.
    async fn set_aside(&mut self, text: String) {
        let Some(aside) = &mut self.aside else { return };
        let own = aside.clone();
        let done = evertally_feeds::blocking(move || own.append(&text)).await;
        let shown = aside.path.display();
        aside.is_full = matches!(done, Ok(false));
        let problem = match done {
            Ok(true) => None,
            Ok(false) => Some(format!(
                "{shown} has no room below {} bytes (`aside-bytes`), so refused messages are only counted: move the \
                 file away",
                aside.most
            )),
            Err(error) => Some(format!("refused messages are only counted: {error}")),
        };
        let (stream, source) = (&self.progress.stream, &self.source);
        match (self.progress.set_aside_problem(problem.clone()), problem) {
            (true, Some(problem)) => tracing::warn!(stream, source, problem, "refused messages are not set aside"),
            (true, None) => tracing::info!(stream, source, "refused messages are set aside again"),
            _ => {}
        }
    }

    fn is_well(&self) {
        if self.progress.set_problem(None) {
            tracing::info!(
                stream = self.progress.stream,
                source = self.source,
                "messages of syslog are committed again"
            );
        }
    }

    fn has_problem(&self, problem: String) {
        if self.progress.set_problem(Some(problem.clone())) {
            let (stream, source) = (&self.progress.stream, &self.source);
            tracing::error!(stream, source, problem, "messages of syslog cannot be committed; trying again");
        }
    }

    /// Waits before another attempt; at a shutdown only briefly.
    async fn wait(&mut self, pause: Duration) {
        let is_stopping = *self.stopping.borrow();
        tokio::select! {
            () = tokio::time::sleep(if is_stopping { pause.min(FIRST_PAUSE) } else { pause }) => {}
            _ = self.stopping.changed(), if !is_stopping => {}
        }
    }
}

/// The next rows, as soon as there are enough, or the first has waited long enough. `None` at the end of the queue.
async fn gathered(queue: &mut mpsc::Receiver<MessageRows>) -> Option<MessageRows> {
    let mut rows = queue.recv().await?;
    let mut size: usize = rows.iter().map(Vec::len).sum();
    let until = tokio::time::Instant::now() + WAIT;
    while rows.len() < MAX_ROWS && size < MAX_BYTES {
        let Ok(Some(part)) = tokio::time::timeout_at(until, queue.recv()).await else { break };
        size += part.iter().map(Vec::len).sum::<usize>();
        rows.extend(part);
    }
    Some(rows)
}

impl AsideFile {
    /// Appends text, for nobody else to read. Returns whether there was room. A full file stays full until somebody
    /// removes half of it: otherwise short rows would fit now and then.
    #[expect(clippy::disallowed_methods, reason = "appends rows that nobody reads back")]
    fn append(&self, text: &str) -> Result<bool> {
        let mut options = OpenOptions::new();
        options.create(true).append(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let cannot = || format!("cannot write {}", self.path.display());
        let mut file = options.open(&self.path).context(cannot())?;
        let length = file.metadata().context(cannot())?.len();
        let stays_full = self.is_full && length > self.most / 2;
        if stays_full || length.saturating_add(text.len() as u64) > self.most {
            return Ok(false);
        }
        file.write_all(text.as_bytes()).context(cannot())?;
        file.sync_data().context(cannot())?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_for_refused_messages_has_a_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("aside.jsonl");
        let mut aside = AsideFile { path: path.clone(), most: 10, is_full: false };
        assert!(aside.append("12345678\n").unwrap());
        assert!(!aside.append("9\n").unwrap());
        aside.is_full = true;
        assert!(!aside.append("\n").unwrap(), "it stays full");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "12345678\n");
        std::fs::remove_file(&path).unwrap();
        assert!(aside.append("1\n").unwrap());
        aside.path = folder.path().to_owned();
        assert!(aside.append("1\n").is_err());
    }
}
