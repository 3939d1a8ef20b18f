//! Checks a configuration without opening its folder, and without a network.

use super::comparison::{Compared, Folder, compare};
use super::files::{check_files, check_listener};
use super::preflight::{check_hosts, check_key, check_record, check_start, is_own};
use super::replica::of_service;
use super::streams;
use crate::clock::{Clock, SystemClock};
use crate::config::{Config, ListenAddress, ReplicaConfig, StreamConfig};
use crate::engine::Preview;
use crate::feeds::Feeds;
use crate::folder::store_path;
use crate::role::Role;
use crate::sinks::Sinks;
use crate::standby::{PrimarySign, get_sign, target_from};
use crate::store::FolderStreams;
use crate::tokens::Tokens;
use evertally_declare::error::{Context, Result, usage};
use evertally_ledger::source::SourceBudget;
use evertally_tables::input::is_object;
use std::path::{Path, PathBuf};

/// Checks a configuration: every stream is planned and compared with the folder, and every file that it names is read.
/// Nothing is opened, created or spent. Returns the findings.
///
/// # Errors
/// The first setting that a service could not start with.
pub fn check(config: &Config) -> Result<Vec<String>> {
    let places = check_files(config)?;
    let folder = Folder::of(config)?;
    let mut found = check_sources(config)?;
    check_key(config, &folder)?;
    check_record(config, &folder)?;
    Tokens::from_folder(&config.folder)?;
    check_hosts(config)?;
    let compared = compare(config, &folder, SystemClock::default().now(), true)?;
    found.extend(described(config, &compared, places));
    found.extend(compared.warnings.iter().map(|warning| format!("warning: {warning}")));
    found.extend(unknown_roles(config, &folder));
    let unconfigured = folder.unconfigured(config);
    if !unconfigured.is_empty() {
        found.push(format!(
            "the folder has open streams that the configuration does not name, and they continue: {}",
            unconfigured.join(", ")
        ));
    }
    found.push(match folder.is_known() {
        true => "the configuration is valid".to_owned(),
        false => "the configuration is valid; a service has the folder open, and compares its streams when it reads \
                  the configuration"
            .to_owned(),
    });
    Ok(found)
}

/// Checks the configuration of a follower: whether it could take over.
///
/// # Errors
/// The first reason for which it could not follow, or not serve.
pub fn check_follower(config: &Config) -> Result<Vec<String>> {
    let Some(standby) = &config.standby else {
        return Err(usage("--follow needs [standby] in the configuration, with the folder that the primary ships to"));
    };
    let places = check_files(config)?;
    check_start(config, primary_key(&standby.folder)?.as_deref(), None)?;
    check_hosts(config)?;
    let mut found = check_sources(config)?;
    // Its copy may be in use by the follower.
    let compared = compare(config, &Folder::InUse, SystemClock::default().now(), true)?;
    found.extend(described(config, &compared, places));
    found.push(
        "the configuration is valid for a follower, which compares its streams with those of the primary".to_owned(),
    );
    Ok(found)
}

/// The id of the key of the primaries that have shipped to a folder. An object store is not connected.
fn primary_key(folder: &Path) -> Result<Option<String>> {
    if is_object(folder) {
        return Ok(None);
    }
    let target = target_from(folder)?;
    for name in target.list("primaries")? {
        if let Some(sign) = get_sign::<PrimarySign>(&*target, &format!("primaries/{name}"))? {
            return Ok(Some(sign.key_id));
        }
    }
    Ok(None)
}

/// Checks the configuration of a replica.
///
/// # Errors
/// The first setting that a replica could not start with.
pub fn check_replica(config: &ReplicaConfig) -> Result<Vec<String>> {
    if config.folder.exists() && !config.folder.is_dir() {
        return Err(usage(format!("folder: {} is not a folder", config.folder.display())));
    }
    check_listener(&config.public).context("[public]")?;
    if let ListenAddress::Tcp(address) = &config.public.listen {
        is_own(*address)?;
    }
    let store = store_path(&config.folder);
    if store.exists() && FolderStreams::read(&store)?.is_some_and(|streams| streams.key_id.is_some()) {
        return Err(of_service(&config.folder));
    }
    Ok(vec![format!("the configuration of the replica is valid; {} is not connected for this check", config.place())])
}

fn check_sources(config: &Config) -> Result<Vec<String>> {
    let left = |(name, path): (&String, &PathBuf)| {
        let budget = SourceBudget::from_file(path).and_then(|budget| budget.state());
        let state = budget.map_err(|error| error.context(format_args!("source `{name}`")))?;
        Ok(format!("source `{name}`: {} of {} is left", state.left, state.cap))
    };
    config.sources.iter().map(left).collect()
}

/// The streams and the places of their events and publications, in words.
fn described(config: &Config, compared: &Compared<'_>, (feeds, sinks): (Vec<String>, Vec<String>)) -> Vec<String> {
    let mut found: Vec<String> =
        compared.planned.iter().flat_map(|(stream, preview)| described_stream(stream, preview)).collect();
    let feeds = config.feeds.iter().zip(feeds).map(|(feed, source)| (&feed.stream, "fed from", source));
    let sinks = config.sinks.iter().zip(sinks).map(|(sink, place)| (&sink.stream, "written to", place));
    found.extend(feeds.chain(sinks).map(|(stream, what, place)| {
        format!("stream `{stream}` is {what} {place}, which is not connected for this check")
    }));
    let warnings = Feeds::warnings(&config.feeds).into_iter().chain(Sinks::warnings(&config.sinks));
    found.extend(warnings.map(|warning| format!("warning: {warning}")));
    let syslog = config.syslog.iter();
    found.extend(syslog.map(|own| format!("stream `{}` is fed by syslog at {}", own.stream, own.listen)));
    found
}

fn described_stream(stream: &StreamConfig, preview: &Preview) -> Vec<String> {
    let (planned, errors) = (preview.stream(), preview.errors());
    let budget = planned.plan.request().budget();
    let mechanism = planned.plan.mechanism().name();
    let error = match errors.max_std_error {
        error if error.is_finite() => format!("standard error at most {error:.4}"),
        _ => "standard error without bound".to_owned(),
    };
    let (name, mechanism) = (&stream.name, mechanism.brief());
    let line = format!("stream `{name}`: {budget} by {mechanism}, {error}, protects {}", planned.unit());
    [line].into_iter().chain(streams::extension_cost(stream, planned)).collect()
}

/// Warnings about roles for streams that do not exist, which may be typing errors.
fn unknown_roles(config: &Config, folder: &Folder) -> Vec<String> {
    let clients = config.clients.iter().flat_map(|client| {
        let what = format!("[[client]] `{}`", client.name);
        client.roles.iter().map(move |role| (what.clone(), role.clone()))
    });
    let issuers = config.identities.iter().flat_map(|identity| {
        let what = format!("[[identity]] `{}`", identity.issuer);
        let roles = identity.roles.iter().filter_map(|rule| rule.role.parse::<Role>().ok());
        roles.map(move |role| (what.clone(), role))
    });
    let is_unknown = |role: &Role| {
        let name = role.stream().map(streams::first_part);
        name.is_some_and(|name| !streams::is_configured(config, name) && !folder.may_have(name))
    };
    let unknown = clients.chain(issuers).filter(|(_, role)| is_unknown(role));
    let warning = |(what, role)| format!("warning: {what} has the role `{role}`, and there is no such stream yet");
    unknown.map(warning).collect()
}
