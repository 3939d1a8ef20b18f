//! The budget flags that several subcommands share.

use clap::Args;
use evertally::privacy::Budget;
use serde::Deserialize;

/// A privacy budget: ε, or ε and δ, or ρ.
#[derive(Args, Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct BudgetFlags {
    /// ε of ε-differential privacy (with --delta: of (ε, δ)-differential privacy).
    #[arg(long, value_name = "E", allow_negative_numbers = true, help_heading = "Privacy budget")]
    pub epsilon: Option<f64>,
    /// δ of (ε, δ)-differential privacy.
    #[arg(long, value_name = "D", allow_negative_numbers = true, help_heading = "Privacy budget")]
    pub delta: Option<f64>,
    /// ρ of zero-concentrated differential privacy.
    #[arg(long, value_name = "R", allow_negative_numbers = true, help_heading = "Privacy budget")]
    pub rho: Option<f64>,
    /// Accept a budget so large that it protects next to nothing (ε above 20, ρ above 10).
    #[arg(long, help_heading = "Privacy budget", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub allow_weak_budget: Option<bool>,
}

impl BudgetFlags {
    /// The validated budget.
    pub fn budget(&self) -> evertally::Result<Budget> {
        let budget = Budget::from_numbers(self.epsilon, self.delta, self.rho, self.allow_weak_budget.unwrap_or(false));
        budget.map_err(|error| match error.is_weak_budget() {
            true => evertally::Error::new(error.kind(), format!("{error} (--allow-weak-budget)")),
            false => error,
        })
    }

    /// Whether no number is given.
    pub fn is_empty(&self) -> bool {
        self.epsilon.is_none() && self.delta.is_none() && self.rho.is_none()
    }
}
