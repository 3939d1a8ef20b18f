//! The noise of the next step, drawn before it is asked for.
//!
//! Noise does not depend on what it is added to, so it can be drawn while that is still computed, and wait in a vector
//! of its own. Nothing else is different: the object stands where it stood, its state is the same, and so are the bytes
//! of every step.
//!
//! **Buffers wait, too.** A recurrence changes its buffers with every step, and a saved state holds those after the last
//! step that was given out. Drawing ahead therefore runs the program of the next step [without what it
//! writes](crate::vector::execute::Pass); that is made up for when the step after it is drawn ahead, in one pass over each piece
//! of the buffers, or when anything else is asked for. It draws a step's normal variables twice, and takes no vectors
//! but the one that waits. Where a state holds no buffers (trees, independent noise), they are built from the key
//! anew, so they may run ahead, and nothing is drawn twice.

use super::VectorNoise;
use crate::vector::Real;
use crate::vector::buffer::Buffer;
use crate::vector::execute::{Emit, Pass};
use crate::vector::program::Op;

/// What the buffers lack, and whether noise waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stand {
    /// Buffers are as they are after the last step.
    #[default]
    Settled,
    /// The noise of the next step waits. Buffers are as after the last step, or where no state holds them, the next.
    Waiting,
    /// The last step was given out of what had waited: buffers lack what its program, the one at hand, writes.
    Behind,
}

/// A vector for noise that waits. It is zeros when nothing does, and when it is dropped.
pub(super) struct Waiting<F: Real>(pub(super) Buffer<F>);

impl<F: Real> Waiting<F> {
    fn overwrite(&mut self) {
        self.0.fill(F::default());
        std::hint::black_box(&mut self.0[..]); // or else the compiler may leave it out
    }
}

impl<F: Real> Drop for Waiting<F> {
    fn drop(&mut self) {
        self.overwrite();
    }
}

impl<F: Real> VectorNoise<F> {
    /// Draws the noise of the next step and lets it wait for [`add_next`](Self::add_next) or
    /// [`next_into`](Self::next_into), which then only add or copy it: what they give out, and what
    /// [`save`](Self::save) saves, is the same with it and without. To be called by another thread while the data of
    /// the step are still computed. It does nothing if noise waits already, or after the last step.
    ///
    /// Takes one vector of memory more, and for mechanisms whose states hold vectors about a third more work. What
    /// waits is overwritten as it is given out, or when a [`seek`](Self::seek) or the end of this object abandons it.
    ///
    /// ```
    /// # use evertally::{privacy::{Budget, Rho}, noise::SecretKey, vector::{Tuning, VectorNoise, VectorRequest}};
    /// # let request = VectorRequest::new(100, Budget::Zcdp(Rho::new(0.5)?), 1.0);
    /// # let plan = request.plan()?;
    /// # let key = SecretKey::generate()?;
    /// let mut noise = VectorNoise::<f32>::new(plan, &key, "run 17".parse()?, 0..10_000, Tuning::default())?;
    /// let mut gradient = vec![0.0; 10_000];
    /// for _ in 0..3 {
    ///     std::thread::scope(|scope| {
    ///         scope.spawn(|| noise.draw_ahead());
    ///         gradient.fill(0.25); // forward and backward
    ///     });
    ///     noise.add_next(&mut gradient)?;
    /// }
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn draw_ahead(&mut self) {
        if self.stand == Stand::Waiting || self.step == self.horizon {
            return;
        }
        if self.rows.is_some() {
            self.settle(); // two steps may be of two passes, of which one is held
        }
        let owed = if self.stand == Stand::Behind { std::mem::take(&mut self.ops) } else { vec![] };
        self.ops.clear();
        self.schedule.program(self.step + 1, &mut self.ops);
        let ops = std::mem::take(&mut self.ops);
        let waiting = self.waiting.take();
        let mut waiting = waiting.unwrap_or_else(|| Waiting(Buffer::zeros(usize::MAX, self.len))); // behind all others
        let passes = [Pass { ops: &owed, writes: true }, Pass { ops: &ops, writes: self.schedule.kept() == 0 }];
        self.run(&passes, Some((&mut waiting.0, Emit::Set)));
        (self.ops, self.waiting, self.stand) = (ops, Some(waiting), Stand::Waiting);
    }

    /// Gives out what waits; false if nothing does.
    pub(super) fn give_waiting(&mut self, out: &mut [F], emit: Emit) -> bool {
        if self.stand != Stand::Waiting {
            return false;
        }
        let mut waiting = self.waiting.take().expect("noise that waits");
        // The accumulator is what waited, and zeros take its place.
        let program = [Op::Load(0), Op::Save(0), Op::Clear, Op::Store(0), Op::Restore(0)];
        let buffers = std::mem::replace(&mut self.buffers, vec![std::mem::take(&mut waiting.0)]);
        self.run(&[Pass { ops: &program, writes: true }], Some((out, emit)));
        waiting.0 = std::mem::replace(&mut self.buffers, buffers).pop().expect("put there");
        self.waiting = Some(waiting);
        self.stand = if self.schedule.kept() == 0 { Stand::Settled } else { Stand::Behind };
        self.step += 1;
        true
    }

    /// Brings the buffers to where the last step leaves them.
    pub(super) fn settle(&mut self) {
        if self.stand == Stand::Behind {
            let ops = std::mem::take(&mut self.ops);
            self.run(&[Pass { ops: &ops, writes: true }], None);
            (self.ops, self.stand) = (ops, Stand::Settled);
        }
    }

    /// The buffers as the last step leaves them, where these are not.
    pub(super) fn settled(&self) -> Option<Vec<Buffer<F>>> {
        (self.stand == Stand::Behind).then(|| {
            let mut buffers = self.buffers.clone();
            self.run_on(&mut buffers, &[Pass { ops: &self.ops, writes: true }], None);
            buffers
        })
    }

    /// Stands at a step whose buffers were built anew: what waits is of another.
    pub(super) fn abandon(&mut self) {
        (self.waiting, self.stand) = (None, Stand::Settled);
    }

    /// Whether the vector for what waits is zeros, if there is one.
    #[cfg(test)]
    pub(in crate::vector) fn waiting_is_zero(&self) -> Option<bool> {
        self.waiting.as_ref().map(|waiting| waiting.0.iter().all(|x| *x == F::default()))
    }
}
