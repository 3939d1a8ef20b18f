//! Limits per address: on requests, and on wrong tokens.

use super::connections::network_of;
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use std::collections::HashMap;
use std::net::IpAddr;
use std::num::NonZero;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

/// Wrong tokens that one address may send per minute.
const MAX_WRONG_TOKENS_PER_MIN: u32 = 30;

const MINUTE: Duration = Duration::from_secs(60);

/// The most addresses with wrong tokens to remember; beyond that, every caller with a wrong token waits for the minute
/// to end.
const MAX_TRACKED_ADDRESSES: usize = 100_000;

/// The limits of all addresses.
pub(super) struct AddressLimits {
    requests: RwLock<DefaultKeyedRateLimiter<IpAddr>>,
    /// For each address, the start of its minute and its wrong tokens since.
    wrong: Mutex<HashMap<IpAddr, (Instant, u32)>>,
}

fn limiter(a_second: u32) -> DefaultKeyedRateLimiter<IpAddr> {
    let a_second = NonZero::new(a_second).unwrap_or(NonZero::<u32>::MIN);
    let burst = a_second.saturating_mul(NonZero::new(4).expect("not 0"));
    RateLimiter::keyed(Quota::per_second(a_second).allow_burst(burst))
}

impl AddressLimits {
    pub(super) fn new(a_second: u32) -> Self {
        Self { requests: RwLock::new(limiter(a_second)), wrong: Mutex::default() }
    }

    /// Changes the number of requests per second.
    pub(super) fn set_rate(&self, a_second: u32) {
        *self.requests.write().unwrap_or_else(PoisonError::into_inner) = limiter(a_second);
    }

    fn requests(&self) -> RwLockReadGuard<'_, DefaultKeyedRateLimiter<IpAddr>> {
        self.requests.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether an address may send one more request.
    pub(super) fn admits(&self, peer: IpAddr) -> bool {
        self.requests().check_key(&network_of(peer)).is_ok()
    }

    /// Counts a wrong token of an address.
    pub(super) fn failed(&self, peer: IpAddr) {
        let mut wrong = self.wrong();
        if wrong.len() >= MAX_TRACKED_ADDRESSES {
            wrong.retain(|_, (since, _)| since.elapsed() < MINUTE);
        }
        let (since, count) = wrong.entry(network_of(peer)).or_insert_with(|| (Instant::now(), 0));
        if since.elapsed() >= MINUTE {
            (*since, *count) = (Instant::now(), 0);
        }
        *count = count.saturating_add(1);
    }

    /// Whether an address sent too many wrong tokens within a minute.
    pub(super) fn has_failed_often(&self, peer: IpAddr) -> bool {
        let wrong = self.wrong();
        let own = wrong.get(&network_of(peer));
        wrong.len() > MAX_TRACKED_ADDRESSES
            || own.is_some_and(|(since, count)| since.elapsed() < MINUTE && *count >= MAX_WRONG_TOKENS_PER_MIN)
    }

    fn wrong(&self) -> MutexGuard<'_, HashMap<IpAddr, (Instant, u32)>> {
        self.wrong.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets addresses without recent requests.
    pub(super) fn forget(&self) {
        self.requests().retain_recent();
        self.wrong().retain(|_, (since, _)| since.elapsed() < MINUTE);
    }
}
