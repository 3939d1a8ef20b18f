//! Mechanisms that break their promise are refuted.

use super::*;
use evertally::noise::{DiscreteGaussian, DiscreteLaplace};
use evertally::number::Ratio;
use evertally::plan::NoiseKind::{Gaussian, Laplace};

const PATHS: u64 = 8000;
const T: u64 = 16;

/// Releases `A x + L z` of a plan, where `tamper` may change data and nodes: it receives the running sums, the draws of
/// the dense twin's nodes, and the path.
fn tampered(
    plan: &Plan,
    mut tamper: impl FnMut(&mut Vec<f64>, &mut Vec<f64>, u64),
) -> ClosureBox<impl FnMut(&AuditStream, u64) -> Vec<f64>> {
    let dense = plan.mechanism().dense();
    let (law, unit) = (*plan.law(), 1.0 / plan.noise_divisor() as f64);
    ClosureBox(move |stream: &AuditStream, path| {
        let mut z = draws(&law, path, Purpose::Total, &dense.nodes);
        let mut sums = stream.running_sums();
        tamper(&mut sums, &mut z, path);
        let noise = |t: usize| dense.l.row(t).iter().zip(&z).map(|(l, z)| unit * l * z).sum::<f64>();
        sums.iter().enumerate().map(|(t, sum)| sum + noise(t)).collect()
    })
}

#[track_caller]
fn is_refuted(plan: &Plan, subject: &mut dyn BlackBox, by: &str) {
    let report = against(plan, subject, PATHS);
    assert!(failed(&report).contains(&by), "{}, {}: {report:#?}", plan.mechanism().name(), plan.noise_kind());
}

/// The box of the other tests, without tampering.
#[test]
fn untampered_passes() {
    for (mechanism, kind) in [("binary", Laplace), ("binary", Gaussian), ("smooth", Gaussian)] {
        let plan = plan(mechanism, T, kind, 0.5);
        let report = against(&plan, &mut tampered(&plan, |_, _, _| ()), PATHS);
        assert!(!report.refuted, "{report:#?}");
    }
}

/// Noise for half of the sensitivity: twice the ε, four times the ρ.
#[test]
fn halved_sensitivity() {
    for mechanism in ["binary", "smooth", "subtract(k=5)", "honaker-online", "consistent(k=4)"] {
        let half = library(&plan(mechanism, T, Gaussian, 2.0), 1);
        is_refuted(&plan(mechanism, T, Gaussian, 0.5), &mut { half }, "mu");
        let half = library(&plan(mechanism, T, Laplace, 2.0), 1);
        is_refuted(&plan(mechanism, T, Laplace, 1.0), &mut { half }, "mu");
    }
    // If one node holds an event, the literal ε shows it as well.
    is_refuted(&plan("input", T, Laplace, 1.0), &mut library(&plan("input", T, Laplace, 2.0), 1), "epsilon");
}

#[test]
fn noise_drawn_anew_at_every_read() {
    for (mechanism, kind) in [("binary", Gaussian), ("honaker-online", Laplace), ("smooth", Gaussian)] {
        let plan = plan(mechanism, T, kind, 1.0);
        let (dense, law, unit) = (plan.mechanism().dense(), *plan.law(), 1.0 / plan.noise_divisor() as f64);
        let anew = |stream: &AuditStream, path: u64| {
            let noise = |t: usize| {
                let step = (t as u64).to_le_bytes();
                let used = (0..dense.nodes.len()).filter(|&n| dense.l.row(t)[n] != 0.0);
                let (nodes, weights): (Vec<_>, Vec<_>) = used.map(|n| (dense.nodes[n], dense.l.row(t)[n])).unzip();
                let z = draws(&law, path, Purpose::Group(&step), &nodes);
                weights.iter().zip(z).map(|(l, z)| unit * l * z).sum::<f64>()
            };
            stream.running_sums().iter().enumerate().map(|(t, sum)| sum + noise(t)).collect()
        };
        is_refuted(&plan, &mut ClosureBox(anew), "whole");
    }
}

/// One variable instead of two independent ones: any two nodes, even if few releases combine them.
#[test]
fn nodes_that_share_a_variable() {
    for (mechanism, kind) in [("binary", Gaussian), ("binary", Laplace), ("smooth", Gaussian)] {
        let plan = plan(mechanism, T, kind, 1.0);
        let nodes = plan.mechanism().dense().nodes.len();
        for (copy, of) in [(0, 1), (nodes - 1, 0), (nodes / 2, nodes / 2 + 1)] {
            is_refuted(&plan, &mut tampered(&plan, |_, z, _| z[copy] = z[of]), "entries");
        }
    }
}

