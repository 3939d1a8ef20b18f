//! The same under pure ε: compared with our mechanism with trees inside, and with a tree for one horizon of 2^40 steps.

use crate::lab::figures::FigureContext;
use crate::lab::figures::style::look;
use crate::lab::figures::survey::families;
use anyhow::Result;
use evertally::mechanism::{MAX_HORIZON, Mechanism, MechanismName};
use evertally::plan::{NoiseKind, Objective};
use evertally_plot::lines::PanelLine;
use std::collections::BTreeMap;

/// ε² · variance at some steps.
pub(super) struct Pure {
    /// The smallest maximum of all families over this number of steps.
    pub(super) best: Vec<f64>,
    pub(super) columns: [(&'static str, Vec<f64>); 3],
}

impl Pure {
    pub(super) fn new(studio: &mut FigureContext, steps: &[u64]) -> Result<Self> {
        let mut column = |label, name: &str, horizon| -> Result<_> {
            let name: MechanismName = name.parse()?;
            let found = studio.survey.mechanism(name, NoiseKind::Laplace, Objective::Max, horizon);
            let found = found.ok_or_else(|| anyhow::anyhow!("{name} is not built"))?;
            let factor = factor(&*found);
            Ok((label, steps.iter().map(|step| factor * found.row_norm_squared(*step)).collect()))
        };
        let columns = [
            column("endless-hats", "endless-hats", MAX_HORIZON)?,
            column("endless-trees", "endless-trees", MAX_HORIZON)?,
            column("subtract, one horizon of 2^40 steps", "subtract", 1 << 40)?,
        ];
        let best = MinVariance::new(studio, steps[steps.len() - 1]);
        Ok(Self { best: steps.iter().map(|step| best.at(*step)).collect(), columns })
    }

    /// Ratios to the best.
    pub(super) fn lines(&self, steps: &[u64]) -> Vec<PanelLine> {
        let line = |(label, values): &(&str, Vec<f64>)| {
            let ratios = steps.iter().zip(values).zip(&self.best);
            let points = ratios.map(|((step, value), best)| (*step as f64, value / best)).collect();
            PanelLine { label: (*label).into(), look: look(label.split(',').next().unwrap_or(label)), points }
        };
        self.columns.iter().map(line).collect()
    }
}

/// The factor for squared row norms.
fn factor(mechanism: &dyn Mechanism) -> f64 {
    2.0 * mechanism.column_norms().l1.powi(2)
}

/// The smallest maximum variance by horizon, at powers of two.
struct MinVariance(BTreeMap<u64, f64>);

impl MinVariance {
    fn new(studio: &mut FigureContext, last: u64) -> Self {
        let horizons = (0..=last.next_power_of_two().ilog2()).map(|power| 1u64 << power);
        let mut of = |horizon: u64| {
            let found = families(horizon)
                .filter_map(|name| studio.survey.mechanism(name, NoiseKind::Laplace, Objective::Max, horizon));
            found.map(|found| factor(&*found) * found.max_row_norm_squared()).fold(f64::INFINITY, f64::min)
        };
        Self(horizons.map(|horizon| (horizon, of(horizon))).collect())
    }

    /// Between powers of two the cube root grows with the logarithm.
    fn at(&self, step: u64) -> f64 {
        let low = 1u64 << step.ilog2();
        let below = self.0[&low].cbrt();
        let above = self.0.get(&(2 * low)).map_or(below, |best| best.cbrt());
        (below + (step as f64 / low as f64).log2() * (above - below)).powi(3)
    }
}
