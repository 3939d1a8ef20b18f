//! Checks a configuration without its folder, its key or a network.

use super::streams;
use crate::clock::{Clock, SystemClock};
use crate::config::{Config, secret_of};
use crate::engine::{Core, check_continues};
use crate::feeds::Feeds;
use crate::oidc::TrustedIssuers;
use crate::sinks::Sinks;
use crate::syslog::SyslogListeners;
use crate::webhook::Webhooks;
use evertally_declare::error::Result;
use evertally_ledger::source::SourceBudget;

/// Reads the files that a configuration names, except the key and the budgets of sources. Returns how messages name the
/// places of feeds and of sinks.
///
/// # Errors
/// The first that cannot be used.
pub(super) fn check_files(config: &Config) -> Result<(Vec<String>, Vec<String>)> {
    for listener in [&config.public, &config.private].into_iter().flatten() {
        if let Some(files) = listener.tls() {
            files.check()?;
        }
        #[cfg(unix)]
        if let crate::config::ListenAddress::Unix(path) = &listener.listen {
            crate::http::check_socket(path)?;
        }
    }
    let files = config.witness.iter().filter_map(|witness| witness.authorization_file.as_ref());
    for path in files.chain(&config.passphrase) {
        secret_of(path)?;
    }
    check_changeable(config)
}

/// The same for the sections that a reload takes up.
///
/// # Errors
/// As [`check_files`].
pub(super) fn check_changeable(config: &Config) -> Result<(Vec<String>, Vec<String>)> {
    SyslogListeners::check(&config.syslog)?;
    Webhooks::check(&config.webhooks)?;
    let feeds = Feeds::check(&config.feeds)?;
    let sinks = Sinks::check(&config.sinks)?;
    TrustedIssuers::check(&config.identities)?;
    streams::check_backups(config)?;
    Ok((feeds, sinks))
}

/// Checks a configuration: every stream is planned, and every file that it names is read, except the key. Nothing is
/// opened, created or spent. Returns the findings.
///
/// # Errors
/// The first setting that a service could not start with.
pub fn check(config: &Config) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let (feeds, sinks) = check_files(config)?;
    for (name, path) in &config.sources {
        let budget = SourceBudget::from_file(path).and_then(|budget| budget.state());
        let state = budget.map_err(|error| error.context(format_args!("source `{name}`")))?;
        found.push(format!("source `{name}`: {} of {} is left", state.left, state.cap));
    }
    let now = SystemClock::default().now();
    for stream in &config.streams {
        let preview = Core::plan(streams::opening_of(config, stream));
        let preview = preview.map_err(|error| streams::named(stream, &error))?;
        let (planned, errors) = (preview.stream(), preview.errors());
        let budget = planned.plan.request().budget();
        let mechanism = planned.plan.mechanism().name();
        let error = match errors.max_std_error {
            error if error.is_finite() => format!("standard error at most {error:.4}"),
            _ => "standard error without bound".to_owned(),
        };
        let (name, mechanism) = (&stream.name, mechanism.brief());
        found.push(format!("stream `{name}`: {budget} by {mechanism}, {error}, protects {}", planned.unit()));
        if let Some(end) = preview.missed_step(now) {
            found.push(format!(
                "the first step of stream `{name}` ended at {end}: the service starts only if the stream was opened \
                 before"
            ));
        }
        if let Some(cost) = streams::extension_cost(stream, planned) {
            check_continues(planned)?;
            found.push(cost);
        }
    }
    for hook in &config.webhooks {
        let is_configured = |name: &&String| config.streams.iter().any(|stream| stream.name == **name);
        let unknown: Vec<&str> = hook.streams.iter().filter(|name| !is_configured(name)).map(String::as_str).collect();
        if !unknown.is_empty() {
            found.push(format!(
                "the webhook {} names {}, which this file does not: the service starts only if it was opened before",
                hook.name(),
                unknown.join(", ")
            ));
        }
    }
    let feeds = config.feeds.iter().zip(feeds).map(|(feed, source)| (&feed.stream, "fed from", source));
    let sinks = config.sinks.iter().zip(sinks).map(|(sink, place)| (&sink.stream, "written to", place));
    for (stream, what, place) in feeds.chain(sinks) {
        found.push(format!("stream `{stream}` is {what} {place}, which is not connected for this check"));
        if !config.streams.iter().any(|own| own.name == *stream) {
            found.push(format!(
                "this file does not name stream `{stream}`: the service starts only if it was opened before"
            ));
        }
    }
    for syslog in &config.syslog {
        found.push(format!("stream `{}` is fed by syslog at {}", syslog.stream, syslog.listen));
        if !config.streams.iter().any(|own| own.name == syslog.stream) {
            found.push(format!(
                "this file does not name stream `{}`: the service starts only if it was opened before",
                syslog.stream
            ));
        }
    }
    found.push("the configuration is valid; whether open streams can take it up is checked at the start".to_owned());
    Ok(found)
}
