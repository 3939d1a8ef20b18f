//! The service as a program: the implementation of `evertally serve`.

mod health;

pub use health::health;

use crate::config::{Config, ReplicaConfig};
use crate::engine::StreamState;
use crate::http::Side;
use crate::serving::{
    ReloadSignal, Running, Waited, replicate_until_shutdown, serve_until_shutdown, wait, witness_from,
};
use crate::standby::{self, MissingSteps, compare, is_replaced};
use crate::{demo, tokens};
use evertally_declare::error::{Result, failure, usage};
use jiff::Timestamp;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

/// Permissions for a single start, which never stand in the configuration.
#[derive(Clone, Copy, Debug, Default)]
pub struct StartPermissions {
    /// A new folder may begin with an existing key: nothing was ever published with it.
    pub adopts_key: bool,
    /// A folder that had a witness may continue with a new one, or none: it is the newest copy.
    pub forgets_witness: bool,
    /// As long as another machine is the primary, its changes are followed.
    pub follows: bool,
}

/// Handles signals to reload from now on, until a service or a replica does: without this they would end the process.
///
/// # Errors
/// If the handler cannot be installed.
pub fn survive_reload_signals() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().map_err(failure)?;
    let _entered = runtime.enter();
    // The handler stays when the runtime ends.
    ReloadSignal::new().map(drop)
}

/// Runs a configured service until the process receives a signal to end. `say` receives messages for people.
///
/// # Errors
/// If it cannot be started.
pub fn serve(config: &Path, once: StartPermissions, say: impl Fn(&str)) -> Result<()> {
    let runtime = Runtime::new()?;
    // First of all: until then, a signal to reload ends the process.
    let reload = runtime.within(ReloadSignal::new)?;
    let StartPermissions { adopts_key, forgets_witness, follows } = once;
    let file = config;
    let config = Config { adopts_key, forgets_witness, ..Config::read(file)? };
    let started = |running: &Running| {
        if tokens::Tokens::from_folder(&config.folder).and_then(|tokens| tokens.all()).is_ok_and(|all| all.is_empty()) {
            say("there are no tokens yet; create one with `evertally token make --config FILE --role operate`");
        }
        if let Some(listener) = config.private.as_ref().filter(|own| own.certificate.is_none() && !own.is_local()) {
            say(&format!(
                "{} is reachable from other machines without a certificate: tokens and events are sent unencrypted, \
                 unless a proxy in front of it speaks TLS",
                listener.listen
            ));
        }
        for own in config.syslog.iter().filter(|own| own.certificate.is_none() && !own.listen.ip().is_loopback()) {
            say(&format!("syslog at {} has no certificate: its events are sent unencrypted", own.listen));
        }
        if config.witness.is_none() {
            say("no witness: a restored backup or a copy of the folder could publish a step twice; add [witness] to \
                 the configuration");
        }
        let unconfigured = running.unconfigured();
        if !unconfigured.is_empty() {
            say(&format!(
                "the folder has open streams that the configuration does not name, and they continue: {}",
                unconfigured.join(", ")
            ));
        }
        running.extending().iter().for_each(|line| say(line));
        addresses(running).iter().for_each(|line| say(line));
    };
    runtime.run(async {
        if follows && wait(&config, &say).await? == Waited::Stopped {
            return Ok(());
        }
        serve_until_shutdown(&config, file, reload, started).await
    })
}

/// Runs a replica until the process receives a signal to end. `say` receives messages for people.
///
/// # Errors
/// If it cannot be started.
pub fn replicate(config: &Path, say: impl Fn(&str)) -> Result<()> {
    let config = ReplicaConfig::read(config)?;
    let runtime = Runtime::new()?;
    // A replica has nothing to read again, but the signal must not end it.
    let _reload = runtime.within(ReloadSignal::new)?;
    runtime.run(replicate_until_shutdown(&config, |running| {
        say(&format!("reading: {}", running.url));
        say(&format!("copies of the public streams of {}", config.place()));
    }))
}

