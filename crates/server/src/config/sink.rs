//! `[[sink]]`: where the service writes publications itself.

use super::feed::client_files;
use evertally_declare::error::Result;
use evertally_feeds::{Sink, SourceOptions, check_password_file, open_sink};
use serde::Deserialize;
use std::path::PathBuf;

/// A place to which the publications of a stream are written.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SinkConfig {
    /// The stream.
    pub stream: String,
    /// The URL of the sink.
    pub to: String,
    /// A file with the password of the user in the URL.
    #[serde(default)]
    pub password_file: Option<PathBuf>,
    /// A file with the certificate of the authority of the other side, if that is not a public one.
    #[serde(default)]
    pub authority: Option<PathBuf>,
    /// A file with the certificate of the service and its chain, for a server that asks for one.
    #[serde(default)]
    pub certificate: Option<PathBuf>,
    /// A file with the private key of the certificate.
    #[serde(default)]
    pub certificate_key: Option<PathBuf>,
}

impl SinkConfig {
    /// The paths in it.
    pub(super) fn paths(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let own = [&mut self.password_file, &mut self.authority, &mut self.certificate, &mut self.certificate_key];
        own.into_iter().flatten()
    }

    /// Whether two sinks write the same publications to the same place.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (&self.stream, &self.to) == (&other.stream, &other.to)
    }

    /// Opens the sink. Nothing is connected yet.
    ///
    /// # Errors
    /// If its URL is invalid, or a file that it needs cannot be read.
    pub(crate) fn open(&self) -> Result<Box<dyn Sink>> {
        let options = SourceOptions {
            password_file: self.password_file.clone(),
            authority: self.authority.clone(),
            client: client_files(self.certificate.as_ref(), self.certificate_key.as_ref())
                .map_err(|error| error.context(format_args!("[[sink]] of stream `{}`", self.stream)))?,
            with_metadata: false,
        };
        open_sink(&self.to, &self.stream, &options)
            .map_err(|error| error.context(format_args!("[[sink]] of stream `{}`", self.stream)))
    }

    /// Opens the sink, and reads its password.
    ///
    /// # Errors
    /// As [`open`](Self::open), or if there is no password in its file.
    pub(crate) fn open_checked(&self) -> Result<Box<dyn Sink>> {
        let sink = self.open()?;
        let checked = self.password_file.iter().try_for_each(|file| check_password_file(file));
        checked.map_err(|error| error.context(format_args!("[[sink]] of stream `{}`", self.stream)))?;
        Ok(sink)
    }
}
