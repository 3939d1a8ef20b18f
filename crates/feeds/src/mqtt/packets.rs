//! Packets of MQTT 5, and what a broker's refusals mean.

use super::link::MAX_PACKET_BYTES;
use crate::SourceError;
use crate::dial::Server;
use evertally_declare::error::usage;
use mqtt_protocol_core::mqtt::packet::v5_0::{Connack, Connect, Disconnect, Publish, Pubrel, Suback, Subscribe};
use mqtt_protocol_core::mqtt::packet::{
    MaximumPacketSize, Property, Qos, ReceiveMaximum, RetainHandling, SessionExpiryInterval, SubEntry, SubOpts,
};
use mqtt_protocol_core::mqtt::result_code::{ConnectReasonCode, DisconnectReasonCode};
use std::sync::Arc;

/// The most messages in flight. So a position, with at most 6 bytes for each, is short enough.
pub(super) const RECEIVE_MAXIMUM: u16 = 500;

/// After this time without a packet, the broker closes the connection. A feeder that waits for its service sends none.
const KEEP_ALIVE_SECS: u16 = 600;
const SECS_PER_DAY: u32 = 86_400;

/// A message.
#[derive(Clone, Debug)]
pub(super) struct Message {
    /// Its packet identifier; 0 with QoS 0.
    pub(super) packet: u16,
    pub(super) qos: Qos,
    /// Whether the broker sent it before.
    pub(super) again: bool,
    pub(super) topic: String,
    pub(super) payload: Vec<u8>,
}

/// A packet from the broker.
#[derive(Debug)]
pub(super) enum IncomingPacket {
    Publish(Message),
    Release(u16),
    Subscribed(Qos),
    TakenOver,
    Pong,
}

/// The broker's answer to a connection.
#[derive(Debug)]
pub(super) struct Welcome {
    pub(super) session_present: bool,
    /// The highest QoS of the broker.
    pub(super) highest: Qos,
}

/// Why a connection cannot be used.
#[derive(Debug)]
pub(super) enum LinkFault {
    /// It may be possible later.
    Away(String),
    /// Somebody has to change something.
    Fault(String),
}

impl LinkFault {
    pub(super) fn of(self, server: &Server) -> SourceError {
        match self {
            Self::Away(why) => SourceError::Away(format!("{server}: {why}")),
            Self::Fault(why) => usage(format!("{server}: {why}")).into(),
        }
    }
}

/// The packet that connects; `None` if a text is too long.
pub(super) fn connect(client_id: &str, user: Option<&str>, password: Option<String>, days: u32) -> Option<Vec<u8>> {
    let properties = vec![
        Property::SessionExpiryInterval(SessionExpiryInterval::new(days * SECS_PER_DAY).ok()?),
        Property::ReceiveMaximum(ReceiveMaximum::new(RECEIVE_MAXIMUM).ok()?),
        Property::MaximumPacketSize(MaximumPacketSize::new(MAX_PACKET_BYTES).ok()?),
    ];
    let mut builder = Connect::builder().client_id(client_id).ok()?.clean_start(false).keep_alive(KEEP_ALIVE_SECS);
    if let Some(user) = user {
        builder = builder.user_name(user).ok()?;
    }
    if let Some(password) = password {
        builder = builder.password(password.into_bytes()).ok()?;
    }
    Some(builder.props(properties).build().ok()?.to_continuous_buffer())
}

/// The packet that subscribes; `None` if the filter is invalid.
pub(super) fn subscribe(filter: &str, qos: Qos, retained: RetainHandling) -> Option<Vec<u8>> {
    if filter.is_empty() || filter.contains('\0') {
        return None;
    }
    let levels: Vec<&str> = filter.split('/').collect();
    let is_valid = |(index, level): (usize, &&str)| match *level {
        "#" => index + 1 == levels.len(),
        "+" => true,
        level => !level.contains(['#', '+']),
    };
    if !levels.iter().enumerate().all(is_valid) {
        return None;
    }
    let entry = SubEntry::new(filter, SubOpts::new().set_qos(qos).set_rh(retained)).ok()?;
    let built = Subscribe::builder().packet_id(1).entries(vec![entry]).build();
    Some(built.ok()?.to_continuous_buffer())
}

