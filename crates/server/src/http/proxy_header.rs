//! The PROXY protocol, versions 1 and 2: the address of a client, which a proxy sends before everything else
//! (<https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt>).
//!
//! Only a declared proxy may send it, and has to: a connection without it, or with another address than the two
//! versions know, is closed.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use tokio::io::{AsyncRead, AsyncReadExt};

/// The first bytes of version 2.
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// The most bytes of a header of version 1, with its line end.
const MAX_LINE: usize = 107;
/// The most bytes after the fixed part of version 2. Addresses and the usual extensions take a tenth of it.
const MAX_REST: usize = 4096;

/// A header that is not one, or a connection that ended in it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NoHeader;

/// Reads a header, and nothing after it. Returns the address of the client; `None` if the proxy speaks for itself, as
/// in a check of the health, or knows no address.
pub(super) async fn read(socket: &mut (impl AsyncRead + Unpin)) -> Result<Option<IpAddr>, NoHeader> {
    let mut first = [0; SIGNATURE.len()];
    exactly(socket, &mut first).await?;
    if &first == SIGNATURE {
        let mut fixed = [0; 4];
        exactly(socket, &mut fixed).await?;
        let [command, family, high, low] = fixed;
        let length = usize::from(u16::from_be_bytes([high, low]));
        if length > MAX_REST {
            return Err(NoHeader);
        }
        let mut rest = vec![0; length];
        exactly(socket, &mut rest).await?;
        return binary(command, family, &rest);
    }
    if !first.starts_with(b"PROXY ") {
        return Err(NoHeader);
    }
    // One byte at a time: the bytes after the line belong to the client.
    let mut line = first.to_vec();
    while !line.ends_with(b"\n") {
        if line.len() == MAX_LINE {
            return Err(NoHeader);
        }
        let mut byte = [0];
        exactly(socket, &mut byte).await?;
        line.extend(byte);
    }
    text(&line)
}

async fn exactly(socket: &mut (impl AsyncRead + Unpin), bytes: &mut [u8]) -> Result<(), NoHeader> {
    socket.read_exact(bytes).await.map(drop).map_err(|_| NoHeader)
}

/// Version 1: `PROXY TCP4 SOURCE DESTINATION PORT PORT`, or `PROXY UNKNOWN` with anything.
fn text(line: &[u8]) -> Result<Option<IpAddr>, NoHeader> {
    let line = line.strip_suffix(b"\r\n").and_then(|line| std::str::from_utf8(line).ok()).ok_or(NoHeader)?;
    let parts: Vec<&str> = line.split(' ').collect();
    let is_port = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok();
    let source: IpAddr = match parts[..] {
        ["PROXY", "UNKNOWN", ..] => return Ok(None),
        ["PROXY", family @ ("TCP4" | "TCP6"), source, destination, from, to] if is_port(from) && is_port(to) => {
            let both = (source.parse::<IpAddr>(), destination.parse::<IpAddr>());
            let (Ok(source), Ok(destination)) = both else { return Err(NoHeader) };
            let is_v4 = family == "TCP4";
            if source.is_ipv4() != is_v4 || destination.is_ipv4() != is_v4 {
                return Err(NoHeader);
            }
            source
        }
        _ => return Err(NoHeader),
    };
    Ok(Some(source.to_canonical()))
}

