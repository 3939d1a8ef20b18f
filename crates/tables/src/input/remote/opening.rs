//! Opens URLs.

pub use super::address::ObjectStamp;
use super::address::{Address, Protocol};
use super::settings::ConnectionSettings;
use super::{object, web};
use bytes::Bytes;
use evertally_declare::error::ReadProblem;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Opens a URL. This blocks, as reading does.
///
/// # Errors
/// With a cause that is a [`ReadProblem`], which has the remedy.
pub(in crate::input) fn open(path: &Path) -> io::Result<Box<dyn Read>> {
    let address = Address::new(path)?;
    open_with(path, &address, &ConnectionSettings::from_environment())
}

pub(super) fn open_with(
    path: &Path,
    address: &Address<'_>,
    settings: &ConnectionSettings,
) -> io::Result<Box<dyn Read>> {
    Ok(match address.protocol {
        Protocol::Web => Box::new(web::open(path.to_str().unwrap_or_default(), settings)?),
        _ => Box::new(object::Container::new(address, settings)?.open(address.name)?),
    })
}

/// Opens an object, and returns its stamp.
///
/// # Errors
/// As [`open`], and for the files of web servers, which have no reliable stamp.
pub fn open_stamped(path: &Path) -> io::Result<(Box<dyn Read>, ObjectStamp)> {
    let address = object_address(path)?;
    let settings = ConnectionSettings::from_environment();
    let reader = object::Container::new(&address, &settings)?.open(address.name)?;
    let stamp = reader.stamp().clone();
    Ok((Box::new(reader), stamp))
}

/// The stamp of an object; `None` if it does not exist.
///
/// # Errors
/// As [`open_stamped`].
pub(in crate::input) fn stamp(path: &Path) -> io::Result<Option<ObjectStamp>> {
    let address = object_address(path)?;
    let container = object::Container::new(&address, &ConnectionSettings::from_environment())?;
    Ok(container.stamp(address.name)?)
}

/// The URLs of the objects whose names begin with that of a URL, which ends in a slash, and are `meant`: it is called
/// with the rest of the name, which has slashes only if the listing is `deep`. They are in the byte order of their
/// names.
///
/// # Errors
/// With a cause that is a [`ReadProblem`].
pub fn list_objects(folder: &Path, deep: bool, meant: &dyn Fn(&str) -> bool) -> io::Result<Vec<PathBuf>> {
    let address = object_address(folder)?;
    let container = object::Container::new(&address, &ConnectionSettings::from_environment())?;
    let names = container.list(address.name, deep)?.into_iter().map(|(name, _)| name).filter(|name| meant(name));
    Ok(names.map(|name| format!("{}/{}{name}", address.store, address.name).into()).collect())
}

/// The objects in a folder and in folders in it, each with its name after that of the folder and its stamp, in the byte
/// order of their names. The URL of the folder ends in a slash.
///
/// # Errors
/// As [`list_objects`].
pub fn list_stamped(folder: &Path) -> io::Result<Vec<(String, ObjectStamp)>> {
    let address = object_address(folder)?;
    let container = object::Container::new(&address, &ConnectionSettings::from_environment())?;
    Ok(container.list(address.name, true)?)
}

/// Whether an object exists.
///
/// # Errors
/// If the store does not answer this.
pub fn object_exists(path: &Path) -> io::Result<bool> {
    Ok(stamp(path)?.is_some())
}

/// Writes an object of a store, which replaces one of the same name. It appears whole or not at all. This blocks.
///
/// # Errors
/// With a cause that is a [`ReadProblem`], which has the remedy. The object may have been written.
pub fn put_object(path: &Path, bytes: impl Into<Bytes>) -> io::Result<()> {
    put_with(path, bytes.into(), &ConnectionSettings::from_environment())
}

pub(super) fn put_with(path: &Path, bytes: Bytes, settings: &ConnectionSettings) -> io::Result<()> {
    let address = object_address(path)?;
    Ok(object::Container::new(&address, settings)?.put(address.name, bytes)?)
}

pub(super) fn object_address(path: &Path) -> Result<Address<'_>, ReadProblem> {
    let address = Address::new(path)?;
    match address.protocol {
        Protocol::Web => Err(ReadProblem("the files of a web server cannot be listed or recognised".into())),
        _ => Ok(address),
    }
}
