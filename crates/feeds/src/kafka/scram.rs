//! The client's side of SCRAM (RFC 5802): the password is proven, and the broker proves that it knows it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::{digest, hmac, pbkdf2};
use std::num::NonZeroU32;

/// The fewest iterations that are accepted, as in RFC 7677.
const MIN_ITERATIONS: u32 = 4096;
/// The most: a broker must not keep the client busy.
const MAX_ITERATIONS: u32 = 1_000_000;

/// The hash of a mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hash {
    Sha256,
    Sha512,
}

/// An exchange.
pub(super) struct Scram {
    hash: Hash,
    first: String,
    nonce: String,
    server_signature: Option<hmac::Tag>,
}

impl Scram {
    /// Begins with a nonce, which is printable.
    pub(super) fn new(hash: Hash, user: &str, nonce: String) -> Self {
        let user = user.replace('=', "=3D").replace(',', "=2C");
        Self { hash, first: format!("n={user},r={nonce}"), nonce, server_signature: None }
    }

    /// The first message.
    pub(super) fn first(&self) -> String {
        format!("n,,{}", self.first)
    }

    /// The answer to the broker's first message. As in Kafka, the password is taken as it is, in UTF-8.
    pub(super) fn answer(&mut self, challenge: &str, password: &str) -> Result<String, &'static str> {
        let field = |name: &str| challenge.split(',').find_map(|field| field.strip_prefix(name));
        let nonce = field("r=").filter(|nonce| nonce.starts_with(&self.nonce) && nonce.len() > self.nonce.len());
        let nonce = nonce.ok_or("the broker's nonce is wrong")?;
        let salt = field("s=").and_then(|text| BASE64.decode(text).ok()).ok_or("the broker's salt is invalid")?;
        let iterations = field("i=").and_then(|text| text.parse().ok()).unwrap_or(0);
        if !(MIN_ITERATIONS..=MAX_ITERATIONS).contains(&iterations) {
            return Err("the broker's number of iterations is not between 4096 and 1000000");
        }
        let iterations = NonZeroU32::new(iterations).ok_or("no iterations")?;
        let (derive, mac, digest) = match self.hash {
            Hash::Sha256 => (pbkdf2::PBKDF2_HMAC_SHA256, hmac::HMAC_SHA256, &digest::SHA256),
            Hash::Sha512 => (pbkdf2::PBKDF2_HMAC_SHA512, hmac::HMAC_SHA512, &digest::SHA512),
        };
        let mut salted = vec![0; digest.output_len()];
        pbkdf2::derive(derive, iterations, &salt, password.as_bytes(), &mut salted);
        let salted = hmac::Key::new(mac, &salted);
        let client_key = hmac::sign(&salted, b"Client Key");
        let stored_key = digest::digest(digest, client_key.as_ref());
        let without_proof = format!("c=biws,r={nonce}");
        let signed = format!("{},{challenge},{without_proof}", self.first);
        let signature = hmac::sign(&hmac::Key::new(mac, stored_key.as_ref()), signed.as_bytes());
        let proof: Vec<u8> = client_key.as_ref().iter().zip(signature.as_ref()).map(|(a, b)| a ^ b).collect();
        let server_key = hmac::sign(&salted, b"Server Key");
        self.server_signature = Some(hmac::sign(&hmac::Key::new(mac, server_key.as_ref()), signed.as_bytes()));
        Ok(format!("{without_proof},p={}", BASE64.encode(proof)))
    }

    /// Whether the broker's last message proves that it knows the password.
    pub(super) fn is_proven(&self, last: &str) -> bool {
        let signature =
            last.split(',').find_map(|field| field.strip_prefix("v=")).and_then(|text| BASE64.decode(text).ok());
        signature.is_some_and(|own| self.server_signature.is_some_and(|expected| expected.as_ref() == own))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The exchange in section 3 of RFC 7677.
    #[test]
    fn the_exchange_of_the_standard() {
        let mut scram = Scram::new(Hash::Sha256, "user", "rOprNGfwEbeRWgbNEkqO".to_owned());
        assert_eq!(scram.first(), "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let challenge = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        assert_eq!(
            scram.answer(challenge, "pencil").expect("valid"),
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
             p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        );
        assert!(scram.is_proven("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="));
        assert!(!scram.is_proven("v=7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="));
        assert!(!scram.is_proven("e=invalid-proof"));
    }

    #[test]
    fn weak_challenges_are_refused() {
        for challenge in ["r=other,s=AAAA,i=4096", "r=abc,s=AAAA,i=4096", "r=abcd,s=AAAA,i=1", "r=abcd,s=*,i=4096"] {
            let mut scram = Scram::new(Hash::Sha512, "user", "abc".to_owned());
            assert!(scram.answer(challenge, "pencil").is_err(), "{challenge}");
            assert!(!scram.is_proven("v="));
        }
    }
}
