//! What every request needs: the streams, the tokens, and who is asking.

use super::hub::Hub;
use super::limits::Limits;
use super::problem::Problem;
use crate::config::{LimitsConfig, StepsConfig};
use crate::engine::{Service, StreamInfo};
use crate::tokens::{Role, Tokens};
use axum::extract::{FromRequestParts, State};
use axum::http::StatusCode;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// A service, as HTTP sees it.
pub struct App {
    /// The streams.
    pub service: Arc<Service>,
    /// Who may do what.
    pub tokens: Tokens,
    /// The folder.
    pub folder: PathBuf,
    /// What one request may take.
    pub config: LimitsConfig,
    /// When steps are closed, unless a stream says otherwise.
    pub steps: StepsConfig,
    /// Whether the key is sealed.
    pub is_sealed: bool,
    pub(super) limits: Limits,
    pub(super) hub: Arc<Hub>,
    pub(super) started: (jiff::Timestamp, Instant),
}

/// Which listener a request came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The one for reading.
    Public,
    /// The one for writing and operating.
    Private,
}

/// Where a request came from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer(pub(super) IpAddr);

/// Who is asking.
pub(super) struct Caller {
    pub(super) role: Option<Role>,
}

impl App {
    /// A service with the tokens of its folder.
    pub fn new(
        service: Arc<Service>,
        tokens: Tokens,
        folder: PathBuf,
        config: LimitsConfig,
        steps: StepsConfig,
        is_sealed: bool,
    ) -> Arc<Self> {
        let hub = Hub::new(&service, config.watchers);
        let limits = Limits::new(config.requests_per_second);
        let started = (jiff::Timestamp::now(), Instant::now());
        Arc::new(Self { service, tokens, folder, config, steps, is_sealed, limits, hub, started })
    }

    /// A stream that the caller may read. One that there is not, and one that is not for them, are the same to them.
    pub(super) fn readable(&self, name: &str, caller: &Caller) -> Result<Arc<StreamInfo>, Problem> {
        let info = self.service.stream(name).filter(|info| caller.reads(info));
        info.ok_or_else(Problem::no_stream)
    }

    /// The streams that the caller may read.
    pub(super) fn all_readable(&self, caller: &Caller) -> Vec<Arc<StreamInfo>> {
        self.service.streams().into_iter().filter(|info| caller.reads(info)).collect()
    }
}

impl Caller {
    pub(super) fn reads(&self, info: &StreamInfo) -> bool {
        info.is_public() || self.role.as_ref().is_some_and(|role| role.reads(info.name()))
    }

    /// Refuses whoever does not operate the service.
    pub(super) fn operates(&self) -> Result<(), Problem> {
        match &self.role {
            Some(role) if role.operates() => Ok(()),
            Some(_) => Err(Problem::forbidden()),
            None => Err(Problem::unauthorized()),
        }
    }
}

impl FromRequestParts<Arc<App>> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let State(app) = State::<Arc<App>>::from_request_parts(parts, app).await.expect("a state is there");
        let Some(header) = parts.headers.get(AUTHORIZATION) else { return Ok(Self { role: None }) };
        let peer = parts.extensions.get::<Peer>().map_or(IpAddr::from([0, 0, 0, 0]), |peer| peer.0);
        if app.limits.has_failed_often(peer) {
            return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, "too-many-wrong-tokens", "Too many wrong tokens")
                .because("tokens from your address were wrong too often; wait a minute")
                .retry_after(60));
        }
        let token = header.to_str().ok().and_then(|text| text.strip_prefix("Bearer ")).unwrap_or("");
        match app.tokens.role_of(token) {
            Some(role) => Ok(Self { role: Some(role) }),
            None => {
                app.limits.failed(peer);
                Err(Problem::unauthorized())
            }
        }
    }
}