/// Every step's total rounded up to a multiple of 2: an event may count 2.
#[test]
fn data_rounded_before_the_noise() {
    for (mechanism, kind) in [("binary", Gaussian), ("input", Laplace)] {
        let plan = plan(mechanism, T, kind, 0.5);
        let rounded = |sums: &mut Vec<f64>, _: &mut Vec<f64>, _| {
            let (mut last, mut total) = (0.0, 0.0);
            for sum in sums.iter_mut() {
                total += ((*sum - last) / 2.0).ceil() * 2.0;
                last = std::mem::replace(sum, total);
            }
        };
        is_refuted(&plan, &mut tampered(&plan, rounded), "mu");
        is_refuted(&plan, &mut tampered(&plan, rounded), "means");
    }
}

/// Two percent too much or too little variance.
#[test]
fn wrong_variance() {
    for (mechanism, kind) in [("binary", Gaussian), ("smooth", Gaussian), ("subtract(k=5)", Laplace)] {
        let plan = plan(mechanism, T, kind, 0.1);
        let parameter = plan.law().parameter();
        for factor in [98, 102] {
            let scaled =
                |by: u128, of: u128| Ratio::new(parameter.numerator() * by, parameter.denominator() * of).unwrap();
            let law = match kind {
                Gaussian => DiscreteGaussian::new(scaled(factor, 100)).unwrap().into(),
                Laplace => DiscreteLaplace::new(scaled(100 + factor, 200)).unwrap().into(),
            };
            let nodes = plan.mechanism().dense().nodes;
            let wrong = |_: &mut Vec<f64>, z: &mut Vec<f64>, path| {
                *z = draws(&law, path, Purpose::Total, &nodes);
            };
            is_refuted(&plan, &mut tampered(&plan, wrong), "scale");
        }
    }
}

/// The right variance and the wrong shape: Laplace instead of Gaussian; and even numbers only, with half the spacing.
#[test]
fn wrong_shape() {
    let plan = plan("binary", T, Gaussian, 0.01);
    let variance = plan.node_variance();
    let law: DiscreteLaw =
        DiscreteLaplace::new(Ratio::new((variance / 2.0).sqrt().round() as u128, 1).unwrap()).unwrap().into();
    let nodes = plan.mechanism().dense().nodes;
    let laplace = |_: &mut Vec<f64>, z: &mut Vec<f64>, path| {
        *z = draws(&law, path, Purpose::Total, &nodes);
    };
    is_refuted(&plan, &mut tampered(&plan, laplace), "histogram");
    is_refuted(&plan, &mut tampered(&plan, laplace), "statistics");

    let plan = self::plan("binary", T, Gaussian, 1.0);
    let even = |_: &mut Vec<f64>, z: &mut Vec<f64>, _| z.iter_mut().for_each(|z| *z = (*z / 2.0).round() * 2.0);
    is_refuted(&plan, &mut tampered(&plan, even), "histogram");
}

/// Continuous noise in floating point, of the right law.
#[test]
fn noise_off_its_grid() {
    for mechanism in ["binary", "smooth"] {
        let plan = plan(mechanism, T, Laplace, 0.01);
        let scale = plan.law().scale();
        let continuous = |_: &mut Vec<f64>, z: &mut Vec<f64>, path| {
            let mut floats = Floats::of(path);
            z.iter_mut().for_each(|z| *z = floats.laplace(scale));
        };
        let report = against(&plan, &mut tampered(&plan, continuous), PATHS);
        assert_eq!(failed(&report), ["grid"], "{report:#?}");
    }
}

#[test]
fn noise_that_does_not_repeat_or_depend_on_the_key() {
    let plan = plan("binary", T, Gaussian, 0.5);
    let mut calls = 0;
    let fickle = |_: &mut Vec<f64>, z: &mut Vec<f64>, _| {
        calls += 1;
        z[0] += f64::from(calls % 2);
    };
    is_refuted(&plan, &mut tampered(&plan, fickle), "same-key");

    let mut library = library(&plan, 1);
    let mut keyless = ClosureBox(|stream: &AuditStream, _| library.releases(stream, 7).unwrap());
    is_refuted(&plan, &mut keyless, "other-key");
}

/// A state that forgets the data before it.
#[test]
fn states_that_continue_otherwise() {
    struct Forgetful(PlanBox);
    impl BlackBox for Forgetful {
        fn releases(&mut self, stream: &AuditStream, path: u64) -> Result<Vec<f64>> {
            self.0.releases(stream, path)
        }
        fn interrupted(&mut self, stream: &AuditStream, path: u64, after: usize) -> Option<Result<Vec<f64>>> {
            let mut rest = AuditStream::empty(stream.steps().len());
            let later = stream.steps().iter().enumerate().skip(after);
            later.for_each(|(t, events)| events.iter().for_each(|&value| rest.add(t + 1, value, 1)));
            Some(self.0.releases(&rest, path))
        }
    }
    let plan = plan("binary", T, Gaussian, 0.5);
    is_refuted(&plan, &mut Forgetful(library(&plan, 1)), "restored");
}
