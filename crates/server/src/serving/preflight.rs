//! Whether a follower could serve: checked before it claims the right to publish, since after a claim nobody else does.

use super::comparison::{Folder, compare};
use super::files::check_files;
use crate::clock::{Clock, SystemClock};
use crate::config::{Config, ListenAddress};
use crate::engine::{no_witness, of_another_folder};
use crate::standby::taken_over;
use crate::store::FolderStreams;
use crate::witness::{FileWitness, Witness};
use evertally::noise::SecretKey;
use evertally_declare::error::{Context, PipelineError, Result, usage};
use evertally_ledger::keyfile;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;

/// Checks the key and the files of a configuration, and its streams with those of the primary: a start ends if they
/// differ in what an open stream cannot change. `key_id` is that of the key of the primary, and `copy` its database, if
/// they are known.
///
/// # Errors
/// The first reason for which this machine could not serve.
pub(super) fn check_start(config: &Config, key_id: Option<&str>, copy: Option<&Path>) -> Result<()> {
    check_files(config)?;
    let shown = config.key.display();
    if !config.key.exists() {
        return Err(missing_key(config));
    }
    let key = read_key(config)?;
    if key_id.is_some_and(|id| *id != key.id().to_string()) {
        return Err(usage(format!("the key {shown} is not that of the primary; copy the primary's to this machine")));
    }
    if let Some(copy) = copy {
        let folder = Folder::Known(FolderStreams::of_copy(copy)?);
        let compared = compare(config, &folder, SystemClock::default().now(), false);
        compared.context("the configuration does not fit the copy of the primary's database")?;
    }
    Ok(())
}

/// The message about the key that a follower lacks.
pub(super) fn missing_key(config: &Config) -> PipelineError {
    usage(format!(
        "the key {} is missing on this machine, which could not take over without it: copy it from the primary",
        config.key.display()
    ))
}

/// Reads the key of a configuration.
///
/// # Errors
/// If it cannot be read, or its passphrase is another one.
pub(super) fn read_key(config: &Config) -> Result<SecretKey> {
    match &config.passphrase {
        Some(passphrase) => crate::sealed::read(&config.key, passphrase),
        None => keyfile::read(&config.key),
    }
}

/// Checks the witness of a configuration with its folder, as a start does. One at a URL is not connected.
///
/// # Errors
/// If the folder has a witness that the configuration does not name, or this is damaged or that of another folder, or
/// names another machine.
pub(super) fn check_record(config: &Config, folder: &Folder) -> Result<()> {
    let Some(witness) = &config.witness else {
        return match folder.store() {
            Some(store) if store.has_witnessed => Err(no_witness()),
            _ => Ok(()),
        };
    };
    let Some(file) = &witness.file else { return Ok(()) };
    let mut witness = FileWitness::new(file);
    let (record, place) = (witness.peek()?, witness.place());
    match (record, folder.store()) {
        (Some(record), Some(store)) if record.folder != store.identity => {
            Err(of_another_folder(&place, &record.folder, &store.identity))
        }
        (Some(record), Some(store)) if record.primary != store.primary => Err(usage(taken_over(&place))),
        (Some(record), None) if folder.is_known() => Err(of_another_folder(&place, &record.folder, "new")),
        _ => Ok(()),
    }
}

/// Checks the key of a configuration with its folder, as a start without permissions does.
///
/// # Errors
/// If it is missing, or damaged, or is that of another folder, or the folder is new.
pub(super) fn check_key(config: &Config, folder: &Folder) -> Result<()> {
    let (shown, of_folder) = (config.key.display(), config.folder.display());
    if config.key.is_dir() {
        return Err(usage(format!("key: {shown} is a folder; name a file in it, such as serve.key")));
    }
    if !config.key.exists() {
        return match folder.key_id() {
            Some(_) => Err(usage(format!(
                "key: {shown} is missing, but the folder {of_folder} was written with it; restore the key"
            ))),
            None => Ok(()),
        };
    }
    let key = read_key(config)?.id().to_string();
    match (folder.key_id(), folder.store().and_then(|store| store.making.as_ref())) {
        (Some(id), _) if *id != *key => Err(usage(format!(
            "key: {shown} is not the key with which the folder {of_folder} was written; restore that one"
        ))),
        // A start that was interrupted may have created the key.
        (None, making) if folder.is_known() && making.is_none_or(|making| *making != key) => Err(usage(format!(
            "the key {shown} exists, but the folder {of_folder} is new: a service starts only with a new key, or once \
             with --adopt-key if the key was never used"
        ))),
        _ => Ok(()),
    }
}

/// Checks that all addresses are free.
///
/// # Errors
/// The first that is not.
pub(super) fn check_addresses(config: &Config) -> Result<()> {
    addresses(config).try_for_each(can_listen)
}

