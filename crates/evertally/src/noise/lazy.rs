//! Uniform real numbers whose digits are drawn only if a result depends on them.
//!
//! Every exact law here is a function of such numbers, and every decision ("is U less than this?", "which integer part
//! has a·U?") is a statement about real numbers. The digits drawn so far decide it if they suffice; otherwise more
//! digits are drawn. So it does not matter *how* it is computed: the 64-bit arithmetic of the usual case and the big
//! integers of the rare case give the same value from the same bits.
//!
//! Digits: 16 bits first, then words of 64 bits. Two numbers differ in the first digit with probability 1 − 2⁻¹⁶.

use evertally_kernels::FirstBlocks;
use num_bigint::BigUint;

use super::RandomBits;

/// A uniform number U in [0, 1), known up to its drawn digits.
#[derive(Clone, Debug)]
pub(super) struct LazyUniform {
    first: u16,
    second: Option<u64>,
    /// Further digits: drawn with a probability of about 2⁻⁸⁰ times the scale.
    more: Vec<u64>,
}

impl LazyUniform {
    #[inline]
    pub(super) fn draw(bits: &mut impl RandomBits) -> Self {
        Self::from_first(bits.next_u16())
    }

    #[inline]
    pub(super) fn from_first(first: u16) -> Self {
        Self { first, second: None, more: Vec::new() }
    }

    /// The first digit.
    #[inline]
    pub(super) fn first(&self) -> u16 {
        self.first
    }

    /// Digit `i` after the first.
    fn digit(&mut self, i: usize, bits: &mut impl RandomBits) -> u64 {
        let second = *self.second.get_or_insert_with(|| bits.next_u64());
        match i.checked_sub(1) {
            None => second,
            Some(i) => {
                while self.more.len() <= i {
                    self.more.push(bits.next_u64());
                }
                self.more[i]
            }
        }
    }

    /// Is this number less than `other`?
    fn less_than(&mut self, other: &mut Self, bits: &mut impl RandomBits) -> bool {
        if self.first != other.first {
            return self.first < other.first;
        }
        // Equal with probability 0, so this ends.
        let mut i = 0;
        loop {
            let (theirs, ours) = (other.digit(i, bits), self.digit(i, bits));
            if ours != theirs {
                return ours < theirs;
            }
            i += 1;
        }
    }

    /// Is this number less than `numerator / denominator`, which is in [0, 1)?
    #[cold]
    #[inline(never)]
    pub(super) fn less_than_ratio(
        &mut self,
        numerator: &BigUint,
        denominator: &BigUint,
        bits: &mut impl RandomBits,
    ) -> bool {
        let shifted = numerator << 16u32;
        let mut theirs = &shifted / denominator;
        let mut rest = shifted % denominator;
        let mut ours = u64::from(self.first);
        let mut i = 0;
        loop {
            match BigUint::from(ours).cmp(&theirs) {
                std::cmp::Ordering::Less => return true,
                std::cmp::Ordering::Greater => return false,
                // The ratio ends here, and U is at least its digits so far.
                std::cmp::Ordering::Equal if rest == BigUint::ZERO => return false,
                std::cmp::Ordering::Equal => {
                    let shifted = rest << 64u32;
                    theirs = &shifted / denominator;
                    rest = shifted % denominator;
                    ours = self.digit(i, bits);
                    i += 1;
                }
            }
        }
    }

    /// Is this number less than an irrational number f in [0, 1), given by ⌊2^places · f⌋?
    #[cold]
    #[inline(never)]
    pub(super) fn less_than_digits(&mut self, digits: impl Fn(u64) -> BigUint, bits: &mut impl RandomBits) -> bool {
        let mut ours = BigUint::from(self.first);
        // Equal to the end with probability 0, so this ends.
        for i in 0.. {
            match ours.cmp(&digits(16 + 64 * i)) {
                std::cmp::Ordering::Less => return true,
                std::cmp::Ordering::Greater => return false,
                std::cmp::Ordering::Equal => ours = (ours << 64u32) + self.digit(i as usize, bits),
            }
        }
        unreachable!("the loop never ends")
    }

    /// ⌊factor · U⌋, from as few digits as suffice.
    #[inline]
    pub(super) fn floor_of_product(&mut self, factor: u64, bits: &mut impl RandomBits) -> u64 {
        // With n digits' bits known, factor · U is in [product, product + factor) / 2^n: certain unless that range
        // crosses a whole number.
        if factor <= 1 << 16 && self.second.is_none() {
            // Less than 2^16 · 2^16.
            let product = u64::from(self.first) * factor;
            if (product & 0xffff) + factor <= 1 << 16 {
                return product >> 16;
            }
        }
        // 64 of the 80 bits; if they are not enough, the general method uses all.
        let prefix = u64::from(self.first) << 48 | self.digit(0, bits) >> 16;
        let product = u128::from(prefix) * u128::from(factor);
        match (product as u64).checked_add(factor) {
            Some(_) => (product >> 64) as u64,
            // ⌊factor · U⌋ < factor < 2^64.
            None => u64::try_from(self.floor_of_big_product(&factor.into(), bits)).expect("less than the factor"),
        }
    }

