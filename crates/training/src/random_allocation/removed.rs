//! The case of a removed example: weights by tuples of bins; see the header of `random_allocation.rs`.

use super::RandomAllocation;
use super::bets::DrawnWeights;
use super::coins::Coins;
use super::paths::{LANES, Paths, in_parts};
use super::smoothed::Smoothed;
use evertally_kernels::InstructionSet;
use evertally_kernels::interleaved::{exp, exponentials, inner_product};
use std::ops::Range;

/// Maximum number of bins of a tuple.
const MAX_TUPLE_BINS: usize = 16;
/// Exponents stay below this.
const MAX_EXPONENT: f64 = 600.0;
/// Tables are made in at most this many parts, of at least this many rows.
const PARTS: usize = 16;
const MIN_ROWS: usize = 64;
/// Number of tuples drawn per vector of noise, which costs about as much as they do.
const TUPLES_PER_VECTOR: usize = 4;

/// An allocation under a noise.
pub(super) struct Tuples<'a> {
    allocation: &'a RandomAllocation,
    noise: f64,
    /// `e^{G_ij}`.
    factors: Vec<f64>,
    /// The sums of row `i`, chunk by chunk.
    sums: Vec<f64>,
    /// In row `i`, the range in which factors may differ from 1.
    reaches: Vec<Range<usize>>,
    /// `A_k` for `k = 0, 1, …`: as many as do not overflow.
    largest: Vec<f64>,
    /// `τ²` of a round.
    common: f64,
    /// Those that compute exponentials and inner products.
    instructions: InstructionSet,
}

impl<'a> Tuples<'a> {
    /// `None` if the noise is so small that numbers would overflow.
    pub(super) fn new(allocation: &'a RandomAllocation, noise: f64) -> Option<Self> {
        let square = noise * noise;
        let most = (MAX_EXPONENT * square / allocation.largest()) as usize; // casts saturate
        if most < 3 {
            return None;
        }
        let bins = allocation.bins;
        let factors = factors(&allocation.gram, bins, square);
        let reach = |row: &[f64]| {
            let first = row.iter().position(|factor| *factor != 1.0).unwrap_or(0);
            first..row.iter().rposition(|factor| *factor != 1.0).map_or(first, |last| last + 1)
        };
        let reaches: Vec<_> = factors.chunks(bins).map(reach).collect();
        let common = allocation.common() / square;
        let longest = most.min(MAX_TUPLE_BINS);
        let rows = bins.div_ceil(PARTS).max(MIN_ROWS);
        let of_rows = in_parts(bins.div_ceil(rows) as u64, |part| {
            let all = factors.chunks(bins).zip(&reaches).skip(part as usize * rows).take(rows);
            largest_sums(all, longest)
        });
        let mut largest = vec![0.0f64; longest];
        for sums in of_rows {
            largest.iter_mut().zip(sums).for_each(|(own, sum)| *own = own.max(sum));
        }
        for (k, own) in largest.iter_mut().enumerate() {
            *own *= libm::exp(-(k as f64) * common);
        }
        let sums = factors.chunks(bins).flat_map(|row| row.chunks(CHUNK).map(added_up)).collect();
        let instructions = InstructionSet::best();
        Some(Self { allocation, noise, factors, sums, reaches, largest, common, instructions })
    }

    /// `B` for tuples of `s` bins.
    pub(super) fn bound(&self, bins: usize, epsilon: f64) -> f64 {
        let logs = self.largest[..bins].iter().map(|a| libm::log(*a)).sum::<f64>() * self.allocation.rounds as f64;
        self.allocation.smoothed(self.noise, epsilon).peak(bins as f64 - 1.0)
            * libm::exp(logs)
            * (1.0 + super::ROUNDING)
    }

    /// The number of bins with the smallest bound.
    pub(super) fn tightest(&self, epsilon: f64) -> usize {
        let bounds = (2..=self.largest.len()).map(|bins| (bins, self.bound(bins, epsilon)));
        bounds.min_by(|a, b| a.1.total_cmp(&b.1)).expect("there are at least three").0
    }

