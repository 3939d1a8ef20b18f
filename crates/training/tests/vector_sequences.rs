//! Vector noise under random sequences of calls: steps, seeks, checkpoints and mistakes, with every tuning, in any part
//! of the numbered coordinates, including their very end. The bytes always equal those of one plain run over all steps.

use evertally::noise::{GuardedKey, StreamName, TestSeed};
use evertally::privacy::{Budget, Rho};
use evertally_training::{
    Cipher, InstructionSet, Memory, Real, Series, Tuning, VectorNoise, VectorPlan, VectorRequest,
};
use proptest::prelude::*;

const MECHANISMS: [&str; 18] = [
    "input",
    "output",
    "binary",
    "kary(k=5)",
    "subtract(k=4)",
    "smooth",
    "path-sum(levels=unit)",
    "honaker-online",
    "banded-sqrt(bands=1)",
    "banded-sqrt(bands=3)",
    "epoch-bands(bands=4,run=3,gap=5)",
    "banded-inverse-sqrt(bands=1)",
    "banded-inverse-sqrt(bands=5)",
    "banded-inverse(bands=2,exponent=0.9)",
    "blt(decay=3c00000000000000/2000000000000000,echo=1000000000000000/800000000000000)",
    "normalized-blt(decay=3c00000000000000/2000000000000000,echo=1000000000000000/800000000000000)",
    "sqrt",
    "normalized-sqrt",
];

/// Operations on a stream. Numbers are taken modulo the available range.
#[derive(Clone, Debug)]
enum Call {
    Set,
    Add(u16),
    Seek(u64),
    /// A checkpoint, from which a stream with another tuning continues.
    Resume(Tuning),
    /// A slice of the wrong length, or a step beyond the horizon.
    Mistake,
}

fn tunings() -> impl Strategy<Value = Tuning> {
    let memories = prop::sample::select(vec![Memory::Keep, Memory::Recompute]);
    (0usize..4, memories, prop::sample::select(InstructionSet::available()))
        .prop_map(|(threads, memory, instructions)| Tuning { threads, memory, instructions })
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let call = prop_oneof![
        4 => Just(Call::Set),
        4 => any::<u16>().prop_map(Call::Add),
        1 => any::<u64>().prop_map(Call::Seek),
        2 => tunings().prop_map(Call::Resume),
        1 => Just(Call::Mistake),
    ];
    prop::collection::vec(call, 1..60)
}

fn plans() -> impl Strategy<Value = VectorPlan> {
    let horizons = prop_oneof![1u64..6, 6u64..50, 100u64..200];
    let (mechanisms, ciphers) = (prop::sample::select(&MECHANISMS[..]), prop::sample::select(&Cipher::ALL[..]));
    (horizons, mechanisms, ciphers, any::<bool>()).prop_filter_map("too many bands", |(horizon, name, cipher, sums)| {
        let series = if sums { Series::RunningSums } else { Series::Increments };
        let request = VectorRequest::new(horizon, Budget::Zcdp(Rho::new(0.5).ok()?), 1.0);
        request.with_mechanism(name.parse().ok()?).with_series(series).with_cipher(cipher).plan().ok()
    })
}

/// The first coordinate and the number of coordinates.
fn ranges() -> impl Strategy<Value = (u64, u64)> {
    let lengths = prop_oneof![Just(1u64), 2u64..70, 200u64..1500];
    let places = vec![(0, 0), (0, 3000), ((1 << 32) - 500, 500), ((1 << 55) - 200, 200), (1 << 56, 0)];
    (lengths, prop::sample::select(places), any::<u64>()).prop_map(|(length, (start, more), offset)| {
        let first: u64 = start + offset % (more + 1);
        (first.min((1 << 56) - length), length)
    })
}

fn bytes<F: Real>(values: &[F]) -> Vec<u8> {
    let mut bytes = vec![];
    F::append_all(values, &mut bytes);
    bytes
}

fn follow<F: Real>(plan: &VectorPlan, (first, length): (u64, u64), part: (u64, u64), calls: &[Call], seed: u64) {
    let (key, name) = (GuardedKey::insecure_from_test_seed(TestSeed(seed)), "run".parse::<StreamName>().unwrap());
    let new =
        |from: u64, to: u64, tuning| VectorNoise::<F>::new(plan.clone(), &key, name.clone(), from..to, tuning).unwrap();
    let plain = Tuning { threads: 1, memory: Memory::Keep, instructions: InstructionSet::PORTABLE };
    let mut whole = new(first, first + length, plain);
    let rows: Vec<Vec<F>> = (0..plan.horizon())
        .map(|_| {
            let mut row = vec![F::of(f64::NAN); length as usize];
            whole.next_into(&mut row).unwrap();
            // In single precision a sum is 0 about once in ten million.
            assert!(
                row.iter().filter(|x| **x == F::default()).count() <= 1 && row.iter().all(|x| x.double().is_finite())
            );
            row
        })
        .collect();

    let skipped = part.0 % length;
    let range = first + skipped..first + skipped + 1 + part.1 % (length - skipped);
    let place = skipped as usize..(range.end - first) as usize;
    let (mut noise, mut step) = (new(range.start, range.end, plain), 0);
    for call in calls {
        match call {
            Call::Seek(to) => step = noise.seek(to % (plan.horizon() + 1)).map_or(step, |()| to % (plan.horizon() + 1)),
            Call::Resume(tuning) => {
                let saved = noise.save();
                noise = VectorNoise::restore(plan.clone(), &key, name.clone(), range.clone(), *tuning, &saved).unwrap();
            }
            Call::Mistake => {
                let mut wrong = vec![F::default(); place.len() + 1];
                assert!(
                    noise.next_into(&mut wrong).is_err() && noise.add_next(&mut wrong[1..][..place.len() - 1]).is_err()
                );
                assert!(noise.seek(plan.horizon() + 1).is_err() && wrong.iter().all(|x| *x == F::default()));
            }
            Call::Set | Call::Add(_) => {
                let start = if let Call::Add(start) = call { Some(F::of((*start).into())) } else { None };
                let mut out = vec![start.unwrap_or(F::of(f64::NAN)); place.len()];
                let given = if start.is_some() { noise.add_next(&mut out) } else { noise.next_into(&mut out) };
                let Some(row) = rows.get(step as usize) else {
                    assert!(given.unwrap_err().is_horizon_exhausted());
                    continue;
                };
                let mut expected = row[place.clone()].to_vec();
                if let Some(start) = start {
                    expected.fill(start);
                    F::add(InstructionSet::PORTABLE, &mut expected, &row[place.clone()]);
                }
                assert!(given.is_ok() && bytes(&out) == bytes(&expected), "step {step}");
                step += 1;
            }
        }
        assert_eq!(noise.step(), step);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn calls_in_any_order_give_the_bytes_of_a_plain_run(
        plan in plans(), range in ranges(), part in any::<(u64, u64)>(), calls in calls(), seed in any::<u64>(),
    ) {
        follow::<f32>(&plan, range, part, &calls, seed);
        follow::<f64>(&plan, range, part, &calls, seed);
    }
}
