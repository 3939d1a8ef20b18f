//! Objects claim each step, with its data, before they issue it.

use super::*;
use crate::noise::{NoiseClaim, NoiseRecord, SecretKey, StepClaim, StepData, StepRecord};
use crate::{Error, ErrorKind, Result};
use std::sync::{Arc, Mutex};

/// A claim: first and last step, the sum, and the step that the object resumed from.
type SumClaim = (u64, u64, Option<i64>, u64);

/// The claims so far.
#[derive(Clone, Default)]
struct Claims(Arc<Mutex<Vec<SumClaim>>>);

impl NoiseRecord for Claims {
    fn claim(&self, _: &NoiseClaim<'_>) -> Result<()> {
        Err(Error::new(ErrorKind::NoiseIssued, "this record knows steps only"))
    }

    fn steps(&self, _: &NoiseClaim<'_>) -> Result<Option<Arc<dyn StepRecord>>> {
        Ok(Some(Arc::new(self.clone())))
    }
}

impl StepRecord for Claims {
    fn claim(&self, claim: &StepClaim<'_>) -> Result<()> {
        let sum = if let StepData::Sum(sum) = claim.data { Some(sum) } else { None };
        let (first, last) = (*claim.steps.start(), *claim.steps.end());
        if last > 5 {
            return Err(Error::new(ErrorKind::NoiseIssued, "no step after 5"));
        }
        self.0.lock().unwrap().push((first, last, sum, claim.resumed_from));
        Ok(())
    }
}

impl Claims {
    fn key(&self) -> GuardedKey {
        GuardedKey::new(SecretKey::insecure_from_test_seed(TestSeed(1)), self.clone())
    }

    fn taken(&self) -> Vec<SumClaim> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

#[test]
fn a_running_sum_claims_its_steps_with_their_sums() {
    let claims = Claims::default();
    let mut sum = RunningSum::new(plan(10, "smooth"), &claims.key(), name("a")).unwrap();
    sum.add_sum(7).unwrap();
    assert_eq!(claims.taken(), [], "nothing is issued before a step is closed");
    let first = sum.tick().unwrap();
    let state = sum.save();
    sum.add_sum(2).unwrap();
    sum.tick_through(4).unwrap();
    assert_eq!(claims.taken(), [(1, 1, Some(7), 0), (2, 4, Some(9), 0)]);
    // A refused step is not closed.
    let saved = sum.save();
    assert!(sum.tick_through(6).unwrap_err().is_noise_issued());
    assert_eq!((sum.save(), sum.step()), (saved, 4));
    let mut restored = RunningSum::restore(plan(10, "smooth"), &claims.key(), name("a"), &state).unwrap();
    assert_eq!(restored.release(), Some(first));
    restored.tick().unwrap();
    assert_eq!(claims.taken(), [(2, 2, Some(7), 1)]);
    // Without a record of steps the releases are the same.
    let mut unrecorded = RunningSum::new(plan(10, "smooth"), &key(1), name("a")).unwrap();
    unrecorded.add_sum(7).unwrap();
    assert_eq!(unrecorded.tick().unwrap(), first);
}

#[test]
fn a_lazy_vector_claims_its_reads() {
    let claims = Claims::default();
    let lazy = || LazyPlan::new(plan(10, "path-sum"), 100, LazySampling::Keyed).unwrap();
    let mut vector = LazyVector::new(lazy(), &claims.key(), name("a")).unwrap();
    assert!(vector.read(3).is_err(), "before the first step");
    vector.tick().unwrap();
    vector.read(3).unwrap();
    vector.read_many(&[]).unwrap();
    vector.read_many(&[1, 2, 3]).unwrap();
    assert_eq!(claims.taken(), [(1, 1, None, 0), (2, 4, None, 0)]);
    let state = vector.save();
    assert!(vector.read_many(&[1, 2]).unwrap_err().is_noise_issued());
    assert_eq!((vector.save(), vector.reads()), (state.clone(), 4));
    let mut restored = LazyVector::restore(lazy(), &claims.key(), name("a"), &state).unwrap();
    restored.read(9).unwrap();
    assert_eq!(claims.taken(), [(5, 5, None, 4)]);
}

/// An object that claims no steps is claimed as a whole.
#[test]
fn other_objects_are_claimed_as_a_whole() {
    let claims = Claims::default();
    assert!(GroupedSums::new(plan(10, "smooth"), &claims.key(), name("a"), Groups::new(["x"]).unwrap()).is_err());
}
