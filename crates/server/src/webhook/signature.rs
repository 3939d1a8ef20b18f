//! Signatures of webhooks, as defined by [Standard Webhooks](https://www.standardwebhooks.com): HMAC-SHA256 of the id,
//! the time and the body, so that a receiver can tell the service's messages from others, and old ones from new ones.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use evertally_declare::error::{Result, usage};
use ring::hmac;
use std::path::Path;
use zeroize::Zeroizing;

/// The prefix of a secret in its usual form.
const PREFIX: &str = "whsec_";

/// The fewest bytes of a secret.
const MIN_SECRET_BYTES: usize = 24;

/// Signs messages with one or more secrets: with several, a receiver can change to the next one at any time.
#[derive(Clone)]
pub(super) struct Signer {
    keys: Vec<hmac::Key>,
    /// A digest of the secrets, to recognize a change.
    digest: [u8; 32],
}

impl PartialEq for Signer {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Signer {
    /// Reads secrets from a file with one on each line: `whsec_` and base64, or base64 alone.
    ///
    /// # Errors
    /// If the file cannot be read, has no secret, or one is too short.
    pub(super) fn from_file(path: &Path) -> Result<Self> {
        let shown = path.display();
        let text = std::fs::read_to_string(path).map(Zeroizing::new);
        // A name without a file may be the secret: it is not shown.
        let text = text.map_err(|e| usage(format!("the file that `secret-file` names cannot be read: {e}")))?;
        Self::from_text(&text).map_err(|problem| usage(format!("{shown}: {problem}")))
    }

    fn from_text(text: &str) -> Result<Self, String> {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let keys = lines.map(|line| {
            let secret = STANDARD.decode(line.strip_prefix(PREFIX).unwrap_or(line)).map(Zeroizing::new);
            match secret {
                Ok(secret) if secret.len() >= MIN_SECRET_BYTES => Ok(hmac::Key::new(hmac::HMAC_SHA256, &secret)),
                _ => Err(format!(
                    "a signing secret is at least {MIN_SECRET_BYTES} random bytes in base64, one secret on each line; \
                     create one with `openssl rand -base64 32`"
                )),
            }
        });
        let keys = keys.collect::<Result<Vec<_>, String>>()?;
        if keys.is_empty() {
            return Err("the file has no signing secret; create one with `openssl rand -base64 32`".to_owned());
        }
        Ok(Self { keys, digest: blake3::derive_key("evertally serve 1 webhook secrets", text.as_bytes()) })
    }

    /// The value of the header `webhook-signature`: one signature for each secret.
    pub(super) fn sign(&self, id: &str, seconds: i64, body: &str) -> String {
        let signed = format!("{id}.{seconds}.{body}");
        let sign = |key: &hmac::Key| format!("v1,{}", STANDARD.encode(hmac::sign(key, signed.as_bytes())));
        self.keys.iter().map(sign).collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the specification's reference libraries.
    #[test]
    fn a_signature_is_that_of_the_specification() {
        let signer = Signer::from_text("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n").unwrap();
        let signature = signer.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, "{\"test\": 2432232314}");
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        let two = Signer::from_text("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\nc2VjcmV0IHNlY3JldCBzZWNyZXQgc2VjcmV0").unwrap();
        let both = two.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, "{\"test\": 2432232314}");
        assert!(both.starts_with(&format!("{signature} v1,")) && two != signer);
    }

    #[test]
    fn weak_secrets_are_refused() {
        for text in ["", "\n", "whsec_", "c2hvcnQ=", "not base64 at all, but long enough!"] {
            assert!(Signer::from_text(text).is_err(), "{text}");
        }
    }
}
