//! The state that every request needs: the streams, the tokens, and the caller.

use super::answers::PUBLICATION_WRITERS;
use super::hub::Hub;
use super::limits::AddressLimits;
use super::problem::ProblemAnswer;
use super::readiness::{Readiness, ReplicaState};
use super::threads::{Threads, Work};
use crate::audit::AuditLog;
use crate::backup::Backups;
use crate::config::{ClientConfig, LimitsConfig, StepsConfig};
use crate::engine::{Refusal, Service, StreamInfo};
use crate::extensions::Extensions;
use crate::feeds::Feeds;
use crate::meters::RequestMeters;
use crate::oidc::{IdentityError, IssuedToken, TrustedIssuers};
use crate::sinks::Sinks;
use crate::standby::Shipping;
use crate::synchronisation::Synchronisation;
use crate::syslog::SyslogListeners;
use crate::tls::{ClientCertificate, ReloadingTls};
use crate::tokens::{KnownToken, Role, Tokens};
use crate::webhook::Webhooks;
use axum::extract::{FromRequestParts, State};
use axum::http::StatusCode;
use axum::http::header::{AUTHORIZATION, ORIGIN};
use axum::http::request::Parts;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// The service's state for HTTP.
pub struct App {
    /// The streams.
    pub service: Arc<Service>,
    /// The tokens and their roles.
    pub tokens: Tokens,
    /// The issuers whose tokens are accepted, too.
    pub issuers: TrustedIssuers,
    /// The audit log.
    pub audit: AuditLog,
    /// The folder.
    pub folder: PathBuf,
    /// The settings that may change while the service runs.
    settings: RwLock<Arc<AppSettings>>,
    /// Whether the key is sealed.
    pub is_sealed: bool,
    /// The webhooks.
    pub webhooks: Arc<Webhooks>,
    /// The sources that it follows.
    pub feeds: Feeds,
    /// The listeners for syslog.
    pub syslog: SyslogListeners,
    /// The sinks.
    pub sinks: Sinks,
    /// The copies of the folder.
    pub backups: Arc<Backups>,
    /// The streams that are extended without a request.
    pub extensions: Extensions,
    /// Whether the machine's clock is synchronised.
    pub synchronisation: Synchronisation,
    pub(super) requests: RequestMeters,
    /// The certificates of listeners, by their names.
    certificates: OnceLock<Vec<(&'static str, Arc<ReloadingTls>)>>,
    /// Whether the disk had free space, and when that was checked.
    room: Mutex<Option<(Instant, bool)>>,
    pub(super) limits: AddressLimits,
    pub(super) threads: Threads,
    pub(super) hub: Arc<Hub>,
    pub(super) readiness: Readiness,
    pub(super) started: (jiff::Timestamp, Instant),
}

/// The parts of [`App`].
pub struct AppParts {
    /// The tokens and their roles.
    pub tokens: Tokens,
    /// The folder.
    pub folder: PathBuf,
    /// The settings that may change while the service runs.
    pub settings: AppSettings,
    /// Whether the key is sealed.
    pub is_sealed: bool,
    /// The webhooks.
    pub webhooks: Arc<Webhooks>,
    /// The copies of the folder.
    pub backups: Arc<Backups>,
}

/// The settings for HTTP that may change while the service runs.
#[derive(Clone, Debug)]
pub struct AppSettings {
    /// Limits per request.
    pub limits: LimitsConfig,
    /// When steps are closed, unless a stream overrides it.
    pub steps: StepsConfig,
    /// The machines that are known by their certificates.
    pub clients: Vec<ClientConfig>,
}

/// How long a check of the disk is valid.
const DISK_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The listener that received a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The listener for readers.
    Public,
    /// The listener for writers and operators.
    Private,
}

impl Side {
    /// The side as one word.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Private => "private",
        }
    }
}

/// The address that sent a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer(pub(super) IpAddr);

/// The caller of a request.
pub(super) struct Caller {
    /// The caller's proof of identity.
    identity: Option<CallerIdentity>,
    /// Whether the caller has a certificate that no `[[client]]` names.
    has_unnamed_certificate: bool,
    pub(super) peer: IpAddr,
}

/// How a caller is known: enough to ask again later, without the secret.
enum CallerIdentity {
    Token(KnownToken),
    Issued(IssuedToken),
    Certificate(ClientConfig, ClientCertificate),
}

