//! Connections with brokers.

use super::KafkaConfig;
use super::messages::{api, is_flexible, name_of, read_versions};
use super::scram::{Hash, Scram};
use super::wire::{RequestWriter, ResponseReader};
use crate::SourceError;
use crate::SourceOutcome;
use crate::dial::password;
use crate::tls::explained;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use evertally_declare::error::usage;
use ring::rand::SecureRandom;
use rustls_pki_types::ServerName;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufStream};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long a connection, and an answer, may take.
pub(super) const TIMEOUT: Duration = Duration::from_secs(8);
/// The most bytes of an answer.
const MAX_ANSWER_BYTES: usize = 1 << 28;

trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send + Sync {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send + Sync> ByteStream for T {}

/// How the user is authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SaslMechanism {
    Plain,
    Scram(Hash),
}

impl SaslMechanism {
    fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::Scram(Hash::Sha256) => "SCRAM-SHA-256",
            Self::Scram(Hash::Sha512) => "SCRAM-SHA-512",
        }
    }
}

/// A connection, on which one request is open at a time.
pub(super) struct BrokerConnection {
    stream: BufStream<Box<dyn ByteStream>>,
    number: i32,
    versions: Vec<(i16, i16, i16)>,
}

impl BrokerConnection {
    /// Connects and authenticates.
    pub(super) async fn open(config: &KafkaConfig, host: &str, port: u16) -> SourceOutcome<Self> {
        let away = |why: &dyn std::fmt::Display| SourceError::Away(format!("the broker {host}:{port}: {why}"));
        let opened = timeout(TIMEOUT, async {
            let stream = TcpStream::connect((host, port)).await.map_err(|e| away(&e))?;
            let _ = stream.set_nodelay(true);
            let stream: Box<dyn ByteStream> = if let Some(tls) = config.encryption.config()? {
                let name = ServerName::try_from(host.to_owned()).map_err(|e| away(&e))?;
                let connector = tokio_rustls::TlsConnector::from(tls);
                Box::new(connector.connect(name, stream).await.map_err(|e| away(&explained(e)))?)
            } else {
                Box::new(stream)
            };
            let mut connection = Self { stream: BufStream::new(stream), number: 0, versions: Vec::new() };
            let mut reader = connection.request(api::API_VERSIONS, 0, RequestWriter::new(false)).await?;
            connection.versions = read_versions(&mut reader)?;
            if let Some(mechanism) = config.sasl {
                connection.authenticate(config, mechanism).await?;
            }
            Ok(connection)
        });
        match opened.await {
            Ok(Err(SourceError::Away(why))) if !why.contains(host) => Err(away(&why)),
            Ok(outcome) => outcome,
            Err(_) => Err(away(&format!("no answer in {} seconds", TIMEOUT.as_secs()))),
        }
    }

    /// The newest version of a request among some that the broker knows, which are given newest first.
    pub(super) fn version(&self, api: i16, wanted: &[i16]) -> SourceOutcome<i16> {
        let known = self.versions.iter().find(|known| known.0 == api);
        let fits = |version: &&i16| known.is_some_and(|known| (known.1..=known.2).contains(*version));
        let refused = || SourceError::Fault(usage("the broker is too old; Kafka 2.3 or newer is needed"));
        wanted.iter().find(fits).copied().ok_or_else(refused)
    }

    /// Sends a request and waits for its answer.
    pub(super) async fn request(
        &mut self,
        api: i16,
        version: i16,
        body: RequestWriter,
    ) -> SourceOutcome<ResponseReader> {
        let away = |e: std::io::Error| match e.kind() {
            std::io::ErrorKind::UnexpectedEof => SourceError::Away("the broker closed the connection".to_owned()),
            _ => SourceError::Away(format!("the connection failed: {}", explained(e))),
        };
        let flexible = is_flexible(api, version);
        self.number = self.number.wrapping_add(1);
        let mut head = RequestWriter::new(false);
        head.i16(api);
        head.i16(version);
        head.i32(self.number);
        head.string("evertally");
        if flexible {
            head.i8(0);
        }
        let length = (head.bytes.len() + body.bytes.len()) as i32;
        self.stream.write_i32(length).await.map_err(away)?;
        self.stream.write_all(&head.bytes).await.map_err(away)?;
        self.stream.write_all(&body.bytes).await.map_err(away)?;
        self.stream.flush().await.map_err(away)?;
        let length = usize::try_from(self.stream.read_i32().await.map_err(away)?).unwrap_or(usize::MAX);
        if length > MAX_ANSWER_BYTES {
            return Err(SourceError::Away("the broker's answer is too large; is the port right?".to_owned()));
        }
        let mut answer = Vec::new();
        (&mut self.stream).take(length as u64).read_to_end(&mut answer).await.map_err(away)?;
        if answer.len() < length {
            return Err(away(std::io::ErrorKind::UnexpectedEof.into()));
        }
        let mut reader = ResponseReader::new(Bytes::from(answer), flexible);
        if reader.i32()? != self.number {
            return Err(SourceError::Away("the broker's answer is to another request".to_owned()));
        }
        reader.end()?;
        Ok(reader)
    }

