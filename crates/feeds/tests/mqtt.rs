//! Subscriptions at a real broker, Mosquitto.

mod common;

use common::{Certificates, Program, Random, Service, free_port, installed, limits, problem, warnings_of};
use evertally_feeds::{Source, SourceError, SourceOptions, open};
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::ops::Range;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

struct Broker {
    folder: tempfile::TempDir,
    port: u16,
    program: Program,
}

impl Broker {
    /// A broker that keeps sessions on its disk, with more lines of configuration.
    fn start(more: &str) -> Self {
        let (folder, port) = (tempfile::tempdir().expect("a folder"), free_port());
        let path = folder.path().join("mosquitto.conf");
        for name in ["passwords", "acl"] {
            std::fs::write(folder.path().join(name), "").expect("written");
        }
        let user = Command::new("id").arg("-un").output().expect("id").stdout;
        let text = format!(
            "listener {port} 127.0.0.1\npersistence true\npersistence_location {}/\nmax_queued_messages 0\n\
             max_inflight_messages 0\nset_tcp_nodelay true\nuser {}\n{more}\n",
            folder.path().display(),
            String::from_utf8_lossy(&user).trim(),
        );
        std::fs::write(&path, text.replace("FOLDER", folder.path().to_str().expect("UTF-8"))).expect("written");
        let program = Program::start("mosquitto", &["-c", path.to_str().expect("UTF-8")], port);
        let broker = Self { folder, port, program };
        broker.wait_until_it_answers();
        broker
    }

    /// It listens before it handles signals, which until then end it at once: waits until it closes the connection of
    /// a client that speaks no MQTT.
    fn wait_until_it_answers(&self) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("set");
        let asked = Instant::now();
        let _ = stream.write_all(b"GET / HTTP/1.1\r\n\r\n");
        let _ = stream.read(&mut [0; 64]);
        assert!(asked.elapsed() < Duration::from_secs(20), "mosquitto does not answer");
    }

    fn publish(&self, topic: &str, qos: &str, messages: impl IntoIterator<Item = String>, more: &[&str]) {
        let port = self.port.to_string();
        let arguments = ["-V", "5", "-p", &port, "-t", topic, "-q", qos, "-l", "-h", "127.0.0.1"];
        let mut child = Command::new(installed("mosquitto_pub"));
        let mut child = child.args(arguments).args(more).stdin(Stdio::piped()).spawn().expect("mosquitto_pub");
        let text: String = messages.into_iter().map(|message| message + "\n").collect();
        child.stdin.take().expect("piped").write_all(text.as_bytes()).expect("written");
        assert!(child.wait().expect("ended").success());
    }

    fn signal(&self, signal: &str) {
        let id = self.program.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().expect("kill").success());
    }

    /// Stops it in order, in whatever state its clients are, and starts it again.
    fn restart(&mut self) {
        self.signal("-TERM");
        self.program.wait();
        self.program.restart();
        self.wait_until_it_answers();
    }

    /// Kills it when its disk has its state, and starts it again.
    fn crash(&mut self) {
        self.signal("-USR1");
        std::thread::sleep(Duration::from_millis(150));
        self.program.kill();
        self.program.restart();
        self.wait_until_it_answers();
    }

    fn source(&self, rest: &str) -> Box<dyn Source> {
        open(&format!("mqtt://127.0.0.1:{}/{rest}", self.port), &SourceOptions::default()).expect("valid")
    }
}

fn rows(numbers: Range<usize>) -> Vec<String> {
    numbers.map(|number| format!("{{\"n\":{number}}}")).collect()
}

/// Commits batches until none comes.
async fn follow(source: &mut dyn Source, service: &mut Service, wait: u64) -> Result<Vec<String>, SourceError> {
    while let Some(batch) = source.next(limits(1000, wait)).await? {
        assert!(service.commit(&batch));
        source.accepted(&batch.partition, &batch.position).await?;
    }
    Ok(warnings_of(&mut *source))
}

async fn started(broker: &Broker, rest: &str, service: &mut Service) -> Box<dyn Source> {
    let mut source = broker.source(rest);
    service.seek(&mut *source).await.expect("known");
    assert_eq!(follow(&mut *source, service, 100).await.expect("connected"), Vec::<String>::new());
    source
}

