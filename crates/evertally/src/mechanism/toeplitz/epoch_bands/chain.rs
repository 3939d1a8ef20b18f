//! The heaviest pattern of steps: at most `k` of them, any two at least `b` apart.

use crate::mechanism::Participation;

/// The largest sum of weights over the patterns of a participation. `O(T)` if only the separation binds, `O(T k)`
/// otherwise.
pub(super) fn heaviest(weights: &[u128], participation: Participation) -> u128 {
    let horizon = weights.len() as u64;
    let apart = usize::try_from(participation.separation()).unwrap_or(usize::MAX);
    let most = participation.within(horizon);
    if most == horizon.div_ceil(participation.separation()) {
        return *add_one(weights, |t, best: &[u128]| t.checked_sub(apart).map_or(0, |t| best[t])).last().unwrap_or(&0);
    }
    // `best[t]` over patterns of this many steps up to `t`.
    let mut best = vec![0; weights.len()];
    for _ in 0..most {
        let fewer = best;
        best = add_one(weights, |t, _| t.checked_sub(apart).map_or(0, |t| fewer[t]));
    }
    best.last().copied().unwrap_or(0)
}

/// `best_t = max(best_(t-1), w_t + before(t))`.
fn add_one(weights: &[u128], before: impl Fn(usize, &[u128]) -> u128) -> Vec<u128> {
    let mut best: Vec<u128> = Vec::with_capacity(weights.len());
    for (t, weight) in weights.iter().enumerate() {
        let with = weight + before(t, &best);
        best.push(with.max(best.last().copied().unwrap_or(0)));
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All patterns, one by one.
    fn by_force(weights: &[u128], most: u64, apart: usize) -> u128 {
        let patterns = 0u32..1 << weights.len();
        let fits = |pattern: &u32| {
            let steps: Vec<usize> = (0..weights.len()).filter(|t| pattern >> t & 1 == 1).collect();
            steps.len() as u64 <= most && steps.windows(2).all(|pair| pair[1] - pair[0] >= apart)
        };
        let weight = |pattern: u32| (0..weights.len()).filter(|t| pattern >> t & 1 == 1).map(|t| weights[t]).sum();
        patterns.filter(fits).map(weight).max().unwrap()
    }

    #[test]
    fn as_every_pattern_says() {
        let weights: Vec<u128> = [5, 1, 9, 4, 7, 7, 2, 8, 3, 6, 6, 1, 9].to_vec();
        for horizon in 1..=weights.len() {
            for most in 1..=6 {
                for apart in [1, 2, 3, 5, 20] {
                    let participation = Participation::new(most, apart as u64).unwrap();
                    let found = heaviest(&weights[..horizon], participation);
                    assert_eq!(found, by_force(&weights[..horizon], most, apart), "{horizon} {most} {apart}");
                }
            }
        }
    }
}
