//! Audits of correct mechanisms, which must pass, and of mechanisms broken on purpose, which must fail. Seeds are
//! fixed, so a test passes always or never; the chance of an unlucky seed is 10⁻⁶ for each audit of a correct
//! mechanism.

mod broken;
mod correct;
mod path_sum;
mod promised;

use crate::{AuditReport, AuditSettings, AuditStream, BlackBox, Pair, PlanBox, Promise, audit, worst_change};
use evertally::Result;
use evertally::noise::{DiscreteLaw, GuardedKey, KeyedNoise, Node, Purpose, TestSeed};
use evertally::plan::{NoiseKind, Plan, PlanRequest};
use evertally::privacy::{Budget, Epsilon, Rho};

/// A box made of a closure that maps a stream and a path to releases.
struct ClosureBox<F>(F);

impl<F: FnMut(&AuditStream, u64) -> Vec<f64>> BlackBox for ClosureBox<F> {
    fn releases(&mut self, stream: &AuditStream, path: u64) -> Result<Vec<f64>> {
        Ok((self.0)(stream, path))
    }
}

fn request(mechanism: &str, horizon: u64, kind: NoiseKind, budget: f64) -> PlanRequest {
    let budget = match kind {
        NoiseKind::Laplace => Budget::Pure(Epsilon::new(budget).unwrap()),
        NoiseKind::Gaussian => Budget::Zcdp(Rho::new(budget).unwrap()),
    };
    let mechanism = Some(mechanism.parse().unwrap());
    PlanRequest::count(horizon, budget).with_optional_mechanism(mechanism).with_noise(kind)
}

fn plan(mechanism: &str, horizon: u64, kind: NoiseKind, budget: f64) -> Plan {
    request(mechanism, horizon, kind, budget).plan().unwrap()
}

fn pairs(plan: &Plan, promise: &Promise) -> Vec<Pair> {
    worst_change(plan, promise, None).unwrap().pairs(plan, promise)
}

/// Audits a box against the promise of a plan.
fn against(plan: &Plan, subject: &mut dyn BlackBox, paths: u64) -> AuditReport {
    let promise = Promise::of(plan).unwrap();
    let settings = AuditSettings { paths, ..AuditSettings::default() };
    audit(subject, &promise, &pairs(plan, &promise), settings, &mut || ()).unwrap()
}

/// The library's own streams.
fn library(plan: &Plan, seed: u64) -> PlanBox {
    PlanBox::new(plan.clone(), TestSeed(seed))
}

/// The names of the checks that failed.
fn failed(report: &AuditReport) -> Vec<&'static str> {
    report.checks.iter().filter(|check| check.refuted).map(|check| check.test).collect()
}

/// Keyed draws of a law for nodes, computed as in the library.
fn draws(law: &DiscreteLaw, path: u64, purpose: Purpose<'_>, nodes: &[Node]) -> Vec<f64> {
    let key = GuardedKey::insecure_from_test_seed(TestSeed(path));
    let noise = KeyedNoise::unrecorded(&key, &"broken".parse().unwrap(), &[0; 32], purpose);
    nodes.iter().map(|&node| law.sample(&mut noise.bits(node)) as f64).collect()
}

/// Uniform and normal numbers for noise in floating point.
struct Floats(crate::dither::Dither);

impl Floats {
    /// Independent for different paths: their SplitMix64 states are far apart.
    fn of(path: u64) -> Self {
        Self(crate::dither::Dither(path.wrapping_mul(0xd134_2543_de82_ef95)))
    }

    fn normal(&mut self) -> f64 {
        self.0.next()
    }

    fn laplace(&mut self, scale: f64) -> f64 {
        let u = self.0.uniform() - 0.5;
        -scale * u.signum() * (1.0 - 2.0 * u.abs()).max(1e-300).ln()
    }
}
