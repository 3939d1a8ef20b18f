//! Sums of whole steps that were counted elsewhere, under the same fire: each is accepted once, whatever is sent
//! again.

use super::*;
use evertally_declare::format::Format;
use evertally_publish::session::{GroupRef, Placed};
use evertally_server::engine::SumsRange;
use std::ops::RangeInclusive;

const NAME: &str = "counted";
const LAST: u64 = 12;
const DECLARATION: &str = r#"{"stream":"counted","start":"2026-01-01","every":"1h","steps":12,"time-zone":"UTC",
    "group-by":["group"],"groups":["a","b"],"person":"person","max-events":3,"view":["non-negative"],"rho":0.5}"#;

struct Counting {
    history: History,
    /// The addition of every step to both groups, fixed before anything is sent.
    truth: Vec<[i64; 2]>,
    /// Steps through this one were acknowledged.
    taken: u64,
    /// Steps through this one were sent.
    sent: u64,
    /// The published rows of every step.
    seen: BTreeMap<u64, Vec<String>>,
}

impl Counting {
    fn new(seed: u64) -> Self {
        let mut history = History::new(seed);
        let truth = (0..LAST).map(|_| [history.dice.roll(3) as i64 * 7, history.dice.roll(50) as i64]).collect();
        Self { history, truth, taken: 0, sent: 0, seen: BTreeMap::new() }
    }

    fn open(&mut self) {
        loop {
            self.history.start();
            if self.history.core.as_ref().unwrap().find(NAME).is_some() {
                return;
            }
            let declaration = DECLARATION.to_owned();
            let opening = Opening { declaration, public: true, source: None, closing: ClosedBy::Sums, id: None };
            if let Err(error) = self.history.core.as_mut().unwrap().open_stream(Core::plan(opening).unwrap()) {
                assert!(is_of_the_disk(&error.to_string()), "{error}");
                self.history.crash();
            }
        }
    }

    /// Rows of steps, in any order; some in two parts. One of them differs, on request.
    fn rows(&mut self, steps: RangeInclusive<u64>, wrong: Option<u64>) -> String {
        let (mut rows, dice) = (Vec::new(), &mut self.history.dice);
        for step in steps {
            for (group, sum) in ["a", "b"].iter().zip(self.truth[step as usize - 1]) {
                let sum = sum + i64::from(wrong == Some(step) && *group == "b");
                let part = if dice.one_in(3) { dice.roll(9) as i64 } else { 0 };
                for sum in [part, sum - part] {
                    if sum != 0 || dice.one_in(4) {
                        rows.push(format!("{{\"group\":\"{group}\",\"step\":{step},\"sum\":{sum}}}\n"));
                    }
                }
            }
        }
        for at in (1..rows.len()).rev() {
            rows.swap(at, dice.roll(at as u64 + 1) as usize);
        }
        rows.concat()
    }

    /// Sends steps; returns whether there was an answer at all.
    fn send(&mut self, steps: RangeInclusive<u64>, wrong: Option<u64>) -> bool {
        self.open();
        let text = self.rows(steps.clone(), wrong);
        if self.history.dice.one_in(4) {
            let operations = self.history.dice.roll(60);
            self.history.disk.fail_after(operations);
        }
        self.history.witness.is_away.store(self.history.dice.one_in(6), Ordering::Relaxed);
        let core = self.history.core.as_mut().unwrap();
        let info = core.find(NAME).unwrap();
        let bytes = Box::new(Cursor::new(text.into_bytes()));
        self.history.clock.set(Instant::from_micros(START + LAST as i64 * HOUR));
        let whole = SumsRange { steps: steps.clone(), before: 0, evidence: None };
        let prepared = core.prepare_sums(&info, whole, (Format::JsonLines, bytes)).unwrap();
        let last = *steps.end();
        match core.accept_sums(&info, prepared) {
            Ok(receipt) => {
                assert!(wrong.is_none_or(|step| step > self.taken), "step {wrong:?} was accepted with other sums");
                assert!(receipt.repeated || last > self.taken, "a step was accepted again");
                assert!(!receipt.repeated || last <= self.sent, "a step that was never sent was accepted");
                self.taken = self.taken.max(last);
                self.sent = self.sent.max(last);
            }
            Err(Refusal::Conflict(why)) => {
                let is_wrong = wrong.is_some() && why.contains("accepted with other sums");
                assert!(is_wrong || (why.contains("would be missing") && *steps.start() > self.taken + 1), "{why}");
            }
            Err(refusal) => {
                assert!(is_of_the_disk(&refusal.to_string()), "{refusal}");
                self.sent = self.sent.max(last);
                self.history.crash();
                return false;
            }
        }
        self.look();
        true
    }

