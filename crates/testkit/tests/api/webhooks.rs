//! Webhooks: publications in order, refusals, signatures, dead letters.

use crate::server::{STREAMS, Server, hand, request_of};
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

/// A delivery to a webhook: its key, its body, and whether it was accepted.
type Delivery = (String, String, bool);

/// The headers of a request.
type Headers = Vec<(String, String)>;

/// A receiver of publications that accepts those that `accepts` accepts, by their number and key, and is busy for the
/// others: its address, and everything that is sent to it.
fn receiver(mut accepts: impl FnMut(usize, &str) -> bool + Send + 'static) -> (SocketAddr, mpsc::Receiver<Delivery>) {
    answering(move |number, key, _, _| if accepts(number, key) { "204 No Content" } else { "503 Busy" }.to_owned())
}

/// A receiver that answers with a status line and headers, from number, key, headers and body.
fn answering(
    mut answer: impl FnMut(usize, &str, &Headers, &str) -> String + Send + 'static,
) -> (SocketAddr, mpsc::Receiver<Delivery>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, deliveries) = mpsc::channel();
    std::thread::spawn(move || {
        for (number, socket) in listener.incoming().enumerate() {
            let mut socket = socket.unwrap();
            let (_, headers, body) = request_of(&socket);
            let key = headers.iter().find(|(name, _)| name == "idempotency-key").map(|(_, key)| key.clone()).unwrap();
            let body = String::from_utf8(body).unwrap();
            let status = answer(number, &key, &headers, &body);
            write!(socket, "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n").unwrap();
            if sender.send((key, body, status.starts_with('2'))).is_err() {
                return;
            }
        }
    });
    (address, deliveries)
}

#[test]
fn a_webhook_is_told_of_every_publication_in_order() {
    // The second is not accepted at the first attempt.
    let (address, lines) = receiver(|number, _| number != 1);
    let mut server =
        Server::with("", &format!("[[webhook]]\nurl = \"http://{address}/\"\nstreams = [\"hand\"]\n{STREAMS}"));
    // It receives the publications after its first start.
    std::thread::sleep(Duration::from_millis(600));
    hand(&server, 1);
    hand(&server, 2);
    let next = || lines.recv_timeout(Duration::from_secs(20)).unwrap();
    let (key, body, taken) = next();
    assert!(
        key == "hand/1" && taken && body.contains("\"publication\":1") && body.contains("\"rows\":[{"),
        "{key} {body}"
    );
    let (key, body, taken) = next();
    assert!(key == "hand/2" && !taken);
    let (again, same, taken) = next();
    assert_eq!((again, same, taken), (key, body, true));
    server.stop();
    server.start().unwrap();
    hand(&server, 3);
    assert_eq!(next().0, "hand/3");
}

/// A stream whose publication is refused waits alone, and is sent again until it is accepted.
#[test]
fn a_refused_publication_delays_no_other_stream() {
    // The stream that comes first is refused three times, which takes more than seven seconds.
    let mut refused = 0;
    let (address, deliveries) = receiver(move |_, key| {
        let is_refused = key.starts_with("hand/") && refused < 3;
        refused += u32::from(is_refused);
        !is_refused
    });
    let other = STREAMS.replace("stream = \"hand\"", "stream = \"later\"");
    let other = &other[other.rfind("[[stream]]").unwrap()..];
    let hook = format!("[[webhook]]\nurl = \"http://{address}/\"\nstreams = [\"hand\", \"later\"]\n");
    let server = Server::with("", &format!("{hook}{STREAMS}{other}"));
    std::thread::sleep(Duration::from_millis(600));
    hand(&server, 1);
    for step in 1..=3 {
        let closed = server.post("/v1/streams/later/close", &format!("{{\"through\":{step}}}"));
        assert_eq!(closed.status, 200, "{}", closed.text);
    }
    let mut seen = Vec::new();
    while seen.last() != Some(&("hand/1".to_owned(), true)) {
        let (key, _, accepted) = deliveries.recv_timeout(Duration::from_secs(30)).unwrap();
        seen.push((key, accepted));
    }
    let place = |key: &str| seen.iter().position(|(seen, accepted)| seen == key && *accepted).unwrap();
    assert!(place("later/3") < place("hand/1"), "{seen:?}");
    assert_eq!(seen.iter().filter(|(key, accepted)| key == "hand/1" && !accepted).count(), 3, "{seen:?}");
}

fn hook(address: SocketAddr, more: &str) -> String {
    format!("[[webhook]]\nurl = \"http://{address}/\"\nstreams = [\"hand\"]\n{more}\n{STREAMS}")
}

