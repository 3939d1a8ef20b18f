//! How far noise moves the parameters: the variance of `(W e)_t` at every step, exactly.
//!
//! Momentum `m`, parameters `u` and their average `v` follow a recursion, and so do their covariances: given the
//! covariance of a step's increment `e` with `m`, `u` and `v`, the covariances of the next step follow ([`Iterates`]).
//! That covariance comes from the variables that later increments contain again ([`Echo`]): the nodes on a path, the
//! buffers of a BLT, or for Toeplitz matrices all innovations so far.
//!
//! Cost of all steps together: `O(T log T)` for trees, `O(T d²)` for a BLT with `d` buffers, `O(T)` for noise on each
//! step, `O(T²)` for the square roots.

use super::{Momentum, Optimizer, OptimizerStep};
use evertally::mechanism::{BufferSteps, MAX_BUFFERS, Mechanism, Streaming};
use evertally::noise::Node;
use evertally::{Error, Result};
use std::collections::VecDeque;

/// Longest horizon for mechanisms whose increments depend on all innovations.
const MAX_CONVOLUTION_STEPS: u64 = 1 << 14;
/// Longest horizon for mechanisms without a recursion here.
const MAX_DENSE_STEPS: u64 = 512;

/// The variance of the parameters after every step, for `σ = 1`.
///
/// # Errors
/// If the optimizer does not fit the horizon, or the horizon is too long for the mechanism.
pub(crate) fn variances(mechanism: &dyn Mechanism, optimizer: &Optimizer) -> Result<Vec<f64>> {
    let (steps, momentum) = (optimizer.steps(mechanism.horizon())?, optimizer.momentum_of_loop());
    match mechanism.streaming() {
        Some(Streaming::Paths(_)) => Ok(path_variances(mechanism, momentum, &steps)),
        Some(Streaming::Inputs) => {
            let mut iterates = Iterates::new(momentum);
            Ok(steps.iter().map(|step| iterates.advance(*step, Increment::fresh(1.0))).collect())
        }
        Some(Streaming::Buffers(buffers)) => Ok(buffer_variances(&buffers, momentum, &steps)),
        Some(Streaming::Outputs(past)) => {
            let mut increments = vec![1.0f64];
            for t in 1..steps.len() {
                let known = past.iter().zip(increments.iter().rev());
                let next = -known.map(|(c, u)| c * u).sum::<f64>();
                increments.push(next);
                debug_assert_eq!(increments.len(), t + 1);
            }
            convolution_variances(mechanism, &increments, None, momentum, &steps)
        }
        Some(Streaming::Bands(bands)) => {
            convolution_variances(mechanism, &bands.inverse, Some(&bands.scales), momentum, &steps)
        }
        Some(Streaming::Innovations(weights)) => convolution_variances(mechanism, &weights, None, momentum, &steps),
        Some(Streaming::Convolution(own)) => {
            convolution_variances(mechanism, &own.increments, own.scales.as_deref(), momentum, &steps)
        }
        _ => dense_variances(mechanism, momentum, &steps),
    }
}

/// The covariances of one increment with the state before it.
struct Increment {
    variance: f64,
    with: Echo,
}

impl Increment {
    /// Nothing.
    fn fresh(variance: f64) -> Self {
        Self { variance, with: Echo::default() }
    }
}

/// Covariances of momentum, parameters and their average.
struct Iterates {
    momentum: Momentum,
    mm: f64,
    mu: f64,
    uu: f64,
    mv: f64,
    uv: f64,
    vv: f64,
}

impl Iterates {
    fn new(momentum: Momentum) -> Self {
        Self { momentum, mm: 0.0, mu: 0.0, uu: 0.0, mv: 0.0, uv: 0.0, vv: 0.0 }
    }

    /// Adds a variable that no later increment contains.
    fn add(&mut self, echo: Echo) {
        let Echo { momentum: m, parameters: u, average: v } = echo;
        self.mm += m * m;
        self.mu += m * u;
        self.uu += u * u;
        self.mv += m * v;
        self.uv += u * v;
        self.vv += v * v;
    }

    /// The variance of the average after a step.
    fn advance(&mut self, step: OptimizerStep, increment: Increment) -> f64 {
        let Momentum { decay, look, fresh } = self.momentum;
        let Increment { variance, with } = increment;
        // The new momentum with the increment, itself and the state before.
        let with_increment = decay * with.momentum + variance;
        let mm = decay * (decay * self.mm + with.momentum) + with_increment;
        let (mu, mv) = (decay * self.mu + with.parameters, decay * self.mv + with.average);
        // The move of the parameters with the same.
        let move_m = look * mm + fresh * with_increment;
        let (move_u, move_v) = (look * mu + fresh * with.parameters, look * mv + fresh * with.average);
        let moved = look * move_m + fresh * (look * with_increment + fresh * variance);
        self.mm = mm;
        self.mu = step.kept * mu + step.rate * move_m;
        self.uu = step.kept * (step.kept * self.uu + 2.0 * step.rate * move_u) + step.rate * step.rate * moved;
        // The new parameters with the average before.
        let uv = step.kept * self.uv + step.rate * move_v;
        let (left, taken) = (1.0 - step.taken, step.taken);
        self.mv = left * mv + taken * self.mu;
        self.uv = left * uv + taken * self.uu;
        self.vv = left * (left * self.vv + 2.0 * taken * uv) + taken * taken * self.uu;
        self.vv
    }
}

