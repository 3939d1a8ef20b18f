//! `[[sink]]`: each publication is written once and in order, whatever stops in between.

use crate::listeners::{authority, certificate};
use crate::server::{HOUR, START, STREAMS, Server, hand, request_of, rows};
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A server of PostgreSQL with a table for the stream `hand`. It is stopped and removed at the end.
struct Postgres {
    folder: TempDir,
    programs: PathBuf,
    port: u16,
}

impl Postgres {
    fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("evertally-sink").tempdir().unwrap();
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
        let found = std::fs::read_dir("/usr/lib/postgresql").expect("PostgreSQL is installed");
        let programs = found.map(|entry| entry.unwrap().path().join("bin")).max().expect("PostgreSQL is installed");
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let server = Self { folder, programs, port };
        let data = server.data();
        server.run("initdb", &["-A", "trust", "-U", "postgres", "--no-sync", "-D", &data]);
        server.up();
        server.sql(
            "CREATE TABLE releases (step bigint PRIMARY KEY, time timestamptz, \"end\" timestamptz, value numeric, \
             std_error double precision, lower double precision, upper double precision)",
        );
        server
    }

    fn data(&self) -> String {
        self.folder.path().join("data").display().to_string()
    }

    /// Runs a program of the server as a user that is not root: it refuses that.
    fn try_run(&self, program: &str, arguments: &[&str]) -> Output {
        let is_root = Command::new("id").arg("-u").output().is_ok_and(|id| id.stdout == b"0\n");
        let mut command = Command::new(if is_root { "runuser" } else { "env" });
        if is_root {
            command.args(["-u", "postgres", "--"]);
        }
        command.arg(self.programs.join(program)).args(arguments).output().unwrap()
    }

    fn run(&self, program: &str, arguments: &[&str]) -> String {
        let output = self.try_run(program, arguments);
        assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn up(&self) {
        let (data, port) = (self.data(), self.port);
        let options = format!("-p {port} -c unix_socket_directories= -c fsync=off -c shared_buffers=16MB");
        // The server must not keep the pipes of this program open.
        let log = self.folder.path().join("data/log").display().to_string();
        self.run("pg_ctl", &["-w", "-D", &data, "-l", &log, "-o", &options, "start"]);
    }

    /// Ends the server as a crash does.
    fn crash(&self) {
        self.run("pg_ctl", &["-m", "immediate", "-D", &self.data(), "stop"]);
    }

    fn sql(&self, query: &str) -> String {
        let port = self.port.to_string();
        self.run("psql", &["-h", "127.0.0.1", "-p", &port, "-U", "postgres", "-Atc", query])
    }

    fn sink(&self) -> String {
        let port = self.port;
        format!(
            "[[sink]]\nstream = \"hand\"\nto = \"postgresql://postgres@127.0.0.1:{port}/postgres?table=releases\"\n"
        )
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.try_run("pg_ctl", &["-m", "immediate", "-D", &self.data(), "stop"]);
        // Its files belong to another user, and the folder to this one.
        drop(Command::new("rm").arg("-rf").arg(self.data()).status());
    }
}

/// The state of the only sink.
fn state(server: &Server) -> (u64, Option<String>) {
    let sink = server.get("/v1/operator").json()["sinks"][0].clone();
    (sink["written"].as_u64().unwrap(), sink["problem"].as_str().map(str::to_owned))
}

