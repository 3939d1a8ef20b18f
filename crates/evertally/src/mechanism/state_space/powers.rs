//! `1 - θ^n` of all poles at once, from a table of powers by the digits of `n`.

use super::response::BufferRow;
use crate::mechanism::state_space::response::{Modes, joined};

/// Bits of a digit.
const BITS: u32 = 5;
/// Number of digits.
const BASE: u64 = 1 << BITS;

/// `1 - θ_i^(digit · 32^place)`, in the order of places and digits. One `expm1` per pole would take several times as
/// long.
#[derive(Clone)]
pub(in crate::mechanism) struct Powers(Vec<BufferRow>);

impl Powers {
    /// For `n` up to the longest.
    pub(in crate::mechanism) fn new(modes: &Modes, longest: u64) -> Self {
        let places = (u64::BITS - longest.leading_zeros()).div_ceil(BITS);
        let entry = |place: u32, digit: u64| modes.decayed((digit << (place * BITS)) as f64);
        Self((0..places).flat_map(|place| (0..BASE).map(move |digit| entry(place, digit))).collect())
    }

    /// `1 - θ_i^n`: products of powers, held by their differences from 1, so that their relative errors add.
    pub(in crate::mechanism) fn decayed(&self, n: u64) -> BufferRow {
        let mut decayed = self.0[(n % BASE) as usize];
        let (mut rest, mut place) = (n / BASE, BASE);
        while rest > 0 {
            let more = &self.0[(place + rest % BASE) as usize];
            decayed = std::array::from_fn(|i| joined(decayed[i], more[i]));
            (rest, place) = (rest / BASE, place + BASE);
        }
        decayed
    }
}
