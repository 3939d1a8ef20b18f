use super::*;

fn open(url: &str) -> Result<Streams> {
    Streams::open(Address::parse(url)?, &SourceOptions::default())
}

#[test]
fn urls() {
    let streams = open("redis://host/3?stream=a%2Cb&stream=c").expect("valid");
    assert_eq!(streams.shown(), "redis://host:6379/3 (a,b, c)");
    assert_eq!(streams.identity(), "redis:3");
    for (url, why) in [
        ("redis://host/", "names no stream"),
        ("redis://host/visits?stream=a", "is a number"),
        ("redis://host/?stream=a&stream=a", "`a` twice"),
        ("redis://host/?stream=a&group=b", "`group`"),
        ("redis://user@host/?stream=a", "password-file"),
        ("redis://h1,h2/?stream=a", "one host"),
    ] {
        let error = open(url).err().expect(url).to_string();
        assert!(error.contains(why), "{url}: {error}");
    }
}

#[test]
fn positions() {
    for text in ["0-0", "1526919030474-55/1042", "18446744073709551615-18446744073709551615/18446744073709551615"] {
        assert_eq!(EntryPlace::parse(text).expect(text).to_string(), text);
    }
    for text in ["", "5", "5-", "5-1/", "5-1/x", "-1-0"] {
        assert_eq!(EntryPlace::parse(text), None, "{text}");
    }
}

fn text(text: &str) -> Value {
    Value::BulkString(text.into())
}

fn entry(id: &str) -> Value {
    Value::Array(vec![text(id), Value::Array(vec![text("a"), text("1")])])
}

fn entries(ids: &[&str]) -> Vec<StreamEntry> {
    let ids = Value::Array(ids.iter().map(|id| entry(id)).collect());
    reply::entries(Value::Array(vec![Value::Array(vec![text("key"), ids])])).expect("valid")
}

fn info(length: i64, last: &str, first: Option<&str>, added: Option<i64>) -> Info {
    let mut all = vec![text("length"), Value::Int(length), text("last-generated-id"), text(last)];
    all.extend([text("first-entry"), first.map_or(Value::Nil, entry)]);
    all.extend(added.into_iter().flat_map(|added| [text("entries-added"), Value::Int(added)]));
    Info::of(&Value::Array(all)).expect("valid")
}

/// The warnings and the place after a fetch at a position.
fn fetch(position: &str, ids: &[&str], info: &Info, is_end: bool) -> Result<(Vec<SourceWarning>, String)> {
    let mut stream = FollowedStream { place: EntryPlace::parse(position).expect("valid"), ..FollowedStream::default() };
    let mut warnings = Vec::new();
    stream.take(entries(ids), info, is_end, &mut warnings)?;
    let last = stream.fetched.back().map(|(_, place)| *place).or(stream.passed).unwrap_or(stream.place);
    assert_eq!(last, stream.place);
    Ok((warnings, last.to_string()))
}

#[test]
fn deleted_entries_are_counted() {
    let quiet = |found: Result<(Vec<SourceWarning>, String)>, place: &str| {
        assert_eq!(found.expect("valid"), (Vec::new(), place.to_owned()));
    };
    let lost = |found: Result<(Vec<SourceWarning>, String)>, number: u64, place: &str| {
        let (warnings, after) = found.expect("valid");
        assert!(
            warnings.len() == 1 && warnings[0].to_string().contains(&format!("({number} entries)")),
            "{warnings:?}"
        );
        assert_eq!(after, place);
    };
    // Entries that were gone before the stream was followed are not missed.
    quiet(fetch("0-0", &["7-0", "8-0"], &info(2, "8-0", Some("7-0"), Some(8)), true), "8-0/8");
    quiet(fetch("0-0", &["7-0"], &info(2, "8-0", Some("7-0"), Some(8)), false), "7-0/7");
    // Entries that were read, and then deleted.
    quiet(fetch("6-0/6", &["7-0", "8-0"], &info(2, "8-0", Some("7-0"), Some(8)), true), "8-0/8");
    quiet(fetch("8-0/8", &[], &info(0, "8-0", None, Some(8)), true), "8-0/8");
    lost(fetch("4-0/4", &["7-0", "8-0"], &info(2, "8-0", Some("7-0"), Some(8)), true), 2, "8-0/8");
    lost(fetch("4-0/4", &["7-0"], &info(2, "8-0", Some("7-0"), Some(8)), false), 2, "7-0/7");
    lost(fetch("4-0/4", &[], &info(0, "8-0", None, Some(8)), true), 4, "8-0/8");
    // One in between was deleted: this is noticed at the end.
    quiet(fetch("4-0/4", &["6-0"], &info(5, "8-0", Some("1-0"), Some(8)), false), "6-0/5");
    lost(fetch("4-0/4", &["6-0", "7-0", "8-0"], &info(5, "8-0", Some("1-0"), Some(8)), true), 1, "8-0/8");
    // Servers before Redis 7 do not count.
    quiet(fetch("4-0", &["7-0"], &info(1, "8-0", Some("7-0"), None), true), "7-0");
}

#[test]
fn a_stream_that_was_created_again() {
    let (warnings, place) = fetch("5-0/50", &["7-0"], &info(1, "7-0", Some("7-0"), Some(1)), true).expect("valid");
    assert!(warnings.len() == 1 && warnings[0].text().contains("created again"), "{warnings:?}");
    assert_eq!(place, "7-0/1");
    let error = fetch("8-0/8", &[], &info(1, "7-0", Some("7-0"), Some(1)), true).expect_err("before").to_string();
    assert!(error.contains("7-0") && error.contains("8-0"), "{error}");
}

#[test]
fn rows() {
    let of = |fields: Vec<Value>, json| {
        let entry = Value::Array(vec![text("1-0"), Value::Array(fields)]);
        let all = Value::Array(vec![Value::Array(vec![text("key"), Value::Array(vec![entry])])]);
        String::from_utf8(reply::entries(all).expect("valid")[0].row(json)).expect("UTF-8")
    };
    assert_eq!(of(vec![text("a"), text("1"), text("b\""), text("x\n")], None), "{\"a\":\"1\",\"b\\\"\":\"x\\n\"}");
    assert_eq!(of(vec![text("a"), text("{\"b\": 1}")], Some("a")), "{\"b\": 1}");
    assert!(of(vec![text("a"), text("1")], Some("b")).starts_with('"'));
    assert!(of(vec![text("a"), Value::BulkString(vec![0xff])], None).starts_with('"'));
}
