//! Messages of MQTT 5: `mqtt://USER@HOST:PORT/TOPIC/FILTER/#?qos=2&client-id=NAME`.
//!
//! MQTT has no offsets. Each message counts exactly once nevertheless, if it is delivered with QoS 2, because the
//! handshake of QoS 2 is joined to the commits of the service. The broker keeps a session for the client id: the
//! subscription, the messages that wait, and the messages in flight, each with a packet identifier. The position is
//! the other half of this state: a counter of batches, and the **taken** identifiers, whose messages are committed,
//! while the broker may still send them again (`1042:60:17-40,60`; the second number belongs to the section about
//! Mosquitto).
//!
//! # The handshake
//! 1. The broker sends `PUBLISH p`. If `p` is not taken, the message becomes a row of the next batch, whose position
//!    contains `p`. If it is taken, the message was counted, and is passed over.
//! 2. After the commit of that batch: `PUBREC p`. From then on the broker never sends this message again.
//! 3. The broker sends `PUBREL p`. The position of the next batch, which may have no rows, does not contain `p`.
//! 4. After the commit of that batch: `PUBCOMP p`. From then on the broker may use `p` for another message.
//!
//! So there is one rule: **nothing that lets the broker forget or reuse anything is sent before the commit of a batch
//! that was formed on this connection.** A feeder learns the position first and connects afterwards (and connects
//! again whenever it seeks), so it sees everything that is in flight.
//!
//! # What can stop, and where
//! - *Before the commit of 1*: the broker has no `PUBREC`, and sends `PUBLISH p` on the next connection. `p` is not
//!   taken, so it is counted then, once.
//! - *After the commit, before or while `PUBREC p` is sent*: the broker sends `PUBLISH p` again, and `p` is taken. It
//!   is passed over, and `PUBREC p` follows the next commit.
//! - *After `PUBREC p`, before `PUBREL p` arrives, or before the commit of 3*: the broker sends `PUBREL p` again; `p`
//!   is still taken, or removed in a batch that was not committed. Step 3 is repeated.
//! - *After the commit of 3, before or while `PUBCOMP p` is sent*: the broker sends `PUBREL p` again. `p` is not
//!   taken; `PUBCOMP p` follows the next commit. A `PUBREL` of an unknown `p` is therefore normal.
//! - *After `PUBCOMP p`*: if the broker uses `p` again, that is a new message, and no stored position contains `p`.
//! - *An answer of the service is lost*: the caller seeks to the position that the service has, which is one of the
//!   cases above.
//! - *Two feeders with one client id*: the broker closes the connection of the first when the second connects. The
//!   first cannot send anything afterwards. The second may have learnt its position before the first committed, but
//!   then its first batch begins at an old position and is refused before anything was sent; it seeks, and connects
//!   again. This is why also a `PUBREC` for a message that is already taken, and the subscription, wait for a commit.
//! - *The broker restarts with its sessions*: as if the connection was lost.
//! - *The broker restarts without its sessions* (`session present = 0`): the identifiers start again, so the taken
//!   ones mean nothing. The next batch has no rows and no identifiers, and only after its commit the client
//!   subscribes. Thus no message can be in flight in a new session while an old set is stored. Messages that waited
//!   are lost, and those that the broker had not seen acknowledged may be published again: this is a warning.
//! - *The same, and the feeder stops before that commit*: the next connection finds a session (the empty one) and an
//!   old set of identifiers. Since a broker must send all messages in flight again, and every taken identifier is in
//!   flight, the client waits until it has seen each taken one (`PUBLISH` or `PUBREL`), and does not subscribe
//!   before. In an empty session nothing arrives; after `RESENT_WITHIN` without progress, the identifiers that did
//!   not arrive are given up, with a warning.
//!
//! # Mosquitto repeats messages after their handshake
//! A broker must not send a message again after its `PUBREL`. Mosquitto does (2.0, and the present source): if a
//! client connects twice while it waits for `PUBCOMP`, it starts again with `PUBLISH`. But it counts identifiers
//! upwards, from 1 to 65535 and then from 1, and sends messages in this order. So the position also has the last
//! identifier that was committed, and a message that is marked as a repetition (`DUP`), with an identifier at or
//! before the last one, is passed over like a taken one. Another broker may use an identifier again at once. It is
//! recognised by the first message with such an identifier that is not marked; from then on (`1042:r:17-40,60`) the
//! rules above apply alone. Until then, one case is ambiguous: such a message that was sent, not received, and sent
//! again. It is not counted.
//!
//! # What no client can repair
//! A broker that goes back to an older state of its session, for example after a power loss without a durable store,
//! sends messages again whose handshake was complete: they are counted again. A broker that drops messages, because
//! its queue is full or the session expired, loses them. Messages with QoS 0 may be lost, and with QoS 1 be delivered
//! twice, since they have no such handshake; they are not counted unless the URL allows it.

