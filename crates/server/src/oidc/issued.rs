//! A token that was accepted.

use crate::config::IdentityConfig;
use crate::tokens::KnownToken;
use std::sync::Arc;

/// A token of an issuer that was accepted.
#[derive(Clone, Debug)]
pub struct IssuedToken {
    /// Its caller, with the roles of its claims.
    pub caller: KnownToken,
    /// The settings of its issuer at that time.
    pub(super) config: Arc<IdentityConfig>,
    /// From when on it is refused, in seconds since 1970.
    pub(super) end_secs: f64,
}
