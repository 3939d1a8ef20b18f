//! Ranges of publications, by number or by time, and their pages.

use super::super::problem::ProblemAnswer;
use evertally_declare::steps::{Every, Instant, StepCalendar, StepUnit, TimeFormat, TimeParser};
use jiff::Span;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, Offset};
use std::ops::RangeInclusive;

/// The number of publications in an answer to a request without `from` and `last`.
const DEFAULT_PUBLICATIONS: u64 = 1000;

/// Numbers from here on mean seconds or milliseconds since 1970, not publications.
const MIN_EPOCH: u64 = 1_000_000_000;

/// The parameters that select publications, as they were sent.
#[derive(Debug, Default)]
pub(super) struct RangeQuery {
    from: Option<String>,
    to: Option<String>,
    last: Option<String>,
    limit: Option<u64>,
}

/// One end of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bound {
    Publication(u64),
    Time(Instant),
}

/// The requested publications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PublicationRange {
    first: u64,
    /// The last publication, which may not be shown yet; 0 if no step has ended by then.
    last: u64,
    /// The number of publications shown.
    shown: u64,
    /// Whether the caller has given the first one, so that the first page begins there.
    has_first: bool,
    /// Whether the caller has given the last one.
    has_last: bool,
}

/// The publications of one answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) publications: RangeInclusive<u64>,
    /// The last shown publication of the whole range.
    pub(super) range_end: u64,
    /// Whether the range never changes.
    pub(super) is_closed: bool,
    /// The most publications of a page, and whether the caller has given that number.
    pub(super) limit: u64,
    pub(super) has_limit: bool,
    /// The rest of the range: from this publication, and to that one if the range has an end.
    pub(super) next: Option<(u64, Option<u64>)>,
}

/// A number of a parameter, from 1.
pub(super) fn count_in(name: &str, value: &str) -> Result<u64, ProblemAnswer> {
    let number = value.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| ProblemAnswer::bad(format!("`{name}={value}`: must be a whole number, from 1")))
}

impl RangeQuery {
    /// The latest publication.
    pub(super) fn latest() -> Self {
        Self { last: Some("1".to_owned()), ..Self::default() }
    }

    /// Whether nothing selects publications.
    pub(super) fn is_empty(&self) -> bool {
        self.from.is_none() && self.to.is_none() && self.last.is_none() && self.limit.is_none()
    }

    /// The most publications of a page, if the caller has given a number.
    pub(super) fn limit(&self) -> Option<u64> {
        self.limit
    }

    /// The ends of the range that are times, which have a meaning in other streams, too.
    pub(super) fn times(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let is_time = |text: &&str| text.parse::<u64>().map_or(true, |number| number >= MIN_EPOCH);
        let ends = [("from", &self.from), ("to", &self.to)];
        ends.into_iter().filter_map(move |(name, text)| Some((name, text.as_deref().filter(is_time)?)))
    }

    /// Reads a parameter; `false` if it does not select publications.
    pub(super) fn read(&mut self, name: &str, value: &str) -> Result<bool, ProblemAnswer> {
        let of = match name {
            "from" => &mut self.from,
            "to" => &mut self.to,
            "last" => &mut self.last,
            "limit" => {
                self.limit = Some(count_in(name, value)?);
                return Ok(true);
            }
            _ => return Ok(false),
        };
        *of = Some(value.trim().to_owned());
        Ok(true)
    }

    /// The range among the steps of publications, of which this many are shown.
    pub(super) fn of(&self, calendar: &StepCalendar, shown: u64) -> Result<PublicationRange, ProblemAnswer> {
        let bound = |name: &str, text: &Option<String>| {
            text.as_deref().map(|text| Bound::read(name, text, calendar)).transpose()
        };
        let (from, to) = (bound("from", &self.from)?, bound("to", &self.to)?);
        let is_reversed = match (from, to) {
            (Some(Bound::Publication(from)), Some(Bound::Publication(to))) => from > to,
            (Some(Bound::Time(from)), Some(Bound::Time(to))) => from > to,
            _ => false,
        };
        if let (true, Some(from), Some(to)) = (is_reversed, &self.from, &self.to) {
            return Err(ProblemAnswer::bad(format!("`from` ({from}) is after `to` ({to})")));
        }
        let last = to.map_or(shown, |to| to.last_ended(calendar));
        let first = match (from, &self.last) {
            (Some(_), Some(_)) => {
                let problem = "`last` counts back from `to`, or from the latest publication: omit `from` or `last`";
                return Err(ProblemAnswer::bad(problem));
            }
            (Some(from), None) => from.first_after(calendar),
            (None, Some(text)) => first_of_last(text, to, last.min(shown), calendar)?,
            (None, None) => 1,
        };
        let (has_first, has_last) = (from.is_some() || self.last.is_some(), to.is_some());
        Ok(PublicationRange { first, last, shown, has_first, has_last })
    }
}

