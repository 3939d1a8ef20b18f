//! Files of web servers, by plain requests.

use super::client::{ServerReach, agent, innermost, is_loopback, unreachable};
use super::settings::ConnectionSettings;
use evertally_declare::error::ReadProblem;
use evertally_declare::url::without_secrets;
use http::header::{CONTENT_LENGTH, LOCATION, TRANSFER_ENCODING};
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

/// Redirects that are followed, from https to https.
const MAX_REDIRECTS: u32 = 5;

/// The bytes of a file.
pub(super) struct WebReader {
    body: ureq::BodyReader<'static>,
    /// Its size, if the server declares it. If not, the end of the file is marked.
    size: Option<u64>,
    received: u64,
}

/// Requests a file.
pub(super) fn open(url: &str, settings: &ConnectionSettings) -> Result<WebReader, ReadProblem> {
    let invalid = |why: String| ReadProblem(format!("this URL cannot be used: {why}"));
    let uri: http::Uri = url.parse().map_err(|error: http::uri::InvalidUri| invalid(error.to_string()))?;
    let host = uri.host().unwrap_or_default();
    if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err(invalid("it contains a name or a password; download the file with another program".into()));
    }
    let is_encrypted = uri.scheme_str() == Some("https");
    if !is_encrypted && !is_loopback(host) {
        let problem = "http is not encrypted, and anyone on the way could read and change the events; use https, or \
                       download the file with another program";
        return Err(ReadProblem(problem.into()));
    }
    let reach = if is_encrypted { ServerReach::Far { redirects: MAX_REDIRECTS } } else { ServerReach::Near };
    let agent = agent(settings, reach)?;
    let response = request(&agent, &uri, settings)?;
    let size = response.headers().get(CONTENT_LENGTH).and_then(|size| size.to_str().ok()?.parse().ok());
    if size.is_none() && !response.headers().contains_key(TRANSFER_ENCODING) {
        let problem = "the server does not declare the size, so that a file that is cut short could not be recognised; \
                       download it, check it, and read the file";
        return Err(ReadProblem(problem.into()));
    }
    Ok(WebReader { body: response.into_body().into_reader(), size, received: 0 })
}

/// The response with the file. A request that fails for a moment is sent again.
fn request(
    agent: &ureq::Agent,
    uri: &http::Uri,
    settings: &ConnectionSettings,
) -> Result<http::Response<ureq::Body>, ReadProblem> {
    let mut pause = settings.first_pause;
    for retries in 0.. {
        let (problem, may_pass) = match agent.get(uri).call() {
            Ok(response) if response.status() == 200 => return Ok(response),
            Ok(response) => (refused(&response), may_pass(response.status().as_u16())),
            Err(error) => {
                let may_pass = matches!(error, ureq::Error::Io(_) | ureq::Error::Timeout(_));
                (ReadProblem(unreachable("the server", &innermost(&error))), may_pass)
            }
        };
        if !may_pass || retries == settings.max_retries {
            return Err(problem);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_secs(10));
    }
    unreachable!("the last retry returns")
}

/// Whether the same request may succeed later.
fn may_pass(status: u16) -> bool {
    matches!(status, 408 | 429 | 500 | 502..=504)
}

fn refused(response: &http::Response<ureq::Body>) -> ReadProblem {
    let status = response.status().as_u16();
    ReadProblem(match status {
        404 | 410 => format!("there is no such file (status {status}); check the URL"),
        401 | 403 => {
            format!("the server denies access (status {status}); a signed URL may have expired, so make another one")
        }
        301..=308 => {
            let location = response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
            let location = location.map_or_else(String::new, |url| format!(" to {}", without_secrets(Path::new(url))));
            format!("the server redirects{location}, which is not followed; give the URL of the file itself")
        }
        _ => format!("the server answered with status {status}; run again later"),
    })
}

impl Read for WebReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let cut_short = |received: u64, why: &str| {
            let size = self.size.map_or_else(String::new, |size| format!(" of {size}"));
            ReadProblem(format!("the download ended after {received}{size} bytes{why}; run again"))
        };
        match self.body.read(buffer) {
            Ok(0) if !buffer.is_empty() && self.size.is_some_and(|size| size != self.received) => {
                Err(cut_short(self.received, "").into())
            }
            Ok(read) => {
                self.received += read as u64;
                Ok(read)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            Err(error) => Err(cut_short(self.received, &format!(" ({error})")).into()),
        }
    }
}
