//! Compares the registry's leading constants of the error for long horizons with our figures.

#[cfg(test)]
mod tests {
    use crate::lab::figures::survey::as_planned;
    use evertally::mechanism::MechanismName;
    use evertally::plan::{NoiseKind, Objective};

    /// The constants of the papers' tables (0.1238 is truncated there, not rounded).
    #[test]
    fn constants_are_the_published_ones() {
        let pure = |k| MechanismName::Subtract(Some(k)).limits().pure.unwrap();
        assert!((pure(19) - 0.1236).abs() < 5e-5 && (pure(20) - 0.1238).abs() < 1e-4);
        assert!((MechanismName::Sqrt.limits().zcdp.unwrap() - 0.0487).abs() < 5e-5);
        assert_eq!(MechanismName::Kary(Some(2)).limits().zcdp, Some(1.0));
    }

    /// Our exact figures equal the formulas if the horizon fills the tree.
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
                assert!((zcdp / name.limits().zcdp.unwrap() - 1.0).abs() < 1e-9, "{name}: {zcdp}");
                assert!((pure / name.limits().pure.unwrap() - 1.0).abs() < 0.03, "{name}: {pure}");
            }
        }
    }
}