/// Reads the answer to a connection.
pub(super) fn welcome(first: u8, body: &[u8], lowest: Qos) -> Result<Welcome, LinkFault> {
    use ConnectReasonCode::{
        BadAuthenticationMethod, BadUserNameOrPassword, Banned, ClientIdentifierNotValid, NotAuthorized, Success,
        UnsupportedProtocolVersion,
    };
    if first != 0x20 || body.len() == 2 {
        return Err(LinkFault::Fault("it is not a broker with MQTT 5, which is needed".into()));
    }
    let (connack, _) = Connack::parse(body).map_err(|_| malformed())?;
    match connack.reason_code() {
        Success => {}
        UnsupportedProtocolVersion => {
            return Err(LinkFault::Fault("it is not a broker with MQTT 5, which is needed".into()));
        }
        code @ (BadUserNameOrPassword | NotAuthorized | BadAuthenticationMethod | Banned) => {
            return Err(LinkFault::Fault(format!("it refuses the user ({code}); check the user and its password")));
        }
        code @ ClientIdentifierNotValid => {
            return Err(LinkFault::Fault(format!(
                "it refuses the client id ({code}); choose one with ?client-id=NAME"
            )));
        }
        code => return Err(LinkFault::Away(format!("it refuses the connection ({code})"))),
    }
    let mut highest = Qos::ExactlyOnce;
    for property in &connack.props {
        match property {
            Property::MaximumQos(most) if most.val() < lowest as u8 => {
                let most = most.val();
                return Err(LinkFault::Fault(format!(
                    "it delivers at most with QoS {most}, so that messages may be lost or counted twice; accept that \
                     with &qos={most}, or choose a broker with QoS 2"
                )));
            }
            Property::MaximumQos(most) => highest = if most.val() == 0 { Qos::AtMostOnce } else { Qos::AtLeastOnce },
            Property::SessionExpiryInterval(seconds) if seconds.val() == 0 => {
                return Err(LinkFault::Fault("it keeps no sessions (session expiry interval 0): allow them".into()));
            }
            _ => {}
        }
    }
    Ok(Welcome { session_present: connack.session_present(), highest })
}

/// Reads a packet.
pub(super) fn incoming(first: u8, body: &[u8]) -> Result<IncomingPacket, LinkFault> {
    match first >> 4 {
        3 => {
            let (publish, _) = Publish::parse(first & 0x0f, Arc::from(body)).map_err(|_| malformed())?;
            Ok(IncomingPacket::Publish(Message {
                packet: publish.packet_id().unwrap_or(0),
                qos: publish.qos(),
                again: publish.dup(),
                topic: publish.topic_name().to_owned(),
                payload: publish.payload().as_slice().to_vec(),
            }))
        }
        6 => Ok(IncomingPacket::Release(Pubrel::parse(body).map_err(|_| malformed())?.0.packet_id())),
        9 => match Suback::parse(body).map_err(|_| malformed())?.0.reason_codes().first().map(|code| *code as u8) {
            Some(0) => Ok(IncomingPacket::Subscribed(Qos::AtMostOnce)),
            Some(1) => Ok(IncomingPacket::Subscribed(Qos::AtLeastOnce)),
            Some(2) => Ok(IncomingPacket::Subscribed(Qos::ExactlyOnce)),
            Some(0x87) => {
                Err(LinkFault::Fault("the user may not subscribe to these topics: allow it at the broker".into()))
            }
            code => Err(LinkFault::Fault(format!("it refuses the topic filter (reason {:#x})", code.unwrap_or(0)))),
        },
        13 => Ok(IncomingPacket::Pong),
        14 if body.is_empty() => Err(LinkFault::Away("it ended the connection".into())),
        14 => match Disconnect::parse(body).map_err(|_| malformed())?.0.reason_code() {
            Some(DisconnectReasonCode::SessionTakenOver) => Ok(IncomingPacket::TakenOver),
            code => Err(LinkFault::Away(format!(
                "it ended the connection ({})",
                code.map_or_else(String::new, |c| c.to_string())
            ))),
        },
        _ => Err(malformed()),
    }
}

fn malformed() -> LinkFault {
    LinkFault::Away("it sent a packet that is not valid in MQTT 5".into())
}
