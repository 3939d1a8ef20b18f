//! The files and folders that a configuration names.

use super::streams;
use crate::config::{Config, ListenAddress, Listener, secret_of};
use crate::feeds::Feeds;
use crate::oidc::TrustedIssuers;
use crate::sinks::Sinks;
use crate::standby::target_from;
use crate::syslog::SyslogListeners;
use crate::webhook::Webhooks;
use evertally_declare::error::{Context, Result, usage};
use evertally_ledger::disk::folder_of;
use evertally_tables::input::is_object;
use std::path::Path;

/// Reads the files that a configuration names, except the key and the budgets of sources. Returns how messages name the
/// places of feeds and of sinks.
///
/// # Errors
/// The first that cannot be used.
pub(super) fn check_files(config: &Config) -> Result<(Vec<String>, Vec<String>)> {
    if config.folder.exists() && !config.folder.is_dir() {
        return Err(usage(format!("folder: {} is not a folder", config.folder.display())));
    }
    for (name, listener) in [("[public]", &config.public), ("[private]", &config.private)] {
        listener.iter().try_for_each(check_listener).context(name)?;
    }
    if let Some(path) = &config.passphrase {
        secret_of(path, "passphrase")?;
    }
    check_witness(config)?;
    if let Some(standby) = &config.standby {
        let folder = &standby.folder;
        match is_object(folder) {
            true => target_from(folder).map(drop).context("[standby]")?,
            false => check_folder(folder).context("[standby] folder")?,
        }
    }
    check_changeable(config)
}

/// Checks the files of a listener.
///
/// # Errors
/// As [`check_files`].
pub(super) fn check_listener(listener: &Listener) -> Result<()> {
    if let Some(files) = listener.tls() {
        files.check()?;
    }
    #[cfg(unix)]
    if let ListenAddress::Unix(path) = &listener.listen {
        crate::http::check_socket(path)?;
    }
    Ok(())
}

fn check_witness(config: &Config) -> Result<()> {
    let Some(witness) = &config.witness else { return Ok(()) };
    if let Some(path) = &witness.authorization_file {
        secret_of(path, "authorization-file").context("[witness]")?;
    }
    match &witness.file {
        Some(file) if file.is_dir() => {
            let shown = file.display();
            Err(usage(format!("[witness] file: {shown} is a folder; name a file in it, such as witness.json")))
        }
        Some(file) => check_folder(folder_of(file)).context("[witness] file"),
        None => Ok(()),
    }
}

/// Checks that a folder on another disk exists.
fn check_folder(folder: &Path) -> Result<()> {
    let shown = folder.display();
    match folder.is_dir() {
        true => Ok(()),
        false if folder.exists() => Err(usage(format!("{shown} is not a folder"))),
        false => Err(usage(format!("the folder {shown} does not exist; create it, or mount its disk"))),
    }
}

/// Checks the sections that a reload takes up.
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