/// Waits until the only sink has a state.
fn wait(server: &Server, what: &str, is_reached: impl Fn(u64, Option<&str>) -> bool) {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let (written, problem) = state(server);
        if is_reached(written, problem.as_deref()) {
            return;
        }
        assert!(Instant::now() < until, "not {what}: {written}, {problem:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn wait_for(server: &Server, publication: u64) {
    wait(server, &format!("at {publication}"), |written, problem| written == publication && problem.is_none());
}

/// The values of a stream's rows, from CSV.
fn values(server: &Server, stream: &str) -> Vec<String> {
    let text = rows(server, stream);
    let column = text.lines().next().unwrap().split(',').position(|name| name == "value").unwrap();
    text.lines().skip(1).map(|line| line.split(',').nth(column).unwrap().to_owned()).collect()
}

#[test]
fn publications_are_written_to_postgresql_once() {
    let postgres = Postgres::new();
    let mut server = Server::with("", &format!("{}{STREAMS}", postgres.sink()));
    hand(&server, 1);
    hand(&server, 2);
    wait_for(&server, 2);
    postgres.crash();
    hand(&server, 3);
    wait(&server, "failing", |written, problem| written == 2 && problem.is_some());
    let metrics = server.get("/metrics").text;
    let place = format!("postgresql://postgres@127.0.0.1:{}/postgres, table releases", postgres.port);
    let labels = format!("stream=\"hand\",sink=\"{place}\"");
    for line in [
        format!("evertally_sink_lag_publications{{{labels}}} 1"),
        format!("evertally_sink_failing{{{labels}}} 1"),
        format!("evertally_sink_publications_total{{{labels}}} 2"),
        "evertally_problems{kind=\"sink\"} 1".to_owned(),
    ] {
        assert!(metrics.lines().any(|own| own == line), "{line}: {metrics}");
    }
    let problems = server.get("/v1/operator").json()["problems"].to_string();
    assert!(problems.contains("of stream `hand`"), "{problems}");
    postgres.up();
    wait_for(&server, 3);
    server.stop();
    server.start().unwrap();
    hand(&server, 4);
    wait_for(&server, 4);
    // Without the sink for a while.
    let sink = postgres.sink();
    server.reload(&sink, "").unwrap();
    hand(&server, 5);
    server.reload("[[stream]]\nstream = \"open\"", &format!("{sink}[[stream]]\nstream = \"open\"")).unwrap();
    wait_for(&server, 5);
    let written = postgres.sql("SELECT step, value FROM releases ORDER BY step");
    let expected: Vec<String> =
        values(&server, "hand").iter().zip(1..).map(|(value, step)| format!("{step}|{value}")).collect();
    assert_eq!((written.lines().collect::<Vec<_>>(), expected.len()), (expected.iter().map(|row| &**row).collect(), 5));
    let span = postgres.sql("SELECT DISTINCT \"end\" - time FROM releases");
    assert_eq!(span, "01:00:00\n");
    server.stop();
    // Another stream with the same name.
    let other = Server::with("", &format!("{sink}{STREAMS}"));
    wait(&other, "refused", |_, problem| problem.is_some_and(|why| why.contains("shown only 0")));
    (1..=5).for_each(|step| hand(&other, step));
    wait(&other, "refused", |_, problem| problem.is_some_and(|why| why.contains("another one with the same name")));
    assert_eq!(postgres.sql("SELECT count(*) FROM releases"), "5\n");
}

#[test]
fn publications_are_files_of_parquet() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("out");
    let sink = format!("[[sink]]\nstream = \"open\"\nto = \"file://{}/\"\n", place.display());
    let mut server = Server::with("", &format!("{sink}{STREAMS}"));
    let row = "{\"time\":\"2026-01-01T00:30:00Z\",\"group\":\"a\"}\n";
    assert_eq!(server.send("open", "one", &row.repeat(3)).status, 200);
    server.publish("open", 1);
    wait(&server, "failing", |_, problem| problem.is_some_and(|why| why.contains("does not exist")));
    std::fs::create_dir(&place).unwrap();
    wait_for(&server, 1);
    server.publish("open", 2);
    wait_for(&server, 2);
    let bytes = |publication: u64| std::fs::read(place.join(format!("open-{publication:010}.parquet"))).unwrap();
    let first = bytes(1);
    for publication in 1..=2 {
        let path = format!("/v1/streams/open/releases?from={publication}&to={publication}&format=parquet");
        assert!(bytes(publication) == server.get(&path).bytes, "{publication}");
    }
    // Files that are processed and removed are not written again, and a copy from before writes the same again.
    server.stop();
    std::fs::remove_file(place.join("open-0000000001.parquet")).unwrap();
    server.start().unwrap();
    server.publish("open", 3);
    wait_for(&server, 3);
    assert_eq!(std::fs::read_dir(&place).unwrap().count(), 2);
    let again = folder.path().join("again");
    std::fs::create_dir(&again).unwrap();
    let other = sink.replace("/out/", "/again/");
    server.reload(&sink, &other).unwrap();
    wait_for(&server, 3);
    assert!(std::fs::read(again.join("open-0000000001.parquet")).unwrap() == first);
}

/// The fields of a message of protocol buffers: their numbers and contents.
fn fields(mut message: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut fields = Vec::new();
    let varint = |message: &mut &[u8]| {
        let (mut number, mut shift) = (0_u64, 0);
        loop {
            let byte = message[0];
            *message = &message[1..];
            number |= u64::from(byte & 127) << shift;
            shift += 7;
            if byte < 128 {
                return number;
            }
        }
    };
    while let Some(key) = message.first().copied() {
        message = &message[1..];
        let content = match key & 7 {
            0 => varint(&mut message).to_le_bytes().to_vec(),
            kind => {
                let length = if kind == 1 { 8 } else { varint(&mut message) as usize };
                let (content, rest) = message.split_at(length);
                message = rest;
                content.to_vec()
            }
        };
        fields.push((key >> 3, content));
    }
    fields
}

