//! URLs of topics.

use super::connection::SaslMechanism;
use super::scram::Hash;
use crate::tls::Encryption;
use crate::{Address, SourceOptions};
use evertally_declare::error::{Result, usage};

const PORT: u16 = 9092;
const PARAMETERS: [&str; 3] = ["sasl", "start", "tls"];

/// What a URL and its options say.
#[derive(Clone, Debug)]
pub(crate) struct KafkaConfig {
    pub(super) hosts: Vec<(String, u16)>,
    pub(super) user: Option<String>,
    pub(super) sasl: Option<SaslMechanism>,
    pub(super) encryption: Encryption,
    pub(super) topic: String,
    pub(super) starts_at_latest: bool,
    pub(super) options: SourceOptions,
}

impl KafkaConfig {
    pub(crate) fn new(mut address: Address, options: &SourceOptions) -> Result<Self> {
        let topic = address.path.clone();
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        if topic.is_empty() || topic.len() > 249 || !topic.bytes().all(is_letter) {
            return Err(usage("the URL has no name of a topic; write kafka://HOST:9092/TOPIC"));
        }
        if address.hosts.is_empty() {
            return Err(usage("the URL names no broker; write kafka://HOST:9092/TOPIC"));
        }
        let sasl = match address.query.take("sasl")?.as_deref() {
            Some("plain") => Some(SaslMechanism::Plain),
            Some("scram-sha-256") => Some(SaslMechanism::Scram(Hash::Sha256)),
            Some("scram-sha-512") => Some(SaslMechanism::Scram(Hash::Sha512)),
            Some(other) => {
                let known = "choose plain, scram-sha-256 or scram-sha-512";
                return Err(usage(format!("the parameter `sasl` of the URL is `{other}`; {known}")));
            }
            None => None,
        };
        let encryption = Encryption::of(&mut address, options, sasl != Some(SaslMechanism::Plain))?;
        if address.user.is_some() != sasl.is_some() {
            return Err(usage(
                "a user and a mechanism belong together; write kafka://USER@HOST:9092/TOPIC?sasl=scram-sha-512",
            ));
        }
        if sasl.is_some() && options.password_file.is_none() {
            return Err(usage("the source needs a password; write it to a file, and name that with --password-file"));
        }
        let starts_at_latest = match address.query.take("start")?.as_deref() {
            None | Some("earliest") => false,
            Some("latest") => true,
            Some(other) => {
                return Err(usage(format!("the parameter `start` of the URL is `{other}`; choose earliest or latest")));
            }
        };
        address.query.refuse_others(&PARAMETERS)?;
        Ok(Self {
            hosts: address.hosts.into_iter().map(|(host, port)| (host, port.unwrap_or(PORT))).collect(),
            user: address.user,
            sasl,
            encryption,
            topic,
            starts_at_latest,
            options: options.clone(),
        })
    }

    pub(super) fn shown(&self) -> String {
        let hosts: Vec<String> = self.hosts.iter().map(|(host, port)| format!("{host}:{port}")).collect();
        format!("kafka://{}/{}", hosts.join(","), self.topic)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(url: &str) -> Result<KafkaConfig> {
        let options = SourceOptions { password_file: Some("/tmp/password".into()), ..SourceOptions::default() };
        KafkaConfig::new(Address::parse(url)?, &options)
    }

    #[test]
    fn urls() {
        let valid = config("kafka://feeder@b1,b2:93/visits?tls=true&sasl=scram-sha-256&start=latest").expect("valid");
        assert_eq!(valid.hosts, [("b1".to_owned(), 9092), ("b2".to_owned(), 93)]);
        assert!(
            valid.encryption.is_on()
                && valid.starts_at_latest
                && valid.sasl == Some(SaslMechanism::Scram(Hash::Sha256))
        );
        assert_eq!(valid.shown(), "kafka://b1:9092,b2:93/visits");
        for (url, why) in [
            ("kafka://b1", "name of a topic"),
            ("kafka://b1/a/b", "name of a topic"),
            ("kafka:///visits", "names no broker"),
            ("kafka://b1/visits?sasl=plain&tls=true", "belong together"),
            ("kafka://feeder@b1/visits", "belong together"),
            ("kafka://feeder@b1/visits?sasl=gssapi", "`gssapi`"),
            ("kafka://b1/visits?start=5", "earliest or latest"),
            ("kafka://b1/visits?group=x", "no parameter `group`"),
        ] {
            let error = config(url).expect_err(url).to_string();
            assert!(error.contains(why), "{url}: {error}");
        }
        let address = Address::parse("kafka://feeder@b1/visits?sasl=plain").expect("valid");
        assert!(KafkaConfig::new(address, &SourceOptions::default()).is_err());
    }
}
