//! Ranking numbers with a fixed number of one bits (the combinatorial number system).

/// Pascal's triangle up to row 127; every entry fits u128, since C(127, 63) < 2^124.
#[derive(Clone)]
pub(super) struct Binomials {
    rows: Vec<Vec<u128>>,
}

impl std::fmt::Debug for Binomials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Binomials({} rows)", self.rows.len())
    }
}

impl Binomials {
    /// Rows `0 ..= top`, `top ≤ 127`.
    pub(super) fn new(top: u32) -> Self {
        debug_assert!(top <= 127);
        let mut rows: Vec<Vec<u128>> = vec![vec![1]];
        for n in 1..=top as usize {
            let above = &rows[n - 1];
            rows.push((0..=n).map(|j| above.get(j).unwrap_or(&0) + if j > 0 { above[j - 1] } else { 0 }).collect());
        }
        Self { rows }
    }

    /// `C(n, j)`, 0 for `j > n`.
    pub(super) fn choose(&self, n: u32, j: u32) -> u128 {
        self.rows[n as usize].get(j as usize).copied().unwrap_or(0)
    }

    /// Visits the one bits of the number of rank `rank` (from 0) among all numbers with `ones` one bits, highest
    /// first, as (position, number of ones from here down, rank of the number that keeps the ones so far and has the
    /// rest as low as possible).
    pub(super) fn unrank(&self, rank: u64, width: u32, ones: u32, mut visit: impl FnMut(u32, u32, u64)) {
        let mut rest = u128::from(rank);
        let mut position = width;
        for count in (1..=ones).rev() {
            loop {
                position -= 1;
                if self.choose(position, count) <= rest {
                    break;
                }
            }
            rest -= self.choose(position, count);
            visit(position, count, rank - rest as u64);
        }
    }
}

/// Position and length of the lowest run of ones of a nonzero number.
#[inline]
pub(super) fn lowest_run(number: u128) -> (u32, u32) {
    let position = number.trailing_zeros();
    (position, (number >> position).trailing_ones())
}

/// The next larger number with as many one bits (Gosper's hack); `number` must be nonzero, and have a next number
/// within 128 bits.
#[inline]
pub(super) fn next_combination(number: u128) -> u128 {
    let lowest = number & number.wrapping_neg();
    let carried = number + lowest;
    carried | ((number ^ carried) >> (lowest.trailing_zeros() + 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_follow_numeric_order() {
        let binomials = Binomials::new(127);
        for (width, ones) in [(1, 1), (5, 1), (6, 3), (8, 5), (10, 2)] {
            let numbers: Vec<u128> = (0..1u128 << width).filter(|n| n.count_ones() == ones).collect();
            assert_eq!(numbers.len() as u128, binomials.choose(width, ones));
            for (rank, &number) in numbers.iter().enumerate() {
                let mut rebuilt = 0u128;
                binomials.unrank(rank as u64, width, ones, |position, count, first| {
                    rebuilt |= 1 << position;
                    let lowest = rebuilt | ((1u128 << (count - 1)) - 1);
                    assert_eq!(numbers[first as usize], lowest);
                });
                assert_eq!(rebuilt, number);
                if let Some(&next) = numbers.get(rank + 1) {
                    assert_eq!(next_combination(number), next);
                }
            }
        }
    }

    #[test]
    fn pascal_at_the_top() {
        let binomials = Binomials::new(127);
        assert_eq!(binomials.choose(127, 63), binomials.choose(127, 64));
        assert_eq!(binomials.choose(64, 32), 1_832_624_140_942_590_534);
    }
}