/// Checks that all addresses are those of this machine. They may be in use.
///
/// # Errors
/// The first that is not.
pub(super) fn check_hosts(config: &Config) -> Result<()> {
    addresses(config).try_for_each(is_own)
}

/// Checks that an address is one of this machine.
///
/// # Errors
/// If it is not.
pub(super) fn is_own(address: SocketAddr) -> Result<()> {
    match TcpListener::bind((address.ip(), 0)) {
        Err(error) if error.kind() == ErrorKind::AddrNotAvailable => {
            Err(usage(format!("cannot listen at {address}: this machine has no such address")))
        }
        _ => Ok(()),
    }
}

/// The addresses of all listeners.
fn addresses(config: &Config) -> impl Iterator<Item = SocketAddr> {
    let listeners = [&config.public, &config.private].into_iter().flatten();
    let own = listeners.filter_map(|listener| match &listener.listen {
        ListenAddress::Tcp(address) => Some(*address),
        ListenAddress::Unix(_) => None,
    });
    own.chain(config.syslog.iter().map(|listener| listener.listen))
}

/// Checks that an address is free.
///
/// # Errors
/// If it is not.
pub(super) fn can_listen(address: SocketAddr) -> Result<()> {
    TcpListener::bind(address).map(drop).context(format_args!("cannot listen at {address}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Phase, STREAMS, Store, StreamRecord, stored, to_bytes};

    #[test]
    fn what_would_end_a_start_is_found_before() {
        let folder = tempfile::tempdir().unwrap();
        let busy = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = busy.local_addr().unwrap();
        let path = folder.path().join("serve.toml");
        std::fs::write(&path, format!("folder = \"data\"\nkey = \"own.key\"\n[public]\nlisten = \"{address}\"\n"))
            .unwrap();
        let config = Config::read(&path).unwrap();
        let missing = check_start(&config, None, None).unwrap_err().to_string();
        assert!(missing.contains("copy it from the primary"), "{missing}");
        let key = SecretKey::generate().unwrap();
        keyfile::write_new(&config.key, &key).unwrap();
        check_start(&config, None, None).unwrap();
        check_start(&config, Some(&key.id().to_string()), None).unwrap();
        let refused = check_start(&config, Some("another"), None).unwrap_err().to_string();
        assert!(refused.contains("is not that of the primary"), "{refused}");
        assert!(check_addresses(&config).unwrap_err().to_string().contains(&address.to_string()));
        drop(busy);
        check_addresses(&config).unwrap();
    }

    /// Once a follower has claimed the right to publish, nobody else serves: its start must not end then.
    #[test]
    fn streams_that_differ_from_those_of_the_primary_are_found_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("serve.toml");
        let file = "folder = \"data\"\nkey = \"own.key\"\n[public]\nlisten = \"127.0.0.1:0\"\n[[stream]]\nstream = \
                    \"a\"\nclosing = \"operator\"\nstart = \"2026-01-01\"\nevery = \"1h\"\nsteps = 4\nrho = 0.5\n";
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            Config::read(&path).unwrap()
        };
        let config = read(file);
        keyfile::write_new(&config.key, &SecretKey::generate().unwrap()).unwrap();
        let copy = folder.path().join("copy.redb");
        let store = Store::open(&copy).unwrap();
        let stream = &config.streams[0];
        let record = StreamRecord {
            name: stream.name.clone(),
            declaration: stream.declaration.clone(),
            public: false,
            source: None,
            closing: stream.closing(&config.steps),
            opened_at: 0,
            phase: Phase::Open,
            id: None,
        };
        let written = store.change(|writing| {
            let mut streams = writing.open_table(STREAMS).map_err(stored)?;
            streams.insert(1, to_bytes(&record)?.as_slice()).map_err(stored)?;
            Ok(())
        });
        written.unwrap();
        let check = |config: &Config| check_start(config, None, Some(&copy)).map_err(|error| error.to_string());
        check(&config).unwrap();
        let refused = check(&read(&file.replace("rho = 0.5", "rho = 0.6"))).unwrap_err();
        assert!(refused.contains("serve.toml:11: stream `a`") && refused.contains("`rho`, which cannot"), "{refused}");
        let unknown = format!("[[webhook]]\nurl = \"http://127.0.0.1:1\"\nstreams = [\"b\"]\n{file}");
        let (head, stream) = file.split_once("[[stream]]").unwrap();
        let unknown = unknown.replace(file, &format!("[[stream]]{stream}"));
        let refused = check(&read(&format!("{head}{unknown}"))).unwrap_err();
        assert!(refused.contains("names the stream `b`, which does not exist"), "{refused}");
        check(&read(&format!("{file}title = \"A\"\n"))).unwrap();
    }
}
