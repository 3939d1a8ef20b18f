//! The record in memory: refusals with their reasons, and its bounds.

use super::*;
use evertally::noise::SecretKey;

const ONE: Range<u64> = 0..1;

fn log() -> NoiseLog {
    NoiseLog::from_key(&Arc::new(SecretKey::generate().unwrap()))
}

fn claim_of<'a>(spans: &'a [StepSpan], part: &'a Range<u64>, resumed_from: u64) -> SpanClaim<'a> {
    SpanClaim { identity: [1; 16], part, resumed_from, spans }
}

/// Claims steps, and returns the first refused step with the reason.
fn claim(log: &NoiseLog, spans: &[(u64, u64, u64)]) -> Result<(), (u64, RefusalReason)> {
    let spans: Vec<_> =
        spans.iter().map(|(first, last, mark)| StepSpan { first: *first, last: *last, mark: *mark }).collect();
    claim_spans(log, &claim_of(&spans, &ONE, 0))
}

fn claim_spans(log: &NoiseLog, claim: &SpanClaim<'_>) -> Result<(), (u64, RefusalReason)> {
    let refusal = |error: PipelineError| {
        let refusal = error.other_as::<StepRefusal>().expect("a refusal").clone();
        (refusal.step, refusal.reason)
    };
    let checked = log.check(claim).map_err(refusal);
    let claimed = log.claim(claim).map_err(refusal);
    assert_eq!(checked, claimed, "a check says what a claim does");
    claimed
}

#[test]
fn spans_are_issued_again_with_their_marks() {
    let log = log();
    assert!(log.is_empty() && !log.is_in_file());
    claim(&log, &[(1, 5, 7), (6, 6, 8)]).unwrap();
    claim(&log, &[(1, 5, 7)]).unwrap();
    claim(&log, &[(3, 4, 7), (6, 6, 8), (7, 9, 7)]).unwrap();
    for (span, step) in [((1, 6, 7), 6), ((5, 5, 8), 5), ((4, 20, 7), 6), ((9, 9, 1), 9)] {
        assert_eq!(claim(&log, &[span]), Err((step, RefusalReason::OtherData)), "{span:?}");
    }
    // All or nothing: the steps before the refused one stay free.
    assert_eq!(claim(&log, &[(10, 12, 1), (9, 9, 1)]), Err((9, RefusalReason::OtherData)));
    claim(&log, &[(10, 10, 2)]).unwrap();
}

#[test]
fn steps_for_unknown_data_are_never_issued_again() {
    let log = log();
    claim(&log, &[(1, 2, UNKNOWN), (3, 3, 9)]).unwrap();
    assert_eq!(claim(&log, &[(2, 2, UNKNOWN)]), Err((2, RefusalReason::UnknownData)));
    assert_eq!(claim(&log, &[(1, 1, 9)]), Err((1, RefusalReason::UnknownData)));
    assert_eq!(claim(&log, &[(3, 3, UNKNOWN)]), Err((3, RefusalReason::UnknownData)));
    claim(&log, &[(3, 4, 9)]).unwrap();
}

/// Every step of a claim is checked, not only the first, and the last number of a step is one like others.
#[test]
fn claims_that_begin_with_recorded_steps_are_checked_to_their_ends() {
    let log = log();
    claim(&log, &[(1, 3, 5)]).unwrap();
    let spans = |first, last| [StepSpan { first, last, mark: 5 }];
    for (first, last) in [(4, 12), (2, 12), (1, 4)] {
        let refused = claim_spans(&log, &claim_of(&spans(first, last), &ONE, 10));
        assert_eq!(refused, Err((4, RefusalReason::UnknownData)), "{first} to {last}");
    }
    claim_spans(&log, &claim_of(&spans(1, 3), &ONE, 10)).unwrap();
    claim_spans(&log, &claim_of(&spans(11, u64::MAX), &ONE, 10)).unwrap();
    claim_spans(&log, &claim_of(&spans(12, u64::MAX), &ONE, 10)).unwrap();
}

/// A restored object may have issued its steps where this log cannot see it.
#[test]
fn steps_before_a_restored_state_are_refused_unless_known() {
    let log = log();
    claim(&log, &[(1, 2, 5)]).unwrap();
    let restored = |first, mark| claim_spans(&log, &claim_of(&[StepSpan { first, last: first, mark }], &ONE, 8));
    assert_eq!(restored(3, 5), Err((3, RefusalReason::UnknownData)));
    restored(1, 5).unwrap();
    restored(9, 6).unwrap();
    assert_eq!(restored(3, 5), Err((3, RefusalReason::UnknownData)));
    assert_eq!(claim(&log, &[(8, 8, 5)]), Err((8, RefusalReason::UnknownData)), "for a new object, too");
    claim(&log, &[(1, 2, 5), (9, 9, 6)]).unwrap();
}