/// The covariances of a variable with momentum, parameters and their average.
#[derive(Clone, Copy, Default)]
struct Echo {
    momentum: f64,
    parameters: f64,
    average: f64,
}

impl Echo {
    /// After a step in whose increment the variable has this covariance.
    fn advance(&mut self, momentum: Momentum, step: OptimizerStep, with_increment: f64) {
        self.momentum = momentum.decay * self.momentum + with_increment;
        let moved = momentum.look * self.momentum + momentum.fresh * with_increment;
        self.parameters = step.kept * self.parameters + step.rate * moved;
        self.average += step.taken * (self.parameters - self.average);
    }
}

/// Sums along paths: a node enters and leaves once, and a node that has left is never in an increment again.
fn path_variances(mechanism: &dyn Mechanism, momentum: Momentum, steps: &[OptimizerStep]) -> Vec<f64> {
    let mut iterates = Iterates::new(momentum);
    // Nodes of the last path, with their weights.
    let mut live: Vec<(Node, f64, Echo)> = vec![];
    let mut path: Vec<(Node, f64)> = vec![];
    let mut of_step = |(number, step): (usize, &OptimizerStep)| {
        path.clear();
        mechanism.visit_row(number as u64 + 1, &mut |node, weight| path.push((node, weight)));
        let weight = |node: Node| path.iter().find(|(other, _)| *other == node).map_or(0.0, |(_, weight)| *weight);
        let gone = live.iter().map(|(node, before, echo)| (*node, weight(*node) - before, *echo));
        let come = path.iter().filter(|(node, _)| live.iter().all(|(other, ..)| other != node));
        let come = come.map(|(node, weight)| (*node, *weight, Echo::default()));
        let changed: Vec<(Node, f64, Echo)> = gone.chain(come).collect();
        let sum = |of: fn(&Echo) -> f64| changed.iter().map(|(_, change, echo)| change * of(echo)).sum::<f64>();
        let increment = Increment {
            variance: changed.iter().map(|(_, change, _)| change * change).sum(),
            with: Echo {
                momentum: sum(|echo| echo.momentum),
                parameters: sum(|echo| echo.parameters),
                average: sum(|echo| echo.average),
            },
        };
        let variance = iterates.advance(*step, increment);
        live = changed
            .into_iter()
            .filter(|(node, ..)| weight(*node) != 0.0)
            .map(|(node, change, mut echo)| {
                echo.advance(momentum, *step, change);
                (node, weight(node), echo)
            })
            .collect();
        variance
    };
    steps.iter().enumerate().map(&mut of_step).collect()
}

/// `u = z - Σ ω_i B_i`, `B_i ← θ_i B_i + u`, and the increment is `D u`.
fn buffer_variances(buffers: &BufferSteps, momentum: Momentum, steps: &[OptimizerStep]) -> Vec<f64> {
    let mut covariances = BufferCovariances::new(buffers);
    let (mut iterates, mut variances) = (Iterates::new(momentum), Vec::with_capacity(steps.len()));
    let mut segments = buffers.segments.iter().peekable();
    for (number, step) in (1..).zip(steps) {
        while segments.peek().is_some_and(|(last, _)| *last < number) {
            segments.next();
        }
        let scale = segments.peek().map_or(1.0, |(_, scale)| *scale);
        variances.push(covariances.advance(&mut iterates, *step, scale));
    }
    variances
}

/// One number per buffer; those beyond the number of buffers are and stay 0.
type BufferValues = [f64; MAX_BUFFERS];

/// The covariances of the buffers of a BLT: with one another, with momentum, with the parameters and their average.
struct BufferCovariances {
    count: usize,
    /// `θ_i` and `ω_i`.
    kept: BufferValues,
    echoes: BufferValues,
    between: [BufferValues; MAX_BUFFERS],
    with_momentum: BufferValues,
    with_parameters: BufferValues,
    with_average: BufferValues,
}

impl BufferCovariances {
    fn new(buffers: &BufferSteps) -> Self {
        let (mut kept, mut echoes) = (BufferValues::default(), BufferValues::default());
        kept.iter_mut().zip(&buffers.gaps).for_each(|(kept, gap)| *kept = 1.0 - gap);
        echoes.iter_mut().zip(&buffers.echoes).for_each(|(own, echo)| *own = *echo);
        let between = [BufferValues::default(); MAX_BUFFERS];
        let [with_momentum, with_parameters, with_average] = [BufferValues::default(); 3];
        Self { count: buffers.gaps.len(), kept, echoes, between, with_momentum, with_parameters, with_average }
    }

