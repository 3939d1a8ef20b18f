//! Sampled batches of a plan.

use super::{Sampling, SamplingScheme, VectorPlan};
use evertally::noise::{KeyedNoise, Node, Purpose, RandomBits, SecretKey, StreamName};
use evertally::{Error, Result};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The examples of every batch of a [plan with sampling](super::VectorRequest::with_sampling), sampled from the key.
///
/// Examples have the fixed numbers `0 .. examples`. With **(cyclic) Poisson sampling**, every example of group
/// `(t-1) mod groups` (those whose number has that remainder) takes part in step `t` (from 1) with the plan's rate: if
/// its 64 bits, a function of key, name, plan, step and number, are below `⌊rate · 2^64⌋`. With a maximum batch, a
/// larger batch is replaced by a uniform subset. With **batches of fixed size**, a uniform subset of the group takes
/// part, a function of key, name, plan and step. With **random allocation**, every example is allocated to one step of
/// an epoch, a uniform number that is a function of key, name, plan and number, and takes part in that step of every
/// epoch. With **per-epoch random allocation**, an example rests between its steps. Let a mechanism have `w` bands, and
/// an example's number have the remainder φ modulo the `b` steps of an epoch. In every round `e` (from 0) the example
/// draws a uniform `p` from `0 … b-w`, a function of key, name, plan, round and number. It takes part in the step
/// `(e b + φ + p) mod E b` (from 0), if there is one; `E` rounds cover the horizon. So a run can be repeated, and
/// nobody has to trust a loader's seed.
///
/// **Secrecy.** The guarantee of the plan holds against anyone who does not know the batches: keep them as secret as
/// the key.
///
/// ```
/// use evertally::noise::SecretKey;
/// use evertally::privacy::{Budget, Delta, Epsilon};
/// use evertally_training::{Batches, Sampling, VectorRequest};
/// let budget = Budget::Approximate(Epsilon::new(1.0)?, Delta::new(1e-5)?);
/// let request = VectorRequest::new(100, budget, 1.0).with_sampling(Sampling::cyclic_poisson(0.02)?);
/// let plan = request.with_mechanism("epoch-bands(bands=10)".parse()?).plan()?;
/// let batches = Batches::new(&plan, &SecretKey::generate()?, "run 17".parse()?, 5000)?;
/// assert_eq!((batches.groups(), batches.expected_size()), (Some(10), 100.0));
/// let third = batches.batch(3)?;
/// assert!(third.iter().all(|example| example % 10 == 2) && third == batches.batch(3)?);
/// # Ok::<(), evertally::Error>(())
/// ```
pub struct Batches {
    bits: KeyedNoise,
    horizon: u64,
    examples: u64,
    fraction: f64,
    draw: BatchSampler,
}

/// The kind of sampling, and its state.
enum BatchSampler {
    /// For every step separately: `⌊rate · 2^64⌋`, `None` if every example of a group takes part; the maximum batch.
    Steps { groups: u64, threshold: Option<u64>, max_batch: Option<u64> },
    /// For every step separately: a uniform subset of a group, of this size.
    Subsets { groups: u64, size: u64 },
    /// Once: the examples of every step of an epoch; computed on first use.
    Once { steps_per_epoch: u64, members: OnceLock<Vec<Vec<u64>>> },
    /// In every round: the examples by their step since the start of the round; the last two requested rounds.
    PerEpoch { steps_per_epoch: u64, places: u64, rounds: u64, drawn: Mutex<Vec<(u64, Arc<Members>)>> },
}

/// The examples of every step of an epoch or round.
type Members = Vec<Vec<u64>>;

/// Maximum number of examples: with random allocation a table of them is kept, and otherwise every step draws for a
/// whole group.
const MAX_EXAMPLES: u64 = 1 << 32;
/// Steps count from 1, so this node belongs to no step.
const ALLOCATION_NODE: Node = Node { level: 0, index: 0 };
/// Rounds have a separate level.
fn round_node(round: u64) -> Node {
    Node { level: 1, index: round }
}