    /// A bound of `ln E M²` of a round.
    pub(super) fn log_second_moment(&self) -> f64 {
        libm::log(self.largest[1]) + self.common
    }

    /// The largest number of bins of a tuple.
    pub(super) fn longest(&self) -> usize {
        self.largest.len()
    }

    /// The number of uniform coins that the tuples of one block of vectors take.
    pub(super) fn coins_of_block(bins: usize) -> u64 {
        (LANES * TUPLES_PER_VECTOR * bins) as u64
    }

    /// At least this many weights for tuples of this many bins, each the mean over several tuples with the same noise.
    pub(super) fn weights(
        &self,
        bins: usize,
        epsilon: f64,
        count: u64,
        paths: &mut Paths,
        tuple_coins: &mut Coins,
    ) -> DrawnWeights {
        let mut weights = DrawnWeights::default();
        let half = 0.5 / (self.noise * self.noise);
        let diagonal = self.allocation.gram.iter().step_by(self.allocation.bins + 1);
        let below: Vec<f64> = diagonal.map(|square| half * (square - self.allocation.common())).collect();
        let mut tuple = Tuple::new(self.allocation.bins);
        let mut likelihoods = vec![[0.0; LANES]; self.allocation.bins];
        let mut of_lane = vec![0.0; self.allocation.bins];
        let rounds = self.allocation.rounds;
        let smoothed = self.allocation.smoothed(self.noise, epsilon);
        let mut seen = [[Seen::default(); TUPLES_PER_VECTOR]; LANES];
        paths.visit_rounds(count, rounds, |round, block| {
            exponentials(self.instructions, block, 1.0 / self.noise, &below, &mut likelihoods);
            for (lane, seen) in seen.iter_mut().enumerate() {
                for (own, likelihood) in of_lane.iter_mut().zip(&likelihoods) {
                    *own = likelihood[lane];
                }
                if round == 0 {
                    seen.fill(Seen::default());
                }
                seen.iter_mut().for_each(|seen| self.add_round(seen, bins, tuple_coins, &mut tuple, &of_lane));
                if round + 1 == rounds {
                    let sum: f64 = seen.iter().map(|seen| seen.weight(bins, smoothed)).sum();
                    weights.push(sum / TUPLES_PER_VECTOR as f64);
                }
            }
        });
        weights
    }

    /// A round of a new tuple, with the likelihood ratios of the bins under the noise alone.
    fn add_round(&self, seen: &mut Seen, bins: usize, tuple_coins: &mut Coins, tuple: &mut Tuple, likelihoods: &[f64]) {
        // The factors are those of bins with the common move; each pair of a tuple has one `e^{-τ²}` for it.
        let s = bins as f64;
        seen.log_weight += tuple.draw(bins, self, tuple_coins) - 0.5 * s * (s - 1.0) * self.common;
        let ratio = inner_product(self.instructions, &tuple.products, likelihoods) / self.allocation.bins as f64;
        seen.log_ratio += libm::log(ratio) - s * self.common;
    }
}

/// `e^{G_ij}`: those of bins without a row in common are 1.
fn factors(gram: &[f64], bins: usize, square: f64) -> Vec<f64> {
    let mut factors = vec![1.0; gram.len()];
    let rows = bins.div_ceil(PARTS).max(MIN_ROWS);
    // The first place of a row that is not 0, and the factors up to the diagonal.
    let below = in_parts(bins.div_ceil(rows) as u64, |part| {
        let all = (0..bins).skip(part as usize * rows).take(rows);
        let of_row = |i: usize| {
            let row = &gram[i * bins..][..=i];
            let first = row.iter().position(|product| *product != 0.0).unwrap_or(i);
            (first, row[first..].iter().map(|product| exp(product / square)).collect::<Vec<_>>())
        };
        all.map(of_row).collect::<Vec<_>>()
    });
    for (i, (first, row)) in below.into_iter().flatten().enumerate() {
        factors[i * bins + first..=i * bins + i].copy_from_slice(&row);
        for (j, factor) in (first..i).zip(row) {
            factors[j * bins + i] = factor;
        }
    }
    factors
}

