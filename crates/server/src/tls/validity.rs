//! When a certificate expires: the one field of X.509 that an operator has to know, read from its DER (RFC 5280).

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// The next element: its tag, its content, and the rest.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, first, rest) = (*der.first()?, usize::from(*der.get(1)?), der.get(2..)?);
    let (length, rest) = match first {
        0..=0x7f => (first, rest),
        0x81..=0x84 => {
            let (bytes, rest) = rest.split_at_checked(first - 0x80)?;
            (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// The content of the next element, which must have this tag; and the rest.
fn expect(der: &[u8], expected: u8) -> Option<(&[u8], &[u8])> {
    element(der).filter(|(tag, ..)| *tag == expected).map(|(_, content, rest)| (content, rest))
}

/// The end of the validity of a certificate, in seconds since 1970.
pub(super) fn not_after(der: &[u8]) -> Option<i64> {
    let (certificate, _) = expect(der, SEQUENCE)?;
    let (signed, _) = expect(certificate, SEQUENCE)?;
    let after_version = expect(signed, VERSION).map_or(signed, |(_, rest)| rest);
    let (_, after_serial) = expect(after_version, INTEGER)?;
    let (_, after_algorithm) = expect(after_serial, SEQUENCE)?;
    let (_, after_issuer) = expect(after_algorithm, SEQUENCE)?;
    let (validity, _) = expect(after_issuer, SEQUENCE)?;
    let (_, _, after_begin) = element(validity)?;
    let (tag, text, _) = element(after_begin)?;
    let text = std::str::from_utf8(text).ok()?;
    let text = match tag {
        // Years of two digits are those from 1950 to 2049.
        UTC_TIME => format!("{}{text}", if text.get(..2)? < "50" { "20" } else { "19" }),
        GENERALIZED_TIME => text.to_owned(),
        _ => return None,
    };
    let time = DateTime::strptime("%Y%m%d%H%M%SZ", text).ok()?;
    Some(time.to_zoned(TimeZone::UTC).ok()?.timestamp().as_second())
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    /// Of OpenSSL, for 30 days.
    const CERTIFICATE: &str = "\
        MIIBfTCCASOgAwIBAgIUD4Ecj17hoBv91JdUJcw7sOzx0lswCgYIKoZIzj0EAwIwFDESMBAGA1UEAwwJbG9jYWxob3N0MB4X\
        DTI2MTEyNzA5NDI1MFoXDTI2MTIyNzA5NDI1MFowFDESMBAGA1UEAwwJbG9jYWxob3N0MFkwEwYHKoZIzj0CAQYIKoZIzj0D\
        AQcDQgAEbHfKuFRyDsnKbmMYqBxZE3antb84jKqexz8Jm6h+hp3RfwU3BbhwgfdWU4uEp5NvoxL8RHP1wymI0GzuRCLom6NT\
        MFEwHQYDVR0OBBYEFJaFab5oKSKd4e54IS2bvdmwaaEFMB8GA1UdIwQYMBaAFJaFab5oKSKd4e54IS2bvdmwaaEFMA8GA1Ud\
        EwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDSAAwRQIhAIuITLSnncgZBTHF/Qc4EZAhWgVa5bW9oHaPxY6Y8TkPAiACYugB48ro\
        NIREZnCodIg7zacrTtaqbygkaRZnUhTd2A==";

    #[test]
    fn the_end_of_a_certificate_is_read() {
        let der = STANDARD.decode(CERTIFICATE).unwrap();
        assert_eq!(not_after(&der), Some(1_798_364_570));
        for end in 0..der.len() {
            assert_eq!(not_after(&der[..end]), None, "a part of it");
        }
        assert_eq!(not_after(b"\x30\x84\xff\xff\xff\xff"), None);
    }
}