impl Bound {
    fn read(name: &str, text: &str, calendar: &StepCalendar) -> Result<Self, ProblemAnswer> {
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            let number = count_in(name, text)?;
            if number >= MIN_EPOCH {
                let problem = format!(
                    "`{name}={number}`: a number is that of a publication, and there are not that many; write a time \
                     as 2026-03-01T10:00:00Z"
                );
                return Err(ProblemAnswer::bad(problem));
            }
            return Ok(Self::Publication(number));
        }
        if let Some(problem) = skipped_time(text, calendar) {
            return Err(ProblemAnswer::bad(format!("`{name}={text}` {problem}")));
        }
        let mut parser = TimeParser::new(TimeFormat::Auto, calendar.zone().clone());
        let read = parser.parse_text(text).or_else(|problem| {
            // A `+` in a URL means a space, and stands before an offset only.
            let offset = text.rfind(' ').filter(|at| text.len() - at == "+01:00".len());
            match offset {
                Some(at) => parser.parse_text(&format!("{}+{}", &text[..at], &text[at + 1..])),
                None => Err(problem),
            }
        });
        read.map(Self::Time).map_err(|_| {
            ProblemAnswer::bad(format!(
                "`{name}={text}` is neither the number of a publication nor a time: write 12, 2026-03-01, \
                 2026-03-01T10:00 (in the zone of the stream, {}) or 2026-03-01T10:00:00Z",
                calendar.zone()
            ))
        })
    }

    /// The first publication of a range that begins here.
    fn first_after(self, calendar: &StepCalendar) -> u64 {
        match self {
            Self::Publication(number) => number,
            // The step of an instant is the first one that ends after it.
            Self::Time(time) if time < calendar.start() => 1,
            Self::Time(time) => calendar.step_of(time).unwrap_or(calendar.steps() + 1),
        }
    }

    /// The last publication of a range that ends here; 0 if there is none.
    fn last_ended(self, calendar: &StepCalendar) -> u64 {
        match self {
            Self::Publication(number) => number,
            Self::Time(time) if time < calendar.start() => 0,
            Self::Time(time) => calendar.step_of(time).map_or(calendar.steps(), |step| step - 1),
        }
    }
}

/// The problem of a local time that the clocks have skipped, such as 02:30 when they went from 02:00 to 03:00.
fn skipped_time(text: &str, calendar: &StepCalendar) -> Option<String> {
    let (_, clock) = text.split_once(['T', 't', ' '])?;
    if !clock.bytes().all(|byte| byte.is_ascii_digit() || b":.".contains(&byte)) {
        return None; // with an offset, or not a time
    }
    let civil: DateTime = text.parse().ok()?;
    let zone = calendar.zone();
    let AmbiguousOffset::Gap { before, after } = zone.time_zone().to_ambiguous_timestamp(civil).offset() else {
        return None;
    };
    let offsets = |offset: Offset| format!("{civil}{offset:#}");
    Some(format!(
        "does not exist in the zone of the stream, {zone}: the clocks were set forward over it; write {} or {}",
        offsets(before),
        offsets(after)
    ))
}

