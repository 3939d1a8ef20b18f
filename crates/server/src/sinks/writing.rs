//! One sink: writes publications, and tries again.

use super::{PublicationWriters, SinkProgress};
use crate::config::SinkConfig;
use crate::engine::{Service, StreamInfo};
use evertally_declare::error::{Result, failure, usage};
use evertally_feeds::{CancellationToken, Sink, SinkContent, SinkMemory, SourceError};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How often sinks check for new publications.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// The first and the longest pause after an error.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// Writes the publications of a stream to a sink.
pub(super) struct SinkWriter {
    config: SinkConfig,
    progress: Arc<SinkProgress>,
    service: Weak<Service>,
    writers: PublicationWriters,
}

/// A publication, and the digest of all rows up to it, as positions have them: `17 <digest>`. The digest shows whether
/// the rows in a sink are those of the same stream.
struct PublicationPlace {
    publication: u64,
    digest: String,
}

impl PublicationPlace {
    fn of(service: &Service, info: &StreamInfo, publication: u64) -> Result<Self> {
        let head = service.head_of(info, publication)?;
        Ok(Self { publication, digest: evertally::hex(&head[..16]) })
    }

    fn parse(text: &str) -> Option<Self> {
        let (publication, digest) = text.split_once(' ')?;
        Some(Self { publication: publication.parse().ok()?, digest: digest.to_owned() })
    }

    fn position(&self) -> String {
        format!("{} {}", self.publication, self.digest)
    }
}

/// The publication and the position after which a sink continues.
#[derive(Default)]
struct SinkPosition {
    last: u64,
    position: Option<String>,
}

impl SinkWriter {
    pub(super) fn new(
        config: &SinkConfig,
        progress: &Arc<SinkProgress>,
        service: &Arc<Service>,
        writers: PublicationWriters,
    ) -> Self {
        Self { config: config.clone(), progress: Arc::clone(progress), service: Arc::downgrade(service), writers }
    }

    /// The name under which the store remembers the last publication.
    fn key(&self) -> String {
        format!("sink {}", self.progress.sink)
    }

    /// Writes publications until it is cancelled, whatever happens meanwhile.
    pub(super) fn run(&self, cancelled: &CancellationToken) {
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => return self.progress.set_problem(Some(format!("the system gives no resources: {error}"))),
        };
        runtime.block_on(async {
            tokio::select! {
                () = self.keep_writing() => {}
                () = cancelled.cancelled() => {}
            }
        });
        // An upload may wait for its store.
        runtime.shutdown_background();
    }

    async fn keep_writing(&self) {
        let mut sink = match self.config.open() {
            Ok(sink) => sink,
            Err(error) => return self.progress.set_problem(Some(error.to_string())),
        };
        self.warn(&mut *sink);
        let (mut written, mut pause) = (None, FIRST_PAUSE);
        loop {
            let before = self.progress.written();
            match self.advance(&mut *sink, &mut written).await {
                Ok(()) => {
                    self.report(None);
                    pause = FIRST_PAUSE;
                    tokio::time::sleep(POLL_INTERVAL).await;
                }
                Err(error) => {
                    // The publication may have been written.
                    written = None;
                    self.report(Some(match error {
                        SourceError::Away(why) => why,
                        SourceError::Fault(error) => error.to_string(),
                    }));
                    // A sink that accepted something in between is not down.
                    pause = if self.progress.written() > before { FIRST_PAUSE } else { pause };
                    tokio::time::sleep(pause).await;
                    pause = MAX_PAUSE.min(2 * pause);
                }
            }
        }
    }

    /// Logs what the operator should know.
    fn warn(&self, sink: &mut dyn Sink) {
        for warning in sink.warnings() {
            tracing::warn!(stream = self.progress.stream, sink = self.progress.sink, "{warning}");
        }
    }

    /// Sets the problem, and logs it if it is a new one.
    fn report(&self, problem: Option<String>) {
        let before = self.progress.problem();
        if before != problem {
            let (stream, sink) = (&self.progress.stream, &self.progress.sink);
            match &problem {
                Some(problem) => tracing::error!(stream, sink, problem, "a sink is not written; it is tried again"),
                None => tracing::info!(stream, sink, "a sink is written again"),
            }
            self.progress.set_problem(problem);
        }
    }

    /// Writes all publications that the sink lacks.
    async fn advance(&self, sink: &mut dyn Sink, written: &mut Option<SinkPosition>) -> Result<(), SourceError> {
        let Some(service) = self.service.upgrade() else { return Ok(()) };
        let service = &*service;
        let Some(info) = service.stream(&self.config.stream) else {
            return Err(SourceError::Fault(usage("its stream does not exist")));
        };
        let SinkPosition { last, position } = match written {
            Some(written) => written,
            None => written.insert(self.find(sink, service, &info).await?),
        };
        let shown = info.progress().publications;
        while *last < shown {
            let place = PublicationPlace::of(service, &info, *last + 1)?;
            let content = match sink.content() {
                SinkContent::Rows => (self.writers.lines)(service, &info, place.publication)?.into_bytes(),
                SinkContent::Message => (self.writers.message)(service, &info, place.publication)?.into_bytes(),
                SinkContent::Parquet => (self.writers.parquet)(service, &info, place.publication)?,
                SinkContent::Samples => (self.writers.samples)(service, &info, place.publication)?,
            };
            let wrote = sink.write(position.as_deref(), &content, &place.position()).await;
            self.warn(sink);
            wrote?;
            service.set_delivered(&self.key(), &info, place.publication)?;
            (*last, *position) = (place.publication, Some(place.position()));
            self.progress.last.store(*last, Ordering::Relaxed);
            self.progress.written.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Where to continue.
    async fn find(
        &self,
        sink: &mut dyn Sink,
        service: &Service,
        info: &StreamInfo,
    ) -> Result<SinkPosition, SourceError> {
        let own = service.delivered(&self.key(), info)?.unwrap_or(0);
        self.progress.last.store(own, Ordering::Relaxed);
        let memory = sink.memory();
        let found = if memory == SinkMemory::Caller { None } else { sink.last().await? };
        let unknown = |position: &String| {
            failure(format!("its position `{position}` was not written by this service; choose another place for it"))
        };
        let theirs =
            found.as_ref().map(|found| PublicationPlace::parse(found).ok_or_else(|| unknown(found))).transpose()?;
        if let Some(place) = &theirs {
            Self::compare(service, info, place)?;
        }
        let theirs = theirs.map_or(0, |place| place.publication);
        let last = if memory == SinkMemory::Sink { theirs } else { theirs.max(own) };
        self.progress.last.store(last, Ordering::Relaxed);
        let position = match last {
            0 => None,
            last if last == theirs => found,
            last => Some(PublicationPlace::of(service, info, last)?.position()),
        };
        Ok(SinkPosition { last, position })
    }

    /// Whether the publications in the sink are those of this stream.
    fn compare(service: &Service, info: &StreamInfo, place: &PublicationPlace) -> Result<(), SourceError> {
        let (theirs, shown) = (place.publication, info.progress().publications);
        if theirs > shown {
            return Err(SourceError::Away(format!(
                "it has publication {theirs}, and the stream has shown only {shown}: wait if the folder was restored \
                 from a backup; otherwise another stream with this name was written there, so choose another place"
            )));
        }
        if PublicationPlace::of(service, info, theirs)?.digest != place.digest {
            return Err(SourceError::Fault(usage(format!(
                "its publications up to {theirs} are not those of this stream, but of another one with the same name; \
                 choose another place for this stream"
            ))));
        }
        Ok(())
    }
}
