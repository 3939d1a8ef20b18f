//! The noise of vectors for devices that compute it themselves, with their own compiler.
//!
//! A step is a short [program](super::program). Encoded in numbers, with the weights as the kernels round them, it can
//! be run by any interpreter that draws the same normal variables and rounds every operation separately. The bytes are
//! then those of [`VectorNoise`](super::VectorNoise).

use super::noise::MAX_COORDINATES;
use super::program::Op;
use super::schedule::{Schedule, schedule};
use super::scheme::Scheme;
use super::{Cipher, Memory, Real, VectorPlan};
use evertally::noise::{GuardedKey, NoiseClaim, Purpose, SecretKey, StreamName, subkey};
use evertally::{Error, ErrorKind, Result};
use std::collections::{BTreeSet, HashSet};
use std::fmt;
use zeroize::Zeroizing;

/// One operation on an accumulator (0 when a program begins), two registers and buffers: vectors with an element for
/// every coordinate, all in single precision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Instruction {
    /// The operation.
    pub code: Code,
    /// The number of the buffer or register; of [`Code::DrawThrough`] the number of steps.
    pub place: u32,
    /// Level of the drawn node.
    pub level: u32,
    /// Index of the drawn node.
    pub index: u64,
    /// The weight, factor or scale, as the kernels round it.
    pub weight: f32,
}

/// The operation of an [`Instruction`]. Devices read these numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
pub enum Code {
    /// `acc = 0`
    Clear = 0,
    /// `acc = buffer`
    Load = 1,
    /// `acc += weight · buffer`
    Add = 2,
    /// `acc += weight · z(node)`
    Draw = 3,
    /// `acc += weight · z(node)` for the nodes 0, 1, …, `place - 1` of level 0
    DrawThrough = 4,
    /// `acc *= weight`
    Scale = 5,
    /// `buffer = acc`
    Store = 6,
    /// `buffer += acc`, then `acc = buffer`
    Accumulate = 7,
    /// `buffer = acc`, and `acc -= ` the buffer's old value
    Difference = 8,
    /// `register = acc`
    Save = 9,
    /// `acc = register`
    Restore = 10,
    /// `acc -= register`
    Subtract = 11,
    /// One step of the [recurrence](Programs::recurrence) of a BLT, with its buffers in the first places and `weight`
    /// for its factor: see [`Real::undo_buffers`]
    UndoBuffers = 12,
}

/// Maximum number of steps: the constructor reads the programs of all steps.
const MAX_STEPS: u64 = 1 << 24;

/// The programs of a stream's steps, and the key of its normal variables.
///
/// **As secret as the key.** The normal variable of coordinate `c` of a node is that of [`evertally_kernels::Normals`]
/// under [`cipher`](Self::cipher) and [`subkey`](Self::subkey). After the last instruction the accumulator is the
/// noise.
///
/// ```
/// use evertally::noise::{GuardedKey, SecretKey};
/// use evertally::privacy::{Budget, Rho};
/// use evertally_training::{Memory, Programs, VectorRequest};
/// let request = VectorRequest::new(100, Budget::Zcdp(Rho::new(0.5)?), 1.0);
/// let plan = request.with_mechanism("binary".parse()?).plan()?;
/// let key = GuardedKey::published_nothing(SecretKey::generate()?);
/// let mut programs = Programs::new(&plan, &key, &"run 17".parse()?, Memory::Keep)?;
/// assert!(programs.program(1)?.len() <= programs.longest());
/// assert!(programs.program(101).is_err());
/// # Ok::<(), evertally::Error>(())
/// ```
pub struct Programs {
    schedule: Box<dyn Schedule>,
    cipher: Cipher,
    subkey: Zeroizing<[u8; 32]>,
    horizon: u64,
    /// The current step of the schedule.
    step: u64,
    buffers: usize,
    /// The program with the most instructions.
    template: Vec<Code>,
    alike: bool,
    codes: BTreeSet<Code>,
    recurrence: (Vec<f32>, Vec<f32>),
}

impl Programs {
    /// The programs of a plan's stream. Reads the programs of all steps: about a microsecond each.
    ///
    /// # Errors
    /// If the mechanism computes the noise of many steps at once (`sqrt`, `normalized-sqrt`), or cannot be drawn step
    /// by step, or there are more than 2^24 steps.
    pub fn new(plan: &VectorPlan, key: &GuardedKey, name: &StreamName, memory: Memory) -> Result<Self> {
        let programs = Self::from_scheme(&Scheme::from(plan), key, name, memory)?;
        // The device decides which coordinates to compute, so this claims all of them.
        let (purpose, part) = (Purpose::Vector(<f32 as Real>::BITS as u8), 0..MAX_COORDINATES);
        let (plan_digest, is_resumed) = (&plan.digest(), false);
        key.claim(NoiseClaim { name, plan_digest, purpose, part, is_resumed })?;
        Ok(programs)
    }

    pub(super) fn from_scheme(scheme: &Scheme, key: &SecretKey, name: &StreamName, memory: Memory) -> Result<Self> {
        let horizon = scheme.mechanism.horizon();
        if horizon > MAX_STEPS {
            return Err(Error::invalid(format!(
                "devices compute the noise of at most 2^24 steps, but the plan has {horizon}: use on=\"host\""
            )));
        }
        let schedule = schedule(scheme, memory)?;
        if schedule.response().is_some() {
            return Err(Error::invalid(format!(
                "the noise of `{}` is computed for many steps at once, by Fourier transforms, on the host \
                 only; use on=\"host\", or a mechanism that goes step by step, such as blt, epoch-bands or smooth",
                scheme.mechanism.name()
            )));
        }
        let mut programs = Self {
            schedule,
            cipher: scheme.cipher,
            subkey: subkey(key, name, &scheme.digest, Purpose::Vector(<f32 as Real>::BITS as u8)),
            horizon,
            step: 0,
            buffers: 0,
            template: vec![],
            alike: true,
            codes: BTreeSet::new(),
            recurrence: Default::default(),
        };
        programs.survey_programs();
        Ok(programs)
    }