/// The first publication of the last ones through `end`: of a number of them, or of a duration that ends at `to`, or
/// with `end`.
fn first_of_last(text: &str, to: Option<Bound>, end: u64, calendar: &StepCalendar) -> Result<u64, ProblemAnswer> {
    let refuse = || {
        let problem = format!("`last={text}`: must be a number of publications, from 1, or a duration: 24h, 7d, 1mo");
        ProblemAnswer::bad(problem)
    };
    if let Ok(count) = text.parse::<u64>() {
        return match count {
            0 => Err(refuse()),
            count => Ok(end.saturating_sub(count - 1).max(1)),
        };
    }
    let span = text.parse().ok().and_then(span_of).ok_or_else(refuse)?;
    let until = match to {
        Some(Bound::Time(time)) => time,
        _ if end == 0 => return Ok(1),
        _ => calendar.end_of(end),
    };
    let zone = calendar.zone().time_zone().clone();
    let begin = until.timestamp().and_then(|until| until.to_zoned(zone).checked_sub(span).ok());
    // A duration that reaches back beyond all times.
    Ok(begin.map_or(1, |begin| Bound::Time(begin.timestamp().into()).first_after(calendar)))
}

/// A duration: of elapsed time, or of days and longer by the calendar.
fn span_of(duration: Every) -> Option<Span> {
    let (count, span) = (i64::from(duration.count()), Span::new());
    match duration.unit() {
        StepUnit::Second => span.try_seconds(count),
        StepUnit::Minute => span.try_minutes(count),
        StepUnit::Hour => span.try_hours(count),
        StepUnit::Day => span.try_days(count),
        StepUnit::Week => span.try_weeks(count),
        StepUnit::Month => span.try_months(count),
        StepUnit::Year => span.try_years(count),
    }
    .ok()
}

impl PublicationRange {
    /// The page of this range with at most `limit` publications, of those whose number is a multiple of `every`, and
    /// at most `most`.
    pub(super) fn page(self, every: u64, limit: Option<u64>, most: u64) -> Page {
        let Self { first, last, shown, has_first, has_last } = self;
        let range_end = last.min(shown);
        let default = if has_first { most } else { DEFAULT_PUBLICATIONS };
        let page_limit = limit.unwrap_or(default).min(most).max(1);
        let span = page_limit.saturating_mul(every);
        let publications = match has_first {
            true => first..=first.saturating_add(span - 1).min(range_end),
            false => range_end.saturating_sub(span - 1).max(1)..=range_end,
        };
        let next = (*publications.end() < range_end && first <= range_end)
            .then(|| (publications.end() + 1, has_last.then_some(last)));
        let is_closed = has_first && has_last && last <= shown;
        Page { publications, range_end, is_closed, limit: page_limit, has_limit: limit.is_some(), next }
    }
}

