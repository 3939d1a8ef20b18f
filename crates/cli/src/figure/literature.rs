//! Leading constants of the error for long horizons, as the literature states them; `None` where it does not.

use evertally::mechanism::MechanismName;

/// Limit of 2ρ · largest variance / log₂²T under ρ-zCDP.
///
/// The tree mechanisms: Andersson, Pagh 2023 (arXiv 2306.09666, table 1), the k-ary ones by the same count of nodes and
/// levels; the square roots: (ln 2/π)² (Fichtenberger, Henzinger, Upadhyay 2023, arXiv 2202.11205).
pub(crate) fn zcdp_constant(name: MechanismName) -> Option<f64> {
    Some(match name {
        MechanismName::Binary => 1.0,
        MechanismName::HonakerOnline => 0.5,
        // The balanced shape, to which the best shape for the largest variance tends.
        MechanismName::Smooth(None) => 0.25,
        MechanismName::Smooth(Some((height, zeros))) if 2 * zeros == height => 0.25,
        // Levels log T/log k twice: as squared sensitivity, and as levels with this many nodes at most.
        MechanismName::Kary(Some(k)) => (k - 1) as f64 / (k as f64).log2().powi(2),
        MechanismName::Subtract(Some(k)) => (k / 2) as f64 / (k as f64).log2().powi(2),
        MechanismName::Sqrt | MechanismName::NormalizedSqrt => (std::f64::consts::LN_2 / std::f64::consts::PI).powi(2),
        _ => return None,
    })
}

/// Limit of ε² · mean variance / log₂³T under pure ε (Andersson, Pagh, Steiner, Torkamani, "Count on Your
/// Elders: Laplace vs Gaussian Noise").
pub(crate) fn pure_constant(name: MechanismName) -> Option<f64> {
    let cube = |k: u64| (k as f64).log2().powi(3);
    Some(match name {
        MechanismName::Binary => 1.0,
        MechanismName::HonakerOnline => 0.5,
        MechanismName::Kary(Some(k)) => (k - 1) as f64 / cube(k),
        MechanismName::Subtract(Some(k)) if k % 2 == 1 => {
            k as f64 * (1.0 - 1.0 / (k as f64 * k as f64)) / (2.0 * cube(k))
        }
        MechanismName::Subtract(Some(k)) => k as f64 / (2.0 * cube(k)),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::survey::as_planned;
    use evertally::plan::{NoiseKind, Objective};

    /// The constants of the papers' tables (0.1238 is cut, not rounded, there).
    #[test]
    fn constants_are_the_published_ones() {
        let pure = |k| pure_constant(MechanismName::Subtract(Some(k))).unwrap();
        assert!((pure(19) - 0.1236).abs() < 5e-5 && (pure(20) - 0.1238).abs() < 1e-4);
        assert!((zcdp_constant(MechanismName::Sqrt).unwrap() - 0.0487).abs() < 5e-5);
        assert_eq!(zcdp_constant(MechanismName::Kary(Some(2))), Some(1.0));
    }

    /// Our exact figures are the formulas' where the horizon fills the tree.
    #[test]
    fn exact_figures_approach_the_constants() {
        for k in [2u64, 3, 5, 8, 19] {
            for name in [MechanismName::Kary(Some(k)), MechanismName::Subtract(Some(k))] {
                let levels = (60.0 / (k as f64).log2()) as u32;
                let all = k.pow(levels) - 1;
                let horizon = match name {
                    MechanismName::Kary(_) => all,
                    _ if k == 2 => continue, // there is no subtraction of base 2
                    _ if k % 2 == 1 => all / 2,
                    _ => all / (k - 1) * (k / 2),
                };
                let m = as_planned(name, NoiseKind::Gaussian, Objective::Max, horizon).unwrap();
                let (norms, log) = (m.column_norms(), f64::from(levels) * (k as f64).log2());
                let zcdp = norms.l2_squared * m.max_row_norm_squared() / log.powi(2);
                let pure = 2.0 * norms.l1.powi(2) * m.mean_row_norm_squared() / log.powi(3);
                assert!((zcdp / zcdp_constant(name).unwrap() - 1.0).abs() < 1e-9, "{name}: {zcdp}");
                assert!((pure / pure_constant(name).unwrap() - 1.0).abs() < 0.03, "{name}: {pure}");
            }
        }
    }
}
