//! The noise of the next step, drawn before it is requested.
//!
//! Noise does not depend on the data that it is added to, so it can be drawn while the data are still being computed,
//! and wait in a separate vector. Nothing else is different: the object is still at the same step, its state is the
//! same, and so are the bytes of every step.
//!
//! **Buffers wait, too.** A recurrence changes its buffers with every step, and a saved state holds those after the
//! last returned step. So drawing ahead leaves the buffers unchanged. The step's writes to them are done later: when
//! the following step is drawn ahead, in one pass over each piece of the buffers, or when anything else is requested.
//! There are three cases:
//!
//! - If a state holds no buffers (trees, independent noise), they are rebuilt from the key. They run ahead.
//! - If all writes follow from one vector (increments of BLTs and bands), [that vector](Apart) waits.
//! - Otherwise the program is run once without its [writes](ProgramPass), and again with them: everything is drawn
//!   twice.

use super::VectorNoise;
use super::waiting::{BufferState, Waiting};
use crate::Real;
use crate::buffer::Buffer;
use crate::execute::{Emit, ProgramPass};
use crate::program::Op;
use crate::schedule::Apart;

impl<F: Real> VectorNoise<F> {
    /// Draws the noise of the next step and lets it wait for [`add_next`](Self::add_next) or
    /// [`next_into`](Self::next_into), which then only add or copy it. Their results, and the bytes of
    /// [`save`](Self::save), are the same with and without this call. Call it in another thread while the data of the
    /// step are still being computed. It does nothing if noise is already waiting, or after the last step.
    ///
    /// Takes one more vector of memory. The waiting noise is overwritten by the next, or when a [`seek`](Self::seek) or
    /// the end of this object abandons it.
    ///
    /// ```
    /// # use evertally::noise::{GuardedKey, SecretKey};
    /// # use evertally::privacy::{Budget, Rho};
    /// # use evertally_training::{Tuning, VectorNoise, VectorRequest};
    /// # let request = VectorRequest::new(100, Budget::Zcdp(Rho::new(0.5)?), 1.0);
    /// # let plan = request.plan()?;
    /// # let key = GuardedKey::published_nothing(SecretKey::generate()?);
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
        if self.stand == BufferState::Waiting || self.step == self.horizon {
            return;
        }
        if self.rows.is_some() {
            self.settle(); // two steps may be of two passes, of which one is held
        }
        let mut waiting = self.waiting.take().unwrap_or_else(|| Waiting::new(self.len));
        let next = if self.keeps() { self.schedule.apart(self.step + 1) } else { None };
        match next {
            Some(apart) => self.draw_vector(&mut waiting, apart),
            None => self.draw_noise(&mut waiting),
        }
        (self.waiting, self.stand) = (Some(waiting), BufferState::Waiting);
    }

    /// Whether states hold buffers.
    fn keeps(&self) -> bool {
        self.schedule.kept() > 0
    }

    /// The vector from which the noise of the next step and its writes follow.
    fn draw_vector(&mut self, waiting: &mut Waiting<F>, apart: Apart) {
        let Apart { mut vector, given, owed } = apart;
        self.reserve(waiting.owed.iter().chain(&vector).chain(&owed));
        let slot = self.buffers.len();
        let before = if self.stand == BufferState::Behind { waiting.owed(slot) } else { vec![] };
        vector.push(Op::Store(slot));
        self.buffers.push(std::mem::take(&mut waiting.vector));
        self.run(&[ProgramPass { ops: &before, writes: true }, ProgramPass { ops: &vector, writes: true }], None);
        waiting.vector = self.buffers.pop().expect("put there");
        (waiting.given, waiting.owed, waiting.apart) = (given, owed, true);
    }

    /// The noise of the next step, by its program.
    fn draw_noise(&mut self, waiting: &mut Waiting<F>) {
        let before = if self.stand == BufferState::Behind { std::mem::take(&mut waiting.owed) } else { vec![] };
        waiting.owed.clear();
        self.schedule.program(self.step + 1, &mut waiting.owed);
        let next = ProgramPass { ops: &waiting.owed, writes: !self.keeps() };
        self.run(&[ProgramPass { ops: &before, writes: true }, next], Some((&mut waiting.vector, Emit::Set)));
    }

    /// Returns the waiting noise; false if there is none.
    pub(super) fn give_waiting(&mut self, out: &mut [F], emit: Emit) -> bool {
        if self.stand != BufferState::Waiting {
            return false;
        }
        let mut waiting = self.waiting.take().expect("noise that waits");
        let program: Vec<Op> = [Op::Load(0)].into_iter().chain(waiting.given.iter().cloned()).collect();
        let mut vector = [std::mem::take(&mut waiting.vector)];
        self.run_on(&mut vector, &[ProgramPass { ops: &program, writes: true }], Some((out, emit)));
        [waiting.vector] = vector;
        self.stand = if self.keeps() { BufferState::Behind } else { BufferState::Settled };
        self.waiting = Some(waiting);
        self.step += 1;
        true
    }

    /// Brings the buffers to where the last step leaves them.
    pub(super) fn settle(&mut self) {
        if self.stand == BufferState::Behind {
            let mut waiting = self.waiting.take().expect("a waiting vector");
            let owed = waiting.owed(self.buffers.len());
            self.buffers.push(std::mem::take(&mut waiting.vector));
            self.run(&[ProgramPass { ops: &owed, writes: true }], None);
            waiting.vector = self.buffers.pop().expect("put there");
            (self.waiting, self.stand) = (Some(waiting), BufferState::Settled);
        }
    }

    /// The buffers as the last step leaves them, where these are not.
    pub(super) fn settled(&self) -> Option<Vec<Buffer<F>>> {
        let waiting = self.waiting.as_ref().filter(|_| self.stand == BufferState::Behind)?;
        let mut buffers = self.buffers.clone();
        let slot = buffers.len();
        buffers.push(waiting.vector.clone());
        self.run_on(&mut buffers, &[ProgramPass { ops: &waiting.owed(slot), writes: true }], None);
        buffers.pop();
        Some(buffers)
    }

    /// Moves to a step whose buffers were rebuilt: the waiting noise belongs to another step.
    pub(super) fn abandon(&mut self) {
        (self.waiting, self.stand) = (None, BufferState::Settled);
    }
}
