//! The public keys of an issuer ([RFC 7517](https://www.rfc-editor.org/rfc/rfc7517)).

use super::jwt::{Algorithm, SignedToken};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RSA_PSS_2048_8192_SHA256, RsaPublicKeyComponents,
    UnparsedPublicKey,
};
use serde::Deserialize;
use serde_json::Value;

/// A public key.
#[derive(Clone, Debug)]
pub(super) struct PublicKey {
    id: Option<String>,
    /// The only algorithm that it is for, if its issuer says so.
    algorithm: Option<Algorithm>,
    material: Material,
}

#[derive(Clone, Debug)]
enum Material {
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// A point, uncompressed.
    P256(Vec<u8>),
    Ed25519(Vec<u8>),
}

#[derive(Deserialize)]
struct KeySet {
    keys: Vec<Value>,
}

/// A key as issuers publish it. Keys of other kinds, symmetric ones among them, are ignored.
#[derive(Deserialize)]
struct Jwk {
    kty: String,
    #[serde(default)]
    kid: Option<String>,
    #[serde(default, rename = "use")]
    purpose: Option<String>,
    #[serde(default)]
    alg: Option<String>,
    #[serde(default)]
    crv: Option<String>,
    #[serde(default)]
    n: String,
    #[serde(default)]
    e: String,
    #[serde(default)]
    x: String,
    #[serde(default)]
    y: String,
}

/// The usable keys of a set.
pub(super) fn parse_keys(set: &[u8]) -> serde_json::Result<Vec<PublicKey>> {
    let set: KeySet = serde_json::from_slice(set)?;
    Ok(set.keys.into_iter().filter_map(|key| usable(serde_json::from_value(key).ok()?)).collect())
}

fn usable(key: Jwk) -> Option<PublicKey> {
    if key.purpose.is_some_and(|purpose| purpose != "sig") {
        return None;
    }
    let algorithm = match &key.alg {
        Some(name) => Some(Algorithm::from_name(name)?),
        None => None,
    };
    let decode = |text: &str| URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok();
    let number = |text: &str| Some(decode(text)?.into_iter().skip_while(|byte| *byte == 0).collect::<Vec<u8>>());
    let material = match (key.kty.as_str(), key.crv.as_deref()) {
        ("RSA", _) => Material::Rsa { n: number(&key.n)?, e: number(&key.e)? },
        ("EC", Some("P-256")) => Material::P256([vec![4], decode(&key.x)?, decode(&key.y)?].concat()),
        ("OKP", Some("Ed25519")) => Material::Ed25519(decode(&key.x)?),
        _ => return None,
    };
    Some(PublicKey { id: key.kid, algorithm, material })
}

/// The keys that a token may be signed with. A token that names no key is accepted if only one is possible.
pub(super) fn matching(keys: &[PublicKey], token: &SignedToken<'_>) -> Vec<PublicKey> {
    let possible = keys.iter().filter(|key| key.fits(token.algorithm));
    match &token.key {
        Some(id) => possible.filter(|key| key.id.as_ref() == Some(id)).cloned().collect(),
        None => {
            let possible: Vec<PublicKey> = possible.cloned().collect();
            if possible.len() == 1 { possible } else { Vec::new() }
        }
    }
}

impl PublicKey {
    fn fits(&self, algorithm: Algorithm) -> bool {
        let is_kind = match self.material {
            Material::Rsa { .. } => matches!(algorithm, Algorithm::Rs256 | Algorithm::Ps256),
            Material::P256(_) => algorithm == Algorithm::Es256,
            Material::Ed25519(_) => algorithm == Algorithm::EdDsa,
        };
        is_kind && self.algorithm.is_none_or(|own| own == algorithm)
    }

    /// Whether it verifies the signature of a token.
    pub(super) fn verifies(&self, token: &SignedToken<'_>) -> bool {
        let SignedToken { algorithm, signed, signature, .. } = token;
        let verified = match (&self.material, algorithm) {
            (Material::Rsa { n, e }, Algorithm::Rs256) => {
                RsaPublicKeyComponents { n, e }.verify(&RSA_PKCS1_2048_8192_SHA256, signed, signature)
            }
            (Material::Rsa { n, e }, Algorithm::Ps256) => {
                RsaPublicKeyComponents { n, e }.verify(&RSA_PSS_2048_8192_SHA256, signed, signature)
            }
            (Material::P256(point), Algorithm::Es256) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(signed, signature)
            }
            (Material::Ed25519(point), Algorithm::EdDsa) => {
                UnparsedPublicKey::new(&ED25519, point).verify(signed, signature)
            }
            _ => return false,
        };
        verified.is_ok()
    }
}
