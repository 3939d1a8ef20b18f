use super::*;
use std::time::Duration;

const LIMITS: BatchLimits = BatchLimits { rows: 3, bytes: 1 << 20, wait: Duration::ZERO };

fn publish(session: &mut MqttSession, packet: u16, qos: Qos) {
    send(session, packet, qos, false);
}

fn send(session: &mut MqttSession, packet: u16, qos: Qos, again: bool) {
    let payload = format!("{{\"n\":{packet}}}").into_bytes();
    session.publish(Message { packet, qos, again, topic: "rooms/a".into(), payload }, qos == Qos::ExactlyOnce);
}

fn take(session: &mut MqttSession) -> (String, usize) {
    let batch = session.batch(LIMITS, false);
    (batch.position, batch.rows.bytes.split(|byte| *byte == b'\n').count() - 1)
}

#[test]
fn identifiers_as_text() {
    for text in ["", "7", "1-3", "1,3-4,65535"] {
        assert_eq!(text_of(&parse(text).expect(text)), text);
    }
    for text in [",", "1-", "x", "65536"] {
        assert_eq!(parse(text), None, "{text}");
    }
    let worst: BTreeSet<u16> = (0..MAX_TAKEN as u16).map(|index| 65_535 - 2 * index).collect();
    assert!(text_of(&worst).len() + u64::MAX.to_string().len() < crate::MAX_POSITION_BYTES);
    for text in ["", "5", "x::", "5:x:", "5::x", "5::1:"] {
        assert!(MqttSession::at(Some(text)).is_err(), "{text}");
    }
}

#[test]
fn every_reply_waits_for_a_commit() {
    let mut session = MqttSession::at(None).expect("valid");
    assert_eq!(session.begin(false, Instant::now()), None);
    assert_eq!(take(&mut session), ("1::".into(), 0));
    assert_eq!(session.accepted("1::"), [Reply::Subscribe]);
    publish(&mut session, 5, Qos::ExactlyOnce);
    publish(&mut session, 6, Qos::ExactlyOnce);
    publish(&mut session, 5, Qos::ExactlyOnce);
    assert_eq!(take(&mut session), ("2:6:5-6".into(), 2));
    assert_eq!(session.accepted("1::"), []);
    assert_eq!(session.accepted("2:6:5-6"), [Reply::Pubrec(5), Reply::Pubrec(6)]);
    session.release(6);
    // An identifier that this process never saw.
    session.release(9);
    assert_eq!(take(&mut session), ("3:6:5".into(), 0));
    publish(&mut session, 8, Qos::ExactlyOnce);
    assert_eq!(take(&mut session), ("4:8:5,8".into(), 1));
    // Acceptance of a later batch includes the earlier ones.
    assert_eq!(session.accepted("4:8:5,8"), [Reply::Pubcomp(6), Reply::Pubcomp(9), Reply::Pubrec(8)]);
    assert!(!session.has_something());
}

#[test]
fn taken_messages_are_passed_over() {
    let mut session = MqttSession::at(Some("7:6:5-6")).expect("valid");
    assert_eq!(session.begin(true, Instant::now()), None);
    publish(&mut session, 5, Qos::ExactlyOnce);
    publish(&mut session, 7, Qos::ExactlyOnce);
    assert_eq!(take(&mut session), ("8:7:5-7".into(), 1));
    // The subscription waits until all of them were seen.
    assert_eq!(session.accepted("8:7:5-7"), [Reply::Pubrec(5), Reply::Pubrec(7)]);
    session.release(6);
    assert_eq!(take(&mut session), ("9:7:5,7".into(), 0));
    let replies = session.accepted("9:7:5,7");
    assert!(replies.contains(&Reply::Subscribe) && replies.contains(&Reply::Pubcomp(6)), "{replies:?}");
}

#[test]
fn a_lost_session() {
    let mut session = MqttSession::at(Some("7:6:5-6")).expect("valid");
    assert!(session.begin(false, Instant::now()).expect("a warning").contains("lost the session"));
    assert_eq!(take(&mut session), ("8::".into(), 0));
    assert_eq!(session.accepted("8::"), [Reply::Subscribe]);
    publish(&mut session, 5, Qos::ExactlyOnce);
    assert_eq!(take(&mut session), ("9:5:5".into(), 1));
}

#[test]
fn an_empty_session_with_an_old_position() {
    let (mut session, now) = (MqttSession::at(Some("7:6:5-6")).expect("valid"), Instant::now());
    assert_eq!(session.begin(true, now), None);
    publish(&mut session, 5, Qos::ExactlyOnce);
    assert_eq!(session.give_up(now), None);
    let warning = session.give_up(Instant::now() + RESENT_WITHIN).expect("a warning");
    assert!(warning.contains("send 1 messages again"), "{warning}");
    assert_eq!(take(&mut session), ("8:6:5".into(), 0));
    assert_eq!(session.accepted("8:6:5"), [Reply::Pubrec(5), Reply::Subscribe]);
    let mut session = MqttSession::at(Some("7:6:5-6")).expect("valid");
    assert_eq!(session.begin(true, now), None);
    assert!(session.give_up(Instant::now() + RESENT_WITHIN).is_some());
    assert_eq!(take(&mut session), ("8::".into(), 0));
}

#[test]
fn lower_qos() {
    let mut session = MqttSession::at(Some("7::")).expect("valid");
    publish(&mut session, 5, Qos::AtLeastOnce);
    publish(&mut session, 0, Qos::AtMostOnce);
    assert_eq!(take(&mut session), ("8::".into(), 0));
    assert_eq!(session.accepted("8::"), [Reply::Puback(5)]);
}

#[test]
fn repeats_after_the_end_of_the_handshake() {
    // A broker that counts upwards: it sends a message again that was released.
    let mut session = MqttSession::at(Some("7:65535:")).expect("valid");
    assert_eq!(session.begin(true, Instant::now()), None);
    send(&mut session, 65_534, Qos::ExactlyOnce, true);
    send(&mut session, 1, Qos::ExactlyOnce, true);
    assert_eq!(take(&mut session), ("8:1:1".into(), 1));
    assert_eq!(session.accepted("8:1:1"), [Reply::Subscribe, Reply::Pubrec(65_534), Reply::Pubrec(1)]);
    session.release(1);
    session.release(65_534);
    assert_eq!(take(&mut session), ("9:1:".into(), 0));
    // A broker that uses identifiers again.
    publish(&mut session, 1, Qos::ExactlyOnce);
    assert_eq!(take(&mut session), ("10:r:1".into(), 1));
    session.release(1);
    assert_eq!(take(&mut session), ("11:r:".into(), 0));
    let mut session = MqttSession::at(Some("11:r:")).expect("valid");
    send(&mut session, 1, Qos::ExactlyOnce, true);
    assert_eq!(take(&mut session), ("12:r:1".into(), 1));
}
