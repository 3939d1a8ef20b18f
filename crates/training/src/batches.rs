//! The batches of a plan with sampling.

use super::VectorPlan;
use evertally::noise::{KeyedNoise, Node, Purpose, RandomBits, SecretKey, StreamName};
use evertally::{Error, Result};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Who takes part when: the lots of a [plan with sampling](super::VectorRequest::with_sampling), drawn from the key.
///
/// Examples have the numbers `0 .. examples`, which stay with them. Of a plan with a **fraction**, in step `t` (from 1)
/// every example of group `(t-1) mod groups`, those whose number leaves that remainder, takes part with the plan's
/// rate: if its 64 bits, a function of key, name, plan, step and number, are below `⌊rate · 2^64⌋`. Of a plan with
/// **bins** every example has one bin, a uniform number that is a function of key, name, plan and number, and takes
/// part in the steps of that bin. With **fresh bins** it rests between its steps: an example whose number leaves the
/// remainder φ modulo the `b` bins has in every round `e` (from 0) a uniform lot `p` of `0 … b-w`, a function of key, name,
/// plan, round and number, for a mechanism of `w` bands, and takes part in the step `(e b + φ + p) mod E b` (from 0), if there
/// is one; `E` rounds cover the horizon. So a run can be begun again, and nobody has to trust a loader's seed.
///
/// **Secrecy.** The promise of the plan holds for whoever does not know the batches: they are as secret as the key.
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
    draw: Draw,
}

/// What is drawn.
enum Draw {
    /// For every step anew: `⌊rate · 2^64⌋`, `None` where everybody of a group takes part.
    Steps { groups: u64, threshold: Option<u64> },
    /// Once: who is in which bin, by bins; made when it is first asked for.
    Bins { bins: u64, members: OnceLock<Vec<Vec<u64>>> },
    /// In every round: who takes part how many steps after it has begun; the last two rounds that were asked for.
    FreshBins { bins: u64, places: u64, rounds: u64, drawn: Mutex<Vec<(u64, Arc<Members>)>> },
}

/// Who is where.
type Members = Vec<Vec<u64>>;

/// Most examples: of bins a table of them is kept, and otherwise all of a group are drawn for in every step.
const MOST_EXAMPLES: u64 = 1 << 32;
/// Steps count from 1: this node is none of theirs.
const OF_BINS: Node = Node { level: 0, index: 0 };
/// Rounds have a level of their own.
fn of_round(round: u64) -> Node {
    Node { level: 1, index: round }
}

impl Batches {
    /// Of a plan, for so many examples.
    ///
    /// # Errors
    /// If the plan is one without sampling, there is no example, or there are more than 2^32.
    pub fn new(plan: &VectorPlan, key: &SecretKey, name: StreamName, examples: u64) -> Result<Self> {
        let Some(sampling) = plan.request().sampling() else {
            return Err(Error::invalid(
                "the plan is one without sampling: its batches are the caller's; to have them drawn, and less noise, plan \
                 with a sampled fraction, or with bins",
            ));
        };
        if examples == 0 {
            return Err(Error::invalid("there is no example to draw batches from"));
        }
        if examples > MOST_EXAMPLES {
            return Err(Error::invalid(format!("batches are drawn of up to 2^32 examples, got {examples}")));
        }
        let draw = match (sampling.bins(), sampling.fresh_bins(), plan.groups()) {
            (Some(bins), ..) => Draw::Bins { bins, members: OnceLock::new() },
            (None, Some(bins), _) => {
                let rests = plan.request().participation().separation() - 1;
                Draw::FreshBins {
                    bins,
                    places: bins - rests, // the plan was made with it
                    rounds: plan.horizon().div_ceil(bins),
                    drawn: Mutex::default(),
                }
            }
            (None, None, groups) => {
                let groups = groups.expect("there are groups where there are no bins");
                let rate = sampling.rate(groups).expect("the plan was made with it");
                // Rounded down; 1 alone is everybody. Casts saturate.
                Draw::Steps { groups, threshold: (rate < 1.0).then(|| (rate * 2f64.powi(64)) as u64) }
            }
        };
        let lots = KeyedNoise::unrecorded(key, &name, &plan.digest(), Purpose::Batches);
        Ok(Self { lots, horizon: plan.horizon(), examples, fraction: sampling.fraction(), draw })
    }

