//! A folder of a store, whose objects are read and written as a whole.

use super::object::Container;
use super::opening::object_address;
use super::settings::ConnectionSettings;
use bytes::Bytes;
use std::io;
use std::path::Path;

/// A folder of a store. Its connection is kept; all calls block, and fail within seconds if the store is away.
pub struct ObjectFolder {
    container: Container,
    /// The beginning of all names: empty, or with a slash at its end.
    prefix: String,
}

impl ObjectFolder {
    /// The folder with this URL, with or without a slash at its end. Nothing is sent.
    ///
    /// # Errors
    /// If it is not the URL of a store, or variables of the environment are invalid.
    pub fn new(url: &Path) -> io::Result<Self> {
        Self::with(url, ConnectionSettings::from_environment().impatient())
    }

    pub(super) fn with(url: &Path, settings: ConnectionSettings) -> io::Result<Self> {
        let address = object_address(url)?;
        let name = address.name.trim_end_matches('/');
        let prefix = if name.is_empty() { String::new() } else { format!("{name}/") };
        Ok(Self { container: Container::new(&address, &settings)?, prefix })
    }

    fn name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Reads an object; `None` if it does not exist.
    ///
    /// # Errors
    /// If it cannot be read, or there is no such bucket.
    pub fn get(&self, name: &str) -> io::Result<Option<Bytes>> {
        Ok(self.container.bytes(&self.name(name))?)
    }

    /// Writes an object, which replaces one of the same name. It appears whole or not at all.
    ///
    /// # Errors
    /// If it cannot be written. It may have been written, or appear later.
    pub fn put(&self, name: &str, bytes: impl Into<Bytes>) -> io::Result<()> {
        Ok(self.container.put(&self.name(name), bytes.into())?)
    }

    /// Writes an object unless one of the same name exists; returns whether it was written.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn create(&self, name: &str, bytes: impl Into<Bytes>) -> io::Result<bool> {
        Ok(self.container.create(&self.name(name), bytes.into())?)
    }

    /// The names of the objects directly in a folder, and of the folders in it, sorted; `""` is this folder.
    ///
    /// # Errors
    /// If they cannot be listed.
    pub fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        Ok(self.container.names(&self.name(folder))?)
    }

    /// Removes the objects in a folder, and in folders in it.
    ///
    /// # Errors
    /// If one cannot be removed.
    pub fn remove_all(&self, folder: &str) -> io::Result<()> {
        Ok(self.container.remove_all(&self.name(folder))?)
    }
}