/// Version 2, after its signature.
fn binary(command: u8, family: u8, rest: &[u8]) -> Result<Option<IpAddr>, NoHeader> {
    match (command, family) {
        (0x20, _) => Ok(None),
        (0x21, 0x11) => {
            let source: [u8; 4] = rest.get(..12).and_then(|rest| rest[..4].try_into().ok()).ok_or(NoHeader)?;
            Ok(Some(Ipv4Addr::from(source).into()))
        }
        (0x21, 0x21) => {
            let source: [u8; 16] = rest.get(..36).and_then(|rest| rest[..16].try_into().ok()).ok_or(NoHeader)?;
            Ok(Some(IpAddr::from(Ipv6Addr::from(source)).to_canonical()))
        }
        // An unknown family, or a socket of the proxy's machine.
        (0x21, 0x00 | 0x31) => Ok(None),
        _ => Err(NoHeader),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The client of a header, and the number of bytes after it.
    fn header(bytes: &[u8]) -> (Result<Option<IpAddr>, NoHeader>, usize) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut left = bytes;
        let read = runtime.block_on(read(&mut left));
        (read, left.len())
    }

    fn v2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
        [&SIGNATURE[..], &[command, family], &length, rest].concat()
    }

    #[test]
    fn both_versions_name_the_client() {
        let v4: Option<IpAddr> = Some("192.0.2.7".parse().unwrap());
        let v6: Option<IpAddr> = Some("2001:db8::7".parse().unwrap());
        let six: [u8; 16] = "2001:db8::7".parse::<Ipv6Addr>().unwrap().octets();
        let rest4 = [&[192, 0, 2, 7, 10, 0, 0, 1][..], &[0; 4]].concat();
        let rest6 = [&six[..], &six, &[0; 4]].concat();
        let mapped = [&"::ffff:192.0.2.7".parse::<Ipv6Addr>().unwrap().octets()[..], &[0; 20]].concat();
        for (bytes, expected) in [
            (b"PROXY TCP4 192.0.2.7 10.0.0.1 4711 443\r\n".to_vec(), v4),
            (b"PROXY TCP6 2001:db8::7 ::1 4711 443\r\n".to_vec(), v6),
            (b"PROXY TCP6 ::ffff:192.0.2.7 ::1 4711 443\r\n".to_vec(), v4),
            (b"PROXY UNKNOWN\r\n".to_vec(), None),
            (b"PROXY UNKNOWN ffff:ffff 1 2 3\r\n".to_vec(), None),
            (v2(0x21, 0x11, &rest4), v4),
            (v2(0x21, 0x11, &[&rest4[..], &[0x20, 0, 1, 7]].concat()), v4),
            (v2(0x21, 0x21, &rest6), v6),
            (v2(0x21, 0x21, &mapped), v4),
            (v2(0x20, 0x00, &[]), None),
            (v2(0x20, 0x11, &rest4), None),
            (v2(0x21, 0x00, &[1, 2, 3]), None),
            (v2(0x21, 0x31, &[0; 216]), None),
        ] {
            let followed = [&bytes[..], b"GET / HTTP/1.1\r\n"].concat();
            assert_eq!(header(&followed), (Ok(expected), 16), "{bytes:?}");
            for end in 0..bytes.len() {
                assert_eq!(header(&bytes[..end]).0, Err(NoHeader), "a part of it");
            }
        }
    }

    #[test]
    fn anything_else_is_refused() {
        let long = [b"PROXY UNKNOWN ".as_slice(), &[b'x'; 200], b"\r\n"].concat();
        for bytes in [
            b"GET / HTTP/1.1\r\nhost: x\r\n\r\n".to_vec(),
            b"PROXY TCP4 192.0.2.7 10.0.0.1 4711 443\n GET / HTTP/1.1\r\n".to_vec(),
            b"PROXY TCP4 192.0.2.7  10.0.0.1 4711 443\r\n".to_vec(),
            b"PROXY TCP4 192.0.2.7 10.0.0.1 4711 65536\r\n".to_vec(),
            b"PROXY TCP4 192.0.2.7 10.0.0.1 +1 443\r\n".to_vec(),
            b"PROXY TCP4 2001:db8::7 ::1 4711 443\r\n".to_vec(),
            b"PROXY TCP4 127.0.0.1\r\n GET / HTTP/1.1\r\n".to_vec(),
            b"PROXY UDP4 192.0.2.7 10.0.0.1 4711 443\r\n".to_vec(),
            b"PROXY TCP4 192.0.2.7 10.0.0.1 4711 443 1\r\n".to_vec(),
            b"PROXY \xff\xff\xff\xff\xff\xff\r\n".to_vec(),
            long,
            v2(0x11, 0x11, &[0; 12]),
            v2(0x22, 0x11, &[0; 12]),
            v2(0x21, 0x12, &[0; 12]),
            v2(0x21, 0x11, &[0; 11]),
            v2(0x21, 0x21, &[0; 35]),
            v2(0x20, 0x00, &[0; MAX_REST + 1]),
        ] {
            assert_eq!(header(&bytes).0, Err(NoHeader), "{}", String::from_utf8_lossy(&bytes));
        }
    }
}