/// A publication whose content is refused for too long is set aside, so that later ones arrive; an operator sends it
/// again or discards it.
#[test]
fn a_publication_that_is_refused_for_good_is_set_aside() {
    let mended = Arc::new(Mutex::new(false));
    let is_mended = Arc::clone(&mended);
    let (address, deliveries) = answering(move |_, key, _, _| {
        let is_refused = ["hand/1", "hand/3"].contains(&key) && !*is_mended.lock().unwrap();
        if is_refused { "422 Unprocessable" } else { "200 OK" }.to_owned()
    });
    let mut server = Server::with("", &hook(address, "give-up-after = \"500ms\""));
    std::thread::sleep(Duration::from_millis(600));
    (1..=3).for_each(|step| hand(&server, step));
    let dead = |server: &Server| -> Vec<u64> {
        let all = server.get("/v1/webhooks").json();
        let letters = all["webhooks"][0]["streams"][0]["dead_letters"].clone();
        letters.as_array().unwrap().iter().map(|letter| letter["publication"].as_u64().unwrap()).collect()
    };
    let until = Instant::now() + Duration::from_secs(20);
    while dead(&server) != [1, 3] {
        assert!(Instant::now() < until, "{}", server.get("/v1/webhooks").text);
        std::thread::sleep(Duration::from_millis(50));
    }
    let accepted = |keys: Vec<(String, String, bool)>| -> Vec<String> {
        keys.into_iter().filter(|(_, _, accepted)| *accepted).map(|(key, _, _)| key).collect()
    };
    assert_eq!(accepted(deliveries.try_iter().collect()), ["hand/2"]);
    // They outlast a restart, and the operator sees them.
    server.stop();
    server.start().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let problems = server.get("/v1/operator").json()["problems"].to_string();
    assert!(problems.contains("refused 2 publications of hand for good"), "{problems}");
    let settle = |body: &str| {
        let url = format!("\"webhook\":\"http://{address}/\",\"stream\":\"hand\"");
        server.post("/v1/webhooks/dead-letters", &format!("{{{url},{body}}}"))
    };
    let refused = settle("\"action\":\"resend\"");
    assert!(refused.status == 422 && refused.text.contains("status 422"), "{}", refused.text);
    assert_eq!(settle("\"action\":\"discard\",\"publication\":2").status, 422, "it was accepted");
    *mended.lock().unwrap() = true;
    let resent = settle("\"action\":\"resend\",\"publication\":3");
    assert_eq!((resent.status, resent.json()["left"].as_u64()), (200, Some(1)), "{}", resent.text);
    assert_eq!(settle("\"action\":\"discard\"").json()["left"], 0);
    assert_eq!(accepted(deliveries.try_iter().collect()), ["hand/3"]);
    let problems = server.get("/v1/operator").json()["problems"].to_string();
    assert!(!problems.contains("webhook"), "{problems}");
    let unauthorized = server.private.get("/v1/webhooks", &server.token("read:*")).unwrap();
    assert_eq!(unauthorized.status, 403);
}

/// A receiver that is down, or asks for a pause, gets the same publication later, however long that takes.
#[test]
fn a_receiver_may_ask_for_a_pause() {
    let times = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&times);
    let (address, deliveries) = answering(move |number, _, _, _| {
        seen.lock().unwrap().push(Instant::now());
        if number == 0 { "429 Too Many Requests\r\nretry-after: 3" } else { "200 OK" }.to_owned()
    });
    let server = Server::with("", &hook(address, "give-up-after = \"0s\""));
    std::thread::sleep(Duration::from_millis(600));
    hand(&server, 1);
    let next = || deliveries.recv_timeout(Duration::from_secs(20)).unwrap();
    assert!(!next().2 && next().2);
    let times = times.lock().unwrap();
    let pause = times[1] - times[0];
    assert!(pause >= Duration::from_millis(2900), "{pause:?}");
}

/// A receiver checks signatures with the secret alone. Secrets can be changed while the service runs.
#[test]
fn messages_are_signed() {
    let (sender, signed) = mpsc::channel();
    let (address, _deliveries) = answering(move |_, _, headers, body| {
        let header = |name: &str| headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.clone()).unwrap();
        let parts = ["webhook-id", "webhook-timestamp", "webhook-signature"].map(header);
        sender.send((parts, body.to_owned())).unwrap();
        "200 OK".to_owned()
    });
    let folder = "secret-file = \"elsewhere/secret\"";
    let secrets = ["MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "c2VjcmV0IHNlY3JldCBzZWNyZXQgc2VjcmV0"];
    let mut server = Server::with("", STREAMS);
    std::fs::write(server.path("elsewhere/secret"), format!("whsec_{}\n", secrets[0])).unwrap();
    server.reload(STREAMS, &hook(address, folder)).unwrap();
    std::thread::sleep(Duration::from_millis(600));
    hand(&server, 1);
    let check = |secrets: &[&str]| {
        let ([id, time, signature], body) = signed.recv_timeout(Duration::from_secs(20)).unwrap();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        assert!(now.abs_diff(time.parse().unwrap()) < 60 && id.starts_with("msg_") && !id.contains('.'), "{id}");
        let expected: Vec<String> =
            secrets.iter().map(|secret| hmac_of(secret, &format!("{id}.{time}.{body}"))).collect();
        assert_eq!(signature, expected.join(" "));
        id
    };
    let first = check(&secrets[..1]);
    std::fs::write(server.path("elsewhere/secret"), format!("{}\nwhsec_{}\n", secrets[1], secrets[0])).unwrap();
    server.reload("", "").unwrap();
    hand(&server, 2);
    assert_ne!(check(&[secrets[1], secrets[0]]), first);
    std::fs::write(server.path("elsewhere/secret"), "short\n").unwrap();
    assert!(server.reload("", "").unwrap_err().contains("signing secret"));
}

/// HMAC-SHA256 by its definition (RFC 2104), as a signature of version 1.
fn hmac_of(secret: &str, message: &str) -> String {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use sha2::{Digest, Sha256};
    let mut key = STANDARD.decode(secret).unwrap();
    key.resize(64, 0);
    let padded = |pad: u8| key.iter().map(|byte| byte ^ pad).collect::<Vec<u8>>();
    let inner = Sha256::new().chain_update(padded(0x36)).chain_update(message.as_bytes()).finalize();
    let outer = Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize();
    format!("v1,{}", STANDARD.encode(outer))
}
