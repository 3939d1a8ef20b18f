//! The programs, run on linear forms of the noise variables instead of numbers, against the rows of `L`.

use super::{MEMORIES, SERIES, mechanisms, scheme};
use crate::blocks::Response;
use crate::program::{Op, REGISTERS};
use crate::schedule::{Schedule, schedule};
use crate::{Memory, Series};
use evertally::mechanism::Mechanism;
use evertally::noise::Node;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A linear form of noise variables.
type Form = BTreeMap<Node, f64>;

fn add(form: &mut Form, weight: f64, other: &Form) {
    for (node, value) in other {
        *form.entry(*node).or_insert(0.0) += weight * value;
    }
}

fn scaled(form: &Form, factor: f64) -> Form {
    form.iter().map(|(node, value)| (*node, value * factor)).collect()
}

/// Unwritten buffers hold `None`: reading one is an error, except for the recurrences that start from zeros.
#[derive(Default)]
struct Machine {
    response: Option<Response>,
    buffers: Vec<Option<Form>>,
    /// The largest number of written buffers.
    written: usize,
}

impl Machine {
    fn from_schedule(schedule: &dyn Schedule) -> Self {
        Self { response: schedule.response().cloned(), ..Self::default() }
    }

    fn zeros(&mut self, slot: usize) -> Form {
        self.buffers[slot].take().unwrap_or_default()
    }

    fn run(&mut self, ops: &[Op]) -> Form {
        let mut acc = Form::new();
        let mut registers: [Option<Form>; REGISTERS] = Default::default();
        for op in ops {
            self.buffers.resize(self.buffers.len().max(op.buffers()), None);
            match op {
                Op::Clear => acc.clear(),
                Op::Row(step) => acc = row_of(self.response.as_ref().expect("a response"), *step),
                Op::Load(slot) => acc = self.buffers[*slot].clone().expect("a buffer is written before it is read"),
                Op::Add { slot, weight } => add(&mut acc, *weight, self.buffers[*slot].as_ref().expect("written")),
                Op::Draw { node, scale } => *acc.entry(*node).or_insert(0.0) += scale,
                Op::DrawThrough { steps, scale } => {
                    (0..*steps).for_each(|index| *acc.entry(Node { level: 0, index }).or_insert(0.0) += scale);
                }
                Op::Scale(factor) => acc = scaled(&acc, *factor),
                Op::Store(slot) => self.buffers[*slot] = Some(acc.clone()),
                Op::Accumulate(slot) => {
                    let mut sum = self.zeros(*slot);
                    add(&mut sum, 1.0, &acc);
                    acc = sum.clone();
                    self.buffers[*slot] = Some(sum);
                }
                Op::Difference(slot) => {
                    let before = self.buffers[*slot].replace(acc.clone()).expect("written");
                    add(&mut acc, -1.0, &before);
                }
                Op::Save(register) => registers[*register] = Some(acc.clone()),
                Op::Restore(register) => acc = registers[*register].clone().expect("saved in this program"),
                Op::Subtract(register) => add(&mut acc, -1.0, registers[*register].as_ref().expect("saved")),
                Op::UndoBuffers { steps, factor } => {
                    let buffers: Vec<Form> = (0..steps.gaps.len()).map(|slot| self.zeros(slot)).collect();
                    buffers.iter().zip(&steps.echoes).for_each(|(buffer, echo)| add(&mut acc, -echo, buffer));
                    for (slot, (buffer, gap)) in buffers.into_iter().zip(&steps.gaps).enumerate() {
                        let mut next = scaled(&buffer, 1.0 - gap);
                        add(&mut next, 1.0, &acc);
                        self.buffers[slot] = Some(next);
                    }
                    acc = scaled(&acc, *factor);
                }
            }
            self.written = self.written.max(self.buffers.iter().flatten().count());
        }
        acc
    }
}

/// The noise of a step (from 0) of a response.
fn row_of(response: &Response, step: u64) -> Form {
    let scale = response.scales().map_or(1.0, |scales| scales[step as usize]);
    let innovations = (0..=step).rev().map(|index| Node { level: 0, index });
    innovations.zip(response.series()).map(|(node, weight)| (node, scale * weight)).collect()
}

/// Rows 1 ..= T of `L`, row 0 being empty.
fn rows(mechanism: &Arc<dyn Mechanism>) -> Vec<Form> {
    let row = |step| {
        let mut row = Form::new();
        mechanism.visit_row(step, &mut |node, weight| assert!(row.insert(node, weight).is_none(), "a node once a row"));
        row
    };
    std::iter::once(Form::new()).chain((1..=mechanism.horizon()).map(row)).collect()
}

fn assert_close(form: &Form, expected: &Form, what: &dyn Fn() -> String) {
    let mut rest = form.clone();
    add(&mut rest, -1.0, expected);
    let (node, off) = rest.iter().map(|(n, w)| (n, w.abs())).max_by(|a, b| a.1.total_cmp(&b.1)).expect("not empty");
    assert!(off < 1e-12, "{}: {node:?} is off by {off}", what());
}