impl CallerIdentity {
    /// The roles at the beginning of the request.
    fn roles(&self) -> &[Role] {
        match self {
            Self::Token(token) => &token.roles,
            Self::Issued(issued) => &issued.caller.roles,
            Self::Certificate(client, _) => &client.roles,
        }
    }

    /// The roles now. It may read the token file.
    fn roles_now(&self, app: &App) -> Vec<Role> {
        match self {
            Self::Token(token) => app.tokens.role_now(&token.id).into_iter().collect(),
            Self::Issued(issued) if app.issuers.still_accept(issued) => issued.caller.roles.clone(),
            Self::Certificate(_, certificate) if certificate.is_valid() => {
                let settings = app.settings();
                let client = ClientConfig::find(&settings.clients, certificate);
                client.map(|client| client.roles.clone()).unwrap_or_default()
            }
            Self::Issued(_) | Self::Certificate(..) => Vec::new(),
        }
    }
}

impl App {
    /// Creates the state for a service.
    pub fn new(service: Arc<Service>, parts: AppParts) -> Arc<Self> {
        let AppParts { tokens, folder, settings, is_sealed, webhooks, backups } = parts;
        let hub = Hub::new(&service, settings.limits.watchers);
        let limits = AddressLimits::new(settings.limits.requests_per_second);
        let started = (jiff::Timestamp::now(), Instant::now());
        let room = Mutex::default();
        Arc::new(Self {
            service,
            tokens,
            issuers: TrustedIssuers::default(),
            audit: AuditLog::from_folder(&folder),
            folder,
            settings: RwLock::new(Arc::new(settings)),
            is_sealed,
            webhooks,
            feeds: Feeds::default(),
            syslog: SyslogListeners::default(),
            sinks: Sinks::new(PUBLICATION_WRITERS),
            backups,
            extensions: Extensions::default(),
            synchronisation: Synchronisation::default(),
            requests: RequestMeters::default(),
            certificates: OnceLock::new(),
            room,
            limits,
            threads: Threads::default(),
            hub,
            readiness: Readiness::default(),
            started,
        })
    }

