//! How far apart two data sets are for the Laplace noise of a mechanism.

use crate::mechanism::{Matrix, Mechanism};
use std::sync::Arc;

/// The L1 norm that Laplace noise on nodes has to hide for two data sets: over the scale of the noise, it bounds the
/// privacy loss.
///
/// ```
/// use evertally::mechanism::{Input, LaplaceDistance, Mechanism, PathSum};
/// use std::sync::Arc;
/// // One event more in step 3 of 4.
/// let event = [0.0, 0.0, 1.0, 0.0];
/// assert_eq!(LaplaceDistance::new(Arc::new(Input::new(4)?)).of(&event), 1.0);
/// // The running sums of steps 3 and 4 rise: a shift of the node above both is enough.
/// assert_eq!(LaplaceDistance::new(Arc::new(PathSum::uniform(4, true)?)).of(&event), 1.0);
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Debug)]
pub enum LaplaceDistance {
    /// Every node's noise protects its sum: `‖R u‖₁`, with this `R`.
    NodeSums(Matrix),
    /// The data differ by a shift of the noise: `min { ‖v‖₁ : L v = A u }`, see [`Mechanism::least_shift`].
    LeastShift(Arc<dyn Mechanism>),
}

impl LaplaceDistance {
    /// For the noise of a mechanism.
    ///
    /// # Panics
    /// If the horizon exceeds 4096 steps.
    pub fn new(mechanism: Arc<dyn Mechanism>) -> Self {
        match mechanism.least_shift(&[]) {
            Some(_) => Self::LeastShift(mechanism),
            None => Self::NodeSums(mechanism.dense().r),
        }
    }

    /// For data whose step totals differ by `u`, one number per step of the horizon, in units of the node grid.
    ///
    /// # Panics
    /// If there are more or fewer differences than steps.
    pub fn of(&self, differences: &[f64]) -> f64 {
        match self {
            Self::NodeSums(r) => (0..r.shape().0).map(|node| product(r.row(node), differences).abs()).sum(),
            Self::LeastShift(mechanism) => {
                assert_eq!(differences.len() as u64, mechanism.horizon());
                let mut sum = 0.0;
                let running: Vec<f64> = differences
                    .iter()
                    .map(|difference| {
                        sum += difference;
                        sum
                    })
                    .collect();
                mechanism.least_shift(&running).expect("the mechanism has a least shift")
            }
        }
    }
}

fn product(row: &[f64], differences: &[f64]) -> f64 {
    assert_eq!(row.len(), differences.len());
    row.iter().zip(differences).map(|(entry, difference)| entry * difference).sum()
}