    /// ⌊factor · U⌋ for a factor of any size.
    #[cold]
    #[inline(never)]
    pub(super) fn floor_of_big_product(&mut self, factor: &BigUint, bits: &mut impl RandomBits) -> BigUint {
        loop {
            let mut digits = BigUint::from(self.first);
            let mut length = 16u64;
            for &word in self.second.iter().chain(&self.more) {
                digits = (digits << 64u32) + word;
                length += 64;
            }
            let product = digits * factor;
            let whole = &product >> length;
            // The greatest whole number that is less than (product + factor) / 2^length.
            let last = (product + factor - 1u32) >> length;
            if whole == last {
                return whole;
            }
            // The next digit.
            let next = self.second.map_or(0, |_| self.more.len() + 1);
            self.digit(next, bits);
        }
    }

    /// A coin that is true with probability exp(−U), given U.
    ///
    /// Von Neumann's run (Forsythe 1972): draw U₁, U₂, … while U > U₁ > U₂ > …; true if the run has even length.
    /// P(length ≥ n) = Uⁿ/n!, hence P(even) = Σ (−U)ⁿ/n! = exp(−U). On average exp(U) ≤ e numbers are drawn.
    #[inline]
    pub(super) fn bernoulli_exp(&mut self, bits: &mut impl RandomBits) -> bool {
        let mut last = self.first;
        let mut even = true;
        loop {
            let next = bits.next_u16();
            if next > last {
                return even;
            }
            if next == last {
                let next = Self::from_first(next);
                // The run decreases strictly, so `last` is U itself exactly if they have the same first digit. U keeps
                // the digits drawn for it; the other numbers are not used again.
                return if last == self.first {
                    self.finish_run(next, even, bits)
                } else {
                    Self::from_first(last).finish_run(next, even, bits)
                };
            }
            last = next;
            even = !even;
        }
    }

    /// Continues the run of [`bernoulli_exp`](Self::bernoulli_exp) after `next` was drawn to follow `self`.
    #[cold]
    #[inline(never)]
    fn finish_run(&mut self, mut next: Self, mut even: bool, bits: &mut impl RandomBits) -> bool {
        if !next.less_than(self, bits) {
            return even;
        }
        loop {
            even = !even;
            let mut after = Self::draw(bits);
            if !after.less_than(&mut next, bits) {
                return even;
            }
            next = after;
        }
    }
}

/// A coin that is true with probability exp(−1): the run of [`LazyUniform::bernoulli_exp`] that starts from U = 1,
/// which exceeds every number.
#[inline]
pub(super) fn bernoulli_exp_one(bits: &mut impl RandomBits) -> bool {
    !LazyUniform::draw(bits).bernoulli_exp(bits)
}

/// A number E with the standard exponential law, as (⌊E⌋, E − ⌊E⌋).
///
/// Von Neumann: draw U and accept it with probability exp(−U); the result is U plus the number of rejections.
/// Accepted numbers have density exp(−u)/(1 − 1/e), rejections have probability 1/e: together density exp(−(n + u)).
#[inline]
pub(super) fn exponential<const FAST: bool>(bits: &mut impl RandomBits) -> (u64, LazyUniform) {
    if FAST && let Some(found) = exponential_ahead(bits) {
        return found;
    }
    // A count of 2^64 is out of reach: it has probability exp(−2^64).
    let mut whole = 0;
    loop {
        let mut fraction = LazyUniform::draw(bits);
        if fraction.bernoulli_exp(bits) {
            return (whole, fraction);
        }
        whole += 1;
    }
}

/// The same from numbers that are in memory, if their first digits decide; otherwise nothing is read.
#[inline]
fn exponential_ahead(bits: &mut impl RandomBits) -> Option<(u64, LazyUniform)> {
    let bytes: [u8; 2 * COMPARED] = bits.peek()?;
    let words = <[[u8; 8]; 3]>::try_from(bytes.as_chunks().0).ok()?.map(u64::from_le_bytes);
    let [a, b, c] = words;
    // Bit i: whether number i + 1 is less than number i, or equal to it. The number after the last is unknown.
    let (mut falls, mut ties) = (0, 0);
    for (place, numbers, next) in [(0, a, a >> 16 | b << 48), (4, b, b >> 16 | c << 48), (8, c, c >> 16)] {
        let (less, equal) = compared(next, numbers);
        falls |= less << place;
        ties |= equal << place;
    }
    let known = (1 << (COMPARED - 1)) - 1;
    let tie = u32::from(ties & known != 0) << (COMPARED - 1);
    let run = AcceptedRun::find(falls & known | tie)?;
    bits.skip(2 * run.after);
    Some((run.whole, LazyUniform::from_first((words[run.start / 4] >> (16 * (run.start % 4))) as u16)))
}

/// Numbers of 16 bits that are compared at once; more are read once in 31 draws.
const COMPARED: usize = FirstBlocks::COMPARED;