/// Writes the database as it was at a time to a new file, from the segments in a standby folder, or in a folder of an
/// object store. With a configuration, that is its folder unless `from` names another, and the database is compared
/// with the witness.
///
/// # Errors
/// If the time or the configuration cannot be read, the file exists, the folder has no whole database of that time, or
/// the witness cannot be read.
pub fn restore(
    from: Option<&Path>,
    config: Option<&Path>,
    at: Option<&str>,
    to: &Path,
    say: impl Fn(&str),
) -> Result<()> {
    let config = config.map(Config::read).transpose()?;
    let configured = config.as_ref().and_then(|config| config.standby.as_ref()).map(|standby| standby.folder.as_path());
    let from = from.or(configured).ok_or_else(|| {
        usage("there is no standby folder: name it with --from, or a configuration with [standby] with --config")
    })?;
    let time = |text: &str| {
        text.parse::<Timestamp>().map_err(|_| {
            usage(format!("`{text}` is not a time with a time zone: write it like `2026-01-31T12:00:00Z`"))
        })
    };
    let last = standby::restore(&*standby::target_from(from)?, at.map(time).transpose()?, to)?;
    say(&format!("{} is the database with all changes through {last}", to.display()));
    let Some(config) = &config else { return Ok(()) };
    let mut witness = witness_from(config)?;
    let Some(record) = witness.peek()? else { return Ok(()) };
    let missing = compare(to, &record)?;
    if is_replaced(to, &record)? {
        say(&format!(
            "no service starts with {}: the witness {} names a machine that has taken over and shipped nothing since. \
             Start that machine with --follow, or, if it is lost, this one: it takes over with everything in the \
             standby folder",
            to.display(),
            witness.place()
        ));
    }
    for MissingSteps { stream, closed, seen } in missing {
        say(&format!(
            "stream `{stream}` is restored through step {closed}, and was published through step {seen}: it will be \
             recovering until the same events are sent again"
        ));
    }
    Ok(())
}

/// Plays the demonstration until the process receives a signal to end.
///
/// # Errors
/// If it cannot be started.
pub fn demonstrate(listen: SocketAddr, say: impl Fn(&str)) -> Result<()> {
    Runtime::new()?.run(demo::play(listen, |running, token| {
        say("the flights that left New York in 2013, an hour in half a second; Ctrl-C ends it and deletes its data");
        say(&format!("open: {}", demo::url(running)));
        say(&format!("for the operator's view, sign in with the token {token}"));
    }))
}

/// Checks the folder of a configuration: every closed step is computed again from the store, all hash chains are
/// followed from their beginnings, and the witness is compared.
///
/// # Errors
/// If something differs from the published steps.
pub fn verify(config: &Path, say: impl Fn(&str)) -> Result<()> {
    for line in crate::serving::verify(&Config::read(config)?)? {
        say(&line);
    }
    Ok(())
}

/// The kind of process that a configuration is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServeMode {
    /// A service.
    Service,
    /// A follower of another machine.
    Follower,
    /// A replica for readers.
    Replica,
}

/// Checks a configuration without opening anything: its streams are planned, and the files that it names are read.
///
/// # Errors
/// The first setting that a service could not start with.
pub fn check(config: &Path, mode: ServeMode, say: impl Fn(&str)) -> Result<()> {
    let found = match mode {
        ServeMode::Service => crate::serving::check(&Config::read(config)?)?,
        ServeMode::Follower => crate::serving::check_follower(&Config::read(config)?)?,
        ServeMode::Replica => crate::serving::check_replica(&ReplicaConfig::read(config)?)?,
    };
    for line in found {
        say(&line);
    }
    Ok(())
}

fn addresses(running: &Running) -> Vec<String> {
    let line = |(side, url): &(Side, String)| match side {
        Side::Public => format!("reading: {url}"),
        Side::Private => format!("writing and operating: {url}"),
    };
    let streams = running.service.streams();
    let is_open = |state: StreamState| matches!(state, StreamState::Open | StreamState::Recovering(_));
    let streams = match streams.iter().filter(|info| is_open(info.progress().state)).count() {
        0 => "no stream is open yet".to_owned(),
        1 => "1 stream is open".to_owned(),
        streams => format!("{streams} streams are open"),
    };
    running.urls.iter().map(line).chain([streams]).collect()
}

/// The time that threads have to end without a waiting request. Their writes are atomic.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// The runtime of the program.
struct Runtime(tokio::runtime::Runtime);

impl Runtime {
    fn new() -> Result<Self> {
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(failure).map(Self)
    }

    /// Runs something that needs to be inside the runtime.
    fn within<T>(&self, run: impl FnOnce() -> T) -> T {
        let _entered = self.0.enter();
        run()
    }

    /// Runs until the future ends, without waiting for answers that nobody receives.
    fn run(self, until: impl Future<Output = Result<()>>) -> Result<()> {
        let ended = self.0.block_on(until);
        self.0.shutdown_timeout(SHUTDOWN_TIMEOUT);
        ended
    }
}

/// Logs to standard error: no data, no keys, no tokens. With `as_json`, each line is a JSON object.
pub fn log(level: tracing::Level, as_json: bool) {
    let subscriber = tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr).with_target(false);
    // Once is enough.
    let _ = if as_json { subscriber.json().flatten_event(true).try_init() } else { subscriber.try_init() };
}

/// Writes a message for people to the log.
pub fn note(line: &str) {
    tracing::info!("{line}");
}

pub use tracing::Level;