impl Page {
    /// The publications before this page, at most as many as `limit` or as on this page, of those that are multiples of
    /// `every`.
    pub(super) fn prev(&self, every: u64) -> Option<(u64, u64)> {
        let own = (self.publications.end() + 1).saturating_sub(*self.publications.start()).div_ceil(every);
        let size = match (self.has_limit, own) {
            (true, _) => self.limit,
            (false, 0) => DEFAULT_PUBLICATIONS.min(self.limit),
            (false, own) => own,
        };
        let before = self.publications.start().saturating_sub(1).min(self.range_end);
        let to = before - before % every;
        (to > 0).then(|| (to.saturating_sub(size.saturating_mul(every) - 1).max(1), to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evertally_declare::steps::Horizon;

    fn calendar(start: &str, steps: u64, every: &str, zone: &str) -> StepCalendar {
        let zone: evertally_declare::steps::Zone = zone.parse().unwrap();
        let start = TimeParser::new(TimeFormat::Auto, zone.clone()).parse_text(start).unwrap();
        StepCalendar::new(start, Horizon::Steps(steps), every.parse().unwrap(), zone).unwrap()
    }

    fn query(text: &str) -> RangeQuery {
        let mut query = RangeQuery::default();
        for (name, value) in form_urlencoded::parse(text.as_bytes()) {
            assert!(query.read(&name, &value).unwrap());
        }
        query
    }

    /// The first and the last publication of a query.
    fn ends(text: &str, calendar: &StepCalendar, shown: u64) -> (u64, u64) {
        let range = query(text).of(calendar, shown).unwrap_or_else(|problem| panic!("{text}: {problem:?}"));
        (range.first, range.last)
    }

    #[test]
    fn local_times_that_the_clocks_skipped_are_refused() {
        let summer = calendar("2026-03-29T00:00", 24, "1h", "Europe/Berlin");
        let problem = |text: &str| query(text).of(&summer, 24).err().map(|problem| format!("{problem:?}"));
        for text in ["from=2026-03-29T02:30", "to=2026-03-29+02:30", "from=2026-03-29T02:00:00.5"] {
            let problem = problem(text).unwrap_or_else(|| panic!("{text} is accepted"));
            assert!(problem.contains("does not exist") && problem.contains("Europe/Berlin"), "{text}: {problem}");
        }
        let named = problem("from=2026-03-29T02:30").unwrap();
        assert!(named.contains("2026-03-29T02:30:00+01") && named.contains("2026-03-29T02:30:00+02"), "{named}");
        // With an offset, on either side of the gap, and whole days.
        for text in [
            "from=2026-03-29T02:30:00%2B01:00",
            "from=2026-03-29T02:30:00Z",
            "from=2026-03-29T01:59:59",
            "from=2026-03-29T03:00",
            "from=2026-03-29",
            "from=3",
        ] {
            assert_eq!(problem(text), None, "{text}");
        }
    }

    #[test]
    fn a_time_range_has_the_steps_that_end_within_it() {
        let hourly = calendar("2026-01-01", 48, "1h", "UTC");
        for (text, expected) in [
            // A step that ends at `from` is not in the range, and one that ends at `to` is.
            ("from=2026-01-01T03:00:00Z&to=2026-01-01T05:00:00Z", (4, 5)),
            ("from=2026-01-01T03:00:01Z&to=2026-01-01T04:59:59Z", (4, 4)),
            ("from=2026-01-01T02:59:59Z&to=2026-01-01T05:00:01Z", (3, 5)),
            ("from=2026-01-01&to=2026-01-02", (1, 24)),
            ("from=2026-01-02&to=2026-01-03", (25, 48)),
            ("from=2025-01-01&to=2025-06-01", (1, 0)),
            ("from=2026-01-03", (49, 30)),
            ("to=2027-01-01", (1, 48)),
            ("from=2026-01-01T03:00&to=2026-01-01T03:00", (4, 3)),
            ("from=2026-01-01T04:00:00%2B01:00", (4, 30)),
            ("from=2026-01-01T04:00:00+01:00", (4, 30)),
            ("from=2026-01-01+03:00", (4, 30)),
            ("from=7&to=2026-01-01T09:00", (7, 9)),
        ] {
            assert_eq!(ends(text, &hourly, 30), expected, "{text}");
        }
    }

    #[test]
    fn local_times_and_durations_follow_the_zone() {
        // The clock is set forward at 02:00 on 29 March: that day has 23 hours.
        let berlin = calendar("2026-03-28", 96, "1h", "Europe/Berlin");
        assert_eq!(ends("from=2026-03-29&to=2026-03-30", &berlin, 96), (25, 47));
        assert_eq!(ends("from=2026-03-28T23:00:00Z&to=2026-03-29T22:00:00Z", &berlin, 96), (25, 47));
        assert_eq!(ends("to=2026-03-30&last=1d", &berlin, 96), (25, 47));
        assert_eq!(ends("to=2026-03-30&last=24h", &berlin, 96), (24, 47));
        let days = calendar("2026-03-01", 60, "1d", "Europe/Berlin");
        for (text, expected) in [
            ("last=7d", (24, 30)),
            ("last=1w", (24, 30)),
            ("last=7", (24, 30)),
            ("last=7d&to=20", (14, 20)),
            ("last=7d&to=2026-03-21", (14, 20)),
            ("last=1mo&to=2026-04-01", (1, 31)),
            ("last=1000y", (1, 30)),
            ("last=1000000", (1, 30)),
            ("last=1s", (30, 30)),
        ] {
            assert_eq!(ends(text, &days, 30).0, expected.0, "{text}");
            assert_eq!(ends(text, &days, 30).1, expected.1, "{text}");
        }
        assert_eq!(ends("last=7d", &days, 0), (1, 0), "nothing is published yet");
    }

    #[test]
    fn every_time_range_is_what_a_reader_would_filter() {
        for (every, zone) in [("1h", "UTC"), ("1d", "Europe/Berlin"), ("1mo", "America/New_York")] {
            let calendar = calendar("2026-01-01", 40, every, zone);
            let at = |step: u64| calendar.end_of(step).micros();
            let times: Vec<i64> = (1..=40).flat_map(|step| [at(step) - 1, at(step), at(step) + 1]).collect();
            for from in times.iter().step_by(7) {
                for to in times.iter().filter(|to| *to >= from) {
                    let text = |micros: &i64| Instant::from_micros(*micros).to_string();
                    let found = ends(&format!("from={}&to={}", text(from), text(to)), &calendar, 40);
                    let filtered: Vec<u64> = (1..=40).filter(|step| at(*step) > *from && at(*step) <= *to).collect();
                    assert_eq!((found.0..=found.1).collect::<Vec<u64>>(), filtered, "{every}");
                }
            }
        }
    }

    #[test]
    fn what_selects_nothing_is_refused_by_name() {
        let hourly = calendar("2026-01-01", 48, "1h", "Europe/Berlin");
        for (text, expected) in [
            ("from=0", "from 1"),
            ("from=3&to=2", "`from` (3) is after `to` (2)"),
            ("from=2026-01-02&to=2026-01-01", "is after"),
            ("from=yesterday", "in the zone of the stream, Europe/Berlin"),
            ("to=2026-02-30", "2026-02-30"),
            ("to=", "neither the number"),
            ("from=1767225600", "write a time"),
            ("last=0", "24h, 7d"),
            ("last=x", "24h, 7d"),
            ("last=3&from=2", "omit"),
        ] {
            let problem = query(text).of(&hourly, 30).expect_err(text);
            assert!(format!("{problem:?}").contains(expected), "{text}: {problem:?}");
        }
        assert!(RangeQuery::default().read("limit", "0").is_err() && !RangeQuery::default().read("x", "0").unwrap());
    }

    #[test]
    fn pages_have_every_publication_once() {
        let hourly = calendar("2026-01-01", 48, "1h", "UTC");
        for (text, every, limit) in [("from=1", 1, 7), ("from=3&to=20", 1, 4), ("from=1&to=29", 3, 2), ("last=9", 1, 9)]
        {
            let mut range = query(text).of(&hourly, 30).unwrap();
            let (first, last) = (range.first, range.last.min(30));
            let mut seen = Vec::new();
            loop {
                let page = range.page(every, Some(limit), 1000);
                let own = page.publications.clone();
                let kept = |number: &u64| number.is_multiple_of(every) || *number == page.range_end;
                assert!(own.clone().filter(kept).count() as u64 <= limit + 1);
                seen.extend(own);
                let Some((from, to)) = page.next else { break };
                let to = to.map_or(String::new(), |to| format!("&to={to}"));
                range = query(&format!("from={from}{to}")).of(&hourly, 30).unwrap();
            }
            assert_eq!(seen, (first..=last).collect::<Vec<u64>>(), "{text}");
        }
    }

    #[test]
    fn the_previous_page_ends_before_this_one() {
        let hourly = calendar("2026-01-01", 48, "1h", "UTC");
        let page = |text: &str, every| query(text).of(&hourly, 30).unwrap().page(every, Some(4), 1000);
        assert_eq!(page("from=10", 1).prev(1), Some((6, 9)));
        assert_eq!(page("from=3", 1).prev(1), Some((1, 2)));
        assert_eq!(page("from=1", 1).prev(1), None);
        assert_eq!(page("from=40", 1).prev(1), Some((27, 30)), "no publication is shown there");
        assert_eq!(page("", 1).publications, 27..=30);
        assert_eq!(page("to=20", 1).publications, 17..=20);
        assert_eq!((page("", 1).prev(1), page("", 1).next), (Some((23, 26)), None));
        // Multiples of seven: 7, 14, 21, 28.
        assert_eq!(page("from=22", 7).prev(7), Some((1, 21)));
        assert_eq!(page("from=5", 7).prev(7), None);
        // Rows limit a page, too.
        assert_eq!(query("from=1").of(&hourly, 30).unwrap().page(1, None, 5).publications, 1..=5);
        let closed = |text: &str| query(text).of(&hourly, 30).unwrap().page(1, None, 5).is_closed;
        assert!(closed("from=1&to=30") && closed("last=2d&to=2026-01-02T06:00") && !closed("from=1&to=31"));
        assert!(!closed("last=5") && !closed("to=5") && !closed("from=1") && !closed("from=1&to=2027-01-01"));
    }
}
