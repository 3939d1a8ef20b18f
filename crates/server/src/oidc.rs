//! Tokens of other issuers: people and workloads that an issuer of [OpenID
//! Connect](https://openid.net/specs/openid-connect-core-1_0.html) vouches for.
//!
//! A token is a signed [JWT](https://www.rfc-editor.org/rfc/rfc7519). The service knows the public keys of the issuer
//! from its discovery document, keeps no session and stores no token. The rules of the configuration say which claims
//! give which roles.

mod issued;
mod issuer;
mod jwt;
mod keys;
mod rejection;

pub use issued::IssuedToken;
pub use rejection::{FetchEnd, IdentityError};

use crate::config::IdentityConfig;
use axum::http::HeaderValue;
use evertally_declare::error::{Result, failure};
use issuer::OidcIssuer;
use std::sync::{Arc, PoisonError, RwLock};

/// The sign-in that the page offers.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct SignIn {
    issuer: String,
    client_id: String,
    scopes: String,
}

/// The issuers of a service.
pub struct TrustedIssuers {
    current: RwLock<Arc<CurrentIssuers>>,
}

struct CurrentIssuers {
    issuers: Vec<Arc<OidcIssuer>>,
    /// The policy of the page, which may reach the issuer where people sign in.
    policy: HeaderValue,
    sign_in: Option<SignIn>,
}

/// The page may load only its own files, and reach only this service.
const POLICY: [&str; 2] = [
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'",
    "; font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
];

impl Default for TrustedIssuers {
    fn default() -> Self {
        let policy = HeaderValue::from_str(&POLICY.concat()).expect("the policy is visible ASCII");
        Self { current: RwLock::new(Arc::new(CurrentIssuers { issuers: Vec::new(), policy, sign_in: None })) }
    }
}

impl TrustedIssuers {
    fn current(&self) -> Arc<CurrentIssuers> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Checks issuers without connecting to them.
    ///
    /// # Errors
    /// The first that is invalid.
    pub fn check(configs: &[IdentityConfig]) -> Result<()> {
        configs.iter().try_for_each(|config| OidcIssuer::new(config).map(drop))
    }

    /// Takes up issuers; those with the same settings keep their keys.
    ///
    /// # Errors
    /// If one is invalid.
    pub fn set(&self, configs: &[IdentityConfig]) -> Result<()> {
        let before = self.current();
        let kept = |config: &IdentityConfig| before.issuers.iter().find(|own| own.config() == config).map(Arc::clone);
        let issuers = configs.iter().map(|config| match kept(config) {
            Some(issuer) => Ok(issuer),
            None => Ok(Arc::new(OidcIssuer::new(config)?)),
        });
        let issuers = issuers.collect::<Result<_>>()?;
        let page = configs.iter().find_map(|config| Some((config, config.client_id.clone()?)));
        let origin = page.as_ref().map(|(config, _)| format!(" {}", config.origin())).unwrap_or_default();
        let policy = HeaderValue::from_str(&POLICY.join(&origin)).map_err(failure)?;
        let sign_in = page.map(|(config, client_id)| SignIn {
            issuer: config.issuer.clone(),
            client_id,
            scopes: config.scopes.clone(),
        });
        let current = Arc::new(CurrentIssuers { issuers, policy, sign_in });
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = current;
        Ok(())
    }

    /// The content security policy of the page.
    pub fn policy(&self) -> HeaderValue {
        self.current().policy.clone()
    }

    /// The sign-in that the page offers.
    pub fn sign_in(&self) -> Option<SignIn> {
        self.current().sign_in.clone()
    }

    /// The problems of issuers, in words. Issuers with a problem are tried again, but not often.
    pub fn problems(&self) -> Vec<String> {
        self.current().issuers.iter().filter_map(|issuer| issuer.problem()).collect()
    }

    /// Whether a token may be one of these issuers: it has the form of a JWT.
    pub fn are_asked_for(&self, token: &str) -> bool {
        token.bytes().filter(|byte| *byte == b'.').count() == 2 && !self.current().issuers.is_empty()
    }

    /// The caller with a token. It may take seconds, if keys must be fetched.
    ///
    /// # Errors
    /// If the token is not valid, the keys of its issuer are not known, or they are being fetched for another token.
    pub fn find(&self, token: &str) -> Result<IssuedToken, IdentityError> {
        let token = jwt::SignedToken::parse(token)?;
        let current = self.current();
        let issuer = current.issuers.iter().find(|issuer| token.text("iss") == Some(&issuer.config().issuer));
        issuer.ok_or(IdentityError::Rejected("its issuer is not one that this service accepts"))?.find(&token)
    }

    /// Whether a token that was accepted has not expired, and its issuer has the same settings.
    pub fn still_accept(&self, token: &IssuedToken) -> bool {
        let has_settings = self.current().issuers.iter().any(|issuer| *issuer.config() == *token.config);
        has_settings && (jiff::Timestamp::now().as_second() as f64) < token.end_secs
    }
}

#[cfg(test)]
mod tests;