/// How often each row was counted.
fn counts(service: &Service) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    service.rows.values().flatten().for_each(|row| *counts.entry(row.as_str()).or_default() += 1);
    counts
}

#[tokio::test]
async fn each_message_counts_once_whatever_stops() {
    let mut broker = Broker::start("allow_anonymous true");
    let mut random = Random(2037);
    let mut service = Service::default();
    let mut source = started(&broker, "rooms/#", &mut service).await;
    let (mut sent, mut stops, mut restarts, mut crashes) = (0, 0, 0, 0);
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut warnings = Vec::new();
    loop {
        let enough = sent >= 1500 && stops > 5 && restarts == 6 && crashes == 3;
        if enough && service.count() >= sent {
            break;
        }
        assert!(Instant::now() < deadline, "{} of {sent}, {stops} stops, {warnings:?}", service.count());
        if !enough && random.below(3) == 0 {
            let more = 1 + random.below(150) as usize;
            broker.publish("rooms/a", "2", rows(sent..sent + more), &[]);
            sent += more;
        }
        for _ in 0..random.below(12) {
            let cut = Duration::from_micros(random.below(4000));
            let rows = 1 + random.below(60) as usize;
            let patience = if random.below(3) == 0 { cut } else { Duration::from_secs(5) };
            let next = tokio::time::timeout(patience, source.next(limits(rows, 20))).await;
            warnings.extend(warnings_of(&mut *source));
            let batch = match next {
                Err(_) | Ok(Ok(None)) => continue,
                Ok(Ok(Some(batch))) => batch,
                Ok(Err(SourceError::Away(_))) => {
                    service.seek(&mut *source).await.expect("known");
                    continue;
                }
                Ok(Err(SourceError::Fault(e))) => panic!("{e}"),
            };
            let point = random.below(16);
            if point != 0 {
                assert!(service.commit(&batch));
            }
            if point < 3 {
                // Without notice before the commit, after it, or after the answers.
                if point == 2 {
                    source.accepted("", &batch.position).await.expect("sent");
                }
                stops += 1;
                source = broker.source("rooms/#");
                service.seek(&mut *source).await.expect("known");
            } else {
                source.accepted("", &batch.position).await.expect("sent");
            }
        }
        if restarts < 6 && random.below(6) == 0 {
            restarts += 1;
            broker.restart();
        } else if crashes < 3 && random.below(10) == 0 {
            crashes += 1;
            broker.crash();
        }
    }
    warnings.extend(follow(&mut *source, &mut service, 300).await.unwrap_or_default());
    let counts = counts(&service);
    let repeated = counts.values().filter(|count| **count != 1).count();
    assert_eq!((repeated, counts.len()), (0, sent), "{stops} stops, {restarts} restarts, {crashes} crashes");
    assert_eq!(warnings, Vec::<String>::new());
    println!("{sent} messages, {stops} stops, {restarts} restarts, {crashes} crashes");
}

#[tokio::test]
async fn two_feeders_with_one_client_id_count_once() {
    let broker = Broker::start("allow_anonymous true");
    let mut service = Service::default();
    let mut sources = vec![started(&broker, "rooms/#", &mut service).await];
    let mut second = broker.source("rooms/#");
    service.seek(&mut *second).await.expect("known");
    sources.push(second);
    let mut random = Random(5);
    let (mut sent, mut refused, mut away) = (0, 0, 0);
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let enough = sent >= 320 && refused > 0 && away > 5;
        if enough && service.count() >= sent {
            break;
        }
        assert!(Instant::now() < deadline, "{} of {sent}, {refused} refused, {away} away", service.count());
        if !enough && random.below(8) == 0 {
            broker.publish("rooms/a", "2", rows(sent..sent + 40), &[]);
            sent += 40;
        }
        let source = &mut sources[random.below(2) as usize];
        match source.next(limits(1 + random.below(20) as usize, 10)).await {
            Ok(None) => {}
            Ok(Some(batch)) if service.commit(&batch) => {
                source.accepted("", &batch.position).await.expect("sent");
            }
            Ok(Some(_)) => {
                refused += 1;
                service.seek(&mut **source).await.expect("known");
            }
            Err(SourceError::Away(_)) => {
                away += 1;
                service.seek(&mut **source).await.expect("known");
            }
            Err(SourceError::Fault(e)) => panic!("{e}"),
        }
    }
    assert!(counts(&service).values().all(|count| *count == 1));
}

