//! Sampled batches of a plan.

use super::VectorPlan;
use evertally::noise::{KeyedNoise, Node, Purpose, RandomBits, SecretKey, StreamName};
use evertally::{Error, Result};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The examples of every batch of a [plan with sampling](super::VectorRequest::with_sampling), sampled from the key.
///
/// Examples have the fixed numbers `0 .. examples`. With a **fraction** (cyclic Poisson subsampling), every example of
/// group `(t-1) mod groups` (those whose number has that remainder) takes part in step `t` (from 1) with the plan's
/// rate: if its 64 bits, a function of key, name, plan, step and number, are below `⌊rate · 2^64⌋`. With **bins**
/// (random allocation), every example has one bin, a uniform number that is a function of key, name, plan and number,
/// and takes part in the steps of that bin. With **fresh bins** (per-epoch random allocation), an example rests between
/// its steps. Let a mechanism have `w` bands, and an example's number have the remainder φ modulo the `b` bins. In
/// every round `e` (from 0) the example draws a uniform `p` from `0 … b-w`, a function of key, name, plan, round and
/// number. It takes part in the step `(e b + φ + p) mod E b` (from 0), if there is one; `E` rounds cover the horizon.
/// So a run can be repeated, and nobody has to trust a loader's seed.
///
/// **Secrecy.** The guarantee of the plan holds against anyone who does not know the batches: keep them as secret as
/// the key.
///
/// ```
/// use evertally::noise::SecretKey;
/// use evertally::privacy::{Budget, Delta, Epsilon};
/// use evertally_training::{Batches, Sampling, VectorRequest};
/// let budget = Budget::Approximate(Epsilon::new(1.0)?, Delta::new(1e-5)?);
/// let request = VectorRequest::new(100, budget, 1.0).with_sampling(Sampling::new(0.02)?);
/// let plan = request.with_mechanism("epoch-bands(bands=10)".parse()?).plan()?;
/// let batches = Batches::new(&plan, &SecretKey::generate()?, "run 17".parse()?, 5000)?;
/// assert_eq!((batches.groups(), batches.expected_size()), (Some(10), 100.0));
/// let third = batches.batch(3)?;
/// assert!(third.iter().all(|example| example % 10 == 2) && third == batches.batch(3)?);
/// # Ok::<(), evertally::Error>(())
/// ```
pub struct Batches {
    lots: KeyedNoise,
    horizon: u64,
    examples: u64,
    fraction: f64,
    draw: BatchSampler,
}

/// The kind of sampling, and its state.
enum BatchSampler {
    /// For every step separately: `⌊rate · 2^64⌋`, `None` if every example of a group takes part.
    Steps { groups: u64, threshold: Option<u64> },
    /// Once: the examples of every bin; computed on first use.
    Bins { bins: u64, members: OnceLock<Vec<Vec<u64>>> },
    /// In every round: the examples by their step since the start of the round; the last two requested rounds.
    FreshBins { bins: u64, places: u64, rounds: u64, drawn: Mutex<Vec<(u64, Arc<Members>)>> },
}

/// The examples of every bin or step.
type Members = Vec<Vec<u64>>;

/// Maximum number of examples: with bins a table of them is kept, and otherwise every step draws for a whole group.
const MAX_EXAMPLES: u64 = 1 << 32;
/// Steps count from 1, so this node belongs to no step.
const BIN_NODE: Node = Node { level: 0, index: 0 };
/// Rounds have a separate level.
fn round_node(round: u64) -> Node {
    Node { level: 1, index: round }
}

impl Batches {
    /// The batches of a plan, for this number of examples.
    ///
    /// # Errors
    /// If the plan has no sampling, or the number of examples is 0 or above 2^32.
    pub fn new(plan: &VectorPlan, key: &SecretKey, name: StreamName, examples: u64) -> Result<Self> {
        let Some(sampling) = plan.request().sampling() else {
            return Err(Error::invalid(
                "the plan has no sampling, so the caller chooses its batches; for sampled batches, and less noise, \
                 plan with a sampled fraction, or with bins",
            ));
        };
        if examples == 0 {
            return Err(Error::invalid("there are no examples to sample batches from"));
        }
        if examples > MAX_EXAMPLES {
            return Err(Error::invalid(format!("batches can be sampled from at most 2^32 examples, got {examples}")));
        }
        let draw = match (sampling.bins(), sampling.fresh_bins(), plan.groups()) {
            (Some(bins), ..) => BatchSampler::Bins { bins, members: OnceLock::new() },
            (None, Some(bins), _) => {
                let rests = plan.request().participation().separation() - 1;
                BatchSampler::FreshBins {
                    bins,
                    places: bins - rests, // the plan was made with it
                    rounds: plan.horizon().div_ceil(bins),
                    drawn: Mutex::default(),
                }
            }
            (None, None, groups) => {
                let groups = groups.expect("a plan without bins has groups");
                let rate = sampling.rate(groups).expect("the plan was made with it");
                // Rounded down; only a rate of 1 is every example. Casts saturate.
                BatchSampler::Steps { groups, threshold: (rate < 1.0).then(|| (rate * 2f64.powi(64)) as u64) }
            }
        };
        let lots = KeyedNoise::unrecorded(key, &name, &plan.digest(), Purpose::Batches);
        Ok(Self { lots, horizon: plan.horizon(), examples, fraction: sampling.fraction(), draw })
    }

