//! A broker that loses connections, before or after it has stored a record.

use super::*;
use crate::kafka::records::Header;
use crate::kafka::wire::ResponseReader;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What the broker stores of its only partition, and how it fails.
#[derive(Default)]
struct Log {
    batches: Vec<Vec<u8>>,
    /// The next number of each producer.
    sequences: BTreeMap<i64, i32>,
    /// Batches that were sent again and recognised.
    repeated: usize,
    random: u64,
}

impl Log {
    fn below(&mut self, end: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % end
    }

    /// Stores a batch as a broker does: once for each number of a producer.
    fn append(&mut self, batch: &[u8]) -> i16 {
        let producer = Header::parse(batch).expect("whole").producer;
        let sequence = i32::from_be_bytes(batch[53..57].try_into().expect("a number"));
        let next = self.sequences.entry(producer).or_default();
        if sequence < *next {
            self.repeated += 1;
            return 0;
        }
        if sequence > *next {
            return 45;
        }
        *next += 1;
        let mut stored = batch.to_vec();
        stored[..8].copy_from_slice(&(self.batches.len() as i64).to_be_bytes());
        self.batches.push(stored);
        0
    }

    /// The body of the answer to a request.
    fn answer(&mut self, api: i16, port: u16, mut request: ResponseReader) -> SourceOutcome<Vec<u8>> {
        let mut writer = RequestWriter::new(false);
        match api {
            api::API_VERSIONS => {
                writer.i16(0);
                writer.array(5);
                for (api, version) in [(0, 7), (1, 11), (2, 2), (3, 7), (22, 1)] {
                    [api, version, version].into_iter().for_each(|number| writer.i16(number));
                }
            }
            api::METADATA => {
                writer.i32(0);
                writer.array(1);
                writer.i32(1);
                writer.string("127.0.0.1");
                writer.i32(port.into());
                writer.string("");
                writer.string("");
                writer.i32(1);
                writer.array(1);
                writer.i16(0);
                writer.string("releases");
                writer.i8(0);
                writer.array(1);
                writer.i16(0);
                [0, 1, 0].into_iter().for_each(|number| writer.i32(number));
                (0..3).for_each(|_| writer.array(0));
            }
            api::INIT_PRODUCER_ID => {
                writer.i32(0);
                writer.i16(0);
                writer.i64(self.below(1 << 30) as i64);
                writer.i16(0);
            }
            api::PRODUCE => {
                request.string()?;
                request.i16()?;
                request.i32()?;
                let batch = request.array(|topic| {
                    topic.string()?;
                    topic.array(|partition| Ok((partition.i32()?, partition.blob()?)))
                })?;
                let error = self.append(&batch[0][0].1);
                writer.array(1);
                writer.string("releases");
                writer.array(1);
                writer.i32(0);
                writer.i16(error);
                (0..3).for_each(|_| writer.i64(0));
                writer.i32(0);
            }
            api::LIST_OFFSETS => {
                request.i32()?;
                request.i8()?;
                let asked = request.array(|topic| {
                    topic.string()?;
                    topic.array(|partition| Ok((partition.i32()?, partition.i64()?)))
                })?;
                writer.i32(0);
                writer.array(1);
                writer.string("releases");
                writer.array(1);
                writer.i32(0);
                writer.i16(0);
                writer.i64(0);
                writer.i64(if asked[0][0].1 == LATEST { self.batches.len() as i64 } else { 0 });
            }
            _ => {
                (0..4).try_for_each(|_| request.i32().map(drop))?;
                request.i8()?;
                request.i32()?;
                request.i32()?;
                let asked = request.array(|topic| {
                    topic.string()?;
                    topic.array(|asked| {
                        let offset = (asked.i32()?, asked.i32()?, asked.i64()?).2;
                        asked.i64()?;
                        asked.i32()?;
                        Ok(offset)
                    })
                })?;
                writer.i32(0);
                writer.i16(0);
                writer.i32(0);
                writer.array(1);
                writer.string("releases");
                writer.array(1);
                writer.i32(0);
                writer.i16(0);
                (0..3).for_each(|_| writer.i64(0));
                writer.array(0);
                writer.i32(-1);
                // A few batches at a time.
                let from = self.batches.iter().skip(asked[0][0] as usize).take(30);
                writer.blob(&from.flatten().copied().collect::<Vec<u8>>());
            }
        }
        Ok(writer.bytes)
    }
}

/// Answers the requests of a connection until it fails.
async fn answer(mut stream: TcpStream, port: u16, log: Arc<Mutex<Log>>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    loop {
        let mut request = vec![0; stream.read_u32().await? as usize];
        stream.read_exact(&mut request).await?;
        let api = i16::from_be_bytes([request[0], request[1]]);
        let body = ResponseReader::new(Bytes::copy_from_slice(&request[10 + "evertally".len()..]), false);
        let answer = {
            let mut log = log.lock().expect("no panic");
            let fails = log.below(if api == api::PRODUCE { 5 } else { 60 });
            if fails == 0 {
                return Ok(());
            }
            let answer = log.answer(api, port, body).expect("a request");
            if fails == 1 {
                return Ok(());
            }
            answer
        };
        let length = (answer.len() as u32 + 4).to_be_bytes();
        stream.write_all(&[&length[..], &request[4..8], &answer[..]].concat()).await?;
    }
}

/// The writer also ends after errors, and another one continues.
#[tokio::test]
async fn each_publication_is_one_record() {
    const PUBLICATIONS: u64 = 200;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let log = Arc::new(Mutex::new(Log { random: 11, ..Log::default() }));
    let stored = Arc::clone(&log);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, port, Arc::clone(&stored)));
        }
    });
    let url = format!("kafka://127.0.0.1:{port}/releases");
    let sink = |stream: &str| crate::open_sink(&url, stream, &SourceOptions::default()).expect("valid");
    let (mut own, mut other, mut written) = (sink("visits"), sink("sales"), 0);
    while written < PUBLICATIONS {
        if log.lock().expect("no panic").below(20) == 0 {
            own = sink("visits");
        }
        // Records of another stream are in the same partition.
        if other.last().await.is_ok() {
            drop(other.write(None, b"{}", "1 x").await);
        }
        let Ok(last) = own.last().await else { continue };
        let found = last.map_or(0, |last| last.split(' ').next().and_then(|n| n.parse().ok()).expect("a number"));
        assert!((written..=written + 1).contains(&found), "{found} after {written}");
        written = found;
        while own.write(None, b"{}", &format!("{} ab", written + 1)).await.is_ok() {
            written += 1;
        }
    }
    let log = log.lock().expect("no panic");
    let mut positions = Vec::new();
    for batch in &log.batches {
        let batch = Bytes::copy_from_slice(batch);
        let mut records = BatchRecords::open(Header::parse(&batch).expect("whole"), &batch).expect("valid");
        assert!(records.advance().expect("a record"));
        if records.current().expect("valid").key == Some(b"visits") {
            positions.push(
                String::from_utf8_lossy(records.header(HEADER).expect("valid").expect("a position")).into_owned(),
            );
        }
    }
    let expected: Vec<String> = (1..=positions.len()).map(|number| format!("{number} ab")).collect();
    assert_eq!(positions, expected);
    // The result of the last one may be unknown.
    assert!((written..=written + 1).contains(&(positions.len() as u64)), "{written}");
    assert!(log.repeated > 20, "only {} batches were sent again", log.repeated);
}