    /// The settings that may change while the service runs.
    pub fn settings(&self) -> Arc<AppSettings> {
        Arc::clone(&self.settings.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Names the state of a replica, if this is one.
    pub(crate) fn set_replica(&self, state: &Arc<ReplicaState>) {
        self.readiness.set_replica(state);
    }

    /// Changes the settings, for later requests and connections.
    pub fn change_settings(&self, settings: AppSettings) {
        self.hub.set_most_watchers(settings.limits.watchers);
        self.limits.set_rate(settings.limits.requests_per_second);
        *self.settings.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
    }

    /// The token of a caller, if it is valid: one of the service, or of an issuer.
    fn find_token(&self, token: &str) -> Result<Option<CallerIdentity>, IdentityError> {
        if self.issuers.are_asked_for(token) {
            return self.issuers.find(token).map(|issued| Some(CallerIdentity::Issued(issued)));
        }
        Ok(self.tokens.find(token).map(CallerIdentity::Token))
    }

    /// Problems of webhooks, feeds, sinks, issuers, extensions, copies, the disk and the clock, in words for operators.
    pub(super) fn troubles(&self) -> Vec<String> {
        let room = (!self.has_free_disk()).then(|| {
            let most = self.settings().limits.free_bytes;
            format!(
                "less than {most} bytes (`free-bytes`) are left on the data disk: refusing new events; free some space"
            )
        });
        let shipping = self.service.shipping().map(Shipping::problems).unwrap_or_default();
        let hooks = self.webhooks.problems().into_iter().chain(self.feeds.problems()).chain(self.sinks.problems());
        let own = hooks.chain(self.issuers.problems()).chain(self.syslog.problems()).chain(self.extensions.problems());
        let own = own.chain(self.synchronisation.problem());
        own.chain(self.backups.problem()).chain(shipping).chain(room).collect()
    }

    /// Names the certificates of the listeners, once.
    pub(super) fn set_certificates(&self, certificates: Vec<(&'static str, Arc<ReloadingTls>)>) {
        let _ = self.certificates.set(certificates); // the first ones stay
    }

    /// When the certificate of each listener expires, in seconds since 1970.
    pub(super) fn certificates(&self) -> Vec<(&'static str, f64)> {
        let all = self.certificates.get().into_iter().flatten();
        all.filter_map(|(side, certificate)| Some((*side, certificate.expiry()? as f64))).collect()
    }

    pub(crate) fn has_free_disk(&self) -> bool {
        let mut room = self.room.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *room {
            Some((looked, has_free_disk)) if looked.elapsed() < DISK_CHECK_INTERVAL => *has_free_disk,
            unknown => {
                let free = crate::folder::free_bytes(&self.folder);
                let has_free_disk = free.is_none_or(|free| free >= self.settings().limits.free_bytes);
                if !has_free_disk && unknown.as_ref().is_none_or(|(_, was_roomy)| *was_roomy) {
                    tracing::error!("the data disk is almost full: refusing new events");
                }
                *unknown = Some((Instant::now(), has_free_disk));
                has_free_disk
            }
        }
    }

    /// Refuses events while the disk is almost full: the remaining space is kept for publications.
    pub(super) fn require_free_disk(&self) -> Result<(), ProblemAnswer> {
        if self.has_free_disk() {
            return Ok(());
        }
        Err(Refusal::DiskFull(
            "the data disk of the service is almost full; send the batch again later, with the same id".into(),
        )
        .into())
    }

    /// A stream that the caller may read. Missing and unreadable streams look the same to the caller.
    pub(super) fn readable(&self, name: &str, caller: &Caller) -> Result<Arc<StreamInfo>, ProblemAnswer> {
        let info = self.service.stream(name).filter(|info| caller.reads(info));
        info.ok_or_else(ProblemAnswer::no_stream)
    }

    /// The streams that the caller may read.
    pub(super) fn all_readable(&self, caller: &Caller) -> Vec<Arc<StreamInfo>> {
        self.service.streams().into_iter().filter(|info| caller.reads(info)).collect()
    }
}

impl Caller {
    /// A caller without a token.
    pub(super) fn nobody() -> Self {
        Self { identity: None, has_unnamed_certificate: false, peer: IpAddr::from([0, 0, 0, 0]) }
    }

    /// Whether one of the caller's roles allows something.
    pub(super) fn may(&self, allows: impl Fn(&Role) -> bool) -> bool {
        self.identity.as_ref().is_some_and(|identity| identity.roles().iter().any(allows))
    }

    /// For the audit log: the id of the token, if it is one, and the owner. `None` for unknown callers.
    pub(super) fn for_audit(&self) -> Option<(Option<String>, String)> {
        Some(match self.identity.as_ref()? {
            CallerIdentity::Token(token) if token.label.is_empty() => {
                (Some(token.id.clone()), "a token without a label".to_owned())
            }
            CallerIdentity::Token(token) => (Some(token.id.clone()), token.label.clone()),
            // The issuer, or even the caller, chooses the name: it must not read like a certificate.
            CallerIdentity::Issued(IssuedToken { caller, .. }) => {
                (Some(caller.id.clone()), format!("oidc {}", caller.label))
            }
            CallerIdentity::Certificate(client, _) => (None, format!("certificate {}", client.name)),
        })
    }

    pub(super) fn reads(&self, info: &StreamInfo) -> bool {
        info.is_public() || self.may(|role| role.reads(info.name()))
    }

    /// Whether the caller may read a stream now: a watch may last longer than a token, a certificate or a role. It may
    /// read the token file.
    pub(super) fn reads_now(&self, app: &App, info: &StreamInfo) -> bool {
        let has_role = |identity: &CallerIdentity| identity.roles_now(app).iter().any(|role| role.reads(info.name()));
        info.is_public() || self.identity.as_ref().is_some_and(has_role)
    }

    /// Refuses callers whose role does not allow something.
    fn require(&self, allows: impl Fn(&Role) -> bool) -> Result<(), ProblemAnswer> {
        match &self.identity {
            Some(_) if self.may(allows) => Ok(()),
            Some(CallerIdentity::Certificate(..)) => Err(ProblemAnswer::forbidden_certificate()),
            Some(_) => Err(ProblemAnswer::forbidden()),
            None if self.has_unnamed_certificate => Err(ProblemAnswer::unnamed_certificate()),
            None => Err(ProblemAnswer::unauthorized()),
        }
    }

    /// Refuses callers who may not write to a stream.
    pub(super) fn writes(&self, stream: &str) -> Result<(), ProblemAnswer> {
        self.require(|role| role.writes(stream))
    }

    /// Refuses callers who may not operate the whole service.
    pub(super) fn operates(&self) -> Result<(), ProblemAnswer> {
        self.require(Role::operates)
    }

    /// Refuses callers who may not operate a stream.
    pub(super) fn operates_stream(&self, stream: &str) -> Result<(), ProblemAnswer> {
        self.require(|role| role.operates_stream(stream))
    }

    /// Refuses callers who may not see the state of the service.
    pub(super) fn monitors(&self) -> Result<(), ProblemAnswer> {
        self.require(Role::monitors)
    }
}

/// The machine that a certificate belongs to, and whether there is a certificate that belongs to none. Browsers present
/// certificates by themselves, also in requests that other sites have started, so a request of a browser has none; all
/// browsers mark requests over TLS.
fn certified(parts: &Parts, app: &App) -> (Option<CallerIdentity>, bool) {
    let is_of_browser = parts.headers.contains_key("sec-fetch-site") || parts.headers.contains_key(ORIGIN);
    let certificate = parts.extensions.get::<ClientCertificate>().filter(|certificate| certificate.is_valid());
    let Some(certificate) = certificate.filter(|_| !is_of_browser) else { return (None, false) };
    let settings = app.settings();
    match ClientConfig::find(&settings.clients, certificate) {
        Some(client) => (Some(CallerIdentity::Certificate(client.clone(), certificate.clone())), false),
        None => (None, true),
    }
}

/// The token of an `Authorization` header, and whether it is the password of a user with any name. Schemes may be in
/// upper or lower case (RFC 9110, section 11.1).
fn token_of(header: &str) -> Option<(Zeroizing<String>, bool)> {
    let (scheme, rest) = header.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("Bearer") {
        return Some((Zeroizing::new(rest.trim_start().to_owned()), false));
    }
    if !scheme.eq_ignore_ascii_case("Basic") {
        return None;
    }
    let decoded = Zeroizing::new(STANDARD.decode(rest.trim()).ok()?);
    let (_, password) = std::str::from_utf8(&decoded).ok()?.split_once(':')?;
    Some((Zeroizing::new(password.to_owned()), true))
}

/// The token of a caller, found in a thread, because that reads the token file.
async fn find_token(
    app: &Arc<App>,
    token: Zeroizing<String>,
) -> Result<Result<Option<CallerIdentity>, IdentityError>, ProblemAnswer> {
    let shared = Arc::clone(app);
    app.threads.run(Work::Quick, move || Ok(shared.find_token(&token))).await
}

impl FromRequestParts<Arc<App>> for Caller {
    type Rejection = ProblemAnswer;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, ProblemAnswer> {
        let State(app) = State::<Arc<App>>::from_request_parts(parts, app).await.expect("the state is infallible");
        let peer = parts.extensions.get::<Peer>().map_or(IpAddr::from([0, 0, 0, 0]), |peer| peer.0);
        let Some(header) = parts.headers.get(AUTHORIZATION) else {
            let (identity, has_unnamed_certificate) = certified(parts, &app);
            return Ok(Self { identity, has_unnamed_certificate, peer });
        };
        let (token, is_basic) = header.to_str().ok().and_then(token_of).unwrap_or_default();
        let found = match find_token(&app, token.clone()).await? {
            Err(IdentityError::Fetching(end)) => {
                end.wait().await;
                find_token(&app, token).await?
            }
            found => found,
        };
        let (found, why) = match found {
            Ok(token) => (token, None),
            Err(IdentityError::Rejected(why)) => (None, Some(why)),
            Err(IdentityError::Unavailable | IdentityError::Fetching(_)) => return Err(ProblemAnswer::no_keys()),
        };
        match found {
            // Browsers repeat a user's password by themselves, also in requests that other sites have started.
            Some(token) if is_basic && token.roles().iter().any(Role::is_of_operators) => {
                Err(ProblemAnswer::unauthorized().because("send an operator's token as `Authorization: Bearer TOKEN`"))
            }
            Some(token) => Ok(Self { identity: Some(token), has_unnamed_certificate: false, peer }),
            // Nobody guesses 256 bits: this only limits the work, and never shuts out a caller with a valid token.
            None if app.limits.has_failed_often(peer) => {
                let problem =
                    ProblemAnswer::new(StatusCode::TOO_MANY_REQUESTS, "too-many-wrong-tokens", "Too many wrong tokens");
                Err(problem.because("tokens from your address were wrong too often; wait a minute").retry_after(60))
            }
            None => {
                app.limits.failed(peer);
                let problem = ProblemAnswer::unauthorized();
                Err(match why {
                    Some(why) => problem.because(format!("the token is not accepted: {why}")),
                    None => problem,
                })
            }
        }
    }
}
