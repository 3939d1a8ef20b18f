//! The loss of 32 bits over many steps: the noise in `f32` compared with the same programs in `f64`, with the same
//! normal variables.

use super::*;
use crate::InstructionSet;
use crate::execute::name as block;
use crate::program::{Op, REGISTERS};
use crate::schedule::schedule;
use evertally::mechanism::{ColumnScaling, Objective};
use evertally::noise::{Purpose, subkey};
use evertally_kernels::{Normals, Real};

const COORDINATES: usize = 96;

/// Runs programs in doubles. (The square roots' rows have a separate test.)
struct Twin {
    normals: Normals,
    buffers: Vec<Vec<f64>>,
}

impl Twin {
    fn of(scheme: &Scheme) -> Self {
        let subkey = subkey(&key(), &name(), &scheme.digest, Purpose::Vector(32));
        Self { normals: Normals::new(scheme.cipher, &subkey, InstructionSet::PORTABLE), buffers: vec![] }
    }

    fn run(&mut self, ops: &[Op]) -> Vec<f64> {
        let instructions = InstructionSet::PORTABLE;
        let mut acc = vec![0.0; COORDINATES];
        let mut registers = vec![acc.clone(); REGISTERS];
        for op in ops {
            self.buffers.resize(self.buffers.len().max(op.buffers()), vec![0.0; COORDINATES]);
            match op {
                Op::Clear => acc.fill(0.0),
                Op::Load(slot) => acc.copy_from_slice(&self.buffers[*slot]),
                Op::Add { slot, weight } => f64::add_scaled(instructions, &mut acc, *weight, &self.buffers[*slot]),
                Op::Draw { node, scale } => {
                    let mut drawn = [0.0f32; COORDINATES];
                    self.normals.fill_f32(block(*node), 0, &mut drawn);
                    f64::add_scaled(instructions, &mut acc, *scale, &drawn.map(f64::from));
                }
                Op::Scale(factor) => f64::scale(instructions, &mut acc, *factor),
                Op::Store(slot) => self.buffers[*slot].copy_from_slice(&acc),
                Op::Accumulate(slot) => f64::accumulate(instructions, &mut self.buffers[*slot], &mut acc),
                Op::Difference(slot) => f64::difference(instructions, &mut self.buffers[*slot], &mut acc),
                Op::Save(register) => registers[*register].copy_from_slice(&acc),
                Op::Restore(register) => acc.copy_from_slice(&registers[*register]),
                Op::UndoBuffers { steps, factor } => {
                    let pieces = self.buffers[..steps.gaps.len()].iter_mut().map(|buffer| &mut buffer[..]);
                    let mut pieces: Vec<&mut [f64]> = pieces.collect();
                    f64::undo_buffers(instructions, &mut acc, &mut pieces, &steps.gaps, &steps.echoes, *factor);
                }
                Op::Row(_) | Op::DrawThrough { .. } | Op::Subtract(_) => panic!("{op:?} is not of these programs"),
            }
        }
        acc
    }
}

/// The norm of the error of the running sums after the last step over that of the sums, and the relative error of their
/// variance.
fn errors(mechanism: Arc<dyn Mechanism>, series: Series, steps: u64) -> [f64; 2] {
    let scheme = scheme(mechanism, series);
    let mut noise =
        VectorNoise::<f32>::of(&scheme, &key(), &name(), 0..COORDINATES as u64, single(Memory::Keep)).unwrap();
    let (mut twin, mut programs) = (Twin::of(&scheme), schedule(&scheme, Memory::Keep).unwrap());
    let (mut sums, mut exact) = ([0.0; COORDINATES], [0.0; COORDINATES]);
    for step in 1..=steps {
        let (mut out, mut ops) = ([0.0f32; COORDINATES], vec![]);
        noise.next_into(&mut out).unwrap();
        programs.program(step, &mut ops);
        let expected = twin.run(&ops);
        let kept = if series == Series::RunningSums { 0.0 } else { 1.0 };
        for i in 0..COORDINATES {
            sums[i] = kept * sums[i] + f64::from(out[i]);
            exact[i] = kept * exact[i] + expected[i];
        }
    }
    let squares = |of: &dyn Fn(usize) -> f64| (0..COORDINATES).map(|i| of(i).powi(2)).sum::<f64>();
    let norm = squares(&|i| exact[i]);
    [(squares(&|i| sums[i] - exact[i]) / norm).sqrt(), squares(&|i| sums[i]) / norm - 1.0]
}

/// Errors grow at most with `√T`, like those of a running sum in 32 bits.
#[test]
fn single_precision_keeps_its_digits_over_many_steps() {
    const STEPS: u64 = 1 << 13;
    // Optimised for 2^40 steps: gaps far below the last place of 1 in 32 bits.
    let long = "decay=3fffffffff7a15e6/3fffffffe8a601df/3ffffffcf0493704/3fffff999c587e98/3ffff29dfa2acaa0/\
                3ffe4054747d370a/3fc597f21d8862b6/38c9efa0a83deb00,echo=8bfe93aa71b/2ac4b5ee22fb/f6c0979c9940/\
                5923b89e5721a/203c1ac4758e60/ba656086392038/4319a537005b340/14ff55b2615f2d00";
    let mut tried: Vec<Arc<dyn Mechanism>> = vec![
        Arc::new(Input::new(STEPS).unwrap()),
        Arc::new(DigitTree::subtractive(STEPS, 5).unwrap()),
        Arc::new(HonakerOnline::new(STEPS).unwrap()),
        Arc::new(PathSum::best(STEPS).unwrap()),
        Arc::new(SquareRoot::banded(STEPS, 64).unwrap()),
        Arc::new(SquareRoot::banded_inverse(STEPS, 64).unwrap()),
        Arc::new(SquareRoot::banded_inverse_power(STEPS, 2, "0.9".parse().unwrap()).unwrap()),
    ];
    for columns in ColumnScaling::BOTH {
        tried.push(Arc::new(Blt::optimised(STEPS, columns, 4, Objective::Max).unwrap()));
        tried.push(Arc::new(Blt::new(1 << 40, columns, long.parse().unwrap()).unwrap()));
    }
    for mechanism in tried {
        for series in SERIES {
            let [error, variance] = errors(mechanism.clone(), series, STEPS);
            let what = format!("{} {series:?}: {error:e}, variance {variance:e}", mechanism.name());
            assert!(error < 1e-5 && variance.abs() < 2e-6, "{what}");
        }
    }
}
