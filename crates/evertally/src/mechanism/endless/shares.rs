//! The share of an epoch's squared length that goes to the node of its total.
//!
//! Searched once, and frozen: noise depends on it. Let `V*(t)` be the least largest variance over `t` steps: under
//! Gaussian noise of any mechanism (the certified optimum, and beyond 2048 steps its known distance from the
//! nuclear-norm bound), under Laplace noise of those with logarithmic memory. For a ratio `q`, the share of an epoch is
//! the largest with which all its steps keep `‖L_t‖² ≤ q V*(t)`, given the epochs before; a larger share makes all
//! later epochs better. `q` is the least for which this works for all epochs up to `2^40` steps. The test repeats the
//! search.

/// Number of epochs.
pub(super) const EPOCHS: usize = 16;

/// The last step of every epoch: `16^k`, and finally 2^62.
pub(super) const ENDS: [u64; EPOCHS] = {
    let mut ends = [1 << 62; EPOCHS];
    let mut k = 0;
    while k + 1 < EPOCHS {
        ends[k] = 1 << (4 * (k + 1));
        k += 1;
    }
    ends
};

/// `2^14 U`, for plain and for normalized columns, and for trees.
pub(super) const SHARES: [[u32; EPOCHS]; 3] = [
    [7325, 5999, 4982, 4354, 4031, 3806, 3604, 3431, 3254, 2837, 2837, 2837, 2837, 2837, 2837, 2837],
    [6024, 5113, 4275, 3764, 3564, 3413, 3287, 3225, 3162, 2837, 2837, 2837, 2837, 2837, 2837, 2837],
    [5408, 345, 446, 479, 439, 641, 330, 381, 296, 491, 491, 491, 491, 491, 491, 491],
];

/// The arities of the trees inside, and of the longest epochs with BLTs inside.
pub(super) const ARITIES: [u64; EPOCHS] = [33, 8, 21, 19, 19, 19, 19, 19, 19, 19, 19, 19, 19, 19, 19, 19];
