//! Opens the folder of a service with its key and its witness, or checks it.

use super::streams;
use crate::clock::{Clock, SystemClock};
use crate::config::{Config, LimitsConfig, RetentionConfig, WitnessConfig, secret_of};
use crate::engine::{Core, Decoding, Service, Setting};
use crate::folder::{is_open_to_others, make_folder, store_path};
use crate::standby::{MAX_WAITING_BYTES, Shipped, Shipping};
use crate::store::{Journal, Recorder, Store};
use crate::witness::{FileWitness, HttpWitness, Witness};
use evertally::noise::SecretKey;
use evertally_declare::error::{Result, usage};
use evertally_ledger::keyfile;
use evertally_ledger::ledger::{assign_to_service, ledger_path};
use std::path::Path;
use std::sync::Arc;

/// Opens the folder, and the streams of the configuration that are not open yet.
pub(super) fn open(config: &Config, clock: Arc<dyn Clock>) -> Result<Arc<Service>> {
    let store_file = store_path(&config.folder);
    make_folder(&config.folder)?;
    if is_open_to_others(&config.folder) {
        tracing::warn!("other users can read the data folder, which holds exact sums and events: chmod 700");
    }
    // Opening the store excludes other processes before anything is written.
    let (store, recorded) = open_store(config, &store_file)?;
    let is_new = store.is_unused()?;
    let key = key_of(config, &store, is_new)?;
    give_key(config, &store, &key, is_new)?;
    if config.forgets_witness {
        store.forget_witness()?;
    }
    let setting = Setting {
        store,
        key,
        clock,
        witness: config.witness.as_ref().map(witness_of).transpose()?,
        sources: config.sources.clone(),
        ahead: config.steps.ahead.0,
        decoding: Arc::new(decoding_of(&config.limits)),
        catch_up: if is_new { 0 } else { config.steps.catch_up.0 },
        retention: config.retention,
    };
    let (own, key_id) = (setting.store.clone(), setting.key.id().to_string());
    let service = Arc::new(Service::start(setting)?);
    if is_new {
        own.begin_with(&key_id)?; // only after the folder was opened successfully
    }
    if let (Some(standby), Some((recorder, journal))) = (&config.standby, recorded) {
        let (folder_id, primary) = (service.folder_id.clone(), own.primary()?);
        let shipped = Shipped { recorder, journal, folder_id, key_id, primary, witness: witness_from(config)? };
        let halted = Arc::downgrade(&service);
        let halt = move |why: String| {
            let Some(service) = halted.upgrade() else { return true };
            let halting = service.ask(move |core| {
                core.halt(why);
                Ok(())
            });
            halting.is_ok()
        };
        service.set_shipping(Shipping::start(standby, &config.folder, shipped, Box::new(halt))?);
    }
    // One that does not fit must not be found when others have spent the budget.
    let new = config.streams.iter().filter(|stream| service.stream(&stream.name).is_none());
    if new.filter(|stream| stream.source.is_some()).count() > 1 {
        streams::check_new_streams(&service, config)?;
    }
    for stream in &config.streams {
        streams::take_up(&service, config, stream)?;
    }
    streams::check_named(config, |name| service.stream(name).is_some())?;
    streams::check_sources(&service, config)?;
    Ok(service)
}

