//! Which other web sites may read the public side from their pages (CORS).

use axum::http::header::{ACCEPT, CACHE_CONTROL, ETAG, HeaderName, IF_NONE_MATCH, LINK, ORIGIN, RETRY_AFTER};
use axum::http::{HeaderValue, Method, Uri};
use serde::Deserialize;
use serde::de::Error;
use std::time::Duration;
use tower_http::cors::{AllowOrigin, CorsLayer};

/// How long a browser may remember the answer to a preflight request.
const MAX_AGE: Duration = Duration::from_secs(3600);

/// The origins whose pages may read the public side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Cors {
    /// None but the page of the service itself.
    #[default]
    SameOrigin,
    /// All.
    Any,
    /// These.
    Origins(Vec<HeaderValue>),
}

impl<'de> Deserialize<'de> for Cors {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "write cors = [\"https://dash.example\"], or cors = \"*\" for every origin")]
        enum Declared {
            One(String),
            Several(Vec<String>),
        }
        let origins = match Declared::deserialize(from)? {
            Declared::One(origin) => vec![origin],
            Declared::Several(origins) => origins,
        };
        if origins.iter().any(|origin| origin == "*") {
            return match origins.len() {
                1 => Ok(Self::Any),
                _ => Err(D::Error::custom("cors: `*` already allows every origin; omit the others")),
            };
        }
        let origins = origins.iter().map(|origin| {
            origin_of(origin).ok_or_else(|| {
                let problem = "is not an origin: write scheme, host and port alone, as in https://dash.example";
                D::Error::custom(format!("cors: `{origin}` {problem}"))
            })
        });
        let origins = origins.collect::<Result<Vec<HeaderValue>, D::Error>>()?;
        Ok(if origins.is_empty() { Self::SameOrigin } else { Self::Origins(origins) })
    }
}

/// An origin as browsers send it: without a path, in lower case, and without the default port.
fn origin_of(text: &str) -> Option<HeaderValue> {
    let uri: Uri = text.parse().ok()?;
    let (scheme, authority) = (uri.scheme_str()?, uri.authority()?);
    let default = match scheme {
        "http" => 80,
        "https" => 443,
        _ => return None,
    };
    let is_plain = uri.path() == "/" && uri.query().is_none() && !text.ends_with('/') && !text.contains('@');
    let is_as_sent = text.bytes().all(|byte| !byte.is_ascii_uppercase()) && authority.port_u16() != Some(default);
    if is_plain && is_as_sent { HeaderValue::from_str(text).ok() } else { None }
}

impl Cors {
    /// The layer that adds the headers, if any other origin may read. Requests with tokens are not allowed: it is for
    /// public streams.
    pub(crate) fn layer(&self) -> Option<CorsLayer> {
        let layer = CorsLayer::new()
            .allow_methods([Method::GET, Method::HEAD])
            .allow_headers([ACCEPT, CACHE_CONTROL, IF_NONE_MATCH, HeaderName::from_static("last-event-id")])
            .expose_headers([ETAG, LINK, RETRY_AFTER])
            .max_age(MAX_AGE);
        match self {
            Self::SameOrigin => None,
            // The same answer for every origin.
            Self::Any => Some(layer.allow_origin(AllowOrigin::any()).vary([])),
            Self::Origins(origins) => {
                Some(layer.allow_origin(AllowOrigin::list(origins.iter().cloned())).vary([ORIGIN]))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: &str) -> Result<Cors, String> {
        #[derive(Deserialize)]
        struct Table {
            cors: Cors,
        }
        toml::from_str::<Table>(&format!("cors = {value}")).map(|table| table.cors).map_err(|error| error.to_string())
    }

    #[test]
    fn origins_are_read_as_browsers_send_them() {
        let origins =
            |names: &[&'static str]| Cors::Origins(names.iter().map(|n| HeaderValue::from_static(n)).collect());
        assert_eq!(read("\"*\"").unwrap(), Cors::Any);
        assert_eq!(read("[\"*\"]").unwrap(), Cors::Any);
        assert_eq!(read("[]").unwrap(), Cors::SameOrigin);
        assert_eq!(read("\"https://a.example\"").unwrap(), origins(&["https://a.example"]));
        let two = ["https://a.example", "http://localhost:3000"];
        assert_eq!(read(&format!("{two:?}")).unwrap(), origins(&two));
        for wrong in [
            "a.example",
            "https://a.example/",
            "https://a.example/x",
            "https://a.example:443",
            "ftp://a.example",
            "https://A.example",
            "https://u@a.example",
            "null",
            "",
        ] {
            let refused = read(&format!("[\"{wrong}\"]")).unwrap_err();
            assert!(refused.contains("is not an origin"), "{wrong}: {refused}");
        }
        assert!(read("[\"*\", \"https://a.example\"]").unwrap_err().contains("omit the others"));
        assert!(read("true").unwrap_err().contains("https://dash.example"));
    }
}
