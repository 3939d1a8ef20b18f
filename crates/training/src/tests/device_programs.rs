//! Programs that are run elsewhere: by a plain interpreter of their numbers, coordinate by coordinate.

use super::*;
use crate::{Code, InstructionSet, Programs};
use evertally_kernels::{BlockName, Normals};

/// Executes the instructions, and nothing else.
fn interpreted(programs: &mut Programs, step: u64, first: u64, buffers: &mut [Vec<f32>]) -> Vec<f32> {
    let normals = Normals::new(programs.cipher(), programs.subkey(), InstructionSet::PORTABLE);
    let program = programs.program(step).unwrap();
    let (gaps, echoes) = programs.recurrence();
    let draw = |level, index, at: usize| {
        let mut z = [0.0];
        normals.fill_f32(BlockName { level, index }, first + at as u64, &mut z);
        z[0]
    };
    let mut out = vec![];
    for at in 0..buffers.first().map_or(LEN, Vec::len) {
        let (mut acc, mut registers) = (0f32, [0f32; 2]);
        for op in &program {
            let (place, weight) = (op.place as usize, op.weight);
            match op.code {
                Code::Clear => acc = 0.0,
                Code::Load => acc = buffers[place][at],
                Code::Add => acc += weight * buffers[place][at],
                Code::Draw => acc += weight * draw(op.level as u8, op.index, at),
                Code::DrawThrough => (0..op.place).for_each(|index| acc += weight * draw(0, index.into(), at)),
                Code::Scale => acc *= weight,
                Code::Store => buffers[place][at] = acc,
                Code::Accumulate => {
                    buffers[place][at] += acc;
                    acc = buffers[place][at];
                }
                Code::Difference => acc -= std::mem::replace(&mut buffers[place][at], acc),
                Code::Save => registers[place] = acc,
                Code::Restore => acc = registers[place],
                Code::Subtract => acc -= registers[place],
                Code::UndoBuffers => {
                    let known = echoes.iter().zip(&*buffers).fold(0.0, |known, (echo, b)| known + echo * b[at]);
                    let u = acc - known;
                    gaps.iter().zip(&mut *buffers).for_each(|(gap, b)| b[at] += u - gap * b[at]);
                    acc = u * weight;
                }
            }
        }
        out.push(acc);
    }
    out
}

const LEN: usize = 3;

fn streams(mechanism: &dyn Mechanism) -> bool {
    !matches!(mechanism.streaming(), Some(evertally::mechanism::Streaming::Convolution(_)))
}

#[test]
fn an_interpreter_of_the_instructions_has_the_same_bytes() {
    for horizon in [1, 7, 33] {
        for mechanism in mechanisms(horizon).into_iter().filter(|mechanism| streams(&**mechanism)) {
            for (series, memory) in SERIES.into_iter().flat_map(|series| MEMORIES.map(|memory| (series, memory))) {
                let scheme = Scheme { cipher: Cipher::ChaCha8, ..scheme(mechanism.clone(), series) };
                let coordinates = 1022..1022 + LEN as u64;
                let mut noise =
                    VectorNoise::from_scheme(&scheme, &key(), &name(), coordinates, single(memory)).unwrap();
                let mut programs = Programs::from_scheme(&scheme, &key(), &name(), memory).unwrap();
                let mut buffers = vec![vec![0f32; LEN]; programs.buffers()];
                for step in 1..=horizon {
                    let mut expected = [0f32; LEN];
                    noise.next_into(&mut expected).unwrap();
                    let found = interpreted(&mut programs, step, 1022, &mut buffers);
                    assert_eq!(bits(&found), bits(&expected), "{} {series:?} {memory:?} {step}", mechanism.name());
                }
            }
        }
    }
}

/// Whatever step was requested before.
#[test]
fn a_program_is_a_function_of_its_step() {
    for mechanism in mechanisms(40).into_iter().filter(|mechanism| streams(&**mechanism)) {
        for (series, memory) in SERIES.into_iter().flat_map(|series| MEMORIES.map(|memory| (series, memory))) {
            let scheme = scheme(mechanism.clone(), series);
            let mut programs = Programs::from_scheme(&scheme, &key(), &name(), memory).unwrap();
            let all: Vec<_> = (1..=40).map(|step| programs.program(step).unwrap()).collect();
            assert_eq!(all.iter().map(Vec::len).max(), Some(programs.longest()));
            for step in (1..=40).rev().chain([7, 30, 31, 3]) {
                let again = programs.program(step).unwrap();
                assert_eq!(again, all[step as usize - 1], "{} {series:?} {memory:?} {step}", mechanism.name());
            }
            if let Some(template) = programs.template() {
                assert!(all.iter().any(|program| program.iter().map(|op| op.code).eq(template.iter().copied())));
            }
        }
    }
}

#[test]
fn what_is_computed_at_once_and_steps_beyond_the_end_are_refused() {
    let rows = scheme(Arc::new(SquareRoot::new(9).unwrap()), Series::Increments);
    let error = Programs::from_scheme(&rows, &key(), &name(), Memory::Keep).unwrap_err();
    assert!(error.is_invalid() && error.to_string().contains("on=\"host\""), "{error}");
    let scheme = scheme(Arc::new(Input::new(9).unwrap()), Series::Increments);
    let mut programs = Programs::from_scheme(&scheme, &key(), &name(), Memory::Keep).unwrap();
    assert!(programs.program(10).unwrap_err().is_horizon_exhausted() && programs.program(0).is_err());
    assert!(!format!("{programs:?}").contains(&format!("{:?}", programs.subkey())));
    assert_eq!(programs.template(), Some(&[Code::Draw][..]));
}
