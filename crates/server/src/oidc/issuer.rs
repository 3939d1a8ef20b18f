//! An issuer: its keys, and the roles that it gives.

use super::issued::IssuedToken;
use super::jwt::SignedToken;
use super::keys::{PublicKey, matching, parse_keys};
use super::rejection::{FetchEnd, IdentityError};
use crate::config::{IdentityConfig, RoleRule, is_protected};
use crate::tokens::{KnownToken, Role};
use evertally_declare::error::{Result, failure, usage};
use evertally_feeds::{RemoteTls, http_agent};
use serde::Deserialize;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// How long an answer of the issuer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// The most bytes of an answer.
const MAX_BYTES: u64 = 256 << 10;

/// Keys are fetched at most this often, however many tokens name unknown ones.
const FETCH_INTERVAL: Duration = Duration::from_secs(60);

/// Keys are fetched again after this time, so that revoked ones are forgotten.
const REFRESH_INTERVAL: Duration = Duration::from_secs(900);

/// The longest name of a caller, in characters.
const MAX_NAME: usize = 100;

/// The most unknown keys that are noted between two times that keys are fetched.
const MAX_UNKNOWN_KEYS: usize = 256;

/// An issuer.
pub(super) struct OidcIssuer {
    config: Arc<IdentityConfig>,
    roles: Vec<(RoleRule, Role)>,
    agent: ureq::Agent,
    state: Mutex<KeyState>,
    /// Tells the requests that wait for a fetch that it has ended.
    fetch_ends: watch::Sender<()>,
    pub(super) fetch_interval: Duration,
}

#[derive(Default)]
struct KeyState {
    keys: Arc<[PublicKey]>,
    /// When they were fetched, and when that was last tried.
    fetched: Option<Instant>,
    tried: Option<Instant>,
    is_fetching: bool,
    problem: Option<String>,
    /// Unknown keys that tokens have named since the last fetch began.
    unknown: HashSet<KeyName>,
    /// Those that tokens had named when the last fetch began.
    awaited: HashSet<KeyName>,
    /// Those that a fetch has not found which began after a token had named them.
    missing: HashSet<KeyName>,
}

/// The digest of a key's id and algorithm: strangers choose how long an id is.
type KeyName = [u8; 32];

/// The document that describes an issuer.
#[derive(Deserialize)]
struct Discovery {
    issuer: String,
    jwks_uri: String,
}

impl OidcIssuer {
    pub(super) fn new(config: &IdentityConfig) -> Result<Self> {
        let role = |rule: &RoleRule| match rule.role.parse::<Role>() {
            Ok(role) => Ok((rule.clone(), role)),
            Err(problem) => Err(usage(format!("[[identity]] with issuer `{}`: {problem}", config.issuer))),
        };
        Ok(Self {
            roles: config.roles.iter().map(role).collect::<Result<_>>()?,
            agent: http_agent(RemoteTls { authority: config.authority.as_deref(), client: None }, ANSWER_TIMEOUT)?,
            config: Arc::new(config.clone()),
            state: Mutex::default(),
            fetch_ends: watch::Sender::default(),
            fetch_interval: FETCH_INTERVAL,
        })
    }

    pub(super) fn config(&self) -> &IdentityConfig {
        &self.config
    }

    /// Why its tokens may be refused, in words. While there is a problem, each look tries again if that is due: without
    /// new tokens, nothing else would notice that the issuer is back.
    pub(super) fn problem(self: &Arc<Self>) -> Option<String> {
        let mut state = self.state();
        let problem = state.problem.clone()?;
        if self.is_due(&state) {
            self.fetch_apart(&mut state);
        }
        Some(format!("the keys of the issuer {} cannot be fetched: {problem}", self.config.issuer))
    }

    fn state(&self) -> MutexGuard<'_, KeyState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The caller with a token.
    pub(super) fn find(self: &Arc<Self>, token: &SignedToken<'_>) -> Result<IssuedToken, IdentityError> {
        let config = &self.config;
        let audiences: Vec<&str> =
            [Some(&config.audience), config.client_id.as_ref()].into_iter().flatten().map(String::as_str).collect();
        // Before the signature: a token that is refused anyway fetches no keys.
        let end_secs = token.check(&audiences, jiff::Timestamp::now().as_second() as f64)?;
        let keys = self.keys_for(token)?;
        if !keys.iter().any(|key| key.verifies(token)) {
            return Err(IdentityError::Rejected("its signature is not valid"));
        }
        let subject = token.text("sub").ok_or(IdentityError::Rejected("it names no subject"))?;
        let name = token.text(&config.name_claim).unwrap_or(subject);
        let name: String = name.chars().filter(|letter| !is_invisible(*letter)).take(MAX_NAME).collect();
        let digest =
            blake3::Hasher::new().update(config.issuer.as_bytes()).update(&[0]).update(subject.as_bytes()).finalize();
        let roles = self.roles.iter().filter(|(rule, _)| token.has(&rule.claim, &rule.value));
        let roles = roles.map(|(_, role)| role.clone()).collect();
        let caller = KnownToken { id: format!("oidc-{}", &digest.to_hex()[..8]), roles, label: name };
        Ok(IssuedToken { caller, config: Arc::clone(config), end_secs })
    }

