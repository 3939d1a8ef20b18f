//! Messages received on one connection, and the replies that each commit allows.

use super::link::Reply;
use super::packets::Message;
use crate::{BatchLimits, Origins, RowWriter, SourceBatch};
use evertally_declare::error::{Result, usage};
use mqtt_protocol_core::mqtt::packet::Qos;
use std::collections::{BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::time::Duration;
use tokio::time::Instant;

/// How long a broker may take to send the next of the messages in flight again.
const RESENT_WITHIN: Duration = Duration::from_secs(30);
/// The most taken identifiers, also if a broker has more messages in flight than allowed.
const MAX_TAKEN: usize = 600;

/// In a position: the broker uses identifiers again at once.
const REUSES: &str = "r";

/// The state of a session. It performs no input or output.
#[derive(Debug, Default)]
pub(super) struct MqttSession {
    /// The position after the last batch; `None` at the beginning.
    position: Option<String>,
    /// The number of batches up to it.
    batches: u64,
    /// Identifiers of committed messages that the broker may send again.
    taken: BTreeSet<u16>,
    /// The last identifier of a committed message, as long as the broker only counts upwards.
    last: Option<u16>,
    /// Whether the broker uses identifiers again at once.
    reuses: bool,
    /// Messages for the next batches, their size, and their identifiers.
    waiting: VecDeque<Message>,
    waiting_bytes: usize,
    waiting_packets: BTreeSet<u16>,
    /// Replies after the commit of the next batch.
    replies: Vec<Reply>,
    /// Batches that are not accepted yet, with the replies after that.
    sent: VecDeque<(String, Vec<Reply>)>,
    /// Taken identifiers that the broker did not send again on this connection, and when they are given up.
    unseen: Option<(BTreeSet<u16>, Instant)>,
}

impl MqttSession {
    /// Continues at a position.
    ///
    /// # Errors
    /// If it is not one.
    pub(super) fn at(position: Option<&str>) -> Result<Self> {
        let Some(text) = position else { return Ok(Self::default()) };
        let parse = || {
            let mut parts = text.split(':');
            let (batches, last, taken) = (parts.next()?, parts.next()?, parse(parts.next()?)?);
            let reuses = last == REUSES;
            let last = if last.is_empty() || reuses { None } else { Some(last.parse().ok()?) };
            let position = Some(text.to_owned());
            let session = Self { position, batches: batches.parse().ok()?, taken, last, reuses, ..Self::default() };
            parts.next().is_none().then_some(session)
        };
        parse().ok_or_else(|| usage(format!("`{text}` is not a position of MQTT")))
    }

    /// Notes whether the broker has the session, and returns a warning if it lost one.
    pub(super) fn begin(&mut self, is_present: bool, now: Instant) -> Option<String> {
        if is_present && !self.taken.is_empty() {
            self.unseen = Some((self.taken.clone(), now + RESENT_WITHIN));
            return None;
        }
        // Taken identifiers belong to a lost session. The client subscribes when that is committed.
        if !is_present {
            self.taken.clear();
            (self.last, self.reuses) = (None, false);
        }
        self.replies.push(Reply::Subscribe);
        (!is_present && self.position.is_some()).then(|| {
            "the broker lost the session: messages that waited for it are lost, and messages whose delivery it had \
             not finished may be counted twice. Keep its sessions on disk (Mosquitto: persistence true)"
                .to_owned()
        })
    }

    /// Takes a message.
    pub(super) fn publish(&mut self, message: Message, counts: bool) {
        let packet = message.packet;
        if message.qos == Qos::ExactlyOnce {
            self.seen(packet);
            let is_behind = self.last.is_some_and(|last| is_behind(packet, last));
            if self.taken.contains(&packet) || (is_behind && message.again) {
                return self.replies.push(Reply::Pubrec(packet));
            }
            self.reuses |= is_behind;
            if !self.waiting_packets.insert(packet) {
                return;
            }
        } else if !counts {
            if message.qos == Qos::AtLeastOnce {
                self.replies.push(Reply::Puback(packet));
            }
            return;
        }
        self.waiting_bytes += size(&message);
        self.waiting.push_back(message);
    }

    /// Takes the end of a message: the broker will not send it again.
    pub(super) fn release(&mut self, packet: u16) {
        self.seen(packet);
        self.taken.remove(&packet);
        self.replies.push(Reply::Pubcomp(packet));
    }

    fn seen(&mut self, packet: u16) {
        let Some((unseen, until)) = &mut self.unseen else { return };
        if unseen.remove(&packet) {
            *until = Instant::now() + RESENT_WITHIN;
        }
        if unseen.is_empty() {
            self.unseen = None;
            self.replies.push(Reply::Subscribe);
        }
    }

    /// When identifiers that the broker does not send again are given up.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.unseen.as_ref().map(|(_, until)| *until)
    }

    /// Gives up identifiers that the broker did not send again in time, and returns a warning.
    pub(super) fn give_up(&mut self, now: Instant) -> Option<String> {
        let (unseen, _) = self.unseen.take_if(|(_, until)| *until <= now)?;
        self.taken.retain(|packet| !unseen.contains(packet));
        if self.taken.is_empty() {
            // It is another session, whose identifiers start again.
            (self.last, self.reuses) = (None, false);
        }
        self.replies.push(Reply::Subscribe);
        Some(format!(
            "the broker did not send {} messages again whose delivery was not finished: it lost their session. \
             Messages that waited are lost, and these may be counted twice",
            unseen.len()
        ))
    }

    /// The size of the waiting messages.
    pub(super) fn bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// Whether there is a batch.
    pub(super) fn has_something(&self) -> bool {
        !self.replies.is_empty() || self.has_row()
    }

    fn has_row(&self) -> bool {
        self.taken.len() < MAX_TAKEN && !self.waiting.is_empty()
    }

    /// Whether a batch cannot become larger.
    pub(super) fn is_full(&self, limits: BatchLimits) -> bool {
        self.waiting.len() >= limits.rows || self.waiting_bytes >= limits.bytes
    }

    /// The next batch.
    pub(super) fn batch(&mut self, limits: BatchLimits, with_metadata: bool) -> SourceBatch {
        let mut writer = RowWriter::default();
        let mut origins = Vec::new();
        while self.has_row() {
            let next = self.waiting.front().map_or(0, size);
            if !writer.is_empty() && (writer.rows() >= limits.rows || writer.len() + next > limits.bytes) {
                break;
            }
            let Some(message) = self.waiting.pop_front() else { break };
            self.waiting_bytes -= next;
            let fields = [("_topic", message.topic.as_str())];
            if !message.payload.is_empty() {
                let rows = writer.push(&message.payload, if with_metadata { &fields } else { &[] });
                origins.extend(std::iter::repeat_n(u64::from(message.packet), rows));
            }
            match message.qos {
                Qos::ExactlyOnce => {
                    self.waiting_packets.remove(&message.packet);
                    self.taken.insert(message.packet);
                    self.last = (!self.reuses).then_some(message.packet);
                    self.replies.push(Reply::Pubrec(message.packet));
                }
                Qos::AtLeastOnce => self.replies.push(Reply::Puback(message.packet)),
                Qos::AtMostOnce => {}
            }
        }
        self.batches += 1;
        let last =
            if self.reuses { REUSES.to_owned() } else { self.last.map_or_else(String::new, |last| last.to_string()) };
        let position = format!("{}:{last}:{}", self.batches, text_of(&self.taken));
        let after = self.position.replace(position.clone());
        self.sent.push_back((position.clone(), std::mem::take(&mut self.replies)));
        let rows = writer.finish(Origins::Numbers("packet", origins));
        SourceBatch { partition: String::new(), after, position, rows }
    }

    /// The replies that may be sent now that a position is durable.
    pub(super) fn accepted(&mut self, position: &str) -> Vec<Reply> {
        let Some(index) = self.sent.iter().position(|(own, _)| own == position) else { return Vec::new() };
        self.sent.drain(..=index).flat_map(|(_, replies)| replies).collect()
    }
}

/// Whether a broker that counts upwards used an identifier before another one, or it is that one.
fn is_behind(packet: u16, last: u16) -> bool {
    last.wrapping_sub(packet) < 1 << 15
}

fn size(message: &Message) -> usize {
    message.payload.len() + message.topic.len() + 16
}

/// Identifiers as text: `17-40,60`.
fn text_of(packets: &BTreeSet<u16>) -> String {
    let mut text = String::new();
    let mut packets = packets.iter().copied().peekable();
    while let Some(first) = packets.next() {
        let mut last = first;
        while let Some(next) = packets.next_if(|next| last.checked_add(1) == Some(*next)) {
            last = next;
        }
        let comma = if text.is_empty() { "" } else { "," };
        let range = if first == last { write!(text, "{comma}{first}") } else { write!(text, "{comma}{first}-{last}") };
        debug_assert!(range.is_ok(), "a String accepts every write");
    }
    text
}

fn parse(text: &str) -> Option<BTreeSet<u16>> {
    let mut packets = BTreeSet::new();
    for range in text.split(',').filter(|_| !text.is_empty()) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        packets.extend(first.parse().ok()?..=last.parse::<u16>().ok()?);
    }
    Some(packets)
}

#[cfg(test)]
mod tests;