    /// The properties that all programs share.
    fn survey_programs(&mut self) {
        let (mut ops, mut shapes) = (vec![], HashSet::new());
        for step in 1..=self.horizon {
            ops.clear();
            self.schedule.program(step, &mut ops);
            self.buffers = ops.iter().map(Op::buffers).max().unwrap_or(0).max(self.buffers);
            let codes: Vec<Code> = ops.iter().map(|op| instruction(op).code).collect();
            self.codes.extend(&codes);
            if codes.len() > self.template.len() {
                self.template.clone_from(&codes);
            }
            if shapes.len() <= MAX_SHAPES {
                shapes.insert(codes);
            }
            let undoes =
                ops.iter().find_map(|op| if let Op::UndoBuffers { steps, .. } = op { Some(steps) } else { None });
            if let Some(steps) = undoes.filter(|_| step == 1) {
                self.recurrence = (rounded(&steps.gaps), rounded(&steps.echoes));
            }
        }
        self.alike =
            shapes.len() <= MAX_SHAPES && shapes.iter().all(|codes| lacks_additions_only(codes, &self.template));
        self.step = self.horizon;
    }

    /// The cipher of the normal variables.
    pub fn cipher(&self) -> Cipher {
        self.cipher
    }

    /// The key of the normal variables, derived from the stream's key, name and plan: keep it as secret as the stream's
    /// key.
    pub fn subkey(&self) -> &[u8; 32] {
        &self.subkey
    }

    /// Number of steps.
    pub fn horizon(&self) -> u64 {
        self.horizon
    }

    /// The number of buffers. They hold zeros before the first step.
    pub fn buffers(&self) -> usize {
        self.buffers
    }

    /// The largest number of instructions of a step.
    pub fn longest(&self) -> usize {
        self.template.len()
    }

    /// The operations of the longest program, if all programs are the same except that some have fewer [`Code::Add`].
    pub fn template(&self) -> Option<&[Code]> {
        self.alike.then_some(&self.template)
    }

    /// The operations that occur in any program.
    pub fn codes(&self) -> impl Iterator<Item = Code> {
        self.codes.iter().copied()
    }

    /// Gaps and echoes of the recurrence of [`Code::UndoBuffers`], one of each per buffer.
    pub fn recurrence(&self) -> (&[f32], &[f32]) {
        (&self.recurrence.0, &self.recurrence.1)
    }

    /// The program of a step, from 1. The buffers must be as the programs of all earlier steps left them.
    ///
    /// # Errors
    /// If there is no such step.
    pub fn program(&mut self, step: u64) -> Result<Vec<Instruction>> {
        if step == 0 || step > self.horizon {
            let all = format!("all {} steps of the plan have been returned", self.horizon);
            return Err(Error::new(ErrorKind::HorizonExhausted, all));
        }
        let mut ops = vec![];
        if self.step != step - 1 {
            // Moves the schedule there; the buffers are already filled.
            self.schedule.rebuild(step - 1, true, &mut ops);
            ops.clear();
        }
        self.schedule.program(step, &mut ops);
        self.step = step;
        Ok(ops.iter().map(instruction).collect())
    }
}

impl fmt::Debug for Programs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Programs").field("horizon", &self.horizon).finish_non_exhaustive()
    }
}

/// Maximum number of program shapes to compare. If there are more, the programs are not alike.
const MAX_SHAPES: usize = 4096;

fn rounded(values: &[f64]) -> Vec<f32> {
    values.iter().map(|value| f32::of(*value)).collect()
}

/// Whether these codes are a template's codes without some of its additions.
fn lacks_additions_only(codes: &[Code], template: &[Code]) -> bool {
    let mut codes = codes.iter().peekable();
    template.iter().all(|code| codes.next_if_eq(&code).is_some() || *code == Code::Add) && codes.next().is_none()
}

fn instruction(op: &Op) -> Instruction {
    let of = |code| Instruction { code, place: 0, level: 0, index: 0, weight: 0.0 };
    let at = |code, place: usize| Instruction { place: place as u32, ..of(code) };
    let by = |code, weight: f64| Instruction { weight: f32::of(weight), ..of(code) };
    match op {
        Op::Clear => of(Code::Clear),
        Op::Row(_) => unreachable!("mechanisms of rows are refused"),
        Op::Load(slot) => at(Code::Load, *slot),
        Op::Add { slot, weight } => Instruction { place: *slot as u32, ..by(Code::Add, *weight) },
        Op::Draw { node, scale } => Instruction { level: node.level, index: node.index, ..by(Code::Draw, *scale) },
        // fits: no program draws 2^32 steps at once
        Op::DrawThrough { steps, scale } => Instruction { place: *steps as u32, ..by(Code::DrawThrough, *scale) },
        Op::Scale(factor) => by(Code::Scale, *factor),
        Op::Store(slot) => at(Code::Store, *slot),
        Op::Accumulate(slot) => at(Code::Accumulate, *slot),
        Op::Difference(slot) => at(Code::Difference, *slot),
        Op::Save(register) => at(Code::Save, *register),
        Op::Restore(register) => at(Code::Restore, *register),
        Op::Subtract(register) => at(Code::Subtract, *register),
        Op::UndoBuffers { factor, .. } => by(Code::UndoBuffers, *factor),
    }
}
