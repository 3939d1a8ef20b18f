//! What every request needs: the streams, the tokens, and who is asking.

use super::hub::Hub;
use super::limits::Limits;
use super::problem::Problem;
use super::work::{Threads, Work, in_thread};
use crate::config::{LimitsConfig, StepsConfig};
use crate::engine::{Refusal, Service, StreamInfo};
use crate::tokens::{Role, Tokens};
use axum::extract::{FromRequestParts, State};
use axum::http::StatusCode;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

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
    /// Where copies of the folder go.
    pub(super) backups: Option<PathBuf>,
    /// Why webhooks cannot be told, if they cannot.
    troubles: Vec<Arc<Mutex<Option<String>>>>,
    /// Whether there was room on the disk, and when that was looked at.
    room: Mutex<Option<(Instant, bool)>>,
    pub(super) limits: Limits,
    pub(super) threads: Threads,
    pub(super) hub: Arc<Hub>,
    pub(super) started: (jiff::Timestamp, Instant),
}

/// What a service is told when it begins to answer.
pub struct AppSetting {
    /// Who may do what.
    pub tokens: Tokens,
    /// The folder.
    pub folder: PathBuf,
    /// What one request may take.
    pub limits: LimitsConfig,
    /// When steps are closed, unless a stream says otherwise.
    pub steps: StepsConfig,
    /// Whether the key is sealed.
    pub is_sealed: bool,
    /// Where copies of the folder go.
    pub backups: Option<PathBuf>,
    /// Why webhooks cannot be told, if they cannot.
    pub troubles: Vec<Arc<Mutex<Option<String>>>>,
}

/// How long a look at the disk holds.
const LOOKED: Duration = Duration::from_secs(1);

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
    /// A service, as HTTP sees it.
    pub fn new(service: Arc<Service>, setting: AppSetting) -> Arc<Self> {
        let AppSetting { tokens, folder, limits: config, steps, is_sealed, backups, troubles } = setting;
        let hub = Hub::new(&service, config.watchers);
        let limits = Limits::new(config.requests_per_second);
        let started = (jiff::Timestamp::now(), Instant::now());
        let room = Mutex::default();
        Arc::new(Self {
            service,
            tokens,
            folder,
            config,
            steps,
            is_sealed,
            backups,
            troubles,
            room,
            limits,
            threads: Threads::default(),
            hub,
            started,
        })
    }

    /// What is wrong with webhooks and the disk, in words for an operator.
    pub(super) fn troubles(&self) -> Vec<String> {
        let room = (!self.is_roomy()).then(|| {
            let most = self.config.free_bytes;
            format!("less than {most} bytes (`free-bytes`) are left on the disk of the folder: nothing is taken in; make room")
        });
        let said =
            |trouble: &Arc<Mutex<Option<String>>>| trouble.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.troubles.iter().filter_map(said).chain(room).collect()
    }

    fn is_roomy(&self) -> bool {
        let mut room = self.room.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *room {
            Some((looked, is_roomy)) if looked.elapsed() < LOOKED => *is_roomy,
            unknown => {
                let free = crate::folder::free_bytes(&self.folder);
                let is_roomy = free.is_none_or(|free| free >= self.config.free_bytes);
                if !is_roomy && unknown.as_ref().is_none_or(|(_, was_roomy)| *was_roomy) {
                    tracing::error!("there is too little room on the disk of the folder: nothing is taken in");
                }
                *unknown = Some((Instant::now(), is_roomy));
                is_roomy
            }
        }
    }

    /// Refuses events while the disk is nearly full: what is left is for what is published.
    pub(super) fn has_room(&self) -> Result<(), Problem> {
        if self.is_roomy() {
            return Ok(());
        }
        Err(Refusal::DiskFull(
            "the disk of the service is nearly full; send the batch again later, with the same id".into(),
        )
        .into())
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

    /// Refuses whoever does not write to a stream.
    pub(super) fn writes(&self, stream: &str) -> Result<(), Problem> {
        match &self.role {
            Some(role) if role.writes(stream) => Ok(()),
            Some(_) => Err(Problem::forbidden()),
            None => Err(Problem::unauthorized()),
        }
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
        let token = header.to_str().ok().and_then(|text| text.strip_prefix("Bearer ")).unwrap_or("");
        let token = Zeroizing::new(token.to_owned());
        // It looks at the file of the tokens.
        match in_thread(&app, Work::Quick, move |app| Ok(app.tokens.role_of(&token))).await? {
            Some(role) => Ok(Self { role: Some(role) }),
            // Nobody guesses 256 bits: this keeps the work small, and shuts nobody out who has a token.
            None if app.limits.has_failed_often(peer) => {
                let problem =
                    Problem::new(StatusCode::TOO_MANY_REQUESTS, "too-many-wrong-tokens", "Too many wrong tokens");
                Err(problem.because("tokens from your address were wrong too often; wait a minute").retry_after(60))
            }
            None => {
                app.limits.failed(peer);
                Err(Problem::unauthorized())
            }
        }
    }
}
