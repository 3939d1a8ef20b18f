//! Notifications for the service manager: systemd's `sd_notify`, a datagram to the socket named by `NOTIFY_SOCKET`.
//!
//! `READY=1` once the service answers, `STOPPING=1` when it shuts down, and `WATCHDOG=1` at the interval of
//! `WATCHDOG_USEC`, as long as both the counting thread and the answering runtime are alive. If one of them hangs, the
//! manager receives nothing more and restarts the service.

use crate::engine::Service;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// The service manager, if it expects notifications.
pub struct Supervisor {
    socket: Option<Arc<Socket>>,
    /// The interval at which a sign of life is expected.
    watchdog: Option<Duration>,
    is_over: Arc<AtomicBool>,
}

/// The interval at which the runtime signals that it is alive.
const BEAT: Duration = Duration::from_millis(500);

impl Supervisor {
    /// From the environment of the process.
    pub fn from_env() -> Self {
        let variable = |name: &str| std::env::var_os(name).and_then(|text| text.into_string().ok());
        let own = variable("WATCHDOG_PID").is_none_or(|id| id.parse() == Ok(std::process::id()));
        let micros = variable("WATCHDOG_USEC").filter(|_| own).and_then(|text| text.parse::<u64>().ok());
        Self::new(variable("NOTIFY_SOCKET").as_deref(), micros.map(Duration::from_micros))
    }

    /// With a socket (a path, or `@name` for an abstract one), and the time after which the manager considers a silent
    /// service dead.
    pub fn new(socket: Option<&str>, watchdog: Option<Duration>) -> Self {
        let connected = socket.and_then(|address| match Socket::connect(address) {
            Ok(socket) => Some(Arc::new(socket)),
            Err(error) => {
                tracing::warn!(error = %error, "cannot notify the service manager: NOTIFY_SOCKET");
                None
            }
        });
        let watchdog = watchdog.filter(|watchdog| !watchdog.is_zero());
        Self { socket: connected, watchdog, is_over: Arc::default() }
    }

    fn say(&self, state: &str) {
        if let Some(socket) = &self.socket {
            socket.send(state);
        }
    }

    /// Reports that the service answers, and begins to send signs of life if expected. Must be called inside the
    /// runtime.
    pub fn is_ready(&self, service: &Arc<Service>) {
        self.say("READY=1");
        let (Some(socket), Some(watchdog)) = (&self.socket, self.watchdog) else { return };
        let runtime = Arc::new(AtomicU64::new(0));
        let (beats, is_over) = (Arc::downgrade(&runtime), Arc::clone(&self.is_over));
        tokio::spawn(beat(beats));
        let (socket, service) = (Arc::clone(socket), Arc::downgrade(service));
        let watching = std::thread::Builder::new().name("watchdog".to_owned());
        // A third of the time: one datagram may be late.
        let beats = move || Some((service.upgrade()?.beats(), runtime.load(Ordering::Relaxed)));
        let started = watching.spawn(move || watch(&socket, &beats, watchdog / 3, &is_over));
        if let Err(error) = started {
            tracing::error!(error = %error, "cannot send signs of life to the service manager");
        }
    }

    /// Reports that the process is up and follows another machine, and begins to send signs of life if expected. Must
    /// be called inside the runtime.
    pub fn is_following(&self) {
        self.say("READY=1\nSTATUS=follows the primary");
        let (Some(socket), Some(watchdog)) = (&self.socket, self.watchdog) else { return };
        let runtime = Arc::new(AtomicU64::new(0));
        let (beats, is_over, socket) = (Arc::downgrade(&runtime), Arc::clone(&self.is_over), Arc::clone(socket));
        tokio::spawn(beat(beats));
        let alive = move || Some((runtime.load(Ordering::Relaxed), runtime.load(Ordering::Relaxed)));
        let watching = std::thread::Builder::new().name("watchdog".to_owned());
        if let Err(error) = watching.spawn(move || watch(&socket, &alive, watchdog / 3, &is_over)) {
            tracing::error!(error = %error, "cannot send signs of life to the service manager");
        }
    }

    /// Reports that the service reads its configuration again.
    pub fn is_reloading(&self) {
        self.say("RELOADING=1");
    }

    /// Reports that the configuration was read.
    pub fn is_reloaded(&self) {
        self.say("READY=1");
    }

