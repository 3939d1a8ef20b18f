//! Several workloads under one budget: read from one release, or each from a separate release.

use super::{Plan, PlanRequest};
use crate::mechanism::{Mix, Workload};
use crate::number::power;
use crate::privacy::Budget;
use crate::privacy::composition::Split;
use crate::{Error, Result};

/// Plans for several workloads under one budget.
///
/// Either one release serves all of them, if one factorization can, or the budget is divided between separate
/// releases. The option with the smaller weighted sum of variances is used, each variance in units of that of the
/// workload alone with the whole budget.
///
/// ```
/// use evertally::mechanism::{Mix, Workload};
/// use evertally::plan::{PlanRequest, Readings};
/// use evertally::privacy::{Budget, Rho};
/// let mix = Mix::new(&[(Workload::Sum, 1.0), (Workload::Window(7), 1.0)])?;
/// let year = PlanRequest::count(365, Budget::Zcdp(Rho::new(0.5)?));
/// let readings = Readings::plan(year.with_mix(mix))?;
/// assert!(readings.is_one_release());
/// // Divided, both variances would be twice those of the whole budget.
/// assert!(readings.figure() < 2.9 && readings.divided().is_some_and(|divided| divided > 3.99));
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Readings {
    mix: Mix,
    plans: Vec<Plan>,
    /// The division, if the budget is divided.
    shares: Option<Vec<f64>>,
    /// Standard errors with the whole budget; none if a mechanism was requested by name.
    alone: Option<Vec<f64>>,
    figure: f64,
    divided: Option<f64>,
}

impl Readings {
    /// The better option for a request with [several workloads](PlanRequest::with_mix).
    ///
    /// A mechanism requested by name means one release. Runs one search for every workload, and one for all.
    ///
    /// # Errors
    /// If the request has only one workload, or neither option can be planned.
    pub fn plan(request: PlanRequest) -> Result<Self> {
        let Some(mix) = request.mix else { return Err(Error::invalid("a mix has at least two workloads")) };
        let search = request.search.clone().with_observer(request.search.observer().in_a_row());
        let request = request.with_search(search);
        request.own_mix()?;
        if request.mechanism.is_some() {
            let plans = request.plan()?.readings();
            return Ok(Self { mix, plans, shares: None, alone: None, figure: f64::NAN, divided: None });
        }
        let joint = request.clone().plan();
        let own = |workload: Workload| PlanRequest { workload, mix: None, ..request.clone() };
        let alone: Vec<Plan> = mix.workloads().map(|workload| own(workload).plan()).collect::<Result<_>>()?;
        let (shares, apart) = divided(&own, &mix, request.budget, &alone)?;
        let alone: Vec<f64> = alone.iter().map(Plan::compared_std_error).collect();
        let figure = |plans: &[Plan]| -> f64 {
            let each = plans.iter().zip(&alone).zip(mix.readings());
            each.map(|((plan, alone), (_, weight))| weight * ratio(plan.compared_std_error(), *alone)).sum()
        };
        let divided = figure(&apart);
        let joint = joint.map(|plan| plan.readings());
        let (plans, shares) = match joint {
            Ok(plans) if figure(&plans) <= divided => (plans, None),
            _ => (apart, Some(shares)),
        };
        Ok(Self { mix, figure: figure(&plans), plans, shares, alone: Some(alone), divided: Some(divided) })
    }

    /// The workloads, in the order of the request.
    pub fn workloads(&self) -> impl Iterator<Item = Workload> + '_ {
        self.mix.workloads()
    }

    /// A plan for every workload, in their order.
    pub fn plans(&self) -> &[Plan] {
        &self.plans
    }

    /// Whether all are read from one release, under plans with one digest.
    pub fn is_one_release(&self) -> bool {
        self.shares.is_none()
    }

    /// The shares of the budget, if it is divided.
    pub fn shares(&self) -> Option<&[f64]> {
        self.shares.as_deref()
    }

    /// The [compared](Plan::compared_std_error) error of a workload.
    pub fn std_error(&self, place: usize) -> f64 {
        self.plans[place].compared_std_error()
    }

    /// The standard errors that the workloads would have if each had the whole budget alone; `None` if a mechanism
    /// was requested by name.
    pub fn alone(&self) -> Option<&[f64]> {
        self.alone.as_deref()
    }

    /// The weighted sum of variances, each over that of the whole budget; NaN if nothing was compared.
    pub fn figure(&self) -> f64 {
        self.figure
    }

    /// The same with a divided budget; `None` if nothing was compared.
    pub fn divided(&self) -> Option<f64> {
        self.divided
    }
}

/// The ratio of two variances; two variances of 0 have the ratio 1.
fn ratio(error: f64, alone: f64) -> f64 {
    if error == alone { 1.0 } else { power(error / alone, 2) }
}

/// The plans with a divided budget, and the shares.
fn divided(
    own: &impl Fn(Workload) -> PlanRequest,
    mix: &Mix,
    budget: Budget,
    alone: &[Plan],
) -> Result<(Vec<f64>, Vec<Plan>)> {
    let split = Split::new(budget);
    let weights: Vec<f64> = mix.readings().iter().map(|(_, weight)| *weight).collect();
    let shares = split.shares(&weights)?;
    let budgets = split.budgets(&shares)?;
    let under_share = |((workload, budget), alone): ((Workload, &Budget), &Plan)| {
        let request = own(workload).with_budget(*budget).with_meaning("workload", workload.to_string());
        if split.whole() != alone.request().budget() {
            // (ε, δ) is spent as ρ, under which another law may be best.
            return request.plan();
        }
        request.with_mechanism(alone.mechanism().name()).with_noise(alone.noise_kind()).plan()
    };
    let plans = mix.workloads().zip(&budgets).zip(alone).map(under_share).collect::<Result<_>>()?;
    Ok((shares, plans))
}

#[cfg(test)]
mod tests;