/// The largest `(1/b) Σ_j e^{k G_ij}` of some rows, for `k = 0, 1, …`.
fn largest_sums<'a>(rows: impl Iterator<Item = (&'a [f64], &'a Range<usize>)>, longest: usize) -> Vec<f64> {
    let mut largest = vec![0.0f64; longest];
    for (row, reach) in rows {
        let (bins, row, ones) = (row.len(), &row[reach.clone()], (row.len() - reach.len()) as f64);
        let mut powers = vec![1.0; row.len()];
        for own in &mut largest {
            *own = own.max((ones + added_up(&powers)) / bins as f64);
            for (power, factor) in powers.iter_mut().zip(row) {
                *power *= factor;
            }
        }
    }
    largest
}

/// The accumulated quantities of a tuple and the noise, round by round.
#[derive(Clone, Copy, Default)]
struct Seen {
    /// `ln Π S_l/b`.
    log_weight: f64,
    /// `ln M'`.
    log_ratio: f64,
}

impl Seen {
    /// `W`.
    fn weight(&self, bins: usize, smoothed: Smoothed) -> f64 {
        let exceeding = smoothed.at(smoothed.epsilon - self.log_ratio);
        if exceeding <= 0.0 {
            return 0.0;
        }
        libm::exp(self.log_weight - (bins as f64 - 1.0) * self.log_ratio) * exceeding
    }
}

/// Number of entries with a separate sum.
const CHUNK: usize = 16;

/// In four interleaved sums, which take a quarter of the time.
fn added_up(values: &[f64]) -> f64 {
    let (fours, rest) = values.as_chunks::<4>();
    let mut lanes = [0.0; 4];
    for four in fours {
        for (lane, value) in lanes.iter_mut().zip(four) {
            *lane += value;
        }
    }
    (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]) + rest.iter().sum::<f64>()
}

/// A tuple as it is drawn.
struct Tuple {
    /// `Π e^{G_(i j)}` over the bins so far, for every bin `j`.
    products: Vec<f64>,
    /// Their sums, chunk by chunk.
    sums: Vec<f64>,
}

impl Tuple {
    fn new(bins: usize) -> Self {
        Self { products: vec![0.0; bins], sums: vec![0.0; bins.div_ceil(CHUNK)] }
    }

    /// Draws this many bins, one after another; returns the logarithm of `Π S_l/b`.
    fn draw(&mut self, bins: usize, tuples: &Tuples, tuple_coins: &mut Coins) -> f64 {
        let all = self.products.len();
        let first = ((tuple_coins.uniform() * all as f64) as usize).min(all - 1);
        self.products.copy_from_slice(&tuples.factors[first * all..][..all]);
        let chunks = self.sums.len();
        self.sums.copy_from_slice(&tuples.sums[first * chunks..][..chunks]);
        let mut log_weight = 0.0;
        let mut changed = 0..0;
        for _ in 1..bins {
            // Only the changed chunks.
            let chunks = changed.start / CHUNK..changed.end.div_ceil(CHUNK);
            let products = self.products.chunks(CHUNK).skip(chunks.start);
            for (sum, chunk) in self.sums[chunks].iter_mut().zip(products) {
                *sum = added_up(chunk);
            }
            let sum = added_up(&self.sums);
            log_weight += libm::log(sum / all as f64);
            let bin = self.chosen(tuple_coins.uniform() * sum);
            changed = tuples.reaches[bin].clone();
            let factors = &tuples.factors[bin * all..][changed.clone()];
            for (product, factor) in self.products[changed.clone()].iter_mut().zip(factors) {
                *product *= factor;
            }
        }
        log_weight
    }

    /// The first bin at which the sum of the products so far is above a threshold.
    fn chosen(&self, mut threshold: f64) -> usize {
        let chunk = self.sums.iter().position(|sum| {
            let is_here = threshold < *sum;
            threshold -= if is_here { 0.0 } else { *sum };
            is_here
        });
        let Some(chunk) = chunk else { return self.products.len() - 1 };
        let products = self.products[chunk * CHUNK..].iter().take(CHUNK);
        let within = products.take_while(|product| {
            threshold -= **product;
            threshold >= 0.0
        });
        (chunk * CHUNK + within.count()).min(self.products.len() - 1)
    }
}
