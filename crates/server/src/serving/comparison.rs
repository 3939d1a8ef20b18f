//! Compares the streams of a configuration with those of a folder that is not opened for it: whether a start would open
//! the new ones, and take up the changes of the others.

use super::streams::{self, named, named_by};
use crate::config::{Config, StreamConfig};
use crate::engine::{Core, Preview, check_continues, is_spent};
use crate::folder::store_path;
use crate::store::{FolderStreams, KnownStore, Phase, StreamRecord};
use crate::witness::{FileWitness, Witness};
use evertally_declare::error::{Result, usage};
use evertally_declare::steps::Instant;
use evertally_ledger::keyfile;
use evertally_ledger::source::{Claim, SourceBudget};
use std::collections::BTreeMap;

/// The streams of the folder of a configuration.
pub(super) enum Folder {
    /// They are known; a new folder has none.
    Known(FolderStreams),
    /// A service has the folder open.
    InUse,
}

impl Folder {
    /// Reads the folder of a configuration. Nothing in it changes.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(super) fn of(config: &Config) -> Result<Self> {
        let path = store_path(&config.folder);
        if !path.exists() {
            return Ok(Self::Known(FolderStreams::default()));
        }
        Ok(FolderStreams::read(&path)?.map_or(Self::InUse, Self::Known))
    }

    fn record(&self, name: &str) -> Option<&StreamRecord> {
        match self {
            Self::Known(streams) => streams.find(name),
            Self::InUse => None,
        }
    }

    /// The last of the streams that continue a stream, if there are any and it is open: it takes up the configuration.
    fn last_part(&self, config: &Config, name: &str) -> Option<&StreamRecord> {
        let place = |record: &StreamRecord| record.name.strip_prefix(name)?.strip_prefix(" #")?.parse::<u32>().ok();
        let Self::Known(streams) = self else { return None };
        // Not a stream that somebody has given such a name.
        let parts = streams.records.iter().filter(|record| !streams::is_configured(config, &record.name));
        let last = parts.filter_map(|record| Some((place(record)?, record))).max_by_key(|(place, _)| *place);
        last.map(|(_, record)| record).filter(|record| record.phase == Phase::Open)
    }

    /// The public name of the key with which the folder was begun, if that is known.
    pub(super) fn key_id(&self) -> Option<&str> {
        match self {
            Self::Known(streams) => streams.key_id.as_deref(),
            Self::InUse => None,
        }
    }

    /// Facts about its database, if it exists and they are known.
    pub(super) fn store(&self) -> Option<&KnownStore> {
        match self {
            Self::Known(streams) => streams.store.as_ref(),
            Self::InUse => None,
        }
    }

    /// Whether all of its streams are known.
    pub(super) fn is_known(&self) -> bool {
        matches!(self, Self::Known(_))
    }

    /// Whether it has a stream of this name, as far as that is known.
    pub(super) fn may_have(&self, name: &str) -> bool {
        !self.is_known() || self.record(name).is_some()
    }

    /// The open streams that a configuration does not name.
    pub(super) fn unconfigured(&self, config: &Config) -> Vec<&str> {
        let Self::Known(streams) = self else { return Vec::new() };
        let open = streams.records.iter().filter(|record| record.phase == Phase::Open);
        let names = open.map(|record| record.name.as_str());
        let is_named = |name: &&str| {
            streams::is_configured(config, name) || streams::is_configured(config, streams::first_part(name))
        };
        names.filter(|name| !is_named(name)).collect()
    }
}

/// The result of a comparison.
#[derive(Default)]
pub(super) struct Compared<'c> {
    /// The planned streams.
    pub(super) planned: Vec<(&'c StreamConfig, Preview)>,
    /// Findings that do not keep a service from starting.
    pub(super) warnings: Vec<String>,
}