#[tokio::test]
async fn a_lost_session_is_noticed() {
    let mut broker = Broker::start("allow_anonymous true");
    let mut service = Service::default();
    let mut source = started(&broker, "rooms/#", &mut service).await;
    broker.publish("rooms/a", "2", rows(0..5), &[]);
    let batch = source.next(limits(5, 2000)).await.expect("read").expect("a batch");
    assert!(service.commit(&batch));
    assert!(service.positions[""].ends_with(":5:1-5"), "{:?}", service.positions);
    // It loses everything, while five messages are taken.
    broker.program.kill();
    let _ = std::fs::remove_file(broker.folder.path().join("mosquitto.db"));
    broker.program.restart();
    // A feeder stops after it saw this, before the commit: the session exists then, and is empty.
    let mut source = broker.source("rooms/#");
    service.seek(&mut *source).await.expect("known");
    let batch = source.next(limits(5, 2000)).await.expect("connected").expect("a batch without rows");
    assert!(batch.rows.bytes.is_empty() && warnings_of(&mut *source)[0].contains("lost the session"));
    let mut source = broker.source("rooms/#");
    service.seek(&mut *source).await.expect("known");
    assert!(source.next(limits(5, 200)).await.expect("connected").is_none(), "nothing is sent again");
    // One that sees it, and commits.
    broker.program.kill();
    let _ = std::fs::remove_file(broker.folder.path().join("mosquitto.db"));
    broker.program.restart();
    service.seek(&mut *source).await.expect("known");
    let warnings = follow(&mut *source, &mut service, 100).await.expect("connected");
    assert!(warnings.len() == 1 && warnings[0].contains("lost the session"), "{warnings:?}");
    // Identifiers start again, and mean other messages.
    broker.publish("rooms/a", "2", rows(5..10), &[]);
    follow(&mut *source, &mut service, 200).await.expect("read");
    assert_eq!(service.rows[""], rows(0..10));
}

#[tokio::test]
async fn rows_metadata_and_lower_qos() {
    let broker = Broker::start("allow_anonymous true");
    broker.publish("rooms/a", "2", rows(0..1), &["-r"]);
    let options = SourceOptions { with_metadata: true, ..SourceOptions::default() };
    let at = |rest: &str| open(&format!("mqtt://127.0.0.1:{}/{rest}", broker.port), &options).expect("valid");
    let mut strict = Service::default();
    let mut source = at("rooms/#?client-id=strict");
    strict.seek(&mut *source).await.expect("known");
    follow(&mut *source, &mut strict, 100).await.expect("connected");
    let mut all = Service::default();
    let mut lax = at("rooms/#?client-id=lax&qos=0&retained=true");
    all.seek(&mut *lax).await.expect("known");
    follow(&mut *lax, &mut all, 100).await.expect("connected");
    broker.publish("rooms/b", "0", rows(1..2), &[]);
    broker.publish("rooms/b", "1", rows(2..3), &[]);
    broker.publish("rooms/b", "2", ["[{\"n\":3},{\"n\":4}]".to_owned(), "no JSON".to_owned()], &[]);
    let warnings = follow(&mut *source, &mut strict, 200).await.expect("read");
    assert!(
        warnings.len() == 1
            && warnings[0].starts_with("messages with a QoS below 2")
            && warnings[0].ends_with("(2 messages)"),
        "{warnings:?}"
    );
    follow(&mut *lax, &mut all, 200).await.expect("read");
    let row = |topic: &str, number: usize| format!("{{\"_topic\":\"rooms/{topic}\",\"n\":{number}}}");
    let common = [row("b", 3), row("b", 4), "\"no JSON\"".to_owned()];
    assert_eq!(strict.rows[""], common);
    let own = [row("a", 0), row("b", 1), row("b", 2)];
    assert_eq!(all.rows[""], [&own[..], &common[..]].concat());
}

