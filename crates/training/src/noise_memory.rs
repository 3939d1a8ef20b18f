//! The memory that a plan's noise takes.

use crate::blocks::pass_bytes;
use crate::schedule::{Schedule, schedule};
use crate::scheme::Scheme;
use crate::{Memory, VectorPlan};
use evertally::Result;
use evertally::mechanism::Streaming;

/// Bytes of a number in single precision.
const BYTES: u64 = size_of::<f32>() as u64;
/// Steps whose programs are looked at one by one. In more steps, each doubling adds at most one partial sum to the
/// path of a tree; other mechanisms keep no more.
const FIRST_STEPS: u64 = 1 << 12;

impl VectorPlan {
    /// σ over the clipping norm. With independent noise this is the noise of a step over the norm: the *noise
    /// multiplier* of DP-SGD. Correlated noise combines several variables of this standard deviation in a step, so its
    /// noise multiplier is comparable only among plans with the same mechanism;
    /// [`noise_stds`](Self::noise_stds) has the noise of each step.
    ///
    /// ```
    /// use evertally::privacy::{Budget, Rho};
    /// use evertally_training::VectorRequest;
    /// let request = VectorRequest::new(100, Budget::Zcdp(Rho::new(0.5)?), 3.0).with_mechanism("input".parse()?);
    /// assert!((request.plan()?.noise_multiplier() - 1.0).abs() < 1e-12);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn noise_multiplier(&self) -> f64 {
        self.sigma() / self.request().norm()
    }

    /// The bytes that a [`VectorNoise`](crate::VectorNoise) of this many coordinates keeps between steps, in single
    /// precision and with [`Memory::Keep`]; for trees over more than 2^12 steps, at most.
    ///
    /// # Errors
    /// If the mechanism cannot be drawn step by step.
    ///
    /// ```
    /// use evertally::privacy::{Budget, Rho};
    /// use evertally_training::VectorRequest;
    /// let request = VectorRequest::new(100, Budget::Zcdp(Rho::new(0.5)?), 1.0);
    /// let banded = request.with_mechanism("banded-sqrt(bands=8)".parse()?).plan()?;
    /// // 8 copies of a million numbers.
    /// assert_eq!(banded.memory_bytes(1_000_000)?, 8 * 4_000_000);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn memory_bytes(&self, coordinates: u64) -> Result<u64> {
        let mut schedule = schedule(&Scheme::from(self), Memory::Keep)?;
        if let Some(response) = schedule.response() {
            return Ok(pass_bytes::<f32>(response, coordinates));
        }
        let is_tree = matches!(self.mechanism().streaming(), Some(Streaming::Paths(_)));
        let doublings = if is_tree { self.horizon().div_ceil(FIRST_STEPS).next_power_of_two().ilog2() } else { 0 };
        let buffers = buffers(&mut *schedule, self.horizon()) + u64::from(doublings);
        Ok(buffers.saturating_mul(coordinates).saturating_mul(BYTES))
    }
}

/// The number of buffers that the programs of the first steps use.
fn buffers(schedule: &mut dyn Schedule, horizon: u64) -> u64 {
    let (mut most, mut ops) = (schedule.kept(), vec![]);
    for step in 1..=horizon.min(FIRST_STEPS) {
        schedule.program(step, &mut ops);
        most = ops.drain(..).map(|op| op.buffers()).fold(most, usize::max);
    }
    most as u64
}

#[cfg(test)]
mod tests {
    use crate::{Series, Tuning, VectorNoise, VectorRequest};
    use evertally::noise::{GuardedKey, TestSeed};
    use evertally::privacy::{Budget, Rho};

    /// As many bytes as noise that was drawn to its end keeps.
    #[test]
    fn stated_memory_is_that_of_the_noise() {
        let key = GuardedKey::insecure_from_test_seed(TestSeed(5));
        let names =
            ["input", "binary", "smooth", "blt(buffers=3)", "banded-sqrt(bands=9)", "epoch-bands(bands=4)", "sqrt"];
        for name in names {
            for series in [Series::RunningSums, Series::Increments] {
                let request = VectorRequest::new(300, Budget::Zcdp(Rho::new(0.5).unwrap()), 1.0).with_series(series);
                let plan = request.with_mechanism(name.parse().unwrap()).plan().unwrap();
                // Square roots compute whole tiles of coordinates.
                let coordinates = 256;
                let stated = plan.memory_bytes(coordinates).unwrap();
                let stream = "run".parse().unwrap();
                let mut noise = VectorNoise::<f32>::new(plan, &key, stream, 0..coordinates, Tuning::default()).unwrap();
                let mut most = 0;
                for _ in 0..300 {
                    noise.next_into(&mut vec![0.0; coordinates as usize]).unwrap();
                    most = most.max(noise.memory_bytes() as u64);
                }
                assert_eq!(stated, most, "{name}, {series:?}");
            }
        }
    }
}