/// The samples of a request of remote write: `name{label=value,...} value time`.
fn samples(request: &[u8]) -> Vec<String> {
    let request = snap::raw::Decoder::new().decompress_vec(request).unwrap();
    let of_series = |(_, series): (u8, Vec<u8>)| {
        let (labels, samples): (Vec<_>, Vec<_>) = fields(&series).into_iter().partition(|(number, _)| *number == 1);
        let text = |content: &[u8]| String::from_utf8(content.to_vec()).unwrap();
        let labels = labels.iter().map(|(_, label)| fields(label));
        let labels: Vec<String> = labels.map(|pair| format!("{}={}", text(&pair[0].1), text(&pair[1].1))).collect();
        let sample = fields(&samples[0].1);
        let value = f64::from_le_bytes(sample[0].1[..].try_into().unwrap());
        let time = i64::from_le_bytes(sample[1].1[..].try_into().unwrap());
        format!("{} {value} {time}", labels.join(","))
    };
    fields(&request).into_iter().map(of_series).collect()
}

#[test]
fn publications_are_samples_of_prometheus() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, requests) = mpsc::channel();
    std::thread::spawn(move || {
        let answers = ["503 Busy\r\nretry-after: 1", "204 No Content", "400 Bad Request", "204 No Content"];
        for (status, socket) in answers.into_iter().chain(["401 Unauthorized"; 100]).zip(listener.incoming()) {
            let mut socket = socket.unwrap();
            let (first, headers, body) = request_of(&socket);
            let text = if status.starts_with("400") { "out of order sample" } else { "no" };
            let length = text.len();
            write!(socket, "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{text}").unwrap();
            if sender.send((Instant::now(), first, headers, samples(&body))).is_err() {
                return;
            }
        }
    });
    let sink = format!(
        "[[sink]]\nstream = \"hand\"\nto = \"prometheus+http://{address}/write?tenant=t\"\npassword-file = \"secret\"\n"
    );
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("secret"), "the-token\n").unwrap();
    let clock = std::sync::Arc::new(evertally_server::clock::ManualClock::at(
        evertally_declare::steps::Instant::from_micros(START),
    ));
    let mut server = Server::on(folder, clock, "", &format!("{sink}{STREAMS}")).unwrap();
    server.operate = server.token("operate");
    let next = || requests.recv_timeout(Duration::from_secs(20)).unwrap();
    hand(&server, 1);
    let (asked, first, headers, refused) = next();
    assert!(first.starts_with("POST /write HTTP/1.1"), "{first}");
    for (name, value) in [
        ("authorization", "Bearer the-token"),
        ("x-scope-orgid", "t"),
        ("content-encoding", "snappy"),
        ("content-type", "application/x-protobuf"),
        ("x-prometheus-remote-write-version", "0.1.0"),
    ] {
        assert!(headers.iter().any(|own| own == &(name.to_owned(), value.to_owned())), "{name}: {headers:?}");
    }
    let (again, _, _, accepted) = next();
    assert!(again - asked >= Duration::from_millis(950), "the pause that was asked for");
    assert_eq!(refused, accepted);
    let end = |step: i64| (START + step * HOUR) / 1000;
    let value: f64 = values(&server, "hand")[0].parse().unwrap();
    assert_eq!(accepted[0], format!("__name__=evertally_released_value,stream=hand {value} {}", end(1)));
    assert_eq!(accepted.last(), Some(&format!("__name__=evertally_released_step,stream=hand 1 {}", end(1))));
    assert_eq!(accepted.len(), 5);
    // A time that the receiver will never accept is passed over.
    hand(&server, 2);
    assert!(next().3[0].ends_with(&format!(" {}", end(2))));
    hand(&server, 3);
    assert!(next().3[0].ends_with(&format!(" {}", end(3))));
    wait_for(&server, 3);
    // Other refusals wait for the operator.
    hand(&server, 4);
    wait(&server, "refused", |written, problem| {
        written == 3 && problem.is_some_and(|why| why.contains("status 401, no"))
    });
}

