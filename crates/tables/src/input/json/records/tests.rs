use super::*;

/// Reads the array of a text, a number of bytes at a time.
fn array_of(text: &str, path: &str, step: usize) -> Result<String, String> {
    let mut reader = RecordArray::new(text.as_bytes(), path, 1000);
    reader.chunk = vec![0; step];
    let mut found = String::new();
    match reader.read_to_string(&mut found) {
        Ok(_) => Ok(found),
        Err(error) => Err(error.to_string()),
    }
}

/// The array, which does not depend on how many bytes are read at a time.
fn array(text: &str, path: &str) -> Result<String, String> {
    let found = array_of(text, path, 1);
    for step in [2, 3, 7, 1000] {
        assert_eq!(array_of(text, path, step), found, "{step} bytes at a time: {text}");
    }
    found
}

#[test]
fn the_array_remains_with_its_line_numbers() {
    let text = "{\"type\": \"a [\\\"]\",\n \"other\": [[\"]\\\"[\"], {\"features\": []}],\n \"features\": [\n  {\"a\": \
                [1]},\n  {}\n ], \"n\": {\"features\": [1]}\n}\n";
    assert_eq!(array(text, "features").unwrap(), "\n\n[\n  {\"a\": [1]},\n  {}\n ]\n\n");
    assert_eq!(array(text, "n.features").unwrap(), "\n\n\n\n\n[1]\n\n");
    assert_eq!(array("{\"a\": {\"b\": {}, \"c\": [2]}, \"b\": [3]}", "a.c").unwrap(), "[2]");
    assert_eq!(array("{\"a\": {\"b\": {}, \"c\": [2]}, \"b\": [3]}", "b").unwrap(), "[3]");
    assert_eq!(array("{\"a.c\": [4]}", "a.c").unwrap(), "[4]");
    assert_eq!(array("{\"\\u0061\": [4]}", "a").unwrap(), "[4]");
    assert_eq!(array("{\"a\": null}", "a").unwrap(), "[]");
    assert_eq!(array("{\"a\": []}", "a").unwrap(), "[]");
}

#[test]
fn other_texts_are_refused_with_the_line() {
    let refused = |text: &str, path: &str, line: u64, problem: &str| {
        let error = array(text, path).unwrap_err();
        assert!(error.starts_with(&format!("line {line}: ")) && error.contains(problem), "{error}");
    };
    refused("{\"a\": [],\n\"a\": []}", "a", 2, "has `a` twice");
    refused("{\"a\": null,\n\"a\": []}", "a", 2, "has `a` twice");
    refused("{\"a\": {\"b\": []}, \"a.b\": []}", "a.b", 1, "has `a.b` twice");
    refused("{\n\"a\": {\"b\": []}}", "a", 2, "`a` is not an array");
    refused("{\"a\": \"x\"}", "a", 1, "`a` is not an array");
    refused("{\"a\": {\"b\": []}, \"c\": [1]}", "d", 1, "there is no array `d`; there is `a.b`, `c`");
    refused("{\"a\": 1}", "d", 1, "there is no array `d`, and no other");
    refused("[{\"a\": []}]", "a", 1, "the text is an array itself");
    refused("a,b\n", "a", 1, "not a JSON object");
    refused("{\"a\": []}\n{\"a\": []}", "a", 2, "another object after the first");
    refused("{\"a\": [],\n", "a", 2, "ends too early");
    refused("{\"a\": [], \"b\": [{\"c\": 1", "a", 1, "ends too early");
    refused("{\"a\": [], \"b\": [{\"c]}", "a", 1, "ends too early");
    refused("{\"a\": []}}", "a", 1, "not a JSON object");
    refused("{\"a\": [] \"b\": 1}", "a", 1, "is not JSON");
    refused("{\"a\": [] [] }", "a", 1, "not a JSON object");
    refused("", "a", 1, "ends too early");
    refused(&format!("{{\"t\": \"{}\", \"a\": []}}", "x".repeat(1000)), "a", 1, "is too long");
}

#[test]
fn the_text_around_is_utf8() {
    let mut reader = RecordArray::new(&b"{\"a\": [], \"b\": \"\xff\"}"[..], "a", 1000);
    let error = reader.read_to_string(&mut String::new()).unwrap_err().to_string();
    assert!(error.contains("not UTF-8"), "{error}");
}

#[test]
fn an_array_that_is_cut_short_is_left_to_its_reader() {
    assert_eq!(array("{\"a\": [{}, {", "a").unwrap(), "[{}, {");
}

#[test]
fn the_array_of_the_events_is_found_by_their_columns() {
    let names = ["type", "items[0].id", "data.rows[0].time", "data.rows[0].who.id"].map(String::from);
    let of = |wanted: &[&str]| array_with(&wanted.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>(), &names);
    assert_eq!(of(&["time"]), Some("data.rows"));
    assert_eq!(of(&["time", "who.id"]), Some("data.rows"));
    assert_eq!(of(&["time", "id"]), None);
    assert_eq!(of(&[]), None);
    let nested = ["d[0][0].time".to_owned()];
    assert_eq!(array_with(&["time".to_owned()], &nested), None);
}

#[test]
fn the_arrays_of_objects_are_listed_by_their_length() {
    let text = br#"{"a": [1, 2, 3, 4, 5, 6, 7, 8], "b": {"c": [ {"x": []}, {} ]}, "d": [{}], "e": []}"#;
    assert_eq!(arrays_of(text), ["b.c", "d"]);
    assert_eq!(arrays_of(br#"{"d": [{}], "a": [ {"x": 1}, {"x": "#), ["a", "d"]);
    assert!(arrays_of(b"{\"a\": [{}]}\n{\"a\": [{}]}\n").is_empty());
    assert!(arrays_of(b"[{\"a\": [{}]}]").is_empty() && arrays_of(b"a,b\n").is_empty());
}
