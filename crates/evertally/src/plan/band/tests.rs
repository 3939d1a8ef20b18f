//! Coverage of bands, by releases of the exact law that share no code with the simulation. The share of paths inside is
//! compared with the confidence in units of its standard error over so many paths; 4.9 of them are a level of 10⁻⁶ for
//! each of the comparisons.

use super::*;
use crate::noise::{SecretKey, TestSeed};
use crate::plan::PlanRequest;
use crate::privacy::{Budget, Epsilon, Rho};
use crate::stream::RunningSum;

fn plan(mechanism: &str, horizon: u64, kind: NoiseKind) -> Plan {
    let budget = match kind {
        NoiseKind::Laplace => Budget::Pure(Epsilon::new(1.0).unwrap()),
        NoiseKind::Gaussian => Budget::Zcdp(Rho::new(0.1).unwrap()),
    };
    PlanRequest::count(horizon, budget).with_mechanism(mechanism.parse().unwrap()).with_noise(kind).plan().unwrap()
}

#[test]
#[ignore = "measures"]
fn speed() {
    for (name, horizon, kind) in [
        ("smooth", 8760, NoiseKind::Gaussian),
        ("binary", 8760, NoiseKind::Laplace),
        ("smooth", 8760, NoiseKind::Laplace),
        ("normalized-sqrt", 8760, NoiseKind::Gaussian),
        ("output", 100, NoiseKind::Laplace),
        ("hats", 8760, NoiseKind::Laplace),
        ("consistent", 8760, NoiseKind::Laplace),
        ("hats", 366, NoiseKind::Laplace),
        ("binary", 366, NoiseKind::Laplace),
        ("dense", 366, NoiseKind::Gaussian),
        ("optimal", 1 << 16, NoiseKind::Gaussian),
        ("hats", 1 << 16, NoiseKind::Laplace),
    ] {
        let plan = plan(name, horizon, kind);
        let t = std::time::Instant::now();
        let band = plan.band(0.95).unwrap();
        println!("{name} {horizon} {kind} {band:?} {:?}", t.elapsed());
    }
}
