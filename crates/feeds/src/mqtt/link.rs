//! A connection of MQTT: packets in and out.

use crate::dial::{TIMEOUT, Wire};
use std::io::{Error, ErrorKind, Result};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

/// The most bytes of a packet. The client asks the broker not to send larger ones.
pub(super) const MAX_PACKET_BYTES: u32 = 16 << 20;
/// After this time in silence, the connection is tested.
const SILENCE: Duration = Duration::from_secs(20);
const PING: [u8; 2] = [0xc0, 0];

/// A connection. A future of it that is dropped loses nothing.
pub(super) struct BrokerLink {
    wire: Box<dyn Wire>,
    /// Bytes that arrived, from `read` on not yet handled.
    incoming: Vec<u8>,
    read: usize,
    /// Bytes that are still to be sent.
    outgoing: Vec<u8>,
    /// When something arrived, and since when a ping waits for its answer.
    heard: Instant,
    pinged: Option<Instant>,
    /// The packet that subscribes.
    pub(super) subscribe: Vec<u8>,
}

/// An answer of the session to the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// The client subscribes.
    Subscribe,
    /// A message with QoS 1 is done with.
    Puback(u16),
    /// A message with QoS 2 is counted.
    Pubrec(u16),
    /// The handshake of a message with QoS 2 is complete.
    Pubcomp(u16),
}

impl BrokerLink {
    pub(super) fn new(wire: Box<dyn Wire>) -> Self {
        let (incoming, outgoing, subscribe) = (Vec::new(), Vec::new(), Vec::new());
        Self { wire, incoming, read: 0, outgoing, heard: Instant::now(), pinged: None, subscribe }
    }

    /// Sends the first packet, and waits for the answer.
    pub(super) async fn greet(&mut self, connect: &[u8]) -> Result<(u8, Vec<u8>)> {
        self.outgoing.extend_from_slice(connect);
        loop {
            if let Some((first, body)) = self.packet()? {
                return Ok((first, body.to_vec()));
            }
            self.receive().await?;
        }
    }

    /// The next packet that arrived: its first byte, and the bytes after its length.
    pub(super) fn packet(&mut self) -> Result<Option<(u8, &[u8])>> {
        let bytes = &self.incoming[self.read..];
        let Some((&first, rest)) = bytes.split_first() else { return Ok(None) };
        let (mut length, mut digits) = (0, 0);
        loop {
            let Some(&byte) = rest.get(digits) else { return Ok(None) };
            length |= usize::from(byte & 0x7f) << (7 * digits);
            digits += 1;
            if byte < 0x80 {
                break;
            }
            if digits == 4 {
                return Err(Error::new(ErrorKind::InvalidData, "it does not speak MQTT"));
            }
        }
        if length > MAX_PACKET_BYTES as usize {
            return Err(Error::new(ErrorKind::InvalidData, "it sent a packet that is too large"));
        }
        let start = self.read + 1 + digits;
        let Some(body) = self.incoming.get(start..start + length) else { return Ok(None) };
        self.read = start + length;
        Ok(Some((first, body)))
    }

    /// Waits until more bytes arrived, and sends the outgoing ones.
    pub(super) async fn receive(&mut self) -> Result<()> {
        self.flush().await?;
        self.incoming.drain(..self.read);
        self.read = 0;
        if self.wire.read_buf(&mut self.incoming).await? == 0 {
            return Err(Error::new(ErrorKind::UnexpectedEof, "it closed the connection"));
        }
        (self.heard, self.pinged) = (Instant::now(), None);
        Ok(())
    }

    /// Adds replies to the outgoing bytes.
    pub(super) fn send(&mut self, replies: &[Reply]) {
        for reply in replies {
            let (kind, packet) = match reply {
                Reply::Subscribe => {
                    self.outgoing.extend_from_slice(&self.subscribe);
                    continue;
                }
                Reply::Puback(packet) => (0x40, packet),
                Reply::Pubrec(packet) => (0x50, packet),
                Reply::Pubcomp(packet) => (0x70, packet),
            };
            let [high, low] = packet.to_be_bytes();
            self.outgoing.extend_from_slice(&[kind, 2, high, low]);
        }
    }

    /// Sends the outgoing bytes.
    pub(super) async fn flush(&mut self) -> Result<()> {
        while !self.outgoing.is_empty() {
            let sent = self.wire.write(&self.outgoing).await?;
            if sent == 0 {
                return Err(ErrorKind::WriteZero.into());
            }
            self.outgoing.drain(..sent);
        }
        self.wire.flush().await
    }

    /// When the silence becomes too long.
    pub(super) fn quiet_until(&self) -> Instant {
        self.pinged.map_or(self.heard + SILENCE, |pinged| pinged + TIMEOUT)
    }

    /// Tests the connection, if the silence is too long.
    pub(super) fn ping(&mut self) -> Result<()> {
        if Instant::now() < self.quiet_until() {
            return Ok(());
        }
        if self.pinged.replace(Instant::now()).is_some() {
            return Err(Error::new(ErrorKind::TimedOut, "it does not answer"));
        }
        self.outgoing.extend_from_slice(&PING);
        Ok(())
    }
}
