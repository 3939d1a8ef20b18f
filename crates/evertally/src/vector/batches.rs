//! The batches of a plan with sampling.

use super::VectorPlan;
use crate::noise::{KeyedNoise, Node, Purpose, RandomBits, SecretKey, StreamName};
use crate::{Error, Result};

/// Who takes part when: the lots of a [plan with sampling](super::VectorRequest::with_sampling), drawn from the key.
///
/// Examples have the numbers `0 .. examples`, which stay with them. In step `t` (from 1) every example of group
/// `(t-1) mod groups`, those whose number leaves that remainder, takes part with the plan's rate: if its 64 bits, a
/// function of key, name, plan, step and number, are below `⌊rate · 2^64⌋`. So a run can be begun again, and nobody has
/// to trust a loader's seed.
///
/// **Secrecy.** The promise of the plan holds for whoever does not know the batches: they are as secret as the key.
///
/// ```
/// use evertally::noise::SecretKey;
/// use evertally::privacy::{Budget, Delta, Epsilon};
/// use evertally::vector::{Batches, Sampling, VectorRequest};
/// let budget = Budget::Approximate(Epsilon::new(1.0)?, Delta::new(1e-5)?);
/// let request = VectorRequest::new(100, budget, 1.0).with_sampling(Sampling::new(0.02)?);
/// let plan = request.with_mechanism("epoch-bands(bands=10)".parse()?).plan()?;
/// let batches = Batches::new(&plan, &SecretKey::generate()?, "run 17".parse()?, 5000)?;
/// assert_eq!((batches.groups(), batches.expected_size()), (10, 100.0));
/// let third = batches.batch(3)?;
/// assert!(third.iter().all(|example| example % 10 == 2) && third == batches.batch(3)?);
/// # Ok::<(), evertally::Error>(())
/// ```
pub struct Batches {
    lots: KeyedNoise,
    horizon: u64,
    examples: u64,
    groups: u64,
    fraction: f64,
    /// `⌊rate · 2^64⌋`; `None` where everybody takes part.
    threshold: Option<u64>,
}

impl Batches {
    /// Of a plan, for so many examples.
    ///
    /// # Errors
    /// If the plan is one without sampling, or there is no example.
    pub fn new(plan: &VectorPlan, key: &SecretKey, name: StreamName, examples: u64) -> Result<Self> {
        let Some((sampling, groups)) = plan.request().sampling().zip(plan.groups()) else {
            return Err(Error::invalid(
                "the plan is one without sampling: its batches are the caller's; to have them drawn, and less noise, plan \
                 with a sampled fraction",
            ));
        };
        if examples == 0 {
            return Err(Error::invalid("there is no example to draw batches from"));
        }
        let rate = sampling.rate(groups).expect("the plan was made with it");
        // Rounded down; 1 alone is everybody. Casts saturate.
        let threshold = (rate < 1.0).then(|| (rate * 2f64.powi(64)) as u64);
        let lots = KeyedNoise::new(key, &name, &plan.digest(), Purpose::Batches);
        Ok(Self { lots, horizon: plan.horizon(), examples, groups, fraction: sampling.fraction(), threshold })
    }

    /// The examples of a step (1 ..= T), in order of their numbers. `O(examples / groups)`.
    ///
    /// # Errors
    /// If the step is 0 or beyond the horizon.
    pub fn batch(&self, step: u64) -> Result<Vec<u64>> {
        if !(1..=self.horizon).contains(&step) {
            return Err(Error::invalid(format!("step {step} is not one of the plan's {} steps", self.horizon)));
        }
        let mut bits = self.lots.bits(Node { level: 0, index: step });
        let of_group = ((step - 1) % self.groups..self.examples).step_by(self.groups as usize);
        let Some(threshold) = self.threshold else { return Ok(of_group.collect()) };
        Ok(of_group.filter(|_| bits.next_u64() < threshold).collect())
    }

    /// In how many groups the examples are.
    pub fn groups(&self) -> u64 {
        self.groups
    }

    /// How many examples there are.
    pub fn examples(&self) -> u64 {
        self.examples
    }

    /// Number of steps `T`.
    pub fn horizon(&self) -> u64 {
        self.horizon
    }

    /// How many examples a batch has on average, over all steps: what to divide a sum of gradients by.
    pub fn expected_size(&self) -> f64 {
        self.fraction * self.examples as f64
    }
}

impl std::fmt::Debug for Batches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { horizon, examples, groups, fraction, .. } = self;
        write!(f, "Batches({horizon} steps, {fraction} of {examples} examples in {groups} groups)")
    }
}
