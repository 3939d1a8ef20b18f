//! `[[feed]]`: sources that the service follows itself.

use evertally_declare::error::{Result, usage};
use evertally_feeds::{FileOptions, FollowOptions, Source, SourceOptions, check_password_file, open, open_files};
use serde::Deserialize;
use std::path::PathBuf;

/// A source of events for a stream.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct FeedConfig {
    /// The stream.
    pub stream: String,
    /// The URL of a source.
    #[serde(default)]
    pub from: Option<String>,
    /// A file that grows, in place of a URL.
    #[serde(default)]
    pub file: Option<PathBuf>,
    /// A folder of files, in place of a URL.
    #[serde(default)]
    pub folder: Option<PathBuf>,
    /// The format of files whose names do not determine it.
    #[serde(default)]
    pub format: Option<String>,
    /// A file with the password of the user in the URL, or with a token.
    #[serde(default)]
    pub password_file: Option<PathBuf>,
    /// A file with the certificate of the authority of the source, if that is not a public one.
    #[serde(default)]
    pub authority: Option<PathBuf>,
    /// A file with the certificate of the service and its chain, for a source that asks for one.
    #[serde(default)]
    pub certificate: Option<PathBuf>,
    /// A file with the private key of the certificate.
    #[serde(default)]
    pub certificate_key: Option<PathBuf>,
    /// Whether rows get what the source knows about them: `_time`, `_key`, `_topic`.
    #[serde(default)]
    pub metadata: bool,
    /// The name under which positions are stored; by default that of the data.
    #[serde(default)]
    pub name: Option<String>,
    /// A file for rows that cannot be accepted; without it, the first of them stops the feed.
    #[serde(default)]
    pub aside: Option<PathBuf>,
    /// Whether that file has the day in its name, because old ones are removed.
    #[serde(skip)]
    pub(super) aside_by_day: bool,
    /// The most rows of a batch.
    #[serde(default = "rows")]
    pub rows: usize,
}

fn rows() -> usize {
    5000
}

/// The certificate of a client and its key.
///
/// # Errors
/// If one of them is missing.
pub(super) fn client_files(chain: Option<&PathBuf>, key: Option<&PathBuf>) -> Result<Option<(PathBuf, PathBuf)>> {
    match (chain, key) {
        (Some(chain), Some(key)) => Ok(Some((chain.clone(), key.clone()))),
        (None, None) => Ok(None),
        _ => Err(usage("certificate and certificate-key belong together: give both")),
    }
}

impl FeedConfig {
    /// The paths in it.
    pub(super) fn paths(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let own = [&mut self.file, &mut self.folder, &mut self.aside];
        let of_url = [&mut self.password_file, &mut self.authority, &mut self.certificate, &mut self.certificate_key];
        own.into_iter().chain(of_url).flatten()
    }

    pub(super) fn check(&self) -> Result<(), String> {
        let named = [self.from.is_some(), self.file.is_some(), self.folder.is_some()];
        let what = format!("[[feed]] of stream `{}`", self.stream);
        if named.iter().filter(|is_set| **is_set).count() != 1 {
            return Err(format!("{what} needs one of from = \"kafka://HOST/TOPIC\", file and folder"));
        }
        let of_url = [&self.password_file, &self.authority, &self.certificate, &self.certificate_key];
        if self.from.is_none() && (self.metadata || of_url.iter().any(|file| file.is_some())) {
            return Err(format!(
                "{what}: password-file, authority, certificate, certificate-key and metadata belong to a source with \
                 a URL"
            ));
        }
        if self.from.is_some() && self.format.is_some() {
            return Err(format!("{what}: format is for files; messages are JSON"));
        }
        if !(1..=100_000).contains(&self.rows) {
            return Err(format!("{what}: rows is between 1 and 100000"));
        }
        Ok(())
    }

    /// Opens the source. Nothing is connected yet.
    ///
    /// # Errors
    /// If its URL is invalid, or a file that it needs cannot be read.
    pub(crate) fn open(&self) -> Result<Box<dyn Source>> {
        let files = |path: &PathBuf, is_folder| {
            open_files(&FileOptions { path: path.clone(), is_folder, format: self.format.clone(), is_complete: false })
        };
        match (&self.from, &self.file, &self.folder) {
            (Some(url), ..) => {
                let options = SourceOptions {
                    password_file: self.password_file.clone(),
                    authority: self.authority.clone(),
                    client: client_files(self.certificate.as_ref(), self.certificate_key.as_ref())?,
                    with_metadata: self.metadata,
                };
                open(url, &options)
            }
            (_, Some(file), _) => files(file, false),
            (.., folder) => files(&folder.clone().unwrap_or_default(), true),
        }
    }

    /// Opens the source, and reads its password.
    ///
    /// # Errors
    /// As [`open`](Self::open), or if there is no password in its file.
    pub(crate) fn open_checked(&self) -> Result<Box<dyn Source>> {
        let source = self.open()?;
        self.password_file.iter().try_for_each(|file| check_password_file(file))?;
        Ok(source)
    }

    /// The name under which positions are stored.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub(crate) fn source_name(&self) -> Result<String> {
        match &self.name {
            Some(name) => Ok(name.clone()),
            None => Ok(self.open()?.identity()),
        }
    }

    /// How it is followed.
    pub(crate) fn options(&self) -> FollowOptions {
        FollowOptions {
            name: self.name.clone(),
            rows: self.rows,
            is_once: false,
            aside: self.aside.clone(),
            aside_by_day: self.aside_by_day,
            hides_values: true,
        }
    }
}