/// Checks that the streams of a folder can take up their configuration, that the others can be opened together, and
/// that other tables name streams that exist. Streams of the folder are planned only if `plans_all`: it takes time.
///
/// # Errors
/// The first stream with which a service could not start.
pub(super) fn compare<'c>(config: &'c Config, folder: &Folder, now: Instant, plans_all: bool) -> Result<Compared<'c>> {
    let mut compared = Compared::default();
    for stream in &config.streams {
        let record = folder.record(&stream.name);
        if let Some(record) = record {
            streams::check_change(config, stream, record).map_err(|error| named(stream, &error))?;
            if let Some(last) = folder.last_part(config, &stream.name) {
                streams::check_part(config, stream, (last, &stream.name)).map_err(|error| named(stream, &error))?;
            }
        }
        if record.is_some() && !plans_all {
            continue;
        }
        let preview = Core::plan(streams::opening_of(config, stream));
        let preview = preview.map_err(|error| named(stream, &error))?;
        if stream.extend.is_some() {
            check_continues(preview.stream()).map_err(|error| named(stream, &error))?;
        }
        if record.is_none() {
            let missed = check_new(config, folder, stream, (&preview, now)).map_err(|error| named(stream, &error))?;
            compared.warnings.extend(missed);
        }
        compared.planned.push((stream, preview));
    }
    if let Folder::Known(known) = folder
        && let Some(key_id) = &known.key_id
    {
        streams::check_known(&known.records, key_id, config)?;
    }
    check_budgets(config, folder, &compared.planned)?;
    let exists = |name: &str| folder.record(name).is_some() || streams::is_configured(config, name);
    match folder {
        Folder::Known(_) => streams::check_named(config, exists)?,
        Folder::InUse => compared.warnings.extend(named_by(config).into_iter().filter(|(_, name)| !exists(name)).map(
            |(what, name)| {
                format!(
                    "{what} names the stream `{name}`, which this file does not: the service starts only if it was \
                     opened before"
                )
            },
        )),
    }
    Ok(compared)
}

/// Checks that a stream that is not open yet could be opened. Returns a warning if the answer depends on unknown facts.
fn check_new(
    config: &Config,
    folder: &Folder,
    stream: &StreamConfig,
    (preview, now): (&Preview, Instant),
) -> Result<Option<String>> {
    preview.check_sums()?;
    let Some(end) = preview.missed_step(now) else { return Ok(None) };
    // A stream that recovers what another copy of the folder has published may begin in the past.
    let recovers = match &config.witness {
        None => Some(false),
        Some(witness) => witness.file.as_ref().map(|file| {
            let record = FileWitness::new(file).peek().ok().flatten();
            record.is_some_and(|record| record.streams.contains_key(&stream.name))
        }),
    };
    match recovers {
        Some(true) => Ok(None),
        Some(false) if folder.is_known() => Err(usage(format!(
            "start: the first step ended at {end}, and would be closed before its events can arrive; begin later, or \
             let an operator close its steps (closing = \"operator\")"
        ))),
        _ => Ok(Some(format!(
            "the first step of stream `{}` ended at {end}: the service starts only if the stream was opened before",
            stream.name
        ))),
    }
}

/// Checks that the streams that are not open yet fit the budgets of their sources together.
fn check_budgets(config: &Config, folder: &Folder, planned: &[(&StreamConfig, Preview)]) -> Result<()> {
    // A sealed key has no readable name: then a stream is known by its own name.
    let own_key = || keyfile::read(&config.key).ok().filter(|_| config.passphrase.is_none());
    let key_id = folder.key_id().map(str::to_owned).or_else(|| own_key().map(|key| key.id().to_string()));
    let mut of_sources: BTreeMap<&str, Vec<(&StreamConfig, Claim)>> = BTreeMap::new();
    for (stream, preview) in planned {
        if let Some(source) = stream.source.as_deref().filter(|_| folder.record(&stream.name).is_none()) {
            let claim = Claim::from_stream(preview.stream(), key_id.as_deref().unwrap_or_default());
            of_sources.entry(source).or_default().push((stream, claim));
        }
    }
    for (source, mut claims) in of_sources {
        let Some(path) = config.sources.get(source) else { continue };
        let budget = SourceBudget::from_file(path).map_err(|error| error.context(format_args!("source `{source}`")))?;
        if !folder.is_known() {
            // Streams that the service has opened have spent their budgets.
            let costs = budget.state()?.costs;
            claims.retain(|(stream, _)| match &key_id {
                Some(key_id) => !is_spent(&costs, &stream.name, key_id),
                None => !costs.iter().any(|cost| cost.stream == stream.name),
            });
        }
        if let Err((fitting, error)) = budget.check_all(claims.iter().map(|(_, claim)| claim)) {
            return Err(match claims.get(fitting) {
                Some((stream, _)) => named(stream, &error),
                None => error,
            });
        }
    }
    Ok(())
}