    /// The examples of a step (1 ..= T), in order of their numbers. `O(examples / groups)`; with bins the first call
    /// takes `O(examples)`, with fresh bins the first of every epoch, and 8 bytes of memory for each.
    ///
    /// # Errors
    /// If the step is 0 or beyond the horizon, or bins of so many examples do not fit the memory.
    pub fn batch(&self, step: u64) -> Result<Vec<u64>> {
        if !(1..=self.horizon).contains(&step) {
            return Err(Error::invalid(format!("step {step} is not one of the plan's {} steps", self.horizon)));
        }
        match &self.draw {
            Draw::Steps { groups, threshold } => {
                let mut bits = self.lots.bits(Node { level: 0, index: step });
                let of_group = ((step - 1) % groups..self.examples).step_by(*groups as usize);
                let Some(threshold) = *threshold else { return Ok(of_group.collect()) };
                Ok(of_group.filter(|_| bits.next_u64() < threshold).collect())
            }
            Draw::Bins { bins, members } => {
                let members = match members.get() {
                    Some(members) => members,
                    None => {
                        let made = self.dealt(OF_BINS, 1, *bins)?;
                        members.get_or_init(|| made)
                    }
                };
                Ok(members[((step - 1) % bins) as usize].clone())
            }
            Draw::FreshBins { bins, places, rounds, drawn } => {
                // Of the round that begins with this epoch, and of the one before, or the last before the first.
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

    /// A round that was asked for lately, or drawn.
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
        let members = Arc::new(self.dealt(of_round(round), bins, places)?);
        if drawn.len() == 2 {
            drawn.remove(0);
        }
        drawn.push((round, members.clone()));
        Ok(members)
    }

    /// Who is in which bin, or who takes part in the first step of a round, in the second, and so on, up to the last of the
    /// last phase. An example has the phase that its number leaves, and a uniform place from there on.
    fn dealt(&self, node: Node, phases: u64, places: u64) -> Result<Members> {
        let mut members = self.room_for(phases + places - 1, phases.max(places))?;
        let mut bits = self.lots.bits(node);
        for example in 0..self.examples {
            members[(example % phases + uniform(&mut bits, places)) as usize].push(example);
        }
        Ok(members)
    }

    /// So many empty lists, of bins with the `parts`-th part of all examples.
    fn room_for(&self, lists: u64, parts: u64) -> Result<Members> {
        let mut members: Members = vec![vec![]; lists as usize]; // fits: the plan has a table of them
        let room = usize::try_from(self.examples / parts).unwrap_or(usize::MAX);
        // The lists of a round are shorter at its ends: half as many have room for all.
        let many = members.iter_mut().take(parts as usize).any(|bin| bin.try_reserve(room).is_err());
        if many {
            return Err(Error::invalid(format!(
                "{} examples do not fit the memory: who is in which bin takes 8 bytes for each",
                self.examples
            )));
        }
        Ok(members)
    }

    /// In how many groups the examples are, where a fraction of them is sampled.
    pub fn groups(&self) -> Option<u64> {
        match self.draw {
            Draw::Steps { groups, .. } => Some(groups),
            Draw::Bins { .. } | Draw::FreshBins { .. } => None,
        }
    }

    /// In how many bins they are, where they are put into bins once.
    pub fn bins(&self) -> Option<u64> {
        match self.draw {
            Draw::Bins { bins, .. } => Some(bins),
            Draw::Steps { .. } | Draw::FreshBins { .. } => None,
        }
    }

    /// In how many bins they are in every epoch, where they are put into bins anew.
    pub fn fresh_bins(&self) -> Option<u64> {
        match self.draw {
            Draw::FreshBins { bins, .. } => Some(bins),
            Draw::Steps { .. } | Draw::Bins { .. } => None,
        }
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
        let Self { horizon, examples, fraction, draw, .. } = self;
        match draw {
            Draw::Steps { groups, .. } => {
                write!(f, "Batches({horizon} steps, {fraction} of {examples} examples in {groups} groups)")
            }
            Draw::Bins { bins, .. } => write!(f, "Batches({horizon} steps, {examples} examples in {bins} bins)"),
            Draw::FreshBins { bins, .. } => {
                write!(f, "Batches({horizon} steps, {examples} examples in {bins} bins, anew in every epoch)")
            }
        }
    }
}

/// A whole number below `below`, at least 1: of 64 bits those are drawn again that would favour the first.
fn uniform(bits: &mut impl RandomBits, below: u64) -> u64 {
    // 2^64 mod `below` words too many.
    let surplus = (u64::MAX % below + 1) % below;
    std::iter::repeat_with(|| bits.next_u64()).find(|word| *word >= surplus).expect("without end") % below
}