    /// Sends steps of which the last is impossible: counts are never negative. The earlier ones may be accepted.
    fn send_bad(&mut self, steps: RangeInclusive<u64>) {
        self.open();
        let core = self.history.core.as_mut().unwrap();
        let info = core.find(NAME).unwrap();
        self.history.clock.set(Instant::from_micros(START + LAST as i64 * HOUR));
        let text = format!("{{\"group\":\"a\",\"step\":{},\"sum\":-5}}\n", steps.end());
        let whole = SumsRange { steps: *steps.end()..=*steps.end(), before: 0, evidence: None };
        let prepared = core.prepare_sums(&info, whole, (Format::JsonLines, Box::new(Cursor::new(text.into_bytes()))));
        let refused = core.accept_sums(&info, prepared.unwrap()).expect_err("it cannot be").to_string();
        assert!(refused.contains("-5") || refused.contains("witness"), "{refused}");
    }

    /// Published rows never change, and nothing unsent is published.
    fn look(&mut self) {
        let Some(core) = &self.history.core else { return };
        let info = core.find(NAME).unwrap();
        let mut rows: BTreeMap<u64, Vec<String>> = BTreeMap::new();
        let read = core.rows(&info, &RowsQuery::new(1..=u64::MAX), &mut |publication, row| {
            rows.entry(publication).or_default().push(format!("{row:?}"));
            Ok(())
        });
        if read.is_err() {
            return; // the disk has failed
        }
        for (step, rows) in rows {
            assert!(step <= self.sent, "step {step} was shown before it was sent");
            assert_eq!(*self.seen.entry(step).or_insert_with(|| rows.clone()), rows, "step {step} was republished");
        }
    }

    fn play(&mut self) {
        while self.taken < LAST {
            let dice = &mut self.history.dice;
            // Unacknowledged steps are sent again before anything else, as a client does.
            let first = (self.taken + 1).saturating_sub(dice.roll(4)).max(1);
            let last = (self.taken + dice.roll(4)).clamp(first, LAST).max(self.sent);
            match dice.roll(8) {
                // A gap.
                0 if self.sent + 2 <= LAST => drop(self.send(self.sent + 2..=self.sent + 2, None)),
                1 if self.taken > 0 => {
                    let wrong = 1 + self.history.dice.roll(self.taken);
                    self.send(wrong..=self.taken, Some(wrong));
                }
                2 => self.history.crash(),
                3 if self.taken == self.sent => self.send_bad(self.taken + 1..=self.taken + 1),
                _ => drop(self.send(first..=last, None)),
            }
        }
        while !self.send(1..=LAST, None) {}
        self.history.witness.is_away.store(false, Ordering::Relaxed);
        while self.history.core.as_mut().is_none_or(|core| core.tick().is_err()) {
            self.history.crash();
            self.open();
        }
        self.look();
        assert_eq!(self.seen, self.expected());
    }

    /// The releases of one process with these sums.
    fn expected(&self) -> BTreeMap<u64, Vec<String>> {
        let (stream, groups) = evertally_ledger::planner::plan(
            Declaration::from_json(DECLARATION).unwrap().resolve().unwrap(),
            &mut |_| (),
        )
        .unwrap();
        let mut session = Session::live(stream, groups, &key(), &Ledger::in_memory(&key())).unwrap();
        let mut rows: BTreeMap<u64, Vec<String>> = BTreeMap::new();
        for (step, sums) in (1..).zip(&self.truth) {
            for (place, sum) in sums.iter().enumerate() {
                session.take_sum(&Placed::from_sum(step, GroupRef::Place(place), *sum)).unwrap();
            }
            let mut closed = session.close_open().unwrap();
            let of_step = rows.entry(step).or_default();
            closed.for_each_row(|_, row| Ok::<(), PipelineError>(of_step.push(format!("{row:?}")))).unwrap();
        }
        rows
    }
}

#[test]
fn a_step_is_taken_once_it_has_ended() {
    let mut counting = Counting::new(1);
    counting.open();
    let core = counting.history.core.as_ref().unwrap();
    let info = core.find(NAME).unwrap();
    let whole = |steps| SumsRange { steps, before: 0, evidence: None };
    let prepared =
        |steps| core.prepare_sums(&info, whole(steps), (Format::JsonLines, Box::new(Cursor::new(Vec::new()))));
    // This is the start of the first step; clocks elsewhere may be an hour ahead.
    assert!(prepared(1..=1).is_ok());
    let refused = prepared(1..=2).err().unwrap().to_string();
    assert!(refused.contains("step 2 has not ended"), "{refused}");
}

#[test]
fn whatever_happens_a_step_is_taken_once() {
    play_all(|seed| Counting::new(seed).play());
}
