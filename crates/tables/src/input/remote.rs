//! Inputs named by URL: objects of `s3`, `gs` and `az` stores, and files of web servers.
//!
//! A URL is read as a stream, like a pipe. Its bytes are counted, and an incomplete download is an error. Messages show
//! URLs without passwords and queries, which may contain signatures.
//!
//! Objects are also written here, since the clients are the same.

#[cfg(feature = "object-stores")]
mod address;
#[cfg(feature = "object-stores")]
mod client;
#[cfg(feature = "object-stores")]
mod folder;
#[cfg(not(feature = "object-stores"))]
mod left_out;
#[cfg(feature = "object-stores")]
mod object;
#[cfg(feature = "object-stores")]
mod opening;
#[cfg(feature = "object-stores")]
mod settings;
#[cfg(feature = "object-stores")]
mod web;

#[cfg(all(test, feature = "object-stores"))]
mod tests;

use evertally_declare::url::split_scheme;
use std::path::{Path, PathBuf};

#[cfg(feature = "object-stores")]
pub use folder::ObjectFolder;
#[cfg(not(feature = "object-stores"))]
use left_out as opening;
pub use opening::{ObjectStamp, list_objects, object_exists, open_stamped};
#[cfg(feature = "object-stores")]
pub use opening::{list_stamped, put_object};
pub(super) use opening::{open, stamp};

/// The schemes of stores, whose objects can be listed.
const OBJECT_SCHEMES: [&str; 6] = ["s3", "s3a", "gs", "az", "abfs", "abfss"];

/// Whether a URL names an object of a store, whose objects can be listed.
pub fn is_object(path: &Path) -> bool {
    split_scheme(path).is_some_and(|(scheme, _)| OBJECT_SCHEMES.contains(&scheme))
}

/// A URL for comparisons and records: protocols that mean the same have one name.
pub fn url_identity(path: &Path) -> PathBuf {
    match split_scheme(path) {
        Some(("s3a", rest)) => format!("s3://{rest}").into(),
        Some(("az" | "abfss", rest)) => format!("abfs://{rest}").into(),
        Some((scheme @ ("http" | "https"), rest)) => {
            let (host, name) = rest.split_once('/').unwrap_or((rest, ""));
            let port = if scheme == "http" { ":80" } else { ":443" };
            let host = host.to_ascii_lowercase();
            format!("{scheme}://{}/{}", host.strip_suffix(port).unwrap_or(&host), name.trim_end_matches('?')).into()
        }
        _ => path.to_owned(),
    }
}