/// The key of the service: read, or created together with a new folder. A new folder has no record of earlier
/// publications with an existing key, and would publish again with the same noise.
fn key_of(config: &Config, store: &Store, is_new: bool) -> Result<SecretKey> {
    let shown = config.key.display();
    if !config.key.exists() {
        if !is_new {
            return Err(usage(format!(
                "the key {shown} is missing, but the folder {} was written with it; restore the key. Without it no \
                 step can be published: its noise would be different",
                config.folder.display()
            )));
        }
        if let Some(folder) = config.key.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            make_folder(folder)?;
        }
        let key = SecretKey::generate()?;
        // If this start is interrupted here, the next one recognizes the key as its own.
        store.note_making(&key.id().to_string())?;
        match &config.passphrase {
            Some(passphrase) => crate::sealed::write(&config.key, &key, passphrase)?,
            None => keyfile::write_new(&config.key, &key)?,
        }
        return Ok(key);
    }
    let key = match &config.passphrase {
        Some(passphrase) => crate::sealed::read(&config.key, passphrase)?,
        None => keyfile::read(&config.key)?,
    };
    let is_own = !is_new || store.making()?.is_some_and(|id| id == key.id().to_string());
    if is_own || config.adopts_key {
        return Ok(key);
    }
    Err(usage(format!(
        "the key {shown} exists, but the folder {} is new: everything published with this key would be published \
         again, from other events with the same noise. Restore the folder from a backup; or name a key file that does \
         not exist, and it is created. If the ledger of the key shows that it was never used, start once with \
         --adopt-key",
        config.folder.display()
    )))
}

/// Reserves the key for this service: everything else refuses it from here on. An existing folder has its own record of
/// what the key has issued, so the ledger next to the key is created again if it is lost.
fn give_key(config: &Config, store: &Store, key: &SecretKey, is_new: bool) -> Result<()> {
    let may_make = !is_new || store.making()?.is_some_and(|id| id == key.id().to_string());
    let folder = config.folder.canonicalize().unwrap_or_else(|_| config.folder.clone());
    assign_to_service(key, &ledger_path(&config.key), may_make, &store.identity()?, &folder)
}

/// Opens the database, with a record of its changes if there is a second machine.
fn open_store(config: &Config, path: &Path) -> Result<(Store, Option<(Recorder, Arc<Journal>)>)> {
    let Some(standby) = &config.standby else { return Ok((Store::open(path)?, None)) };
    let journal = Arc::new(Journal::new(MAX_WAITING_BYTES));
    let (store, recorder) = Store::open_recorded(path, &journal)?;
    Ok((store.holding(&journal, standby.hold.duration()), Some((recorder, journal))))
}

/// The witness of a configuration with [standby](crate::standby).
///
/// # Errors
/// If there is none.
pub(crate) fn witness_from(config: &Config) -> Result<Box<dyn Witness>> {
    config.witness.as_ref().map_or_else(|| Err(usage("[standby] needs [witness]")), witness_of)
}

fn witness_of(config: &WitnessConfig) -> Result<Box<dyn Witness>> {
    let authorization = config.authorization_file.as_deref();
    let authorization = authorization.map(|path| secret_of(path, "authorization-file")).transpose()?;
    match (&config.file, &config.url) {
        (Some(file), _) => Ok(Box::new(FileWitness::new(file))),
        (None, Some(url)) => Ok(Box::new(HttpWitness::new(url, authorization))),
        (None, None) => Err(usage("[witness] needs a file or a url")),
    }
}

pub(super) fn decoding_of(limits: &LimitsConfig) -> Decoding {
    Decoding::new(limits.decoding_bytes, limits.decoded_bytes, limits.decoders, limits.all_decoding_bytes)
        .with_ids(limits.ids)
}

/// Checks a folder that no service has open, and returns the findings.
///
/// # Errors
/// If something differs from the published steps.
pub fn verify(config: &Config) -> Result<Vec<String>> {
    let path = store_path(&config.folder);
    if !path.exists() {
        return Err(usage(format!("there is no service folder at {}", config.folder.display())));
    }
    let store = Store::open(&path)?;
    let setting = Setting {
        key: key_of(config, &store, false)?,
        store,
        clock: Arc::new(SystemClock::default()),
        witness: config.witness.as_ref().map(witness_of).transpose()?,
        sources: config.sources.clone(),
        ahead: 0,
        decoding: Arc::default(),
        catch_up: 0,
        retention: RetentionConfig::default(),
    };
    let core = Core::open(setting, Arc::new(|_| ()))?;
    let mut found = core.verify()?;
    let problems = core.problems();
    if !problems.is_empty() {
        return Err(usage(problems.join("; ")));
    }
    found.push("everything is as it was published".to_owned());
    Ok(found)
}
