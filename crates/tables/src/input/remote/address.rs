//! The parts of a URL, and the stamp of an object.

use evertally_declare::error::ReadProblem;
use evertally_declare::url::split_scheme;
use std::fmt;
use std::path::Path;

/// The protocols of URLs that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    S3,
    Google,
    Azure,
    Web,
}

/// The parts of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address<'u> {
    pub(super) protocol: Protocol,
    /// The URL up to the name of the object, without its last slash: `s3://bucket`.
    pub(super) store: &'u str,
    /// The name of the object, as it is written: nothing in it is decoded.
    pub(super) name: &'u str,
}

fn protocol_of(scheme: &str) -> Option<Protocol> {
    Some(match scheme {
        "s3" | "s3a" => Protocol::S3,
        "gs" => Protocol::Google,
        "az" | "abfs" | "abfss" => Protocol::Azure,
        "http" | "https" => Protocol::Web,
        _ => return None,
    })
}

impl<'u> Address<'u> {
    /// # Errors
    /// If this is not a URL, or the protocol is not supported.
    pub(super) fn new(path: &'u Path) -> Result<Self, ReadProblem> {
        let url = path.to_str().unwrap_or_default();
        let Some((scheme, rest)) = split_scheme(path) else { return Err(ReadProblem("this is not a URL".into())) };
        let Some(protocol) = protocol_of(scheme) else {
            let problem = format!("URLs of `{scheme}` are not read; use s3, gs, az, abfs, https, or a file");
            return Err(ReadProblem(problem));
        };
        let (host, name) = rest.split_once('/').unwrap_or((rest, ""));
        if host.is_empty() {
            return Err(ReadProblem("this URL names no host or bucket".into()));
        }
        // A port or a name of a user would be dropped, and the same object counted twice under two names.
        if protocol != Protocol::Web && (host.contains(':') || (host.contains('@') && protocol != Protocol::Azure)) {
            let problem = "the name of a bucket has no port and no user; set AWS_ENDPOINT for another server";
            return Err(ReadProblem(problem.into()));
        }
        if protocol == Protocol::Web && rest.contains('#') {
            return Err(ReadProblem("a URL of a file has no part after #; omit it".into()));
        }
        let store = &url[..scheme.len() + "://".len() + host.len()];
        Ok(Self { protocol, store, name })
    }
}

/// What a store reports about an object. It differs if somebody replaces the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectStamp {
    pub(super) size: u64,
    pub(super) tag: Option<String>,
    pub(super) modified_seconds: i64,
}

impl ObjectStamp {
    /// The bytes of the object.
    pub fn size(&self) -> u64 {
        self.size
    }
}

/// A text for comparisons. Some stores quote tags only in some answers.
impl fmt::Display for ObjectStamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.tag {
            Some(tag) => write!(f, "{} {}", self.size, tag.trim_matches('"')),
            None => write!(f, "{} at {}", self.size, self.modified_seconds),
        }
    }
}
