//! The service as a program: what `evertally serve` runs.

use crate::config::Config;
use crate::http::Side;
use crate::serving::{Running, until_told};
use crate::{demo, tokens};
use evertally_declare::error::{Result, failure};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

/// What whoever starts a service says once, and no configuration for ever.
#[derive(Clone, Copy, Debug, Default)]
pub struct Once {
    /// A new folder may begin with a key that is there: nothing was ever published with it.
    pub adopts_key: bool,
    /// A folder that has had a witness may go on with a new one, or none: it is the newest copy.
    pub forgets_witness: bool,
}

/// Runs what a configuration says until the process is told to end. `say` gets what a person should read.
///
/// # Errors
/// If it cannot be started.
pub fn serve(config: &Path, once: Once, say: impl Fn(&str)) -> Result<()> {
    let Once { adopts_key, forgets_witness } = once;
    let config = Config { adopts_key, forgets_witness, ..Config::read(config)? };
    run(until_told(&config, |running| {
        if tokens::Tokens::of_folder(&config.folder).and_then(|tokens| tokens.all()).is_ok_and(|all| all.is_empty()) {
            say("no token opens anything yet; make one with `evertally token make --config FILE --role operate`");
        }
        if let Some(listener) =
            config.private.as_ref().filter(|own| own.certificate.is_none() && !own.listen.ip().is_loopback())
        {
            say(&format!(
                "others can reach {} and it has no certificate: tokens and events travel for all to read, unless something in \
                 front of it speaks TLS",
                listener.listen
            ));
        }
        if config.witness.is_none() {
            say(
                "no witness: a restored backup or a copy of the folder could publish a step twice; add [witness] to the configuration",
            );
        }
        addresses(running).iter().for_each(|line| say(line));
    }))
}

/// Plays the demonstration until the process is told to end.
///
/// # Errors
/// If it cannot be started.
pub fn demonstrate(listen: SocketAddr, say: impl Fn(&str)) -> Result<()> {
    run(demo::play(listen, |running, token| {
        say("the flights that left New York in 2013, an hour in half a second; Ctrl-C ends it, and all of it goes");
        say(&format!("look: {}", demo::url(running)));
        say(&format!("the operator's view opens with the token {token}"));
    }))
}

/// Checks the folder of a configuration: every closed step is computed again from what the store holds, chains of
/// digests are followed from their beginnings, and the witness is asked.
///
/// # Errors
/// If something is not as it was published.
pub fn verify(config: &Path, say: impl Fn(&str)) -> Result<()> {
    for line in crate::serving::verify(&Config::read(config)?)? {
        say(&line);
    }
    Ok(())
}

fn addresses(running: &Running) -> Vec<String> {
    let line = |(side, url): &(Side, String)| match side {
        Side::Public => format!("reading: {url}"),
        Side::Private => format!("writing and operating: {url}"),
    };
    let streams = match running.service.streams().len() {
        0 => "no stream is open yet".to_owned(),
        1 => "1 stream is open".to_owned(),
        streams => format!("{streams} streams are open"),
    };
    running.urls.iter().map(line).chain([streams]).collect()
}

/// How long threads may take to end what no request waits for any more. What they write is whole, or was never written.
const LAST: Duration = Duration::from_secs(1);

/// Runs until it is over, and does not wait for answers that nobody hears.
fn run(until: impl Future<Output = Result<()>>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(failure)?;
    let ended = runtime.block_on(until);
    runtime.shutdown_timeout(LAST);
    ended
}

/// Writes what happens to standard error: no data, no keys, no tokens.
pub fn log(level: tracing::Level) {
    let subscriber = tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr).with_target(false);
    let _ = subscriber.try_init(); // once is enough
}

pub use tracing::Level;