    /// The examples of a step (1 ..= T), in the order of their numbers. `O(examples / groups)`; with bins the first
    /// call takes `O(examples)`, with fresh bins the first call of every epoch, and 8 bytes of memory per example.
    ///
    /// # Errors
    /// If the step is 0 or beyond the horizon, or the bins of all examples do not fit into memory.
    pub fn batch(&self, step: u64) -> Result<Vec<u64>> {
        if !(1..=self.horizon).contains(&step) {
            return Err(Error::invalid(format!("step {step} is not one of the plan's {} steps", self.horizon)));
        }
        match &self.draw {
            BatchSampler::Steps { groups, threshold } => {
                let mut bits = self.lots.bits(Node { level: 0, index: step });
                let of_group = ((step - 1) % groups..self.examples).step_by(*groups as usize);
                let Some(threshold) = *threshold else { return Ok(of_group.collect()) };
                Ok(of_group.filter(|_| bits.next_u64() < threshold).collect())
            }
            BatchSampler::Bins { bins, members } => {
                let members = match members.get() {
                    Some(members) => members,
                    None => {
                        let made = self.dealt(BIN_NODE, 1, *bins)?;
                        members.get_or_init(|| made)
                    }
                };
                Ok(members[((step - 1) % bins) as usize].clone())
            }
            BatchSampler::FreshBins { bins, places, rounds, drawn } => {
                // The round that begins with this epoch, and the one before (before the first round, the last).
                let (epoch, place) = ((step - 1) / bins, (step - 1) % bins);
                let own = |round: u64, place: u64| -> Result<Vec<u64>> {
                    let members = self.kept_round(drawn, round, *bins, *places)?;
                    Ok(members.get(place as usize).cloned().unwrap_or_default())
                };
                let mut batch = own((epoch + rounds - 1) % rounds, place + bins)?;
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
        bins: u64,
        places: u64,
    ) -> Result<Arc<Members>> {
        let mut drawn = drawn.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, members)) = drawn.iter().find(|(kept, _)| *kept == round) {
            return Ok(members.clone());
        }
        let members = Arc::new(self.dealt(round_node(round), bins, places)?);
        if drawn.len() == 2 {
            drawn.remove(0);
        }
        drawn.push((round, members.clone()));
        Ok(members)
    }

    /// The examples of every bin, or of the first step of a round, the second, and so on, up to the last step of the
    /// last phase. An example's number gives its phase, and a uniform place is drawn from there on.
    fn dealt(&self, node: Node, phases: u64, places: u64) -> Result<Members> {
        let mut members = self.room_for(phases + places - 1, phases.max(places))?;
        let mut bits = self.lots.bits(node);
        for example in 0..self.examples {
            members[(example % phases + uniform(&mut bits, places)) as usize].push(example);
        }
        Ok(members)
    }

    /// `lists` empty lists, for bins with the `parts`-th part of all examples.
    fn room_for(&self, lists: u64, parts: u64) -> Result<Members> {
        let mut members: Members = vec![vec![]; lists as usize]; // fits: the plan has a table of them
        let room = usize::try_from(self.examples / parts).unwrap_or(usize::MAX);
        // The lists of a round are shorter at its ends: half as many have room for all.
        let many = members.iter_mut().take(parts as usize).any(|bin| bin.try_reserve(room).is_err());
        if many {
            return Err(Error::invalid(format!(
                "{} examples do not fit into memory: their bins take 8 bytes per example",
                self.examples
            )));
        }
        Ok(members)
    }

    /// The number of groups of examples, if a fraction of them is sampled.
    pub fn groups(&self) -> Option<u64> {
        match self.draw {
            BatchSampler::Steps { groups, .. } => Some(groups),
            BatchSampler::Bins { .. } | BatchSampler::FreshBins { .. } => None,
        }
    }

    /// The number of bins, if examples are put into bins once.
    pub fn bins(&self) -> Option<u64> {
        match self.draw {
            BatchSampler::Bins { bins, .. } => Some(bins),
            BatchSampler::Steps { .. } | BatchSampler::FreshBins { .. } => None,
        }
    }

    /// The number of bins of every epoch, if examples are put into bins again in each.
    pub fn fresh_bins(&self) -> Option<u64> {
        match self.draw {
            BatchSampler::FreshBins { bins, .. } => Some(bins),
            BatchSampler::Steps { .. } | BatchSampler::Bins { .. } => None,
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
        self.fraction * self.examples as f64
    }
}

impl std::fmt::Debug for Batches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { horizon, examples, fraction, draw, .. } = self;
        match draw {
            BatchSampler::Steps { groups, .. } => {
                write!(f, "Batches({horizon} steps, {fraction} of {examples} examples in {groups} groups)")
            }
            BatchSampler::Bins { bins, .. } => {
                write!(f, "Batches({horizon} steps, {examples} examples in {bins} bins)")
            }
            BatchSampler::FreshBins { bins, .. } => {
                write!(f, "Batches({horizon} steps, {examples} examples in {bins} bins, drawn again in every epoch)")
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