mod link;
mod packets;
mod session;

use crate::dial::{self, Server, TIMEOUT};
use crate::tls::{Encryption, explained};
use crate::{Address, BatchLimits, Source, SourceBatch, SourceError, SourceOptions, SourceWarning};
use async_trait::async_trait;
use evertally_declare::error::{Result, usage};
use link::BrokerLink;
use mqtt_protocol_core::mqtt::packet::{Qos, RetainHandling};
use packets::IncomingPacket;
use session::MqttSession;
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};

const PARAMETERS: [&str; 5] = ["client-id", "qos", "retained", "session-days", "tls"];
/// How long to wait for more messages, before those which arrived become a batch.
const LINGER: Duration = Duration::from_millis(2);
/// The most that waiting for more messages may take.
const MAX_LINGER: Duration = Duration::from_millis(100);
/// How often messages that are not counted are reported.
const REPORT_EVERY: Duration = Duration::from_secs(60);

/// What the URL says.
struct MqttSettings {
    scheme: String,
    server: Server,
    user: Option<String>,
    password_file: Option<PathBuf>,
    with_metadata: bool,
    filter: String,
    own_client_id: Option<String>,
    /// The lowest QoS of messages that are counted.
    lowest: Qos,
    retained: RetainHandling,
    session_days: u32,
}

/// A subscription with a session that the broker keeps.
pub(crate) struct Subscription {
    settings: MqttSettings,
    /// The state of the session since the last seek.
    session: Option<MqttSession>,
    /// The connection of the session.
    link: Option<BrokerLink>,
    /// Messages that were not counted, because their QoS is too low, and when this was reported.
    lower: u64,
    reported: Option<Instant>,
    warnings: Vec<SourceWarning>,
}

impl Subscription {
    pub(crate) fn open(mut address: Address, options: &SourceOptions) -> Result<Self> {
        let encryption = Encryption::of(&mut address, options, false)?;
        let (host, port) = address.only_host(if encryption.is_on() { 8883 } else { 1883 })?;
        let warnings = encryption.warning.clone().into_iter().map(SourceWarning::from).collect();
        let own_client_id = address.query.take("client-id")?;
        let lowest = match address.query.take("qos")?.as_deref() {
            None | Some("2") => Qos::ExactlyOnce,
            Some("1") => Qos::AtLeastOnce,
            Some("0") => Qos::AtMostOnce,
            Some(other) => {
                return Err(usage(format!("`qos` is the lowest QoS that is counted: 2, 1 or 0, not `{other}`")));
            }
        };
        let retained = if address.query.flag("retained")? {
            RetainHandling::SendRetainedIfNotExists
        } else {
            RetainHandling::DoNotSendRetained
        };
        let days = address.query.take("session-days")?.map_or(Ok(7), |days| days.parse());
        let session_days = days.ok().filter(|days| (1..=10_000).contains(days));
        let session_days = session_days.ok_or_else(|| usage("`session-days` is a number of days from 1 to 10000"))?;
        address.query.refuse_others(&PARAMETERS)?;
        let scheme = address.scheme;
        packets::subscribe(&address.path, Qos::ExactlyOnce, retained)
            .ok_or_else(|| usage(format!("`{}` is not a topic filter; write {scheme}://HOST/TOPIC/#", address.path)))?;
        if options.password_file.is_some() && address.user.is_none() {
            return Err(usage(format!("there is a password but no user; write {scheme}://USER@HOST")));
        }
        let settings = MqttSettings {
            server: Server { host, port, encryption },
            scheme,
            user: address.user,
            password_file: options.password_file.clone(),
            with_metadata: options.with_metadata,
            filter: address.path,
            own_client_id,
            lowest,
            retained,
            session_days,
        };
        Ok(Self { settings, session: None, link: None, lower: 0, reported: None, warnings })
    }