/// Every step of every family, both series, both memory choices; then the same from the buffers rebuilt at some steps.
fn check(mechanism: Arc<dyn Mechanism>) {
    let rows = rows(&mechanism);
    for series in SERIES {
        for memory in MEMORIES {
            let scheme = scheme(mechanism.clone(), series);
            let mut schedule = schedule(&scheme, memory).unwrap();
            let mut machine = Machine::from_schedule(&*schedule);
            let mut ops = vec![];
            let noise = |machine: &mut Machine, ops: &[Op], step: usize| {
                let form = machine.run(ops);
                let mut expected = rows[step].clone();
                if series == Series::Increments {
                    add(&mut expected, -1.0, &rows[step - 1]);
                }
                let what =
                    || format!("{} of {}, step {step}, {series:?}, {memory:?}", mechanism.name(), mechanism.horizon());
                assert_close(&form, &scaled(&expected, scheme.sigma), &what);
            };
            for step in 1..=mechanism.horizon() {
                ops.clear();
                schedule.program(step, &mut ops);
                noise(&mut machine, &ops, step as usize);
            }
            for start in (0..mechanism.horizon()).step_by(5) {
                ops.clear();
                if !schedule.rebuild(start, false, &mut ops) {
                    continue;
                }
                let mut machine = Machine::from_schedule(&*schedule);
                machine.run(&ops);
                for step in start + 1..=mechanism.horizon().min(start + 11) {
                    ops.clear();
                    schedule.program(step, &mut ops);
                    noise(&mut machine, &ops, step as usize);
                }
            }
        }
    }
}

#[test]
fn programs_are_the_rows_of_l_over_every_short_horizon() {
    (1..=40).flat_map(mechanisms).for_each(check);
}

#[test]
fn programs_are_the_rows_of_l_over_longer_horizons() {
    [47, 63, 64, 65, 70, 130].into_iter().flat_map(mechanisms).for_each(check);
}

/// The refusal message lists exactly the mechanisms that stream in some way.
#[test]
fn others_are_refused_with_a_list_of_what_can_be_had() {
    let refused = evertally::mechanism::Consistent::uniform(8, 3, true).unwrap();
    let error = schedule(&scheme(Arc::new(refused), Series::Increments), Memory::Keep).map(|_| ()).unwrap_err();
    assert!(error.is_invalid());
    for mechanism in mechanisms(9) {
        let name = mechanism.name();
        let listed = format!(" {}", name.family().stem);
        assert!(error.to_string().contains(&listed), "{name}: {error}");
    }
}

/// As many buffers as documented.
#[test]
fn trees_need_few_buffers() {
    use evertally::mechanism::DigitTree;
    let most = |mechanism: Arc<dyn Mechanism>| {
        let mut schedule = schedule(&scheme(mechanism.clone(), Series::RunningSums), Memory::Keep).unwrap();
        let (mut machine, mut ops) = (Machine::default(), vec![]);
        for step in 1..=mechanism.horizon() {
            ops.clear();
            schedule.program(step, &mut ops);
            machine.run(&ops);
        }
        machine.written
    };
    for height in 1..=8u32 {
        let binary = DigitTree::binary((1 << height) - 1).unwrap();
        assert_eq!(most(Arc::new(binary)), height as usize / 2);
    }
    assert_eq!(most(Arc::new(DigitTree::additive(624, 5).unwrap())), 4);
}

/// No name is used for two nodes, and no node of a mechanism has two names: over a horizon, the nodes drawn are those
/// of `L`.
#[test]
fn nodes_keep_their_names() {
    for mechanism in mechanisms(37) {
        let of_rows: Form = rows(&mechanism).into_iter().flatten().collect();
        for memory in MEMORIES {
            let mut schedule = schedule(&scheme(mechanism.clone(), Series::RunningSums), memory).unwrap();
            let (mut drawn, mut ops) = (Form::new(), vec![]);
            for step in 1..=mechanism.horizon() {
                ops.clear();
                schedule.program(step, &mut ops);
                let of_steps = |steps: std::ops::Range<u64>| steps.map(|index| Node { level: 0, index }).collect();
                let nodes = ops.iter().flat_map(|op| match op {
                    Op::Draw { node, .. } => vec![*node],
                    Op::Row(step) => of_steps(*step..step + 1),
                    Op::DrawThrough { steps, .. } => of_steps(0..*steps),
                    _ => vec![],
                });
                for node in nodes {
                    let again = drawn.insert(node, 1.0).is_some();
                    assert!(!again || memory == Memory::Recompute, "{} draws {node:?} again", mechanism.name());
                    assert!(node.level < 128);
                }
            }
            assert!(drawn.keys().eq(of_rows.keys()), "{}", mechanism.name());
        }
    }
}
