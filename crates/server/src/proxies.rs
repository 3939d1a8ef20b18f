//! Networks of addresses, and the reverse proxies in them that are believed about the addresses of their clients.

use axum::http::HeaderMap;
use serde::Deserialize;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// Networks, such as those of proxies that are believed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Networks(Vec<Network>);

/// A network: an address, and how many of its first bits are fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Network {
    address: IpAddr,
    bits: u8,
}

impl Networks {
    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an address is in one of them.
    pub(crate) fn contain(&self, peer: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(peer))
    }

    /// The client of a request: the peer of its connection, or if that is a trusted proxy, the last address in
    /// `X-Forwarded-For` that is not one. Addresses before it are claims of the client itself.
    pub(crate) fn client_of(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        if !self.contain(peer) {
            return peer;
        }
        let values: Vec<&str> =
            headers.get_all("x-forwarded-for").iter().filter_map(|value| value.to_str().ok()).collect();
        let mut client = peer;
        for text in values.iter().rev().flat_map(|value| value.rsplit(',')) {
            let Some(address) = address_in(text) else { break };
            client = address;
            if !self.contain(address) {
                break;
            }
        }
        client
    }
}

/// An address, which some proxies write with a port or in brackets.
fn address_in(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let plain = || text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().ok();
    let address = plain().or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()))?;
    Some(address.to_canonical())
}

impl Network {
    fn contains(&self, peer: IpAddr) -> bool {
        match (self.address, peer) {
            (IpAddr::V4(own), IpAddr::V4(peer)) => {
                let differing = u32::from(own) ^ u32::from(peer);
                differing.leading_zeros() >= u32::from(self.bits)
            }
            (IpAddr::V6(own), IpAddr::V6(peer)) => {
                let differing = u128::from(own) ^ u128::from(peer);
                differing.leading_zeros() >= u32::from(self.bits)
            }
            _ => false,
        }
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let invalid =
            || format!("`{text}` is not an address or a network, such as `10.0.0.7`, `10.0.0.0/8` or `fd00::/8`");
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u8>().map_err(|_| invalid())?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| invalid())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(most);
        if bits > most {
            return Err(invalid());
        }
        // Peers have their IPv4 address, also at a socket for both versions, which calls it `::ffff:10.0.0.7`.
        let IpAddr::V6(own) = address else { return Ok(Self { address, bits }) };
        match (own.to_ipv4_mapped(), bits.checked_sub(96)) {
            (Some(mapped), Some(bits)) => Ok(Self { address: mapped.into(), bits }),
            (Some(_), None) => Err(format!("`{text}` is more than all IPv4 addresses: write `0.0.0.0/0` for those")),
            (None, _) => Ok(Self { address, bits }),
        }
    }
}

impl<'de> Deserialize<'de> for Network {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(trusted: &[&str], peer: &str, forwarded: &[&str]) -> String {
        let trusted = Networks(trusted.iter().map(|text| text.parse().unwrap()).collect());
        let mut headers = HeaderMap::new();
        for value in forwarded {
            headers.append("x-forwarded-for", value.parse().unwrap());
        }
        trusted.client_of(peer.parse().unwrap(), &headers).to_string()
    }

    #[test]
    fn only_trusted_proxies_are_believed() {
        let proxies = ["10.0.0.0/8", "fd00::/8", "192.0.2.1"];
        for (peer, forwarded, expected) in [
            ("203.0.113.9", &["198.51.100.1"][..], "203.0.113.9"),
            ("10.1.2.3", &[], "10.1.2.3"),
            ("10.1.2.3", &["198.51.100.1"], "198.51.100.1"),
            // The client has claimed the first address itself.
            ("10.1.2.3", &["127.0.0.1, 198.51.100.1"], "198.51.100.1"),
            ("10.1.2.3", &["127.0.0.1", "198.51.100.1, 192.0.2.1"], "198.51.100.1"),
            ("fd00::1", &["198.51.100.1:4711,10.0.0.1"], "198.51.100.1"),
            ("fd00::1", &["[2001:db8::1]:443"], "2001:db8::1"),
            ("192.0.2.1", &["::ffff:198.51.100.1"], "198.51.100.1"),
            ("192.0.2.1", &["198.51.100.1, unknown"], "192.0.2.1"),
            ("192.0.2.2", &["198.51.100.1"], "192.0.2.2"),
        ] {
            assert_eq!(client(&proxies, peer, forwarded), expected, "{peer} {forwarded:?}");
        }
        assert_eq!(client(&["::ffff:10.0.0.0/104"], "10.1.2.3", &["198.51.100.1"]), "198.51.100.1");
        assert_eq!(client(&["::ffff:10.0.0.0/104"], "11.1.2.3", &["198.51.100.1"]), "11.1.2.3");
        assert_eq!(client(&["::ffff:10.0.0.7"], "10.0.0.7", &["198.51.100.1"]), "198.51.100.1");
        let wrong = ["", "10.0.0.0/33", "10.0.0", "proxy.example", "10.0.0.0/-1", "fd00::/129", "::ffff:10.0.0.0/95"];
        for wrong in wrong {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
    }
}
