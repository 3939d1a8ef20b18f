//! Exact Gaussian sensitivity of noises that are sums along the paths of a trie.
//!
//! With Gaussian noise only the covariance `C = L Lᵀ` of the releases matters: the exact squared sensitivity is
//! `max_i a_iᵀ C⁻¹ a_i`, `a_i` = ones from step `i` on (a *cut*). For a trie whose leaves are the steps and whose edges
//! carry independent noise it follows from the leaves upwards. For a subtree keep `α = 1ᵀC⁻¹1` and, for every cut,
//! `b = 1ᵀC⁻¹a`, `q = aᵀC⁻¹a`:
//!
//! * children side by side are independent: `α` adds, and a cut in the left child contains all of the right one, which
//!   adds `α_right` to its `b` and `q`;
//! * an edge of variance `s` above adds `s 1 1ᵀ` to `C` (Sherman–Morrison): with `d = 1 + sα`,
//!   `α ← α/d`, `b ← b/d`, `q ← q - s b²/d`.
//!
//! If one of two cuts has the larger `q` and the smaller `b`, both steps preserve that order (`b ≥ 0`, since the
//! inverse of such a covariance is an M-matrix), so only the Pareto frontier is kept. A frontier that grows too long is
//! thinned upwards, which keeps the result an upper bound.
//!
//! **Never too small.** The new `q` rises with the old `q` and with `α` and falls with `b`. So `q` is carried as an
//! upper bound, `b` as a lower bound and `α` as both, and every operation of floating point is followed by one step
//! outwards (the nearest double is within half a step of the truth). The result is an upper bound of the real number,
//! above it by a few parts in 10^13.

/// Longest frontier that is kept exactly.
const MAX_FRONTIER: usize = 4096;

/// The information that a subtree reveals; see the [module](self).
#[derive(Clone, Debug, PartialEq)]
pub(in crate::mechanism) enum Subtree {
    /// No step.
    Empty,
    /// One step whose edge has not added noise yet.
    Bare,
    /// At least one step, all with noise.
    Noisy {
        /// Lower and upper bound of `α`.
        alpha: (f64, f64),
        /// (lower bound of `b`, upper bound of `q`), both strictly rising.
        frontier: Vec<(f64, f64)>,
    },
}

/// The next larger number: an upper bound of the exact value that `x`, not negative, was rounded from.
fn up(x: f64) -> f64 {
    x.next_up()
}

/// The next smaller number: a lower bound of the exact value that `x`, positive, was rounded from.
fn down(x: f64) -> f64 {
    x.next_down()
}

impl Subtree {
    /// Puts an edge of the given variance above.
    pub(in crate::mechanism) fn under(self, variance: f64) -> Self {
        match self {
            Self::Noisy { alpha: (least, most), mut frontier } if variance > 0.0 => {
                let d = up(1.0 + up(variance * most));
                for (b, q) in &mut frontier {
                    *q = up(*q - down(down(variance * down(*b * *b)) / d));
                    *b = down(*b / d);
                }
                // α/(1 + sα) rises with α.
                let least = down(least / up(1.0 + up(variance * least)));
                let most = up(most / down(1.0 + down(variance * most)));
                Self::Noisy { alpha: (least, most), frontier: pareto(frontier) }
            }
            Self::Bare if variance > 0.0 => {
                let (least, most) = (down(1.0 / variance), up(1.0 / variance));
                Self::Noisy { alpha: (least, most), frontier: vec![(least, most)] }
            }
            unchanged => unchanged,
        }
    }

    /// Puts a subtree of later steps to the right.
    ///
    /// # Panics
    /// If a bare step would get a sibling: their releases would be equal.
    pub(in crate::mechanism) fn next_to(self, right: &Self) -> Self {
        match (self, right) {
            (Self::Empty, only) => only.clone(),
            (only, Self::Empty) => only,
            (Self::Noisy { alpha: left, frontier: cuts }, Self::Noisy { alpha: right, frontier }) => {
                let mut all = frontier.clone();
                all.extend(cuts.into_iter().map(|(b, q)| (down(b + right.0), up(q + right.1))));
                let alpha = (down(left.0 + right.0), up(left.1 + right.1));
                Self::Noisy { alpha, frontier: pareto(all) }
            }
            _ => unreachable!("a step without its own noise has no sibling"),
        }
    }

    /// The exact squared sensitivity, rounded up, once the whole trie is assembled.
    pub(in crate::mechanism) fn sensitivity_squared(&self) -> f64 {
        match self {
            Self::Noisy { frontier, .. } => frontier.last().map_or(0.0, |&(_, q)| q),
            _ => 0.0,
        }
    }
}

/// Keeps the cuts that no other cut beats in both `b` (smaller) and `q` (larger), in rising order of both.
fn pareto(mut cuts: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    // Two sorted runs, which the sort merges.
    cuts.sort_by(|x, y| x.0.total_cmp(&y.0).then(y.1.total_cmp(&x.1)));
    let mut best = f64::NEG_INFINITY;
    cuts.retain(|&(_, q)| {
        let better = q > best;
        best = best.max(q);
        better
    });
    if cuts.len() > MAX_FRONTIER {
        // Two neighbours merge into one that beats both.
        cuts = cuts.chunks(2).map(|pair| (pair[0].0, pair[pair.len() - 1].1)).collect();
    }
    cuts
}