impl BatchSampler {
    /// For a plan whose steps are sampled separately, in this many groups.
    fn by_step(sampling: Sampling, groups: u64, examples: u64) -> Result<Self> {
        if let Some(size) = sampling.batch_size(examples, groups) {
            if size == 0 {
                return Err(Error::invalid(format!(
                    "batches of {} of {examples} examples in {groups} groups would hold no example: plan with a larger \
                     fraction, or fewer bands",
                    sampling.fraction()
                )));
            }
            return Ok(Self::Subsets { groups, size });
        }
        let max_batch = match sampling.truncation() {
            Some((_, most)) if examples > most => {
                return Err(Error::invalid(format!(
                    "the maximum batch was planned for at most {most} examples, got {examples}"
                )));
            }
            truncation => truncation.map(|(max_batch, _)| max_batch),
        };
        let rate = sampling.rate(groups).expect("the plan was made with it");
        // Rounded down; only a rate of 1 is every example. Casts saturate.
        let threshold = (rate < 1.0).then(|| (rate * libm::exp2(64.0)) as u64);
        Ok(Self::Steps { groups, threshold, max_batch })
    }
}

impl Batches {
    /// The batches of a plan, for this number of examples.
    ///
    /// # Errors
    /// If the plan has no sampling, or the number of examples is 0, above 2^32, above that of a plan with a maximum
    /// batch, or too small for a batch of fixed size.
    pub fn new(plan: &VectorPlan, key: &SecretKey, name: StreamName, examples: u64) -> Result<Self> {
        let Some(sampling) = plan.request().sampling() else {
            return Err(Error::invalid(
                "the plan has no sampling, so the caller chooses its batches; for sampled batches, and less noise, \
                 plan with sampling",
            ));
        };
        if examples == 0 {
            return Err(Error::invalid("there are no examples to sample batches from"));
        }
        if examples > MAX_EXAMPLES {
            return Err(Error::invalid(format!("batches can be sampled from at most 2^32 examples, got {examples}")));
        }
        let draw = match (sampling.steps_per_epoch(), sampling.scheme()) {
            (Some(steps_per_epoch), SamplingScheme::PerEpochRandomAllocation) => {
                let rests = plan.request().participation().separation() - 1;
                BatchSampler::PerEpoch {
                    steps_per_epoch,
                    places: steps_per_epoch - rests, // the plan was made with it
                    rounds: plan.horizon().div_ceil(steps_per_epoch),
                    drawn: Mutex::default(),
                }
            }
            (Some(steps_per_epoch), _) => BatchSampler::Once { steps_per_epoch, members: OnceLock::new() },
            (None, _) => BatchSampler::by_step(sampling, plan.groups().expect("it is drawn by step"), examples)?,
        };
        let bits = KeyedNoise::unrecorded(key, &name, &plan.digest(), Purpose::Batches);
        Ok(Self { bits, horizon: plan.horizon(), examples, fraction: sampling.fraction(), draw })
    }