    /// Receives until there is a batch.
    async fn receive(&mut self, limits: BatchLimits) -> Result<Option<SourceBatch>, SourceError> {
        let deadline = Instant::now() + limits.wait;
        let Self { settings, session: Some(session), link, lower, warnings, .. } = self else {
            tokio::time::sleep(limits.wait).await;
            return Ok(None);
        };
        if link.is_none() {
            let (connected, session_present) = settings.connect().await?;
            warnings.extend(session.begin(session_present, Instant::now()).into_iter().map(SourceWarning::from));
            *link = Some(connected);
        }
        let Some(link) = link else { return Ok(None) };
        let mut first = None;
        loop {
            *lower += settings.handle(session, link, limits.bytes)?;
            let now = Instant::now();
            warnings.extend(session.give_up(now).into_iter().map(SourceWarning::from));
            let mut until = deadline.min(session.deadline().unwrap_or(deadline));
            if session.has_something() {
                let linger_until = *first.get_or_insert(now + MAX_LINGER);
                if session.is_full(limits) || now >= linger_until {
                    break;
                }
                until = now + LINGER;
            }
            match timeout_at(until.min(link.quiet_until()), link.receive()).await {
                Ok(received) => received.map_err(|e| settings.away(&e.to_string()))?,
                Err(_) if session.has_something() => break,
                Err(_) => link.ping().map_err(|e| settings.away(&e.to_string()))?,
            }
            if Instant::now() >= deadline && !session.has_something() {
                return Ok(None);
            }
        }
        Ok(Some(session.batch(limits, settings.with_metadata)))
    }
}

impl MqttSettings {
    fn identity(&self) -> String {
        match &self.own_client_id {
            Some(id) => format!("mqtt:{}?client-id={id}", self.filter),
            None => format!("mqtt:{}", self.filter),
        }
    }

    /// The name of the session at the broker: letters and digits, and at most 23 of them, as every broker accepts.
    fn client_id(&self) -> String {
        let step = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let hash = || self.identity().bytes().fold(0xcbf2_9ce4_8422_2325, step) >> 8;
        self.own_client_id.clone().unwrap_or_else(|| format!("evertally{:014x}", hash()))
    }

    fn away(&self, why: &str) -> SourceError {
        SourceError::Away(format!("{}: {}", self.server, explained(why)))
    }

    /// Connects, and returns whether the broker has the session.
    async fn connect(&self) -> Result<(BrokerLink, bool), SourceError> {
        let password = dial::password(self.password_file.as_deref())?;
        let connect = packets::connect(&self.client_id(), self.user.as_deref(), password, self.session_days)
            .ok_or_else(|| usage("the client id, the user or the password is longer than MQTT allows"))?;
        let mut link = BrokerLink::new(self.server.connect().await?);
        let greeting = timeout(TIMEOUT, link.greet(&connect)).await.map_err(|_| self.away("it does not answer"))?;
        let (first, body) = greeting.map_err(|e| self.away(&e.to_string()))?;
        let welcome = packets::welcome(first, &body, self.lowest).map_err(|e| e.of(&self.server))?;
        link.subscribe = packets::subscribe(&self.filter, welcome.highest, self.retained).unwrap_or_default();
        Ok((link, welcome.session_present))
    }

