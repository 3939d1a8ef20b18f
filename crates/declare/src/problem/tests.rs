use super::*;
use crate::error::Context;
use Parameter::{Bounds, Groups, GroupsFile, MaxEvents, Outside, Rest, SortBuffer, Stream};

#[test]
fn every_front_has_its_own_words() {
    let sentence = sentence!["leave such events out with ", (Outside, "skip"), ", or raise ", (SortBuffer, "9")];
    for (wording, text) in [
        (Wording::Flags, "leave such events out with --outside skip, or raise --sort-buffer 9"),
        (Wording::Keywords, "leave such events out with outside=\"skip\", or raise sort_buffer=9"),
        (Wording::Toml, "leave such events out with outside = \"skip\", or raise sort-buffer = 9"),
        (Wording::Json, "leave such events out with \"outside\": \"skip\", or raise \"sort-buffer\": 9"),
    ] {
        assert_eq!(sentence.worded(wording), text);
    }
    assert_eq!(sentence.parameters().collect::<Vec<_>>(), [Outside, SortBuffer]);
}

#[test]
fn lists_leave_out_what_a_front_does_not_have() {
    let any = sentence![SentencePart::Any(&[Groups, GroupsFile])];
    let all = sentence![SentencePart::All(&[Groups, GroupsFile, Rest])];
    assert_eq!(any.worded(Wording::Flags), "--groups or --groups-file");
    assert_eq!(any.worded(Wording::Keywords), "groups");
    assert_eq!(all.worded(Wording::Flags), "--groups, --groups-file and --rest");
    assert_eq!(all.worded(Wording::Keywords), "groups and rest");
    let one = sentence![SentencePart::Where(GroupsFile, sentence!["use ", GroupsFile], "give a list".into())];
    assert_eq!(
        (one.worded(Wording::Toml), one.worded(Wording::Json)),
        ("use groups-file".into(), "give a list".into())
    );
    let noun = sentence!["another ", SentencePart::Noun(Stream, "name")];
    assert_eq!(noun.worded(Wording::Flags), "another --stream name");
    assert_eq!(noun.worded(Wording::Keywords), "another name");
}

#[test]
fn examples_stand_for_values() {
    let example = sentence![SentencePart::Example(Bounds)];
    assert_eq!(example.worded(Wording::Flags), "--bounds LOW,HIGH");
    assert_eq!(example.worded(Wording::Keywords), "bounds=(low, high)");
    assert_eq!(example.worded(Wording::Toml), "bounds = [LOW, HIGH]");
    assert_eq!(sentence![Stream].worded(Wording::Keywords), "name");
    let made = sentence!["make one with ", SentencePart::NewKey("k.key".into())];
    assert_eq!(made.worded(Wording::Flags), "make one with `evertally key new k.key`");
    assert!(made.worded(Wording::Keywords).contains("SecretKey.generate().save(path)"));
}

#[test]
fn a_problem_keeps_its_parts() {
    let problem = Problem::of(MaxEvents, sentence![MaxEvents, " is 0"]).remedy(sentence!["give at least 1"]);
    assert_eq!(problem.parameters(), [MaxEvents]);
    assert_eq!(problem.to_string(), "--max-events is 0; give at least 1");
    assert_eq!(problem.problem().worded(Wording::Keywords), "max_events is 0");
    assert_eq!(problem.remedies().unwrap().to_string(), "give at least 1");
    let error = Err::<(), _>(problem).context("nothing was written").unwrap_err();
    assert_eq!(error.worded(Wording::Keywords), "nothing was written: max_events is 0; give at least 1");
}