    /// Reports that the service is shutting down.
    pub fn is_stopping(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.say("STOPPING=1");
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// Counts as long as the runtime runs and the counter is in use.
async fn beat(beats: Weak<AtomicU64>) {
    while let Some(beats) = beats.upgrade() {
        beats.fetch_add(1, Ordering::Relaxed);
        drop(beats);
        tokio::time::sleep(BEAT).await;
    }
}

/// Sends a sign of life whenever both have been alive since the last one, until the service is gone.
fn watch(socket: &Socket, beats: &dyn Fn() -> Option<(u64, u64)>, often: Duration, is_over: &AtomicBool) {
    let mut last = None;
    let look = (often / 8).clamp(Duration::from_millis(5), BEAT);
    let mut sent = std::time::Instant::now();
    while !is_over.load(Ordering::Relaxed) {
        let Some(now) = beats() else { return };
        let is_alive = last.is_none_or(|(counted, answered)| now.0 != counted && now.1 != answered);
        if is_alive && (last.is_none() || sent.elapsed() >= often) {
            socket.send("WATCHDOG=1");
            (last, sent) = (Some(now), std::time::Instant::now());
        }
        std::thread::sleep(look);
    }
}

#[cfg(unix)]
struct Socket(std::os::unix::net::UnixDatagram);

#[cfg(unix)]
impl Socket {
    fn connect(address: &str) -> std::io::Result<Self> {
        let socket = std::os::unix::net::UnixDatagram::unbound()?;
        match address.strip_prefix('@') {
            Some(name) => connect_abstract(&socket, name)?,
            None => socket.connect(address)?,
        }
        // A manager that does not read must not stop the service.
        socket.set_nonblocking(true)?;
        Ok(Self(socket))
    }

    fn send(&self, state: &str) {
        if let Err(error) = self.0.send(state.as_bytes()) {
            tracing::debug!(error = %error, state, "cannot notify the service manager");
        }
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn connect_abstract(socket: &std::os::unix::net::UnixDatagram, name: &str) -> std::io::Result<()> {
    #[cfg(target_os = "android")]
    use std::os::android::net::SocketAddrExt;
    #[cfg(target_os = "linux")]
    use std::os::linux::net::SocketAddrExt;
    socket.connect_addr(&std::os::unix::net::SocketAddr::from_abstract_name(name.as_bytes())?)
}

#[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
fn connect_abstract(_: &std::os::unix::net::UnixDatagram, _: &str) -> std::io::Result<()> {
    Err(std::io::Error::other("this system has no abstract sockets"))
}

#[cfg(not(unix))]
struct Socket;

#[cfg(not(unix))]
impl Socket {
    fn connect(_: &str) -> std::io::Result<Self> {
        Err(std::io::Error::other("this system has no such sockets"))
    }

    fn send(&self, _: &str) {}
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram};

    fn heard(socket: &UnixDatagram) -> String {
        let mut bytes = [0; 64];
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let count = socket.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..count].to_vec()).unwrap()
    }

    #[test]
    fn both_kinds_of_sockets_are_reached() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let name = format!("evertally-test-{}", std::process::id());
        let sockets = [
            (path.to_str().unwrap().to_owned(), UnixDatagram::bind(&path).unwrap()),
            (
                format!("@{name}"),
                UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(name.as_bytes()).unwrap()).unwrap(),
            ),
        ];
        for (address, socket) in sockets {
            let supervisor = Supervisor::new(Some(&address), None);
            supervisor.is_stopping();
            assert_eq!(heard(&socket), "STOPPING=1", "{address}");
        }
        // Without a listening socket, nothing happens.
        Supervisor::new(Some("/nowhere/notify"), None).is_stopping();
        Supervisor::new(None, None).is_stopping();
    }

    /// If either of the two hangs, the signs of life end.
    #[test]
    fn signs_of_life_need_both() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        for hangs in [None, Some(0), Some(1)] {
            let _ = std::fs::remove_file(&path);
            let socket = UnixDatagram::bind(&path).unwrap();
            let (reported_to, is_over) = (Socket::connect(path.to_str().unwrap()).unwrap(), AtomicBool::new(false));
            let counts = [AtomicU64::new(0), AtomicU64::new(0)];
            let is_hanging = AtomicBool::new(false);
            let beats = || {
                for (place, count) in counts.iter().enumerate() {
                    if hangs != Some(place) || !is_hanging.load(Ordering::Relaxed) {
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                }
                Some((counts[0].load(Ordering::Relaxed), counts[1].load(Ordering::Relaxed)))
            };
            std::thread::scope(|scope| {
                scope.spawn(|| watch(&reported_to, &beats, Duration::from_millis(20), &is_over));
                (0..5).for_each(|_| assert_eq!(heard(&socket), "WATCHDOG=1"));
                is_hanging.store(true, Ordering::Relaxed);
                // Datagrams that were under way.
                std::thread::sleep(Duration::from_millis(200));
                socket.set_nonblocking(true).unwrap();
                let mut bytes = [0; 64];
                while socket.recv(&mut bytes).is_ok() {}
                std::thread::sleep(Duration::from_millis(500));
                assert_eq!(socket.recv(&mut bytes).is_ok(), hangs.is_none(), "{hangs:?}");
                is_over.store(true, Ordering::Relaxed);
            });
        }
    }
}
