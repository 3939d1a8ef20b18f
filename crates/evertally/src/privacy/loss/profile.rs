//! The noise variables that a unit's change moves, and how far.

use crate::{Error, Result};

/// How far one unit's change can shift the independent noise variables of a release: numbers of variables with their
/// shifts, in units of the noise grid. The order of the variables does not matter, nor do the signs of the shifts.
///
/// ## What a profile covers
/// Write `F` for the distribution function of the noise, which must be log-concave on the integers (discrete Laplace
/// and discrete Gaussian are) and symmetric.
///
/// **Smaller shifts.** The likelihood ratio of a shift `d` is monotone, so the best test is a threshold:
/// `δ_d(ε) = max_t F(t) - e^ε F(t - d)`, which grows with `d`. Every vector of shifts that nowhere exceeds the profile
/// is therefore dominated by it (products of dominating pairs dominate); so is one with fewer variables.
///
/// **Merged shifts.** A profile with shifts `a` and `b` is dominated by the one in which they are replaced by the
/// single shift `a + b`. Let `G_d(α)` be the power of the best test of level α against the shift `d`; it joins the
/// points `(F(t - d), F(t))` by lines. Any test of (0, 0) against (a, b) with level α has probability at most `G_a(α)`
/// under (a, 0), and then at most `G_b(G_a(α))` under (a, b). Both `G` are linear between the same points, which `G_a`
/// maps to such points, so `G_b ∘ G_a = G_{a+b}`. (For a change that does not itself depend on the releases. The rest
/// of this page also holds for one that does, if every variable is read only after its data are complete.)
///
/// So one event that a 0/1 matrix puts into at most `s1` nodes has the profile [`ones(s1)`](Self::ones) (for a value of
/// size at most `v`, `s1` shifts by `v`). For several events of one unit, give the largest shift of each node that the
/// unit can touch; if all nodes of a level share `m` events, one shift by `m` covers them, whichever the nodes are.
///
/// ```
/// use evertally::privacy::loss::ShiftProfile;
/// let profile = ShiftProfile::new(&[(3, 2), (1, 4)])?; // two nodes move by 3, four by 1
/// assert_eq!((profile.l1(), profile.l2_squared(), profile.variables()), (10, 22, 6));
/// assert!(ShiftProfile::new(&[]).is_err());
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShiftProfile {
    /// Shifts in descending order, each with the number of variables it moves; neither is 0.
    shifts: Vec<(u64, u64)>,
    l1: u128,
    l2_squared: u128,
    variables: u64,
}

impl ShiftProfile {
    /// Largest shift: 2⁶⁰.
    pub const MAX_SHIFT: u64 = 1 << 60;

    /// The profile of `(shift, number of variables)` pairs. Pairs with a 0 are ignored.
    ///
    /// # Errors
    /// If nothing is shifted, a shift is above [`MAX_SHIFT`](Self::MAX_SHIFT), or the norms do not fit 128 bits.
    pub fn new(shifts: &[(u64, u64)]) -> Result<Self> {
        let mut kept: Vec<(u64, u64)> =
            shifts.iter().copied().filter(|&(shift, count)| shift > 0 && count > 0).collect();
        kept.sort_unstable_by(|a, b| b.cmp(a));
        let Some(&(largest, _)) = kept.first() else {
            return Err(Error::invalid("a shift profile needs at least one variable that moves"));
        };
        if largest > Self::MAX_SHIFT {
            return Err(Error::invalid(format!("a shift may be at most 2^60, got {largest}; use a coarser grid")));
        }
        kept.dedup_by(|next, first| {
            let same = next.0 == first.0;
            if same {
                first.1 = first.1.saturating_add(next.1);
            }
            same
        });
        let norms = kept.iter().try_fold((0u128, 0u128, 0u64), |(l1, l2, n), &(shift, count)| {
            let weighted = u128::from(shift) * u128::from(count);
            let squared = weighted.checked_mul(shift.into())?;
            Some((l1.checked_add(weighted)?, l2.checked_add(squared)?, n.checked_add(count)?))
        });
        let (l1, l2_squared, variables) =
            norms.ok_or_else(|| Error::overflow("the norms of a shift profile do not fit; use a coarser grid"))?;
        Ok(Self { shifts: kept, l1, l2_squared, variables })
    }

    /// `variables` variables that move by 1: a single event in a count.
    ///
    /// # Errors
    /// If `variables` is 0.
    pub fn ones(variables: u64) -> Result<Self> {
        Self::new(&[(1, variables)])
    }

    /// The shifts in descending order, each with the number of variables it moves.
    pub fn shifts(&self) -> &[(u64, u64)] {
        &self.shifts
    }

    /// The sum of all shifts.
    pub fn l1(&self) -> u128 {
        self.l1
    }

    /// The sum of the squared shifts.
    pub fn l2_squared(&self) -> u128 {
        self.l2_squared
    }

    /// The number of variables that move.
    pub fn variables(&self) -> u64 {
        self.variables
    }

    /// The largest number that divides every shift.
    pub(super) fn common_divisor(&self) -> u64 {
        self.shifts.iter().fold(0, |mut a, &(mut b, _)| {
            while b != 0 {
                (a, b) = (b, a % b);
            }
            a
        })
    }
}