    /// Whether keys may be fetched again.
    fn is_due(&self, state: &KeyState) -> bool {
        !state.is_fetching && state.tried.is_none_or(|tried| tried.elapsed() >= self.fetch_interval)
    }

    /// The keys for a token. Unknown keys are fetched, but not often; meanwhile, no other request occupies a thread. A
    /// key may be newer than the last fetch: only one that was named before it is certainly missing.
    fn keys_for(self: &Arc<Self>, token: &SignedToken<'_>) -> Result<Vec<PublicKey>, IdentityError> {
        let mut state = self.state();
        let is_due = self.is_due(&state);
        let found = self.kept(&state, token);
        if !found.is_empty() {
            if is_due && state.fetched.is_none_or(|fetched| fetched.elapsed() >= REFRESH_INTERVAL) {
                self.fetch_apart(&mut state);
            }
            return Ok(found);
        }
        let name = name_of_key(token);
        if is_due || state.unknown.len() < MAX_UNKNOWN_KEYS {
            state.unknown.insert(name);
        }
        if is_due {
            state.begin();
            drop(state);
            self.fetch();
            state = self.state();
        }
        let found = self.kept(&state, token);
        if !found.is_empty() {
            Ok(found)
        } else if state.is_fetching {
            // Subscribed while the state is locked: the fetch ends afterwards.
            Err(IdentityError::Fetching(FetchEnd(self.fetch_ends.subscribe())))
        } else if state.problem.is_none() && state.missing.contains(&name) {
            Err(IdentityError::Rejected("its issuer has no such key"))
        } else {
            Err(IdentityError::Unavailable)
        }
    }

    /// Fetches the keys in a thread for that.
    fn fetch_apart(self: &Arc<Self>, state: &mut KeyState) {
        state.begin();
        let own = Arc::clone(self);
        let started = std::thread::Builder::new().name("issuer".to_owned()).spawn(move || own.fetch());
        state.is_fetching = started.is_ok();
    }

    /// The known keys for a token, unless they are too old.
    fn kept(&self, state: &KeyState, token: &SignedToken<'_>) -> Vec<PublicKey> {
        let is_kept = state.fetched.is_some_and(|fetched| fetched.elapsed() < self.config.keep_keys.duration());
        if is_kept { matching(&state.keys, token) } else { Vec::new() }
    }

    /// Fetches the keys.
    fn fetch(&self) {
        let fetched = self.fetched_keys();
        let mut state = self.state();
        state.is_fetching = false;
        match fetched {
            Ok(keys) => {
                (state.keys, state.fetched, state.problem) = (keys.into(), Some(Instant::now()), None);
                state.missing = std::mem::take(&mut state.awaited);
            }
            Err(error) => {
                tracing::warn!(issuer = self.config.issuer, %error, "cannot fetch the keys of an issuer");
                state.problem = Some(error.to_string());
            }
        }
        self.fetch_ends.send_replace(());
    }

    fn fetched_keys(&self) -> Result<Vec<PublicKey>> {
        let issuer = &self.config.issuer;
        let url = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
        let found: Discovery = serde_json::from_slice(&self.get(&url)?)
            .map_err(|e| failure(format!("{url} is not the discovery document of an issuer: {e}")))?;
        if found.issuer != *issuer {
            return Err(failure(format!("{url} belongs to another issuer; write its URL as the document has it")));
        }
        if !is_protected(&found.jwks_uri) {
            return Err(failure(format!("{url} names keys at an address without encryption")));
        }
        let keys = parse_keys(&self.get(&found.jwks_uri)?);
        keys.map_err(|e| failure(format!("{} has no set of keys: {e}", found.jwks_uri)))
    }

    fn get(&self, url: &str) -> Result<Vec<u8>> {
        let away = |error: ureq::Error| failure(format!("{url}: {error}"));
        let mut answer = self.agent.get(url).call().map_err(away)?;
        if !answer.status().is_success() {
            return Err(failure(format!("{url} answered with status {}", answer.status().as_u16())));
        }
        answer.body_mut().with_config().limit(MAX_BYTES).read_to_vec().map_err(away)
    }
}

impl KeyState {
    fn begin(&mut self) {
        (self.tried, self.is_fetching) = (Some(Instant::now()), true);
        self.awaited = std::mem::take(&mut self.unknown);
    }
}

/// The name of the key of a token. Keys of other algorithms may have the same id.
fn name_of_key(token: &SignedToken<'_>) -> KeyName {
    let id = token.key.as_deref().unwrap_or_default();
    let kind = [token.algorithm as u8, u8::from(token.key.is_some())];
    *blake3::Hasher::new().update(&kind).update(id.as_bytes()).finalize().as_bytes()
}

/// Whether a character is a control or an invisible one, such as those that turn the direction of a text: with them, an
/// entry of the audit log could read like another.
fn is_invisible(letter: char) -> bool {
    let is_format = matches!(
        letter,
        '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
    );
    is_format || letter.is_control()
}