#[tokio::test]
async fn refusals() {
    let broker = Broker::start("password_file FOLDER/passwords\nacl_file FOLDER/acl\nallow_anonymous false");
    let at = |name: &str| broker.folder.path().join(name);
    let made = Command::new(installed("mosquitto_passwd"))
        .args(["-b", "-c"])
        .arg(at("passwords"))
        .args(["feeder", "s3cret"])
        .status();
    assert!(made.expect("mosquitto_passwd").success());
    std::fs::write(at("acl"), "user feeder\ntopic read rooms/#\n").expect("written");
    broker.signal("-HUP");
    std::fs::write(at("password"), "wr0ng\n").expect("written");
    let options = SourceOptions { password_file: Some(at("password")), ..SourceOptions::default() };
    let mut service = Service::default();
    let mut source = open(&format!("mqtt://feeder@127.0.0.1:{}/rooms/#", broker.port), &options).expect("valid");
    service.seek(&mut *source).await.expect("known");
    let Err(SourceError::Fault(error)) = source.next(limits(1, 100)).await else { panic!("no fault") };
    let error = error.to_string();
    assert!(error.contains("check the user") && !error.contains("wr0ng"), "{error}");
    std::fs::write(at("password"), "s3cret\n").expect("written");
    service.seek(&mut *source).await.expect("known");
    follow(&mut *source, &mut service, 100).await.expect("allowed");
    // Something else listens.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("connected");
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").expect("written");
        std::thread::sleep(Duration::from_secs(1));
    });
    let mut source = open(&format!("mqtt://127.0.0.1:{port}/rooms/#"), &SourceOptions::default()).expect("valid");
    source.seek("", None).await.expect("known");
    assert!(source.next(limits(1, 100)).await.is_err());
}

#[tokio::test]
async fn certificates_of_both_sides() {
    let files = Certificates::new();
    let text = |name: &str| files.text(name);
    let broker = Broker::start(&format!(
        "cafile {}\ncertfile {}\nkeyfile {}\nrequire_certificate true\nuse_identity_as_username true\n\
         acl_file FOLDER/acl",
        text("ca.pem"),
        text("server.pem"),
        text("server.key")
    ));
    std::fs::write(broker.folder.path().join("acl"), "user feeder\ntopic rooms/#\n").expect("written");
    broker.signal("-HUP");
    let url = format!("mqtts://localhost:{}/rooms/#", broker.port);
    let options = files.options();
    let mut service = Service::default();
    let mut source = open(&url, &options).expect("valid");
    service.seek(&mut *source).await.expect("known");
    // The broker may reset connections while it reads its files again.
    let asked = Instant::now();
    while let Err(SourceError::Away(why)) = follow(&mut *source, &mut service, 100).await {
        assert!(asked.elapsed() < Duration::from_secs(20), "{why}");
        service.seek(&mut *source).await.expect("known");
    }
    let (ca, client, key) = (text("ca.pem"), text("client.pem"), text("client.key"));
    broker.publish("rooms/a", "2", rows(0..3), &["--cafile", &ca, "--cert", &client, "--key", &key]);
    follow(&mut *source, &mut service, 300).await.expect("allowed");
    assert_eq!(service.rows[""].len(), 3);
    for (options, why) in [
        (SourceOptions { authority: None, ..options.clone() }, "--source-authority"),
        (SourceOptions { client: None, ..options.clone() }, "--source-certificate"),
    ] {
        let mut source = open(&url, &options).expect("valid");
        source.seek("", None).await.expect("known");
        let found = problem(source.next(limits(1, 100)).await);
        assert!(found.contains(why), "{found}");
    }
}

#[tokio::test]
#[ignore = "a measurement"]
async fn speed() {
    let broker = Broker::start("allow_anonymous true");
    let mut service = Service::default();
    let mut source = started(&broker, "rooms/#", &mut service).await;
    let number = 5_000;
    let messages = (0..number).map(|number| format!("{{\"n\":{number},\"page\":\"a page with a name of words\"}}"));
    broker.publish("rooms/a", "2", messages, &[]);
    let start = Instant::now();
    while service.count() < number {
        if let Some(batch) = source.next(limits(10_000, 50)).await.expect("read") {
            assert!(service.commit(&batch));
            source.accepted("", &batch.position).await.expect("sent");
        }
    }
    println!("{:.0} rows/s", number as f64 / start.elapsed().as_secs_f64());
}
