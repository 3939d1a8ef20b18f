//! Whether a follower could serve: checked before it claims the right to publish, since after a claim nobody else does.

use super::checking::check_files;
use crate::config::{Config, ListenAddress};
use evertally_declare::error::{Context, Result, usage};
use evertally_ledger::keyfile;
use std::net::{SocketAddr, TcpListener};

/// Checks the key and the files of a configuration. `key_id` is that of the key of the primary, if it is known.
///
/// # Errors
/// The first reason for which this machine could not serve.
pub(super) fn check_start(config: &Config, key_id: Option<&str>) -> Result<()> {
    check_files(config)?;
    let shown = config.key.display();
    let key = match &config.passphrase {
        Some(passphrase) => crate::sealed::read(&config.key, passphrase)?,
        None => keyfile::read(&config.key)?,
    };
    match key_id.filter(|id| *id != key.id().to_string()) {
        Some(_) => {
            Err(usage(format!("the key {shown} is not that of the primary; copy the primary's to this machine")))
        }
        None => Ok(()),
    }
}

/// Checks that all addresses are free.
///
/// # Errors
/// The first that is not.
pub(super) fn check_addresses(config: &Config) -> Result<()> {
    let listeners = [&config.public, &config.private].into_iter().flatten();
    let own = listeners.filter_map(|listener| match &listener.listen {
        ListenAddress::Tcp(address) => Some(*address),
        ListenAddress::Unix(_) => None,
    });
    own.chain(config.syslog.iter().map(|listener| listener.listen)).try_for_each(can_listen)
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
    use evertally::noise::SecretKey;

    #[test]
    fn what_would_end_a_start_is_found_before() {
        let folder = tempfile::tempdir().unwrap();
        let busy = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = busy.local_addr().unwrap();
        let path = folder.path().join("serve.toml");
        std::fs::write(&path, format!("folder = \"data\"\nkey = \"own.key\"\n[public]\nlisten = \"{address}\"\n"))
            .unwrap();
        let config = Config::read(&path).unwrap();
        assert!(check_start(&config, None).is_err(), "there is no key");
        let key = SecretKey::generate().unwrap();
        keyfile::write_new(&config.key, &key).unwrap();
        check_start(&config, None).unwrap();
        check_start(&config, Some(&key.id().to_string())).unwrap();
        let refused = check_start(&config, Some("another")).unwrap_err().to_string();
        assert!(refused.contains("is not that of the primary"), "{refused}");
        assert!(check_addresses(&config).unwrap_err().to_string().contains(&address.to_string()));
        drop(busy);
        check_addresses(&config).unwrap();
    }
}