    /// `-Σ ω_i x_i`: the covariance of `u` with the variable that has these covariances with the buffers.
    #[inline]
    fn echoed(&self, with: &BufferValues) -> f64 {
        -self.echoes[..self.count].iter().zip(with).map(|(echo, x)| echo * x).sum::<f64>()
    }

    /// The variance of the parameters after a step whose increment is `scale · u`.
    fn advance(&mut self, iterates: &mut Iterates, step: OptimizerStep, scale: f64) -> f64 {
        let mut with = BufferValues::default();
        for (with, row) in with.iter_mut().zip(&self.between[..self.count]) {
            *with = self.echoed(row);
        }
        let own = 1.0 + self.echoed(&with);
        let with_state =
            [&self.with_momentum, &self.with_parameters, &self.with_average].map(|values| self.echoed(values));
        let [momentum, parameters, average] = with_state.map(|with| scale * with);
        let increment = Increment { variance: scale * scale * own, with: Echo { momentum, parameters, average } };
        let (variance, momentum) = (iterates.advance(step, increment), iterates.momentum);
        for i in 0..self.count {
            let kept = self.kept[i];
            let mut echo = Echo {
                momentum: kept * self.with_momentum[i] + with_state[0],
                parameters: kept * self.with_parameters[i] + with_state[1],
                average: kept * self.with_average[i] + with_state[2],
            };
            echo.advance(momentum, step, scale * (kept * with[i] + own));
            (self.with_momentum[i], self.with_parameters[i], self.with_average[i]) =
                (echo.momentum, echo.parameters, echo.average);
            let row = &mut self.between[i];
            for (j, between) in row[..self.count].iter_mut().enumerate() {
                *between = kept * self.kept[j] * *between + kept * with[i] + self.kept[j] * with[j] + own;
            }
        }
        variance
    }
}

/// Increments `D_t Σ_j r_j z_(t-j)`: every innovation is followed separately, all of them in parallel, as long as later
/// increments contain it, and from then on together with all before it; if the time of an innovation does not matter,
/// the first one stands for all.
fn convolution_variances(
    mechanism: &dyn Mechanism,
    increments: &[f64],
    scales: Option<&[f64]>,
    momentum: Momentum,
    steps: &[OptimizerStep],
) -> Result<Vec<f64>> {
    let entry = |t: usize, j: usize| increments.get(t - j).map_or(0.0, |r| r * scales.map_or(1.0, |scales| scales[t]));
    if scales.is_none() && steps.iter().all(|step| *step == steps[0]) {
        let (mut echo, mut sum) = (Echo::default(), 0.0);
        let squares = steps.iter().enumerate().map(|(t, step)| {
            echo.advance(momentum, *step, entry(t, 0));
            sum += echo.average * echo.average;
            sum
        });
        return Ok(squares.collect());
    }
    check(mechanism, MAX_CONVOLUTION_STEPS)?;
    let mut echoes: VecDeque<Echo> = VecDeque::with_capacity(increments.len().min(steps.len()));
    let mut earlier = Iterates::new(momentum);
    let variance = |(t, step): (usize, &OptimizerStep)| {
        echoes.push_back(Echo::default());
        let first = t + 1 - echoes.len();
        let mut sum = earlier.advance(*step, Increment::fresh(0.0));
        for (j, echo) in (first..).zip(echoes.iter_mut()) {
            echo.advance(momentum, *step, entry(t, j));
            sum += echo.average * echo.average;
        }
        if echoes.len() == increments.len()
            && let Some(echo) = echoes.pop_front()
        {
            earlier.add(echo);
        }
        sum
    };
    Ok(steps.iter().enumerate().map(variance).collect())
}

/// By the dense twin, column by column.
fn dense_variances(mechanism: &dyn Mechanism, momentum: Momentum, steps: &[OptimizerStep]) -> Result<Vec<f64>> {
    check(mechanism, MAX_DENSE_STEPS)?;
    let left = mechanism.dense().l;
    let mut variances = vec![0.0; steps.len()];
    for node in 0..left.shape().1 {
        let (mut echo, mut before) = (Echo::default(), 0.0);
        for (t, step) in steps.iter().enumerate() {
            let now = left.row(t)[node];
            echo.advance(momentum, *step, now - before);
            variances[t] += echo.average * echo.average;
            before = now;
        }
    }
    Ok(variances)
}

fn check(mechanism: &dyn Mechanism, longest: u64) -> Result<()> {
    if mechanism.horizon() <= longest {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the error of `{}` under an optimizer is computed over at most {longest} steps; use another mechanism",
        mechanism.name().brief()
    )))
}
