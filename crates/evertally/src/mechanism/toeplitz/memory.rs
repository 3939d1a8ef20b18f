//! Common code of recurrence cursors: pairs of fixed-point states, of the data and of the protected integers.

use crate::number::wide::Wide;

/// Pairs of states and a sum, as saved by a cursor: `64 n + 32` bytes.
pub(in crate::mechanism) fn to_bytes(pairs: &[(Wide, Wide)], sum: Wide) -> Vec<u8> {
    let states = pairs.iter().flat_map(|(data, noisy)| [*data, *noisy]);
    states.chain([sum]).flat_map(|wide| wide.to_bytes()).collect()
}

/// Reads [`to_bytes`] back into as many pairs, and returns the sum and the remaining bytes; `None` if the remainder is
/// not `rest` bytes long.
pub(in crate::mechanism) fn from_bytes<'a>(
    bytes: &'a [u8],
    pairs: &mut [(Wide, Wide)],
    rest: usize,
) -> Option<(Wide, &'a [u8])> {
    let (parts, rest) = bytes.split_at_checked(bytes.len().checked_sub(rest)?)?;
    if parts.len() != (2 * pairs.len() + 1) * Wide::BYTES {
        return None;
    }
    let mut parts = parts.chunks_exact(Wide::BYTES).map(|part| Wide::from_bytes(part.try_into().expect("32 bytes")));
    let mut next = || parts.next().expect("counted above");
    for (data, noisy) in pairs {
        (*data, *noisy) = (next(), next());
    }
    Some((next(), rest))
}
