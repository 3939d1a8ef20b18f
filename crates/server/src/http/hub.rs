//! Watchers: each publication is serialized once for all of them.

use super::answers;
use crate::engine::{Notice, Service, StreamInfo};
use bytes::Bytes;
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::broadcast::{self, Receiver};
use tokio::sync::{OnceCell, Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;

/// The most publications that a slow watcher may miss; after that it receives only the last ones.
const MAX_MISSED_PUBLICATIONS: usize = 256;

/// The most messages that wait for one watcher; a watcher that does not read them is disconnected.
const WATCHER_QUEUE: usize = 32;

/// The interval of comment lines, which keep proxies and clients from closing an idle connection: some clients wait no
/// longer than five seconds for the next byte.
const HEARTBEAT: Duration = Duration::from_secs(4);

/// Threads that read publications for watchers.
const THREADS: usize = 16;

/// A message for watchers.
pub(super) struct WatchMessage {
    pub(super) info: Arc<StreamInfo>,
    publication: Option<u64>,
    /// Created by the first watcher that needs them; if it disconnects meanwhile, by the next.
    words: OnceCell<Bytes>,
}

/// What a watcher receives.
type ToWatcher = mpsc::Sender<Result<Bytes, Infallible>>;

/// Whether a watcher may still read its stream, which is not public. It may wait for a file.
pub(super) type Permission = Arc<dyn Fn(&StreamInfo) -> bool + Send + Sync>;

/// One watcher of a stream.
struct WatchingClient {
    stream: String,
    may_read: Permission,
    to: ToWatcher,
}

/// The channels of watched streams, by stream number.
type Channels = Mutex<HashMap<u32, broadcast::Sender<Arc<WatchMessage>>>>;

/// All watchers.
pub(super) struct Hub {
    channels: Arc<Channels>,
    service: Weak<Service>,
    /// The number of watchers of each stream, by stream number. A limit on their sum would reveal streams that the
    /// caller may not read.
    watchers: Mutex<HashMap<u32, usize>>,
    /// The most watchers of one stream.
    most: AtomicUsize,
    threads: Arc<Semaphore>,
}

impl Hub {
    pub(super) fn new(service: &Arc<Service>, most: usize) -> Arc<Self> {
        let channels = Arc::<Channels>::default();
        let telling = Arc::clone(&channels);
        service.watch(move |notice| {
            let (info, publication) = match notice {
                Notice::Published(info, publication) => (info, Some(publication)),
                Notice::Changed(info) => (info, None),
            };
            let mut channels = telling.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(channel) = channels.get(&info.number) else { return };
            let number = info.number;
            if channel.send(Arc::new(WatchMessage { info, publication, words: OnceCell::new() })).is_err() {
                channels.remove(&number); // no watchers are left
            }
        });
        let threads = Arc::new(Semaphore::new(THREADS));
        let (service, most) = (Arc::downgrade(service), AtomicUsize::new(most));
        Arc::new(Self { channels, service, watchers: Mutex::default(), most, threads })
    }

    /// Changes the limit on the watchers of one stream; those that are connected stay.
    pub(super) fn set_most_watchers(&self, most: usize) {
        self.most.store(most, Ordering::Relaxed);
    }

    fn channel(&self, info: &StreamInfo) -> Receiver<Arc<WatchMessage>> {
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        channels.entry(info.number).or_insert_with(|| broadcast::channel(MAX_MISSED_PUBLICATIONS).0).subscribe()
    }

    /// The number of watchers of all streams.
    pub(super) fn count(&self) -> usize {
        self.watchers().values().sum()
    }

    fn watchers(&self) -> MutexGuard<'_, HashMap<u32, usize>> {
        self.watchers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one more watcher of a stream; `None` if there are too many.
    fn admit(self: &Arc<Self>, stream: u32) -> Option<Watching> {
        let mut watchers = self.watchers();
        let count = watchers.entry(stream).or_default();
        if *count >= self.most.load(Ordering::Relaxed) {
            return None;
        }
        *count += 1;
        Some(Watching(Arc::clone(self), stream))
    }

    /// The messages for one watcher of a stream, after a publication that it knows; `None` if too many watch this
    /// stream. They end once the watcher may not read the stream any more, even if nothing is published.
    pub(super) fn watch(
        self: &Arc<Self>,
        info: Arc<StreamInfo>,
        missed: Option<u64>,
        may_read: Permission,
    ) -> Option<ReceiverStream<Result<Bytes, Infallible>>> {
        let watching = self.admit(info.number)?;
        let (to, stream) = mpsc::channel(WATCHER_QUEUE);
        let watcher = WatchingClient { stream: info.name().to_owned(), may_read, to };
        let messages = self.channel(&info);
        tokio::spawn(async move { watching.0.tell(&info, missed, messages, &watcher).await });
        Some(ReceiverStream::new(stream))
    }

    /// Whether a watcher may read its stream now.
    async fn permits(&self, watcher: &WatchingClient) -> bool {
        let Some(info) = self.service.upgrade().and_then(|service| service.stream(&watcher.stream)) else {
            return false;
        };
        if info.is_public() {
            return true;
        }
        let permit = Arc::clone(&self.threads).acquire_owned().await.expect("the semaphore is never closed");
        let may_read = Arc::clone(&watcher.may_read);
        let permitted = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            may_read(&info)
        });
        permitted.await.unwrap_or(false)
    }

    async fn tell(
        &self,
        info: &Arc<StreamInfo>,
        missed: Option<u64>,
        mut messages: Receiver<Arc<WatchMessage>>,
        watcher: &WatchingClient,
    ) {
        // Without a `Last-Event-ID`, a watcher receives the last publication and the following ones.
        let shown = info.progress().publications;
        let mut last = missed.map_or_else(|| shown.saturating_sub(1), |missed| missed.min(shown));
        if !self.catch_up(&mut last, watcher).await {
            return;
        }
        let mut heartbeat = tokio::time::interval(HEARTBEAT);
        loop {
            let words = tokio::select! {
                next = messages.recv() => match next {
                    Ok(next) if next.publication.is_some_and(|publication| publication <= last) => continue,
                    Ok(next) => {
                        last = next.publication.unwrap_or(last);
                        self.words_of(&next).await
                    }
                    Err(broadcast::error::RecvError::Lagged(_)) => {
                        if !self.catch_up(&mut last, watcher).await {
                            return;
                        }
                        continue;
                    }
                    Err(broadcast::error::RecvError::Closed) => return,
                },
                _ = heartbeat.tick() => EMPTY_COMMENT,
                () = watcher.to.closed() => return,
            };
            // A watcher that does not read is disconnected; it reconnects with its last id.
            if !self.permits(watcher).await || watcher.to.try_send(Ok(words)).is_err() {
                return;
            }
        }
    }

    /// Sends a watcher the publications that it has missed, or the last of them; `false` if it has disconnected, or may
    /// not read them any more.
    async fn catch_up(&self, last: &mut u64, watcher: &WatchingClient) -> bool {
        let Some(info) = self.service.upgrade().and_then(|service| service.stream(&watcher.stream)) else {
            return false;
        };
        let shown = info.progress().publications;
        for publication in (*last + 1).max(shown.saturating_sub(MAX_MISSED_PUBLICATIONS as u64 - 1)).max(1)..=shown {
            let words = self.in_thread(&info, Some(publication)).await;
            let Ok(place) = watcher.to.reserve().await else { return false };
            // Only now: a slow watcher may have lost its role while it was waited for.
            if !self.permits(watcher).await {
                return false;
            }
            place.send(Ok(words));
            *last = publication;
        }
        true
    }

    async fn words_of(&self, message: &WatchMessage) -> Bytes {
        message.words.get_or_init(|| self.in_thread(&message.info, message.publication)).await.clone()
    }

    /// The message of a publication or of a state, created in a thread that may wait for the disk.
    async fn in_thread(&self, info: &Arc<StreamInfo>, publication: Option<u64>) -> Bytes {
        let permit = Arc::clone(&self.threads).acquire_owned().await.expect("the semaphore is never closed");
        let (service, info) = (self.service.clone(), Arc::clone(info));
        let words = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            match (publication, service.upgrade()) {
                (Some(publication), Some(service)) => published(&service, &info, publication),
                (None, _) => changed(&info),
                (Some(_), None) => EMPTY_COMMENT,
            }
        });
        words.await.unwrap_or(EMPTY_COMMENT)
    }
}

/// A comment line. Without an empty line after it: some clients take that for an event without data.
const EMPTY_COMMENT: Bytes = Bytes::from_static(b": keep-alive\n");

/// A watcher of a stream, counted until this is dropped.
struct Watching(Arc<Hub>, u32);

impl Drop for Watching {
    fn drop(&mut self) {
        let mut watchers = self.0.watchers();
        let Some(count) = watchers.get_mut(&self.1) else { return };
        *count -= 1;
        if *count == 0 {
            watchers.remove(&self.1);
        }
    }
}

fn published(service: &Service, info: &StreamInfo, publication: u64) -> Bytes {
    let data = answers::publication(service, info, publication);
    Bytes::from(format!("event: published\nid: {publication}\ndata: {data}\n\n"))
}

fn changed(info: &StreamInfo) -> Bytes {
    let data = serde_json::to_string(&answers::Description::new(info)).expect("a description is plain data");
    Bytes::from(format!("event: state\ndata: {data}\n\n"))
}
