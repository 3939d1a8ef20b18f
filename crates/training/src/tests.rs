mod ahead;
mod bytes;
mod device_programs;
mod precision;
mod rows;
mod states;
mod symbolic;

use super::scheme::Scheme;
use super::{Cipher, Memory, Series, Tuning, VectorNoise};
use evertally::mechanism::{
    Blt, ColumnScaling, DenseRuns, DigitTree, EpochBands, HonakerOnline, Input, Levels, Mechanism, Objective, Output,
    Participation, PathSum, Smooth, SquareRoot,
};
use evertally::noise::{GuardedKey, StreamName, TestSeed};
use std::sync::Arc;

pub(super) const SERIES: [Series; 2] = [Series::RunningSums, Series::Increments];
const MEMORIES: [Memory; 2] = [Memory::Keep, Memory::Recompute];

/// Every family over a horizon, with several parameters.
pub(super) fn mechanisms(horizon: u64) -> Vec<Arc<dyn Mechanism>> {
    let mut all: Vec<Arc<dyn Mechanism>> = vec![
        Arc::new(Input::new(horizon).unwrap()),
        Arc::new(Output::new(horizon).unwrap()),
        Arc::new(DigitTree::binary(horizon).unwrap()),
        Arc::new(HonakerOnline::new(horizon).unwrap()),
        Arc::new(PathSum::uniform(horizon, true).unwrap()),
        Arc::new(PathSum::uniform(horizon, false).unwrap()),
        Arc::new(PathSum::best(horizon).unwrap()),
        Arc::new(Smooth::published(horizon).unwrap()),
    ];
    for arity in [2, 3, 4, 5, 7, 16] {
        all.push(Arc::new(DigitTree::additive(horizon, arity).unwrap()));
    }
    for arity in [3, 4, 5, 6, 9, 13] {
        all.push(Arc::new(DigitTree::subtractive(horizon, arity).unwrap()));
    }
    for (height, zeros) in [(6, 3), (8, 5), (9, 3), (12, 2), (71, 70), (71, 1)] {
        all.extend(Smooth::new(horizon, height, zeros).ok().map(|smooth| Arc::new(smooth) as _));
    }
    for bands in [1, 2, 3, 8, horizon].into_iter().filter(|bands| *bands <= horizon) {
        all.push(Arc::new(SquareRoot::banded(horizon, bands).unwrap()));
        all.push(Arc::new(SquareRoot::banded_inverse(horizon, bands).unwrap()));
        all.push(Arc::new(SquareRoot::banded_inverse_power(horizon, bands, "0.8".parse().unwrap()).unwrap()));
    }
    for (bands, runs) in [(1, (4, 2)), (4, (3, 4)), (3, (5, 7))].into_iter().filter(|(bands, _)| *bands <= horizon) {
        let runs = Participation::new(runs.0, runs.1).unwrap();
        all.push(Arc::new(EpochBands::new(horizon, bands, runs, Objective::Max).unwrap()));
    }
    for runs in [(3, 2), (4, 3), (2, 9)].map(|(most, separation)| Participation::new(most, separation).unwrap()) {
        let short = (horizon <= 24).then(|| DenseRuns::solve(horizon, runs, Objective::Mean).unwrap());
        all.extend(short.map(|dense| Arc::new(dense) as _));
    }
    all.push(Arc::new(SquareRoot::new(horizon).unwrap()));
    all.push(Arc::new(SquareRoot::normalized(horizon).unwrap()));
    for columns in ColumnScaling::BOTH {
        for buffers in 1..=4 {
            all.extend(Blt::optimised(horizon, columns, buffers, Objective::Max).ok().map(|blt| Arc::new(blt) as _));
        }
        let given = "decay=3c00000000000000/2000000000000000,echo=1000000000000000/800000000000000";
        all.push(Arc::new(Blt::new(horizon, columns, given.parse().unwrap()).unwrap()));
    }
    let weights: Vec<u16> =
        (0..=horizon.next_power_of_two().trailing_zeros()).map(|level| 2 + level as u16 % 3).collect();
    all.push(Arc::new(PathSum::new(horizon, Levels::new(&weights).unwrap()).unwrap()));
    all
}

pub(super) fn scheme(mechanism: Arc<dyn Mechanism>, series: Series) -> Scheme {
    Scheme { mechanism, sigma: 1.5, series, cipher: Cipher::Aes128Ctr, digest: [3; 32] }
}

pub(super) fn key() -> GuardedKey {
    GuardedKey::insecure_from_test_seed(TestSeed(11))
}

pub(super) fn name() -> StreamName {
    "weights".parse().unwrap()
}

fn single(memory: Memory) -> Tuning {
    Tuning { threads: 1, memory, ..Tuning::default() }
}

pub(super) fn bits<F: super::Real>(values: &[F]) -> Vec<u8> {
    let mut bytes = vec![];
    F::append_all(values, &mut bytes);
    bytes
}
