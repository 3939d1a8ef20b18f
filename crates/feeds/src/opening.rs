//! Opens sources and sinks by their URLs.

use crate::{Address, Sink, Source, SourceOptions, kafka, mqtt, nats, objects, postgres, redis_streams, remote_write};
use evertally_declare::error::{Result, usage};

/// The schemes of sources, with an example of each, for messages and help.
pub const SCHEMES: [(&str, &str); 11] = [
    ("kafka", "kafka://USER@HOST:9092/TOPIC?sasl=scram-sha-512&tls=true"),
    ("nats", "nats://USER@HOST:4222/STREAM?subject=orders.>&tls=true"),
    ("redis", "redis://HOST/DATABASE?stream=KEY"),
    ("rediss", "rediss://HOST/DATABASE?stream=KEY"),
    ("mqtt", "mqtt://HOST/TOPIC/FILTER/#"),
    ("mqtts", "mqtts://HOST/TOPIC/FILTER/#"),
    ("postgresql", "postgresql://USER@HOST/DB?publication=NAME&slot=NAME, or ?table=TABLE&order-by=COLUMN"),
    ("s3", "s3://BUCKET/FOLDER/"),
    ("gs", "gs://BUCKET/FOLDER/"),
    ("az", "az://CONTAINER/FOLDER/"),
    ("file", "file:///FOLDER/"),
];

/// Opens a source by its URL. Nothing is connected yet.
///
/// # Errors
/// If the URL or a file that it needs is invalid.
pub fn open(url: &str, options: &SourceOptions) -> Result<Box<dyn Source>> {
    let address = Address::parse(url)?;
    match address.scheme.as_str() {
        "kafka" => Ok(Box::new(kafka::Kafka::new(kafka::KafkaConfig::new(address, options)?))),
        "nats" => Ok(Box::new(nats::Nats::new(nats::NatsConfig::new(address, options)?))),
        "redis" | "rediss" => Ok(Box::new(redis_streams::Streams::open(address, options)?)),
        "mqtt" | "mqtts" => Ok(Box::new(mqtt::Subscription::open(address, options)?)),
        "postgresql" | "postgres" => postgres::open(address, options),
        "s3" | "s3a" | "gs" | "az" | "abfs" | "abfss" | "file" => objects::open(url, address, options),
        scheme => {
            let all: Vec<&str> = SCHEMES.iter().map(|(scheme, _)| *scheme).collect();
            Err(usage(format!("`{scheme}` is not a kind of source; choose {}", all.join(", "))))
        }
    }
}

/// The schemes of sinks, with an example of each, for messages and help.
pub const SINK_SCHEMES: [(&str, &str); 8] = [
    ("postgresql", "postgresql://USER@HOST/DB?table=TABLE"),
    ("kafka", "kafka://USER@HOST:9092/TOPIC?sasl=scram-sha-512&tls=true"),
    ("prometheus+https", "prometheus+https://USER@HOST:9090/api/v1/write"),
    ("prometheus+http", "prometheus+http://localhost:9090/api/v1/write"),
    ("s3", "s3://BUCKET/FOLDER/"),
    ("gs", "gs://BUCKET/FOLDER/"),
    ("az", "az://CONTAINER/FOLDER/"),
    ("file", "file:///FOLDER/"),
];

/// Opens a sink of a stream by its URL. Nothing is connected yet.
///
/// # Errors
/// If the URL or a file that it needs is invalid.
pub fn open_sink(url: &str, stream: &str, options: &SourceOptions) -> Result<Box<dyn Sink>> {
    let address = Address::parse(url)?;
    match address.scheme.as_str() {
        "postgresql" | "postgres" => postgres::open_sink(address, stream, options),
        "kafka" => kafka::open_sink(address, stream, options),
        "prometheus+https" | "prometheus+http" => remote_write::open(url, address, options),
        "s3" | "s3a" | "gs" | "az" | "abfs" | "abfss" | "file" => objects::open_sink(url, &address, stream, options),
        scheme => {
            let all: Vec<&str> = SINK_SCHEMES.iter().map(|(scheme, _)| *scheme).collect();
            Err(usage(format!("`{scheme}` is not a kind of sink; choose {}", all.join(", "))))
        }
    }
}