/// The runs of [`exponential`] in a row of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AcceptedRun {
    /// Rejected numbers.
    pub(super) whole: u64,
    /// The place of the accepted number.
    pub(super) start: usize,
    /// The place of the number after the last one read, at most 12.
    pub(super) after: usize,
}

impl AcceptedRun {
    /// The accepted number among the first 12, given their order as [`FirstBlocks::descents`]: `None` if it is not
    /// among them, or if two neighbours are equal (once in 6000 draws).
    ///
    /// The runs are read from a table, because a processor cannot predict their lengths.
    #[inline]
    pub(super) fn find(descents: u32) -> Option<Self> {
        let packed = usize::from(*RUNS.get(descents as usize)?);
        (packed > 0).then_some(Self { whole: packed as u64 >> 8, start: packed >> 4 & 15, after: packed & 15 })
    }
}

/// The fields of a run by the order of its numbers, 4 bits each; 0 if the numbers do not decide.
static RUNS: [u16; 1 << (COMPARED - 1)] = {
    let mut runs = [0; 1 << (COMPARED - 1)];
    let mut falls = 0;
    while falls < runs.len() {
        runs[falls] = packed_run(falls as u32);
        falls += 1;
    }
    runs
};

/// The run that starts from number i is as long as the ones in `falls` from bit i upwards, and the number after it ends
/// it.
const fn packed_run(falls: u32) -> u16 {
    let (mut whole, mut start) = (0, 0);
    loop {
        let end = start + (falls >> start).trailing_ones();
        if end >= COMPARED as u32 - 1 {
            return 0; // number `end + 1` is unknown
        }
        if (end - start).is_multiple_of(2) {
            return (whole << 8 | start << 4 | (end + 2)) as u16; // each below 16
        }
        (whole, start) = (whole + 1, end + 2); // at most 12
    }
}

/// Compares four numbers of 16 bits with four others: bit i of the results states whether number i of `left` is less
/// than, and whether it is equal to, number i of `right`.
#[inline]
fn compared(left: u64, right: u64) -> (u32, u32) {
    const HIGH: u64 = 0x8000_8000_8000_8000;
    let other = left ^ right;
    // The highest bit of each number: whether the rest of the left one is at least the rest of the right one. Nothing
    // is borrowed from the next number.
    let rest = (left | HIGH) - (right & !HIGH);
    let less = (!left & right) | !(other | rest);
    // Likewise: whether the numbers differ in any bit.
    let differ = ((other & !HIGH) + !HIGH) | other;
    // The highest bits of the four numbers, side by side: bit 16 i goes to 48 + i.
    let gathered = |flags: u64| ((flags & HIGH) >> 15).wrapping_mul(0x0001_0002_0004_0008) >> 48 & 0xf;
    (gathered(less) as u32, gathered(!differ) as u32)
}

#[cfg(test)]
mod tests {
    use super::{AcceptedRun, COMPARED, compared, exponential};
    use crate::noise::ScriptedBits;

    /// The table against the runs of numbers one by one, for every order.
    #[test]
    fn runs_are_those_of_single_numbers() {
        for falls in 0..1u32 << (COMPARED - 1) {
            // Numbers in this order: each is above or below all between its neighbours.
            let (mut low, mut high) = (0x8000u16, 0x8000u16);
            let mut numbers = vec![0x8000u16];
            for i in 0..COMPARED - 1 {
                let falls = falls >> i & 1 == 1;
                (low, high) = if falls { (low - 1, high) } else { (low, high + 1) };
                numbers.push(if falls { low } else { high });
            }
            numbers.extend([0xffff, 0x1000, 0x2000, 0x3000, 0x4000, 0x5000]);
            let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
            let mut bits = ScriptedBits::new(bytes);
            let (whole, fraction) = exponential::<false>(&mut bits);
            match AcceptedRun::find(falls) {
                Some(run) => {
                    assert_eq!((run.whole, 2 * run.after), (whole, bits.consumed()), "{falls:b}");
                    assert_eq!(numbers[run.start], fraction.first());
                }
                None => assert!(bits.consumed() > 2 * COMPARED, "{falls:b}"),
            }
            assert_eq!(AcceptedRun::find(falls | 1 << (COMPARED - 1)), None);
        }
    }

    #[test]
    fn four_numbers_are_compared_at_once() {
        let edges = [0u16, 1, 0x7fff, 0x8000, 0x8001, 0xfffe, 0xffff];
        let packed = |numbers: [u16; 4]| numbers.iter().rev().fold(0, |all, number| all << 16 | u64::from(*number));
        for place in 0..edges.len().pow(4) {
            let left = std::array::from_fn(|i| edges[place / edges.len().pow(i as u32) % edges.len()]);
            for turn in 0..edges.len() {
                let right = std::array::from_fn(|i| edges[(place / 3 + i * turn) % edges.len()]);
                let want = |by: fn(&u16, &u16) -> bool| (0..4).map(|i| u32::from(by(&left[i], &right[i])) << i).sum();
                assert_eq!(
                    compared(packed(left), packed(right)),
                    (want(u16::lt), want(u16::eq)),
                    "{left:x?} {right:x?}"
                );
            }
        }
    }
}
