//! Noise of the same running sums, step after step.
//!
//! Under [`LazySampling::Keyed`](super::LazySampling::Keyed) a single read draws every node on the path of its step. If
//! many running sums are read again and again, most of these nodes are also on the path of the previous step. The
//! shared part of both paths is cached for the sums of the last call, which leaves two nodes per step to draw on
//! average. Values equal those of single reads: a node has one value, whatever draws it.
//!
//! This is a cache, not a state: it is not saved, and forgotten values are drawn again.

use crate::mechanism::Walk;
use crate::noise::{KeyedNoise, Node};
use crate::number::threads::{asked, share};
use crate::plan::Plan;
use std::sync::Arc;

/// Maximum number of cached numbers, of 16 bytes each: sums beyond them are drawn again.
const MAX_CACHED_VALUES: usize = 1 << 22;
/// Sums that a thread processes at once.
const TASK: usize = 1 << 11;

/// The sums of the last call, with their known noise.
pub(super) struct Forward {
    walk: Arc<dyn Walk>,
    /// In ascending order.
    sums: Vec<Remembered>,
    /// Along the path of its last step, the noise from the root down to each place: `depth` numbers per sum.
    prefixes: Vec<i128>,
    depth: usize,
}

struct Remembered {
    coordinate: u64,
    keyed: KeyedNoise,
    /// Step of the last read; 0 before the first.
    step: u64,
}

/// The path of a step, and the length of the part it shares with an earlier step.
struct StepPath {
    walk: Arc<dyn Walk>,
    step: u64,
    places: Vec<(Node, i128)>,
}

impl Forward {
    /// An empty cache; `None` if the mechanism is not a sum along paths with integer weights.
    pub(super) fn new(plan: &Plan) -> Option<Self> {
        let walk = Arc::from(plan.mechanism().lazy()?.into_walk()?);
        Some(Self { walk, sums: Vec::new(), prefixes: Vec::new(), depth: 0 })
    }

    /// The number of cached sums.
    pub(super) fn len(&self) -> usize {
        self.sums.len()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.sums.capacity() * size_of::<Remembered>() + self.prefixes.capacity() * size_of::<i128>()
    }

    /// Appends to `noise` the noise of sums (in ascending order) at a step: of the first ones, as many as the cache
    /// holds.
    pub(super) fn read(
        &mut self,
        plan: &Plan,
        keyed: &KeyedNoise,
        coordinates: &[u64],
        step: u64,
        noise: &mut Vec<i128>,
    ) {
        let Some(path) = StepPath::of(Arc::clone(&self.walk), step) else { return };
        let depth = self.depth.max(path.places.len());
        self.remember(keyed, &coordinates[..coordinates.len().min(MAX_CACHED_VALUES / depth)], depth);
        let first = noise.len();
        noise.resize(first + self.sums.len(), 0);
        let tasks = self.sums.chunks_mut(TASK).zip(self.prefixes.chunks_mut(TASK * depth));
        let tasks = tasks.zip(noise[first..].chunks_mut(TASK));
        let threads = asked(0).min(coordinates.len() / TASK).max(1);
        share(threads, tasks, |tasks| {
            for ((sums, prefixes), noise) in tasks {
                path.walk_all(plan, sums, prefixes, depth, noise);
            }
        });
    }

    /// Makes these the cached sums; keeps their values that are already known.
    fn remember(&mut self, keyed: &KeyedNoise, coordinates: &[u64], depth: usize) {
        let same = self.sums.iter().map(|sum| &sum.coordinate).eq(coordinates);
        if same && self.depth == depth {
            return;
        }
        let (old, known, stride) = (std::mem::take(&mut self.sums), std::mem::take(&mut self.prefixes), self.depth);
        let mut prefixes = vec![0; coordinates.len() * depth];
        let mut old = old.into_iter().enumerate().peekable();
        let mut take = |(place, &coordinate): (usize, &u64)| {
            while old.next_if(|(_, sum)| sum.coordinate < coordinate).is_some() {}
            match old.next_if(|(_, sum)| sum.coordinate == coordinate) {
                Some((was, sum)) => {
                    prefixes[place * depth..][..stride].copy_from_slice(&known[was * stride..][..stride]);
                    sum
                }
                None => Remembered { coordinate, keyed: keyed.of_sum(coordinate), step: 0 },
            }
        };
        self.sums = coordinates.iter().enumerate().map(&mut take).collect();
        (self.prefixes, self.depth) = (prefixes, depth);
    }
}

impl StepPath {
    /// `None` if a weight is not an integer.
    fn of(walk: Arc<dyn Walk>, step: u64) -> Option<Self> {
        let (mut places, mut whole) = (Vec::new(), true);
        walk.visit(step, &mut |node, weight| {
            whole &= weight.trunc() == weight;
            places.push((node, weight as i128));
        });
        whole.then_some(Self { walk, step, places })
    }

    /// Continues to the end of the path for each of some sums.
    fn walk_all(&self, plan: &Plan, sums: &mut [Remembered], prefixes: &mut [i128], depth: usize, noise: &mut [i128]) {
        // Nearly always all of them were last read at the same step.
        let mut last = (0, 0);
        for ((sum, known), noise) in sums.iter_mut().zip(prefixes.chunks_exact_mut(depth)).zip(noise) {
            if sum.step != last.0 {
                last = (sum.step, self.shared_with(sum.step));
            }
            let shared = last.1;
            let mut value = if shared == 0 { 0 } else { known[shared - 1] };
            for (place, (node, weight)) in self.places.iter().enumerate().skip(shared) {
                // fits: as for the mechanism's cursor.
                value += weight * plan.law().sample(&mut sum.keyed.bits(*node));
                known[place] = value;
            }
            sum.step = self.step;
            *noise = plan.rounded_noise(value);
        }
    }

    /// The number of places of this path that are also on the path of another step.
    fn shared_with(&self, step: u64) -> usize {
        match step {
            0 => 0,
            _ if step == self.step => self.places.len(),
            _ => self.walk.shared(step.min(self.step), step.max(self.step)) as usize,
        }
    }
}