    /// The examples of a step (1 ..= T), in the order of their numbers. `O(examples / groups)`; with random allocation
    /// the first call, or the first call of every epoch, takes `O(examples)`, and 8 bytes of memory per example.
    ///
    /// # Errors
    /// If the step is 0 or beyond the horizon, or the allocation of all examples does not fit into memory.
    pub fn batch(&self, step: u64) -> Result<Vec<u64>> {
        if !(1..=self.horizon).contains(&step) {
            return Err(Error::invalid(format!("step {step} is not one of the plan's {} steps", self.horizon)));
        }
        match &self.draw {
            BatchSampler::Steps { groups, threshold, max_batch } => {
                let mut bits = self.bits.bits(Node { level: 0, index: step });
                let of_group = ((step - 1) % groups..self.examples).step_by(*groups as usize);
                let mut batch: Vec<u64> = match *threshold {
                    Some(threshold) => of_group.filter(|_| bits.next_u64() < threshold).collect(),
                    None => of_group.collect(),
                };
                if let Some(max_batch) = max_batch.filter(|most| *most < batch.len() as u64) {
                    let kept = subset(&mut bits, max_batch, batch.len() as u64);
                    batch = kept.into_iter().map(|place| batch[place as usize]).collect();
                }
                Ok(batch)
            }
            BatchSampler::Subsets { groups, size } => {
                let first = (step - 1) % groups;
                let of_group = (self.examples - first).div_ceil(*groups); // there is an example for every group
                let chosen = subset(&mut self.bits.bits(Node { level: 0, index: step }), *size, of_group);
                Ok(chosen.into_iter().map(|place| first + place * groups).collect())
            }
            BatchSampler::Once { steps_per_epoch, members } => {
                let members = match members.get() {
                    Some(members) => members,
                    None => {
                        let made = self.dealt(ALLOCATION_NODE, 1, *steps_per_epoch)?;
                        members.get_or_init(|| made)
                    }
                };
                Ok(members[((step - 1) % steps_per_epoch) as usize].clone())
            }
            BatchSampler::PerEpoch { steps_per_epoch, places, rounds, drawn } => {
                // The round that begins with this epoch, and the one before (before the first round, the last).
                let (epoch, place) = ((step - 1) / steps_per_epoch, (step - 1) % steps_per_epoch);
                let own = |round: u64, place: u64| -> Result<Vec<u64>> {
                    let members = self.kept_round(drawn, round, *steps_per_epoch, *places)?;
                    Ok(members.get(place as usize).cloned().unwrap_or_default())
                };
                let mut batch = own((epoch + rounds - 1) % rounds, place + steps_per_epoch)?;
                batch.extend(own(epoch, place)?);
                batch.sort_unstable();
                Ok(batch)
            }
        }
    }

