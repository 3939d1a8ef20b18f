//! The web page, embedded in the program.

use super::negotiation::knows;
use axum::http::HeaderMap;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG};
use axum::response::{IntoResponse, Response};

/// A file of the page.
struct Asset {
    name: &'static str,
    kind: &'static str,
    bytes: &'static [u8],
}

macro_rules! assets {
    ($($name:literal => $kind:literal),* $(,)?) => {
        &[$(Asset { name: $name, kind: $kind, bytes: include_bytes!(concat!("../../web/", $name)) }),*]
    };
}

const ASSETS: &[Asset] = assets! {
    "index.html" => "text/html; charset=utf-8",
    "app.css" => "text/css; charset=utf-8",
    "app.js" => "text/javascript; charset=utf-8",
    "api.js" => "text/javascript; charset=utf-8",
    "chart.js" => "text/javascript; charset=utf-8",
    "dom.js" => "text/javascript; charset=utf-8",
    "identity.js" => "text/javascript; charset=utf-8",
    "markdown.js" => "text/javascript; charset=utf-8",
    "operator.js" => "text/javascript; charset=utf-8",
    "rows.js" => "text/javascript; charset=utf-8",
    "sign-in.js" => "text/javascript; charset=utf-8",
    "stream.js" => "text/javascript; charset=utf-8",
    "streams.js" => "text/javascript; charset=utf-8",
    "uPlot.esm.js" => "text/javascript; charset=utf-8",
    "uPlot.min.css" => "text/css; charset=utf-8",
    "uPlot.LICENSE.txt" => "text/plain; charset=utf-8",
    "icon.svg" => "image/svg+xml",
};

/// Answers with a file of the page; `None` if it has no file with this name.
pub(super) fn asset(name: &str, headers: &HeaderMap) -> Option<Response> {
    let asset = ASSETS.iter().find(|asset| asset.name == name)?;
    let tag = format!("W/\"{}\"", &blake3::hash(asset.bytes).to_hex()[..16]);
    let own = [(CONTENT_TYPE, asset.kind.to_owned()), (CACHE_CONTROL, "no-cache".to_owned()), (ETAG, tag.clone())];
    if knows(headers, &tag) {
        return Some((StatusCode::NOT_MODIFIED, own).into_response());
    }
    Some((own, asset.bytes).into_response())
}