#[cfg(test)]
mod tests {
    use crate::mechanism::{Mechanism, Smooth};
    use nalgebra::{DMatrix, DVector};

    /// `max_i a_iᵀ (L Lᵀ)⁻¹ a_i`, computed with another library's linear algebra.
    fn dense(mechanism: &dyn Mechanism) -> f64 {
        let l = mechanism.dense().l;
        let (rows, columns) = l.shape();
        let l = DMatrix::from_fn(rows, columns, |i, j| l.row(i)[j]);
        let covariance = (&l * l.transpose()).cholesky().expect("releases are linearly independent");
        let cut = |i: usize| DVector::from_fn(rows, |t, _| f64::from(u8::from(t >= i)));
        (0..rows).map(|i| cut(i).dot(&covariance.solve(&cut(i)))).fold(0.0, f64::max)
    }

    #[test]
    fn smooth_matches_dense_linear_algebra() {
        for (horizon, height, zeros) in
            [(1, 2, 1), (2, 3, 1), (5, 4, 2), (7, 6, 3), (19, 6, 3), (100, 10, 4), (150, 12, 3), (9, 10, 9), (40, 9, 5)]
        {
            let smooth = Smooth::new(horizon, height, zeros).unwrap();
            let (exact, want) = (smooth.exact_l2_squared().unwrap(), dense(&smooth));
            assert!((exact / want - 1.0).abs() < 1e-9, "T {horizon}, h {height}, zeros {zeros}: {exact}, want {want}");
            assert!(exact <= smooth.column_norms().l2_squared * (1.0 + 1e-12));
        }
    }

    /// Closed forms and our own Cholesky; square factorizations reveal exactly their column norm.
    #[test]
    fn other_mechanisms_match_dense_linear_algebra() {
        let square = ["input", "output", "binary", "kary(k=3)"];
        for name in square.into_iter().chain(["subtract(k=4)", "subtract(k=5)", "honaker-online"]) {
            let shape = crate::mechanism::Criterion::new(
                crate::mechanism::NoiseKind::Gaussian,
                crate::mechanism::Objective::Max,
            );
            for horizon in [1, 7, 30, 64] {
                let mechanism =
                    name.parse::<crate::mechanism::MechanismName>().unwrap().build(horizon, &shape).unwrap();
                let (ours, want) = (mechanism.exact_l2_squared().unwrap(), dense(&*mechanism));
                assert!((ours / want - 1.0).abs() < 1e-9, "{name} at {horizon}: {ours}, want {want}");
                let norm = mechanism.column_norms().l2_squared;
                assert!(want <= norm * (1.0 + 1e-9), "{name} at {horizon}");
                assert!(!square.contains(&name) || (want / norm - 1.0).abs() < 1e-9, "{name} at {horizon}");
            }
        }
        for horizon in 1..40 {
            let honaker = crate::mechanism::HonakerOnline::new(horizon).unwrap();
            let (ours, want) = (honaker.exact_l2_squared().unwrap(), dense(&honaker));
            assert!((ours / want - 1.0).abs() < 1e-9, "honaker-online at {horizon}: {ours}, want {want}");
        }
        for name in ["consistent", "hats", "dense-pure"] {
            let name: crate::mechanism::MechanismName = name.parse().unwrap();
            for horizon in [1, 5, 24] {
                let mechanism = name
                    .build(
                        horizon,
                        &crate::mechanism::Criterion::new(
                            crate::mechanism::NoiseKind::Laplace,
                            crate::mechanism::Objective::Max,
                        ),
                    )
                    .unwrap();
                let (ours, want) = (mechanism.exact_l2_squared().unwrap(), dense(&*mechanism));
                assert!((ours / want - 1.0).abs() < 1e-9, "{name} at {horizon}: {ours}, want {want}");
            }
        }
        // Verified with independent dense algebra: Honaker online at T = 250, 8 → 6.87.
        let honaker = crate::mechanism::HonakerOnline::new(250).unwrap().exact_l2_squared().unwrap();
        assert!((honaker - 6.87).abs() < 0.005, "{honaker}");
    }

    /// Verified with an independent computation: 2ρ·max variance of smooth under exact accounting.
    #[test]
    fn published_figures_of_exact_accounting() {
        let figure = |s: Smooth| s.exact_l2_squared().unwrap() * s.max_row_norm_squared();
        let of = |horizon, height, zeros| figure(Smooth::new(horizon, height, zeros).unwrap());
        for (ours, want) in [
            (of(250, 10, 5), 16.76),
            (of(1024, 14, 7), 27.88),
            (of(1024, 13, 5), 25.46),
            (of(1 << 14, 18, 9), 50.30),
            (of(1 << 14, 18, 6), 46.20),
            (of(1 << 20, 24, 12), 97.61),
            (of(1 << 20, 25, 8), 91.75),
        ] {
            assert!((ours - want).abs() < 0.006, "{ours}, want {want}");
        }
    }
}