    /// Handles packets that arrived, until there are enough for a batch, and returns how many messages do not count.
    fn handle(&self, session: &mut MqttSession, link: &mut BrokerLink, enough: usize) -> Result<u64, SourceError> {
        let mut lower = 0;
        while session.bytes() < enough {
            let Some((first, body)) = link.packet().map_err(|e| self.away(&e.to_string()))? else { break };
            match packets::incoming(first, body).map_err(|e| e.of(&self.server))? {
                IncomingPacket::Publish(message) => {
                    let counts = message.qos as u8 >= self.lowest as u8;
                    lower += u64::from(!counts);
                    session.publish(message, counts);
                }
                IncomingPacket::Release(packet) => session.release(packet),
                IncomingPacket::Subscribed(granted) if (granted as u8) < self.lowest as u8 => {
                    let granted = granted as u8;
                    let why = format!("{} grants only QoS {granted}; with &qos={granted} it is counted", self.server);
                    return Err(usage(why).into());
                }
                IncomingPacket::TakenOver => {
                    let id = self.client_id();
                    let remedy = "give each feed its own one with ?client-id=NAME";
                    return Err(self.away(&format!("another client uses the client id `{id}`; {remedy}")));
                }
                IncomingPacket::Subscribed(_) | IncomingPacket::Pong => {}
            }
        }
        Ok(lower)
    }
}

#[async_trait]
impl Source for Subscription {
    fn shown(&self) -> String {
        format!("{}://{}/{}", self.settings.scheme, self.settings.server, self.settings.filter)
    }

    fn identity(&self) -> String {
        // The session of another client id contains other messages.
        self.settings.identity()
    }

    async fn partitions(&mut self) -> Result<Vec<String>, SourceError> {
        Ok(vec![String::new()])
    }

    async fn seek(&mut self, partition: &str, position: Option<&str>) -> Result<(), SourceError> {
        if !partition.is_empty() {
            return Err(usage(format!("a subscription of MQTT has no partition `{partition}`")).into());
        }
        self.link = None;
        self.session = None;
        self.session = Some(MqttSession::at(position)?);
        Ok(())
    }

    async fn next(&mut self, limits: BatchLimits) -> Result<Option<SourceBatch>, SourceError> {
        let received = self.receive(limits).await;
        if received.is_err() {
            // Received messages are sent again on the next connection.
            (self.link, self.session) = (None, None);
        }
        received
    }

    async fn accepted(&mut self, _partition: &str, position: &str) -> Result<(), SourceError> {
        let (Some(link), Some(session)) = (&mut self.link, &mut self.session) else { return Ok(()) };
        link.send(&session.accepted(position));
        // What could not be sent is sent by `next`, which also notices that the connection is lost.
        let _ = timeout(TIMEOUT, link.flush()).await;
        Ok(())
    }

    fn warnings(&mut self) -> Vec<SourceWarning> {
        let mut warnings = std::mem::take(&mut self.warnings);
        if self.lower > 0 && self.reported.is_none_or(|at| at.elapsed() >= REPORT_EVERY) {
            let (number, lowest) = (std::mem::take(&mut self.lower), self.settings.lowest as u8);
            let text = format!(
                "messages with a QoS below {lowest} were not counted, since they could be lost or counted twice: \
                 publish them with QoS 2, let the broker raise it (Mosquitto: upgrade_outgoing_qos true), or count \
                 them with &qos=1 or &qos=0"
            );
            warnings.push(SourceWarning::with_numbers(text, format!("{number} messages")));
            self.reported = Some(Instant::now());
        }
        warnings
    }
}

#[cfg(test)]
mod tests;
