//! The form of a token: a header, claims and a signature.

use super::rejection::IdentityError;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::{Map, Value};

/// The longest token, in bytes.
const MAX_BYTES: usize = 16 << 10;

/// By how many seconds the clocks of the issuer and this machine may differ.
const LEEWAY_SECS: f64 = 30.0;

/// The algorithms that are accepted: all with public keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    Rs256,
    Ps256,
    Es256,
    EdDsa,
}

impl Algorithm {
    pub(super) fn from_name(name: &str) -> Option<Self> {
        match name {
            "RS256" => Some(Self::Rs256),
            "PS256" => Some(Self::Ps256),
            "ES256" => Some(Self::Es256),
            "EdDSA" | "Ed25519" => Some(Self::EdDsa),
            _ => None,
        }
    }
}

/// A token whose signature is not checked yet.
pub(super) struct SignedToken<'t> {
    pub(super) algorithm: Algorithm,
    /// The id of the key.
    pub(super) key: Option<String>,
    claims: Map<String, Value>,
    pub(super) signed: &'t [u8],
    pub(super) signature: Vec<u8>,
}

#[derive(Deserialize)]
struct TokenHeader {
    alg: String,
    #[serde(default)]
    kid: Option<String>,
    #[serde(default)]
    crit: Option<Value>,
}

impl<'t> SignedToken<'t> {
    pub(super) fn parse(token: &'t str) -> Result<Self, IdentityError> {
        const MALFORMED: IdentityError = IdentityError::Rejected("it is not a signed JWT");
        let parts = token.rsplit_once('.').and_then(|(signed, end)| Some((signed, signed.split_once('.')?, end)));
        let (signed, (header, claims), signature) = parts.filter(|_| token.len() <= MAX_BYTES).ok_or(MALFORMED)?;
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| MALFORMED);
        let header: TokenHeader = serde_json::from_slice(&decode(header)?).map_err(|_| MALFORMED)?;
        let algorithm = Algorithm::from_name(&header.alg);
        let algorithm =
            algorithm.ok_or(IdentityError::Rejected("its algorithm is not RS256, PS256, ES256 or EdDSA"))?;
        if header.crit.is_some() {
            return Err(IdentityError::Rejected("its header has extensions (`crit`), and none is known"));
        }
        let claims = serde_json::from_slice(&decode(claims)?).map_err(|_| MALFORMED)?;
        Ok(Self { algorithm, key: header.kid, claims, signed: signed.as_bytes(), signature: decode(signature)? })
    }

    /// A claim that is a text.
    pub(super) fn text(&self, claim: &str) -> Option<&String> {
        match self.claims.get(claim) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        }
    }

    /// Whether a claim is a text, or a list with it. Points separate the names of nested claims, unless the whole is
    /// the name of a claim.
    pub(super) fn has(&self, claim: &str, text: &str) -> bool {
        let mut parts = claim.split('.');
        let first = parts.next().and_then(|part| self.claims.get(part));
        let nested = || parts.try_fold(first?, |outer, part| outer.get(part));
        match self.claims.get(claim).or_else(nested) {
            Some(Value::String(own)) => own == text,
            Some(Value::Array(list)) => list.iter().any(|own| own.as_str() == Some(text)),
            _ => false,
        }
    }

    /// Checks its audience and its times. Returns from when on it is refused.
    pub(super) fn check(&self, audiences: &[&str], now_secs: f64) -> Result<f64, IdentityError> {
        if !audiences.iter().any(|audience| self.has("aud", audience)) {
            return Err(IdentityError::Rejected("it is for another audience"));
        }
        let time = |claim: &str| match self.claims.get(claim) {
            None => Ok(None),
            Some(time) => time.as_f64().map(Some).ok_or(IdentityError::Rejected("its times are not numbers")),
        };
        let end = time("exp")?.ok_or(IdentityError::Rejected("it never expires"))? + LEEWAY_SECS;
        if end <= now_secs {
            return Err(IdentityError::Rejected("it has expired"));
        }
        if time("nbf")?.is_some_and(|begin| begin - LEEWAY_SECS > now_secs) {
            return Err(IdentityError::Rejected("it is not valid yet"));
        }
        Ok(end)
    }
}