#[test]
fn coordinates_that_overlap_are_refused() {
    let log = log();
    let parted = |part: Range<u64>, step| claim_spans(&log, &claim_of(&[StepSpan::from_step(step, 5)], &part, 0));
    parted(0..10, 1).unwrap();
    parted(10..20, 1).unwrap();
    parted(0..10, 1).unwrap();
    assert_eq!(parted(5..15, 1), Err((1, RefusalReason::Overlap(0..10))));
    assert_eq!(parted(0..20, 1), Err((1, RefusalReason::Overlap(0..10))));
    parted(0..20, 2).unwrap(); // a step that no part has issued
    assert_eq!(parted(0..10, 2), Err((2, RefusalReason::Overlap(0..20))));
}

#[test]
fn reuse_that_is_allowed_changes_no_entry() {
    let log = log();
    claim(&log, &[(1, 1, 5)]).unwrap();
    log.claim_with_reuse(&claim_of(&[StepSpan { first: 1, last: 2, mark: 6 }], &ONE, 0)).unwrap();
    assert_eq!(claim(&log, &[(1, 1, 6)]), Err((1, RefusalReason::OtherData)));
    claim(&log, &[(1, 1, 5), (2, 2, 6)]).unwrap();
}

/// A full log forgets the data of old steps. It then refuses them: it never allows them for other data.
#[test]
fn a_full_log_refuses_what_it_has_forgotten() {
    let log = log();
    let steps: u64 = 200_000;
    let spans: Vec<_> = (1..=steps).map(|step| StepSpan::from_step(step, step)).collect();
    log.claim(&claim_of(&spans, &ONE, 0)).unwrap();
    let again = |step, mark| claim(&log, &[(step, step, mark)]);
    let forgotten = (1..=steps).take_while(|step| again(*step, *step).is_err()).count() as u64;
    assert!((steps - 82_000..steps - 65_000).contains(&forgotten), "{forgotten}");
    for step in [1, forgotten / 2, forgotten] {
        assert_eq!(again(step, step), Err((step, RefusalReason::UnknownData)));
        assert_eq!(again(step, step + 1), Err((step, RefusalReason::UnknownData)));
    }
    for step in [forgotten + 1, steps] {
        again(step, step).unwrap();
        assert_eq!(again(step, step + 1), Err((step, RefusalReason::OtherData)));
    }
}

/// So does a key with very many streams.
#[test]
fn many_streams_share_the_memory_of_a_key() {
    let log = log();
    let spans: Vec<_> = (1..=60_000).map(|step| StepSpan::from_step(step, step)).collect();
    let claim = |stream: u8, spans: &[StepSpan]| {
        log.claim(&SpanClaim { identity: [stream; 16], part: &ONE, resumed_from: 0, spans }).is_ok()
    };
    assert!((0..30).all(|stream| claim(stream, &spans)));
    for stream in 0..30 {
        assert!(!claim(stream, &[StepSpan::from_step(1, 1)]), "forgotten, and refused");
        assert!(!claim(stream, &[StepSpan::from_step(60_000, 1)]), "remembered, and refused for other data");
        assert!(claim(stream, &[StepSpan::from_step(60_000, 60_000)]));
    }
}

/// The record of a key ends with its last object, unless the key may return.
#[test]
fn a_key_that_returns_is_known() {
    let key = Arc::new(SecretKey::generate().unwrap());
    claim(&NoiseLog::from_key(&key), &[(1, 1, 5)]).unwrap();
    assert!(NoiseLog::from_key(&key).is_empty());
    let log = NoiseLog::from_key(&key);
    claim(&log, &[(1, 1, 5)]).unwrap();
    log.keep();
    drop(log);
    let returned = Arc::new(SecretKey::from_bytes(*key.expose_bytes()).unwrap());
    assert_eq!(claim(&NoiseLog::from_key(&returned), &[(1, 1, 6)]), Err((1, RefusalReason::OtherData)));
}

#[test]
fn ledgers_of_one_key_in_one_process_know_of_each_other() {
    let log = log();
    assert_eq!(log.other_ledger(None), None);
    log.note_ledger(None);
    assert_eq!(log.other_ledger(None), None);
    assert_eq!(log.other_ledger(Some(Path::new("k.ledger"))), Some(None));
    log.ledger_was_saved();
    log.note_ledger(Some(Path::new("k.ledger")));
    assert_eq!(log.other_ledger(None), Some(Some("k.ledger".into())));
    let mut first = log.clone();
    let mut second = log.clone();
    let shared = first.shared_ledger(|| 1);
    assert!(Arc::ptr_eq(&shared, &second.shared_ledger(|| 2)));
}
