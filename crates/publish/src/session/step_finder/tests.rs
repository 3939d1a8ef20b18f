use crate::session::Session;
use crate::session::sums::RunningSums;
use crate::session::tests::{RowCells, STEPS, columns, key, session, stream, take};
use evertally_declare::error::{Place, Result};
use evertally_declare::event::{ColumnLayout, Event, Field, Position};
use evertally_declare::policy::{DateOnly, Outside, Refusable};
use evertally_declare::steps::{Horizon, Instant, StepCalendar, Zone};
use evertally_declare::stream::Stream;
use evertally_ledger::ledger::Ledger;

/// A stream of one column of times, read as declared.
fn stream_of_times(format: &str, policy: Outside) -> Stream {
    let mut stream = stream(0);
    stream.time_format = format.parse().unwrap();
    stream.outside = policy;
    stream
}

/// Pushes an event with this time, which is in 1970 if it is inside.
fn push_time(session: &mut Session<RunningSums>, time: Field<'static>) -> Result<()> {
    let cells = RowCells([time, Field::Text("a"), Field::Text("p"), Field::Integer(1)]);
    let layout = ColumnLayout::new(&columns());
    session.push(&Event::new(Position { file: "rows", place: Place::Row(1) }, &cells, &layout))
}

fn run_with(stream: &Stream, times: &[Field<'static>]) -> Result<()> {
    let (key, mut ledger) = (key(), Ledger::in_memory(&key()));
    let mut session = session(stream, STEPS, &ledger, &key);
    times.iter().try_for_each(|time| push_time(&mut session, *time))?;
    session.close_through(STEPS)?;
    let mut sums = Vec::new();
    take(&mut session, &mut sums)?;
    session.record(&mut ledger)
}

#[test]
fn events_far_outside_are_named_and_not_skipped() {
    let text = Field::Text;
    for (format, time, says) in [
        ("auto", text("2024-05-01"), "`2024-05-01` is read as 2024-05-01T00:00:00Z, far outside the horizon"),
        ("auto", text("1870-01-01"), "far outside the horizon"),
        ("auto", text("9999-12-31"), "--outside skip-any"),
        ("epoch-seconds", Field::Integer(1_372_636_800_000), "is in the year 45467 in seconds, far outside"),
        ("epoch-seconds", text("7200000"), "in milliseconds it is 1970-01-01T02:00:00Z"),
        ("epoch-millis", text("7200000000"), "--time-format epoch-micros"),
        ("epoch-micros", Field::Float(7.2e12), "--time-format epoch-nanos"),
    ] {
        let refused = run_with(&stream_of_times(format, Outside::Skip), &[Field::Instant(0), time]);
        let message = refused.unwrap_err().to_string();
        assert!(message.contains(says), "{format} {time:?}: {message}");
        run_with(&stream_of_times(format, Outside::SkipAny), &[Field::Instant(0), time]).unwrap();
    }
    // Other events outside are skipped without a word.
    run_with(&stream_of_times("auto", Outside::Skip), &[Field::Instant(0), text("1990-01-01T00:00:00Z")]).unwrap();
    let refused = run_with(&stream_of_times("epoch-seconds", Outside::Refuse), &[text("7200000")]).unwrap_err();
    assert!(refused.to_string().contains("declare --time-format epoch-millis"), "{refused}");
}

#[test]
fn a_history_without_events_inside_is_not_published() {
    let (first, last) = (Field::Text("1990-01-01T00:00:00Z"), Field::Text("1991-01-01T00:00:00Z"));
    let refused = run_with(&stream_of_times("auto", Outside::Skip), &[last, first]).unwrap_err().to_string();
    assert!(refused.contains("no event is inside the horizon"), "{refused}");
    assert!(refused.contains("from 1990-01-01T00:00:00Z to 1991-01-01T00:00:00Z"), "{refused}");
    run_with(&stream_of_times("auto", Outside::SkipAny), &[last, first]).unwrap();
    run_with(&stream_of_times("auto", Outside::Skip), &[]).unwrap();
    let mut stream = stream_of_times("auto", Outside::Skip);
    stream.missing = Refusable::Skip;
    let refused = run_with(&stream, &[Field::Missing]).unwrap_err().to_string();
    assert!(refused.contains("none of them has a time"), "{refused}");
    run_with(&stream, &[Field::Missing, Field::Instant(0)]).unwrap();
    stream.missing = Refusable::Refuse;
    let refused = run_with(&stream, &[Field::Missing]).unwrap_err().to_string();
    assert!(refused.contains("the row has no time; leave such events out with --missing skip"), "{refused}");
}

#[test]
fn dates_need_steps_of_days() {
    let mut stream = stream_of_times("auto", Outside::Refuse);
    for (time, says) in [
        (Field::Text("1970-01-01"), "which is not within one step of 1 hour; if the time of day is in another column"),
        (Field::Date(0), "--date COLUMN --time-of-day COLUMN"),
        (Field::Text("1970-01"), "is a month, which is not within one step of 1 hour; take steps of a month"),
    ] {
        let refused = run_with(&stream, &[time]).unwrap_err().to_string();
        assert!(refused.contains(says) && refused.contains("--date-only midnight"), "{time:?}: {refused}");
    }
    stream.date_only = DateOnly::Midnight;
    run_with(&stream, &[Field::Text("1970-01-01"), Field::Date(0), Field::Text("1970-01")]).unwrap();
    stream.date_only = DateOnly::Refuse;
    let (start, every) = (Instant::from_micros(0), "1d".parse().unwrap());
    stream.calendar = StepCalendar::new(start, Horizon::Steps(STEPS), every, Zone::utc()).unwrap();
    run_with(&stream, &[Field::Text("1970-01-01"), Field::Date(1)]).unwrap();
    // Days that begin at 06:00 are not the days of the calendar.
    let start = Instant::from_micros(6 * 3_600_000_000);
    stream.calendar = StepCalendar::new(start, Horizon::Steps(STEPS), every, Zone::utc()).unwrap();
    assert!(run_with(&stream, &[Field::Text("1970-01-02")]).is_err());
    // Steps of 24 hours may be days.
    let (start, every) = (Instant::from_micros(0), "24h".parse().unwrap());
    stream.calendar = StepCalendar::new(start, Horizon::Steps(STEPS), every, Zone::utc()).unwrap();
    run_with(&stream, &[Field::Text("1970-01-02")]).unwrap();
}
