//! Whether the places of a configuration go together: addresses, and the places that are needed when a machine is lost.

use super::scheme::shown_url;
use super::standby::MIN_TAKEOVER;
use super::{Config, ListenAddress};
use evertally_ledger::protected::is_inside;
use evertally_tables::input::is_object;
use std::net::SocketAddr;
use std::path::Path;

impl Config {
    /// Checks that no two listeners have one address.
    pub(super) fn check_addresses(&self) -> Result<(), String> {
        let http = [("[public]", &self.public), ("[private]", &self.private)];
        let http = http.into_iter().filter_map(|(name, listener)| Some((name, &listener.as_ref()?.listen)));
        let mut tcp: Vec<(&str, SocketAddr)> = Vec::new();
        let mut sockets: Vec<&Path> = Vec::new();
        for (name, listen) in http {
            match listen {
                ListenAddress::Tcp(address) => tcp.push((name, *address)),
                ListenAddress::Unix(path) if sockets.contains(&path.as_path()) => {
                    return Err(format!(
                        "[public] and [private] listen at the same socket, {}: give one of them another path",
                        path.display()
                    ));
                }
                ListenAddress::Unix(path) => sockets.push(path),
            }
        }
        tcp.extend(self.syslog.iter().map(|own| ("[[syslog]]", own.listen)));
        for (index, (name, address)) in tcp.iter().enumerate() {
            if let Some((other, at)) = tcp[..index].iter().find(|(_, other)| are_one(*other, *address)) {
                let who = if other == name { format!("two {name}") } else { format!("{other} and {name}") };
                let place = if at == address { at.to_string() } else { format!("{at} and {address}") };
                return Err(format!("{who} listen at {place}: give one of them another port"));
            }
        }
        Ok(())
    }

    /// Checks that a witness is named, and is not lost together with the folder.
    pub(super) fn check_witness(&self) -> Result<(), String> {
        let Some(witness) = &self.witness else { return Ok(()) };
        match (&witness.file, &witness.url) {
            (Some(_), Some(_)) | (None, None) => Err("[witness] needs either a file or a url".into()),
            (Some(file), None) if is_inside(file, &self.folder) => {
                Err("the witness is inside the folder, and would be rolled back with it; keep it elsewhere".into())
            }
            (None, Some(url)) if !is_web(url) => Err(format!(
                "[witness] url: `{}` is not a URL; write https://HOST/PATH, or file = \"PATH\" for a file",
                shown_url(url)
            )),
            _ => Ok(()),
        }
    }

    /// Checks that a second machine could take over.
    pub(super) fn check_standby(&self) -> Result<(), String> {
        let Some(standby) = &self.standby else { return Ok(()) };
        let Some(witness) = &self.witness else {
            return Err("[standby] needs a witness that both machines reach, since it decides which of them may \
                        publish: add [witness]"
                .into());
        };
        if !is_object(&standby.folder) {
            if is_inside(&standby.folder, &self.folder) {
                return Err("the standby folder is inside the folder of the service: the other machine needs it when \
                            this one is lost"
                    .into());
            }
            if is_inside(&self.folder, &standby.folder) {
                return Err("the folder of the service is inside the standby folder, which both machines write: keep \
                            the data folder on the disk of this machine"
                    .into());
            }
            if witness.file.as_ref().is_some_and(|file| is_inside(file, &standby.folder)) {
                return Err(
                    "[witness] file is inside the standby folder, which holds files of the service only: keep \
                            the witness next to that folder"
                        .into(),
                );
            }
        }
        if standby.takeover().0 < MIN_TAKEOVER.0 {
            return Err("`takeover` of [standby] is at least `3s`".into());
        }
        Ok(())
    }
}

/// Whether two listeners cannot both have these addresses.
fn are_one(a: SocketAddr, b: SocketAddr) -> bool {
    let is_same_host = a.ip() == b.ip() || a.ip().is_unspecified() || b.ip().is_unspecified();
    a.port() != 0 && a.port() == b.port() && a.is_ipv4() == b.is_ipv4() && is_same_host
}

/// Whether a URL is one of a web server.
fn is_web(url: &str) -> bool {
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    rest.is_some_and(|rest| {
        !rest.is_empty() && !rest.starts_with(['/', '?', '#']) && !rest.contains(char::is_whitespace)
    })
}
