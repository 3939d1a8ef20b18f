//! Sends a key to the workers of a cluster, sealed for each of them. Called by `evertally.spark`.

use crate::error::{OrRaise, invalid};
use crate::key::PySecretKey;
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use evertally::noise::SecretKey as Key;
use pyo3::prelude::*;
use x25519_dalek::{PublicKey, StaticSecret};
use zeroize::{Zeroize, Zeroizing};

/// Seals a key for a worker that sent a public number: our own public number, 24 random bytes, then the sealed key.
/// Someone who records all messages and later learns the secret of the run still cannot open it.
#[pyfunction]
#[pyo3(name = "_seal_key")]
pub(crate) fn seal_key(key: &PySecretKey, secret: [u8; 32], asked: [u8; 32]) -> PyResult<Vec<u8>> {
    let (own, chosen) = (fresh_bytes()?, fresh_bytes()?);
    let own = StaticSecret::from(*own);
    let public = PublicKey::from(&own);
    let cipher = agreed(&secret, &own, asked, (asked, *public.as_bytes()));
    let chosen: [u8; 24] = *chosen.first_chunk().expect("32 bytes");
    let payload = Payload { msg: key.inner().expose_bytes(), aad: &asked };
    let sealed = cipher.encrypt(&XNonce::from(chosen), payload);
    let sealed = sealed.map_err(|_| invalid("the key cannot be sealed"))?;
    Ok([public.as_bytes(), &chosen[..], &sealed].concat())
}

/// The request of a worker: the private number that it keeps, and the public one that it sends.
#[pyfunction]
#[pyo3(name = "_ask_for_key")]
pub(crate) fn ask_for_key() -> PyResult<([u8; 32], [u8; 32])> {
    let own = StaticSecret::from(*fresh_bytes()?);
    let public = PublicKey::from(&own);
    Ok((own.to_bytes(), public.to_bytes()))
}

/// Opens the key that `_seal_key` sealed. It has no ledger: the driver keeps that.
#[pyfunction]
#[pyo3(name = "_open_key")]
pub(crate) fn open_key(secret: [u8; 32], own: [u8; 32], sealed: &[u8]) -> PyResult<PySecretKey> {
    let damaged = || invalid("cannot open the key that the driver sent: it belongs to another run");
    let (theirs, sealed) = sealed.split_first_chunk::<32>().ok_or_else(damaged)?;
    let (chosen, sealed) = sealed.split_first_chunk::<24>().ok_or_else(damaged)?;
    let own = StaticSecret::from(own);
    let asked = PublicKey::from(&own).to_bytes();
    let cipher = agreed(&secret, &own, *theirs, (asked, *theirs));
    let opened = cipher.decrypt(&XNonce::from(*chosen), Payload { msg: sealed, aad: &asked });
    let opened = Zeroizing::new(opened.map_err(|_| damaged())?);
    let bytes: &[u8; 32] = opened.as_slice().try_into().map_err(|_| damaged())?;
    Ok(PySecretKey::without_ledger(Key::from_bytes(*bytes).or_raise()?))
}

/// The cipher of two parties that share a secret: derived from it, from the X25519 result, and from both public
/// numbers.
fn agreed(secret: &[u8; 32], own: &StaticSecret, theirs: [u8; 32], publics: ([u8; 32], [u8; 32])) -> XChaCha20Poly1305 {
    let shared = own.diffie_hellman(&PublicKey::from(theirs));
    let mut hasher = blake3::Hasher::new_keyed(secret);
    hasher.update(shared.as_bytes()).update(&publics.0).update(&publics.1);
    let key = Zeroizing::new(*hasher.finalize().as_bytes());
    hasher.zeroize();
    XChaCha20Poly1305::new(&(*key).into())
}

/// Random bytes from the operating system.
fn fresh_bytes() -> PyResult<Zeroizing<[u8; 32]>> {
    Ok(Zeroizing::new(*Key::generate().or_raise()?.expose_bytes()))
}