    async fn authenticate(&mut self, config: &KafkaConfig, mechanism: SaslMechanism) -> SourceOutcome<()> {
        let password = password(config.options.password_file.as_deref())?
            .ok_or_else(|| usage("the source needs a password; name its file with --password-file"))?;
        let mut writer = RequestWriter::new(false);
        writer.string(mechanism.name());
        let mut reader = self.request(api::SASL_HANDSHAKE, 1, writer).await?;
        if reader.i16()? != 0 {
            let known = reader.array(ResponseReader::string)?.join(", ");
            let name = mechanism.name();
            return Err(
                usage(format!("the broker does not know the mechanism {name}, only {known}; set `sasl`")).into()
            );
        }
        let user = config.user.as_deref().unwrap_or_default();
        match mechanism {
            SaslMechanism::Plain => {
                self.say(format!("\0{user}\0{password}").as_bytes()).await?;
            }
            SaslMechanism::Scram(hash) => {
                let mut nonce = [0; 24];
                let random = ring::rand::SystemRandom::new();
                random.fill(&mut nonce).map_err(|_| SourceError::Away("there is no randomness".to_owned()))?;
                let mut scram = Scram::new(hash, user, BASE64.encode(nonce));
                let challenge = self.say(scram.first().as_bytes()).await?;
                let answer = scram.answer(&challenge, &password).map_err(|why| SourceError::Away(why.to_owned()))?;
                let last = self.say(answer.as_bytes()).await?;
                if !scram.is_proven(&last) {
                    let why = "the broker did not prove that it knows the password; is it the right broker?";
                    return Err(SourceError::Fault(usage(why)));
                }
            }
        }
        Ok(())
    }

    async fn say(&mut self, message: &[u8]) -> SourceOutcome<String> {
        let mut writer = RequestWriter::new(false);
        writer.blob(message);
        let mut reader = self.request(api::SASL_AUTHENTICATE, 0, writer).await?;
        match reader.i16()? {
            0 => {
                reader.string()?;
                Ok(String::from_utf8_lossy(&reader.blob()?).into_owned())
            }
            error => Err(SourceError::Fault(usage(format!("the broker refused the user: {}", name_of(error))))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Address, SourceOptions};
    use tokio::net::TcpListener;

    /// A broker that answers the requests of one connection with some bodies, and returns the requests' bodies.
    async fn broker(listener: TcpListener, answers: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
        let (mut stream, _) = listener.accept().await.expect("a client");
        let mut requests = Vec::new();
        for answer in answers {
            let mut request = vec![0; stream.read_u32().await.expect("a request") as usize];
            stream.read_exact(&mut request).await.expect("a request");
            let mut whole = (answer.len() as u32 + 4).to_be_bytes().to_vec();
            whole.extend_from_slice(&request[4..8]);
            whole.extend(answer);
            stream.write_all(&whole).await.expect("sent");
            requests.push(request[8 + 2 + "evertally".len()..].to_vec());
        }
        requests
    }

    fn answer(error: i16, more: impl FnOnce(&mut RequestWriter)) -> Vec<u8> {
        let mut writer = RequestWriter::new(false);
        writer.i16(error);
        more(&mut writer);
        writer.bytes
    }

    async fn connect(mechanism: &str, answers: Vec<Vec<u8>>) -> (SourceOutcome<()>, Vec<Vec<u8>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let folder = tempfile::tempdir().expect("a folder");
        let password = folder.path().join("password");
        std::fs::write(&password, "pen=cil\n").expect("written");
        let options = SourceOptions { password_file: Some(password), ..SourceOptions::default() };
        let url = format!("kafka://feeder@127.0.0.1/visits?sasl={mechanism}");
        let config = KafkaConfig::new(Address::parse(&url).expect("valid"), &options).expect("valid");
        let server = tokio::spawn(broker(listener, answers));
        let opened = BrokerConnection::open(&config, "127.0.0.1", port).await.map(|_| ());
        (opened, server.await.expect("all requests came"))
    }

    #[tokio::test]
    async fn users_are_authenticated_or_refused() {
        let versions = || answer(0, |writer| writer.array(0));
        let plain = || answer(0, |writer| writer.array(0));
        let accepted = answer(0, |writer| {
            writer.string("");
            writer.blob(b"");
        });
        let (outcome, requests) = connect("plain", vec![versions(), plain(), accepted]).await;
        assert!(outcome.is_ok());
        assert_eq!(requests[1], b"\0\x05PLAIN");
        assert_eq!(requests[2], b"\0\0\0\x0f\0feeder\0pen=cil");

        let refused = answer(58, |writer| writer.string("no"));
        let (outcome, _) = connect("plain", vec![versions(), plain(), refused]).await;
        let Err(SourceError::Fault(error)) = outcome else { panic!("it is refused") };
        let text = error.to_string();
        assert!(text.contains("the user or the password is wrong") && !text.contains("pen"), "{text}");

        let unknown = answer(33, |writer| {
            writer.array(1);
            writer.string("SCRAM-SHA-512");
        });
        let (outcome, _) = connect("plain", vec![versions(), unknown]).await;
        assert!(matches!(outcome, Err(SourceError::Fault(error)) if error.to_string().contains("only SCRAM-SHA-512")));

        // A broker that does not know the password cannot continue the exchange.
        let challenge = answer(0, |writer| {
            writer.string("");
            writer.blob(b"r=other,s=AAAA,i=4096");
        });
        let (outcome, requests) = connect("scram-sha-256", vec![versions(), plain(), challenge]).await;
        assert!(outcome.is_err() && requests[2][4..].starts_with(b"n,,n=feeder,r="));
    }
}