#[test]
fn sinks_that_cannot_work_are_refused() {
    let with = |sink: &str| {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("serve.toml"), "").unwrap();
        let clock = std::sync::Arc::new(evertally_server::clock::ManualClock::at(
            evertally_declare::steps::Instant::from_micros(crate::server::START),
        ));
        Server::on(folder, clock, "", &format!("{sink}{STREAMS}")).err().unwrap()
    };
    for (sink, why) in [
        ("[[sink]]\nstream = \"none\"\nto = \"file:///x/\"\n", "`none`, which does not exist"),
        ("[[sink]]\nstream = \"hand\"\nto = \"mqtt://h/x\"\n", "choose postgresql"),
        ("[[sink]]\nstream = \"hand\"\nto = \"s3://bucket\"\n", "end it with a slash"),
        ("[[sink]]\nstream = \"hand\"\nto = \"prometheus+https://u@h\"\n", "name it in password-file"),
        (
            "[[sink]]\nstream = \"hand\"\nto = \"prometheus+http://h\"\nauthority = \"ca\"\n",
            "write prometheus+https://",
        ),
        ("[[sink]]\nstream = \"hand\"\nto = \"postgresql://a:secret@h/d?table=t\"\n", "password"),
    ] {
        let refused = with(sink);
        assert!(refused.contains(why) && !refused.contains("secret"), "{refused}");
    }
    let mut server = Server::new();
    server.more += &"[[sink]]\nstream = \"hand\"\nto = \"file:///x/\"\n".repeat(2);
    assert!(server.try_config().unwrap_err().contains("configured twice"));
}

/// Both ways are encrypted, and the other side knows the service by its certificate.
#[test]
fn feeds_and_sinks_use_their_certificates() {
    let postgres = Postgres::new();
    let data = PathBuf::from(postgres.data());
    authority(&data, "ca");
    certificate(&data, "ca", "server", "DNS:localhost");
    certificate(&data, "ca", "service", "DNS:service.example");
    drop(Command::new("chown").arg("postgres").arg(data.join("server.key")).output()); // only root needs to
    let rules = "hostssl all service all trust clientcert=verify-ca\nhost all postgres all trust\n";
    std::fs::write(data.join("pg_hba.conf"), rules).unwrap();
    postgres.sql("CREATE ROLE service SUPERUSER LOGIN");
    let id = "id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY";
    postgres.sql(&format!("CREATE TABLE visits ({id}, time timestamptz, \"group\" text)"));
    let values = "('2026-01-01T00:10:00Z', 'a'), ('2026-01-01T00:20:00Z', 'a')";
    postgres.sql(&format!("INSERT INTO visits (time, \"group\") VALUES {values}"));
    let files = ["ssl_ca_file = 'ca.pem'", "ssl_cert_file = 'server.pem'", "ssl_key_file = 'server.key'"];
    for setting in files.into_iter().chain(["ssl = on"]) {
        postgres.sql(&format!("ALTER SYSTEM SET {setting}"));
    }
    postgres.sql("SELECT pg_reload_conf()");
    let url = format!("postgresql://service@localhost:{}/postgres?sslmode=verify-full", postgres.port);
    let shown = |name: &str| data.join(name).display().to_string();
    let tls = format!(
        "authority = \"{}\"\ncertificate = \"{}\"\ncertificate-key = \"{}\"\n",
        shown("ca.pem"),
        shown("service.pem"),
        shown("service.key")
    );
    let feed = format!("[[feed]]\nstream = \"open\"\nfrom = \"{url}&table=visits&order-by=id\"\n{tls}");
    let sink = format!("[[sink]]\nstream = \"hand\"\nto = \"{url}&table=releases\"\n{tls}");
    let mut server = Server::with("", &format!("{feed}{sink}{STREAMS}"));
    server.at(0, 3000);
    hand(&server, 1);
    wait_for(&server, 1);
    let until = Instant::now() + Duration::from_secs(30);
    while server.events("open") < 2 {
        assert!(Instant::now() < until, "{}", server.get("/v1/operator").json()["problems"]);
        std::thread::sleep(Duration::from_millis(20));
    }
    let ssl = "SELECT DISTINCT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE usename = 'service'";
    assert_eq!(postgres.sql(ssl).trim(), "t");
    // Another authority: neither side sends anything.
    authority(&data, "other");
    server.stop();
    server.change(&shown("ca.pem"), &shown("other.pem"));
    server.start().unwrap();
    hand(&server, 2);
    wait(&server, "refused", |_, problem| problem.is_some_and(|why| why.contains("certificate")));
    assert_eq!(postgres.sql("SELECT count(*) FROM releases").trim(), "1");
}
