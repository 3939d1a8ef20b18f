//! Samples, and requests with them.

use evertally_declare::error::{Result, failure};

/// The most bytes and samples of a request before compression, about.
const MAX_BYTES: usize = 1 << 20;
const MAX_SAMPLES: usize = 5000;

/// Bytes before each series: its time, and its length.
const HEAD: usize = 12;

/// Samples of Prometheus, each with its series, in the encoding of remote write.
#[derive(Debug, Default)]
pub struct Samples(Vec<u8>);

impl Samples {
    /// Adds a sample at a time in milliseconds since 1970. Labels without a value are omitted, as Prometheus does.
    pub fn add(&mut self, name: &str, labels: &[(&str, &str)], value: f64, millis: i64) {
        let mut labels: Vec<(&str, &str)> = labels.iter().copied().filter(|(_, value)| !value.is_empty()).collect();
        labels.push(("__name__", name));
        labels.sort_unstable();
        let mut series = Vec::new();
        for (label, value) in labels {
            let mut encoded = Vec::with_capacity(label.len() + value.len() + 12);
            bytes_field(&mut encoded, 1, label.as_bytes());
            bytes_field(&mut encoded, 2, value.as_bytes());
            bytes_field(&mut series, 1, &encoded);
        }
        let mut sample = vec![1 << 3 | 1];
        sample.extend(value.to_le_bytes());
        sample.push(2 << 3);
        varint(&mut sample, millis.cast_unsigned());
        bytes_field(&mut series, 2, &sample);
        self.0.extend(millis.to_le_bytes());
        self.0.extend((series.len() as u32).to_le_bytes()); // fits: names of groups have far fewer bytes
        self.0.extend(series);
    }

    /// The samples as bytes, for [a sink](crate::SinkContent::Samples).
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// Compressed requests with samples. All samples of a request have the same time, so that a receiver that refuses a
/// time refuses no other samples with it.
pub(super) fn requests(mut samples: &[u8]) -> Result<Vec<Vec<u8>>> {
    let invalid = || failure("samples are not encoded as expected");
    let (mut requests, mut request, mut count, mut last) = (Vec::new(), Vec::new(), 0, None);
    let mut finish = |request: &mut Vec<u8>| -> Result<()> {
        if !request.is_empty() {
            requests.push(snap::raw::Encoder::new().compress_vec(request).map_err(failure)?);
            request.clear();
        }
        Ok(())
    };
    while !samples.is_empty() {
        let (head, rest) = samples.split_first_chunk::<HEAD>().ok_or_else(invalid)?;
        let (time, length) = head.split_at(8);
        let length = u32::from_le_bytes(length.try_into().map_err(failure)?) as usize;
        let (series, rest) = rest.split_at_checked(length).ok_or_else(invalid)?;
        if last != Some(time) || request.len() + length > MAX_BYTES || count == MAX_SAMPLES {
            finish(&mut request)?;
            count = 0;
        }
        bytes_field(&mut request, 1, series);
        (samples, count, last) = (rest, count + 1, Some(time));
    }
    finish(&mut request)?;
    Ok(requests)
}

fn bytes_field(into: &mut Vec<u8>, number: u8, content: &[u8]) {
    into.push(number << 3 | 2);
    varint(into, content.len() as u64);
    into.extend(content);
}

fn varint(into: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        into.push(number as u8 | 0x80);
        number >>= 7;
    }
    into.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(samples: Samples) -> Vec<Vec<u8>> {
        let requests = requests(&samples.into_bytes()).expect("valid");
        requests.iter().map(|request| snap::raw::Decoder::new().decompress_vec(request).expect("snappy")).collect()
    }

    /// Decoded by hand from the definition of the messages.
    #[test]
    fn a_sample_is_encoded_as_specified() {
        let mut samples = Samples::default();
        samples.add("m", &[("b", "2"), ("A", "1"), ("none", "")], 1.5, 300);
        let expected = [
            &[0x0a, 0x2d][..],
            &[0x0a, 0x06, 0x0a, 1, b'A', 0x12, 1, b'1'],
            b"\x0a\x0d\x0a\x08__name__\x12\x01m",
            &[0x0a, 0x06, 0x0a, 1, b'b', 0x12, 1, b'2'],
            &[0x12, 0x0c, 0x09, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f, 0x10, 0xac, 0x02],
        ];
        let expected: Vec<u8> = expected.concat();
        assert_eq!(expected[1] as usize, expected.len() - 2);
        assert_eq!(decoded(samples), [expected]);
    }

    #[test]
    fn requests_have_one_time_and_are_small() {
        let mut samples = Samples::default();
        for (millis, count) in [(1, 3), (2, MAX_SAMPLES + 1), (1, 1)] {
            (0..count).for_each(|_| samples.add("m", &[], 0.0, millis));
        }
        samples.add("m", &[("long", &"x".repeat(MAX_BYTES))], 0.0, 1);
        let lengths: Vec<usize> = decoded(samples).iter().map(Vec::len).collect();
        let one = lengths[0] / 3;
        assert_eq!(&lengths[..4], [3 * one, MAX_SAMPLES * one, one, one]);
        assert_eq!(lengths.len(), 5);
        assert!(requests(b"").expect("valid").is_empty());
        assert!(requests(&[0; 11]).is_err() && requests(&[1; 20]).is_err());
    }
}
