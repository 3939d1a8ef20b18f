//! The paths of a tree of digits: from the highest level down, as many stretches as the size of the digit.
//!
//! The blocks of a level are walked from the one that begins (or, for negative digits, ends) where the part of the step
//! above that level does, so a growing positive digit extends the path, and a negative digit that approaches 0 retraces
//! it. Blocks are added or subtracted, each always in the same way, and the noise is symmetric.

use crate::mechanism::tree::digits::DigitSystem;
use crate::mechanism::walk::Walk;
use crate::noise::Node;

/// See the [module](self). It reads the digits itself, in 64 bits: the divisions of 128 bits of
/// [`DigitSystem::for_each_digit`] would cost more than everything else in a lazy read.
#[derive(Clone, Debug)]
pub(super) struct DigitWalk {
    digits: DigitSystem,
    base: u64,
    below: u64,
    levels: u32,
    /// The offset that turns a step into a number with the ordinary digits `d + below`: below 2^64, see
    /// [`DigitWalk::new`].
    offset: u64,
}

impl DigitWalk {
    /// `None` if the offset and a step of the horizon do not fit 64 bits together.
    pub(super) fn new(digits: &DigitSystem, horizon: u64) -> Option<Self> {
        let offset = u64::try_from(digits.offset()).ok()?;
        offset.checked_add(horizon)?;
        Some(Self { digits: digits.clone(), base: digits.base, below: digits.below, levels: digits.levels, offset })
    }
}

impl Walk for DigitWalk {
    /// Highest level first; the blocks of a level start next to the part of the step above that level.
    fn visit(&self, step: u64, visit: &mut dyn FnMut(Node, f64)) {
        let mut blocks = Vec::with_capacity(self.levels as usize);
        self.digits.for_each_digit(step, |level, digit, lead| blocks.push((level, digit, lead)));
        for (level, digit, lead) in blocks.into_iter().rev() {
            let start = lead.wrapping_sub_signed(digit); // not negative: a multiple of the lead above
            for i in 0..digit.unsigned_abs() {
                let (index, sign) = if digit > 0 { (start + i, 1.0) } else { (start - 1 - i, -1.0) };
                visit(Node { level, index }, sign);
            }
        }
    }

    fn depth(&self, step: u64) -> u32 {
        let mut rest = step + self.offset;
        let mut depth = 0;
        for _ in 0..self.levels {
            depth += (rest % self.base).abs_diff(self.below) as u32;
            rest /= self.base;
        }
        depth
    }

    /// Everything above the highest digit that differs, and the common part of its two values.
    fn shared(&self, earlier: u64, later: u64) -> u32 {
        let (mut a, mut b) = (earlier + self.offset, later + self.offset);
        let mut shared = 0;
        for _ in 0..self.levels {
            let (x, y) = (a % self.base, b % self.base);
            if x != y {
                shared = 0; // paths that part at this level share no lower one
            }
            // Steps only increase: a digit below 0 can only have moved towards 0, and one above 0 can only have grown.
            let common = if x < self.below { self.below.saturating_sub(y) } else { x - self.below };
            shared += common.min(x.abs_diff(self.below)) as u32;
            (a, b) = (a / self.base, b / self.base);
        }
        shared
    }
}