    /// A cached round, or a newly drawn one.
    fn kept_round(
        &self,
        drawn: &Mutex<Vec<(u64, Arc<Members>)>>,
        round: u64,
        steps_per_epoch: u64,
        places: u64,
    ) -> Result<Arc<Members>> {
        let mut drawn = drawn.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, members)) = drawn.iter().find(|(kept, _)| *kept == round) {
            return Ok(members.clone());
        }
        let members = Arc::new(self.dealt(round_node(round), steps_per_epoch, places)?);
        if drawn.len() == 2 {
            drawn.remove(0);
        }
        drawn.push((round, members.clone()));
        Ok(members)
    }

    /// The examples of the first step of an epoch or round, the second, and so on, up to the last step of the last
    /// phase. An example's number gives its phase, and a uniform place is drawn from there on.
    fn dealt(&self, node: Node, phases: u64, places: u64) -> Result<Members> {
        let mut members = self.room_for(phases + places - 1, phases.max(places))?;
        let mut bits = self.bits.bits(node);
        for example in 0..self.examples {
            members[(example % phases + uniform(&mut bits, places)) as usize].push(example);
        }
        Ok(members)
    }

    /// `lists` empty lists, for steps with the `parts`-th part of all examples.
    fn room_for(&self, lists: u64, parts: u64) -> Result<Members> {
        let mut members: Members = vec![vec![]; lists as usize]; // fits: the plan has a table of them
        let room = usize::try_from(self.examples / parts).unwrap_or(usize::MAX);
        // The lists of a round are shorter at its ends: half as many have room for all.
        let many = members.iter_mut().take(parts as usize).any(|list| list.try_reserve(room).is_err());
        if many {
            return Err(Error::invalid(format!(
                "{} examples do not fit into memory: their allocation takes 8 bytes per example",
                self.examples
            )));
        }
        Ok(members)
    }

    /// How examples are sampled. Cyclic Poisson sampling with one group is Poisson sampling.
    pub fn scheme(&self) -> SamplingScheme {
        match self.draw {
            BatchSampler::Subsets { .. } => SamplingScheme::FixedSize,
            BatchSampler::Steps { max_batch: Some(_), .. } => SamplingScheme::TruncatedPoisson,
            BatchSampler::Steps { groups: 1, .. } => SamplingScheme::Poisson,
            BatchSampler::Steps { .. } => SamplingScheme::CyclicPoisson,
            BatchSampler::Once { .. } => SamplingScheme::RandomAllocation,
            BatchSampler::PerEpoch { .. } => SamplingScheme::PerEpochRandomAllocation,
        }
    }

    /// The number of groups of examples, with (cyclic) Poisson sampling and batches of fixed size.
    pub fn groups(&self) -> Option<u64> {
        match self.draw {
            BatchSampler::Steps { groups, .. } | BatchSampler::Subsets { groups, .. } => Some(groups),
            BatchSampler::Once { .. } | BatchSampler::PerEpoch { .. } => None,
        }
    }

    /// The number of steps in an epoch, with random allocation.
    pub fn steps_per_epoch(&self) -> Option<u64> {
        match self.draw {
            BatchSampler::Once { steps_per_epoch, .. } | BatchSampler::PerEpoch { steps_per_epoch, .. } => {
                Some(steps_per_epoch)
            }
            BatchSampler::Steps { .. } | BatchSampler::Subsets { .. } => None,
        }
    }

    /// The largest possible batch, if it is known beforehand: with batches of fixed size, or a maximum batch.
    pub fn max_size(&self) -> Option<u64> {
        match self.draw {
            BatchSampler::Subsets { size, .. } => Some(size),
            BatchSampler::Steps { max_batch, .. } => max_batch,
            BatchSampler::Once { .. } | BatchSampler::PerEpoch { .. } => None,
        }
    }

    /// Number of examples.
    pub fn examples(&self) -> u64 {
        self.examples
    }

    /// Number of steps `T`.
    pub fn horizon(&self) -> u64 {
        self.horizon
    }

    /// The expected batch size, averaged over all steps: divide sums of gradients by it.
    pub fn expected_size(&self) -> f64 {
        match self.draw {
            BatchSampler::Subsets { size, .. } => size as f64,
            _ => self.fraction * self.examples as f64,
        }
    }
}

impl std::fmt::Debug for Batches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { horizon, examples, fraction, draw, .. } = self;
        let scheme = self.scheme();
        match draw {
            BatchSampler::Subsets { groups, size } => {
                write!(f, "Batches({scheme}, {horizon} steps, {size} of {examples} examples in {groups} groups)")
            }
            BatchSampler::Steps { groups, .. } => {
                write!(f, "Batches({scheme}, {horizon} steps, {fraction} of {examples} examples in {groups} groups)")
            }
            BatchSampler::Once { steps_per_epoch, .. } | BatchSampler::PerEpoch { steps_per_epoch, .. } => {
                write!(f, "Batches({scheme}, {horizon} steps, {steps_per_epoch} per epoch of {examples} examples)")
            }
        }
    }
}

/// A uniform integer below `below` (at least 1), by rejection: 64-bit words that would favour the first values are
/// drawn again.
fn uniform(bits: &mut impl RandomBits, below: u64) -> u64 {
    // The number of surplus words, 2^64 mod `below`.
    let surplus = (u64::MAX % below + 1) % below;
    std::iter::repeat_with(|| bits.next_u64()).find(|word| *word >= surplus).expect("without end") % below
}

/// A uniform subset of this size of the numbers below `count`, in order. `O(size log size)`. (Bentley and Floyd 1987.)
fn subset(bits: &mut impl RandomBits, size: u64, count: u64) -> BTreeSet<u64> {
    let mut chosen = BTreeSet::new();
    for last in count - size..count {
        let place = uniform(bits, last + 1);
        if !chosen.insert(place) {
            chosen.insert(last);
        }
    }
    chosen
}
