use super::*;
use crate::problem::{Problem, Wording};
use crate::stream::{Outside, Refusable, SortLimit};
use evertally::privacy::RollingWindow;
use std::collections::HashSet;

/// A year of days under ε = 1.
fn year() -> Declaration {
    Declaration {
        start: Some("2024-01-01".into()),
        end: Some("2025-01-01".into()),
        every: Some("1d".parse().unwrap()),
        epsilon: Some(1.0),
        ..Declaration::default()
    }
}

fn refused(declared: &Declaration) -> Problem {
    declared.resolve().expect_err("refused")
}

#[test]
fn names_are_those_of_the_fields() {
    let names: HashSet<&str> = Parameter::all().map(Parameter::name).collect();
    assert_eq!(names.len(), Parameter::all().count());
    for parameter in Parameter::all() {
        assert_eq!(Parameter::named(parameter.name()), Some(parameter));
        assert!(parameter.name().chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{}", parameter.name());
        assert!(!parameter.uses().is_empty());
        for wording in [Wording::Flags, Wording::Keywords] {
            let about = parameter.about(wording);
            assert!(about.ends_with(['.', '…']) && !about.contains("  "), "{about:?}");
        }
        if parameter.is_declared() {
            // Every declared name is a field of the struct, and null leaves it open.
            let null = serde_json::json!({ parameter.name(): null });
            assert_eq!(serde_json::from_value::<Declaration>(null).unwrap(), Declaration::default());
        }
    }
    assert_eq!(Parameter::MaxEventsPerStep.name(), "max-events-per-step");
    assert_eq!(Parameter::GroupBy.keyword().as_deref(), Some("group"));
    assert_eq!(Parameter::Out.keyword(), None);
    assert!(Parameter::Steps.about(Wording::Keywords).contains("instead of end."));
    assert!(Parameter::Key.about(Wording::Flags).contains("`evertally key new`"));
}

#[test]
fn defaults_are_values() {
    for parameter in Parameter::all().filter(|p| p.default().is_some() && *p != Parameter::Delimiter) {
        assert_eq!(parameter.check(parameter.default().unwrap()), Ok(()), "{}", parameter.name());
    }
    // A declaration without parameters behaves as the defaults of the table state.
    let plain = year().resolve().unwrap();
    let mut explicit = year();
    for parameter in Parameter::used_by(Use::Release).filter(|p| p.is_declared()) {
        let needs_others = matches!(parameter, Parameter::Grid | Parameter::OutOfBounds);
        if let (Some(default), false) = (parameter.default(), needs_others) {
            assert!(explicit.set(parameter, &[default.as_ref()]).unwrap());
        }
    }
    let explicit = explicit.resolve().unwrap();
    assert_eq!(explicit.request, plain.request);
    assert_eq!(
        (explicit.sort_buffer, explicit.confidence, explicit.columns),
        (SortLimit::Events(0), 0.95, plain.columns)
    );
    assert_eq!((explicit.name.as_str(), explicit.title.as_str()), ("main", "main"));
}

#[test]
fn flags_win_over_files() {
    let flags = Declaration { time: Some("when".into()), ..year() };
    let file = Declaration { time: Some("then".into()), person: Some("who".into()), ..Declaration::default() };
    let both = flags.clone().or(file);
    assert_eq!((both.time.as_deref(), both.person.as_deref()), (Some("when"), Some("who")));
    // A budget is one thing, and so is the end of the horizon.
    let file = Declaration {
        rho: Some(0.5),
        delta: Some(1e-6),
        steps: Some(3),
        allow_weak_budget: Some(true),
        ..Declaration::default()
    };
    let both = flags.or(file.clone());
    assert_eq!((both.epsilon, both.delta, both.rho), (Some(1.0), None, None));
    assert_eq!((both.allow_weak_budget, both.steps), (None, None));
    let own = Declaration { allow_weak_budget: Some(false), ..Declaration::default() };
    let both = own.or(file);
    assert_eq!((both.rho, both.allow_weak_budget), (Some(0.5), Some(false)));
}

#[test]
fn what_is_asked_is_taken_from_one_place() {
    let written = |json: &str| serde_json::from_str::<Written>(json).unwrap();
    let file = written(r#"{"candidates": "c.csv", "top": 3, "groups-file": "g.csv", "at": ["2024-01-02"]}"#);
    let flags = written(r#"{"queries": "q.csv", "groups": ["a"], "every-query": 7}"#).or(file.clone());
    assert_eq!((flags.questions.candidates, flags.questions.top, flags.questions.at), (None, None, None));
    assert_eq!(flags.files.groups_file, None);
    let flags = written(r#"{"threshold": 2.5}"#).or(file);
    assert_eq!((flags.questions.top, flags.questions.threshold), (None, Some(2.5)));
    assert!(flags.questions.candidates.is_some() && flags.files.groups_file.is_some());
}

#[test]
fn contradictions_are_refused_by_name() {
    let bounds = || Some(vec!["0".parse().unwrap(), "1".parse().unwrap()]);
    let texts = |texts: &[&str]| Some(texts.iter().map(ToString::to_string).collect::<Vec<_>>());
    let names = |names: &[&str]| texts(names).map(DeclaredGroups::Names);
    let text = |text: &str| Some(text.to_owned());
    for (declared, says, blamed) in [
        (Declaration { start: None, ..year() }, "--start is needed", Parameter::Start),
        (Declaration { start: text("soon"), ..year() }, "--start `soon` is not a time", Parameter::Start),
        (Declaration { end: None, ..year() }, "--end, --steps or --unbounded is needed", Parameter::End),
        (Declaration { steps: Some(3), ..year() }, "give either --end or --steps, not both", Parameter::End),
        (Declaration { every: None, ..year() }, "--every is needed", Parameter::Every),
        (Declaration { end: text("2023-01-01"), ..year() }, "give a later --end", Parameter::End),
        (Declaration { through: text("2026-01-01"), ..year() }, "after the end of the horizon", Parameter::Through),
        (Declaration { through: text("2024-01-01"), ..year() }, "nothing would be published", Parameter::Through),
        (Declaration { person: text("who"), ..year() }, "--person needs --max-events: how many", Parameter::Person),
        (Declaration { max_events: Some(2), ..year() }, "--max-events needs --person: the", Parameter::MaxEvents),
        (
            Declaration { max_events_per_step: Some(2), ..year() },
            "--max-events-per-step needs --person and --max-events",
            Parameter::MaxEventsPerStep,
        ),
        (
            Declaration { person: text("who"), max_events_per_step: Some(2), min_gap: Some(2), ..year() },
            "--max-events-per-step needs --max-events: how many",
            Parameter::MaxEventsPerStep,
        ),
        (Declaration { per: "day".parse().ok(), ..year() }, "--per needs --person: the column", Parameter::Per),
        (
            Declaration { protect_window: "30d".parse().ok(), person: text("who"), max_events: Some(2), ..year() },
            "--protect-window needs --per: the period in which",
            Parameter::ProtectWindow,
        ),
        (
            Declaration {
                protect_window: "1h".parse().ok(),
                per: "day".parse().ok(),
                person: text("who"),
                max_events: Some(2),
                ..year()
            },
            "--protect-window 1h is not a whole number of steps of 1d",
            Parameter::ProtectWindow,
        ),
        (
            Declaration {
                protect_window: "30d".parse().ok(),
                per: "month".parse().ok(),
                person: text("who"),
                max_events: Some(2),
                publish: "1mo".parse().ok(),
                ..year()
            },
            "--protect-window and --publish do not go together",
            Parameter::ProtectWindow,
        ),
        (Declaration { min_gap: Some(2), ..year() }, "--min-gap needs --person: the column", Parameter::MinGap),
        (
            Declaration { person: text("who"), max_events: Some(2), max_groups: Some(2), ..year() },
            "--max-groups needs --group-by: it bounds",
            Parameter::MaxGroups,
        ),
        (
            Declaration { per: "1h".parse().ok(), person: text("who"), max_events: Some(2), ..year() },
            "--per 1h would cut the step from 2024-01-01 to 2024-01-02: a step must lie within one period",
            Parameter::Per,
        ),
        (Declaration { value: text("x"), ..year() }, "--value needs --bounds LOW,HIGH: the smallest", Parameter::Value),
        (Declaration { bounds: bounds(), ..year() }, "--bounds needs --value: the column", Parameter::Bounds),
        (Declaration { grid: "0.5".parse().ok(), ..year() }, "--grid needs --value: counts", Parameter::Grid),
        (
            Declaration { value: text("x"), bounds: bounds().map(|b| [b.clone(), b].concat()), ..year() },
            "--bounds needs two numbers, LOW,HIGH, and got 4",
            Parameter::Bounds,
        ),
        (
            Declaration { value: text("x"), bounds: bounds(), grid: "0.3".parse().ok(), ..year() },
            "--bounds: `1` is not a multiple of the grid 0.3",
            Parameter::Bounds,
        ),
        (
            Declaration { groups: names(&["a"]), ..year() },
            "--groups, --groups-file and --rest need --group-by: the column",
            Parameter::Groups,
        ),
        (
            Declaration { group_by: texts(&["g"]), ..year() },
            "--group-by needs --groups, --groups-file or --discover-groups: groups must be declared",
            Parameter::GroupBy,
        ),
        (
            Declaration { group_by: texts(&["g"]), key_columns: texts(&["k"]), groups: names(&["a"]), ..year() },
            "not both",
            Parameter::GroupBy,
        ),
        (Declaration { key_columns: texts(&["a", ""]), ..year() }, "has an empty name", Parameter::KeyColumns),
        // The row numbers of a data frame have no name: as persons they would protect nobody.
        (Declaration { person: text(""), max_events: Some(1), ..year() }, "--person is empty", Parameter::Person),
        (Declaration { time: text(""), ..year() }, "--time is empty; name a column", Parameter::Time),
        (Declaration { value: text(""), bounds: bounds(), ..year() }, "--value is empty", Parameter::Value),
        (
            Declaration { group_by: texts(&[""]), groups: names(&["a"]), ..year() },
            "--group-by is empty",
            Parameter::GroupBy,
        ),
    ] {
        let problem = refused(&declared);
        assert!(problem.to_string().contains(says), "{problem} lacks {says:?}");
        assert_eq!(problem.parameters().first(), Some(&blamed), "{problem}");
        assert!(!problem.worded(Wording::Keywords).contains("--"), "{}", problem.worded(Wording::Keywords));
    }
    for (declared, says) in [
        (Declaration { epsilon: None, ..year() }, "a privacy budget is needed"),
        (Declaration { rho: Some(1.0), ..year() }, "not both"),
        (Declaration { epsilon: Some(50.0), ..year() }, "protects next to nothing"),
        (Declaration { stream: text(""), ..year() }, "name"),
        (Declaration { key_columns: texts(&["k"]), rows: Some(4), ..year() }, "odd"),
    ] {
        let problem = refused(&declared);
        assert!(problem.to_string().contains(says), "{problem} lacks {says:?}");
    }
}

#[test]
fn settings_are_what_was_declared() {
    let declared = Declaration {
        group_by: Some(vec!["airport".into()]),
        groups: Some(DeclaredGroups::Names(vec!["JFK".into(), "LGA".into()])),
        rest: Some("other".into()),
        person: Some("tail".into()),
        max_events: Some(9),
        max_events_per_step: Some(2),
        outside: Some(Outside::Skip),
        through: Some("2024-02-01T12:00".into()),
        stream: Some("flights".into()),
        ..year()
    };
    let settings = declared.resolve().unwrap();
    assert_eq!((settings.calendar.steps(), settings.last_step), (366, 31));
    assert_eq!((settings.outside, settings.missing), (Outside::Skip, Refusable::Refuse));
    assert_eq!((settings.name.as_str(), settings.title.as_str()), ("flights", "flights"));
    assert_eq!(settings.columns.labels, ["airport"]);
    let meaning = settings.request.meaning();
    assert_eq!((meaning["group-by"].as_str(), meaning["rest"].as_str()), ("airport", "other"));
    assert!(meaning["groups"].starts_with("3 (digest "), "{}", meaning["groups"]);
    let plan = settings.request.clone().plan().unwrap();
    let stream = settings.planned(plan).unwrap();
    assert_eq!(stream.unit(), "one tail (at most 9 events kept, 2 a step)");
    let doubtful = Declaration { confidence: Some(1.0), ..year() }.resolve().unwrap();
    let plan = doubtful.request.clone().plan().unwrap();
    assert!(doubtful.planned(plan).unwrap_err().to_string().contains("confidence"));
}

/// The request is that of enforced bounds, and more: its public meaning. Nothing is enforced.
#[test]
fn asserted_bounds_are_planned_and_not_enforced() {
    let asserted = Declaration {
        assert_max_events: Some(9),
        assert_max_events_per_step: Some(2),
        asserted_by: Some("the app".into()),
        per: "month".parse().ok(),
        ..year()
    };
    let enforced = Declaration {
        person: Some("who".into()),
        max_events: Some(9),
        max_events_per_step: Some(2),
        per: "month".parse().ok(),
        ..year()
    };
    let (asserted, enforced) = (asserted.resolve().unwrap(), enforced.resolve().unwrap());
    assert_eq!((asserted.kept, asserted.request.unit()), (enforced.kept, enforced.request.unit()));
    assert_eq!((asserted.enforced(), enforced.enforced()), (evertally::privacy::Unit::Event, enforced.kept));
    let meaning = asserted.request.meaning();
    assert_eq!((meaning["person-bounds"].as_str(), meaning["asserted-by"].as_str()), ("asserted", "the app"));
    assert!(!enforced.request.meaning().contains_key("person-bounds"));
    let plans = [&asserted, &enforced].map(|settings| settings.request.clone().plan().unwrap());
    assert_eq!((plans[0].law(), plans[0].guarantee()), (plans[1].law(), plans[1].guarantee()));
    assert_ne!(plans[0].digest(), plans[1].digest());
    let words = asserted.clone().planned(plans[0].clone()).unwrap().unit();
    assert_eq!(words, "what one person does in one calendar month (assumed: at most 9 events, 2 a step)");
}

/// Events of value 0 are not dropped, so a total that is only asserted implies no number of events.
#[test]
fn an_asserted_total_needs_a_number_of_events() {
    let bound = |text: &str| text.parse().unwrap();
    let total = || Declaration {
        value: Some("price".into()),
        bounds: Some(vec![bound("0"), bound("10")]),
        assert_max_total: "20".parse().ok(),
        ..year()
    };
    let says = refused(&total()).worded(Wording::Flags);
    assert!(says.starts_with("--assert-max-total needs --assert-max-events") && says.contains("value 0"), "{says}");
    let bounds = |declared: Declaration| declared.resolve().unwrap().request.unit().bounds().unwrap();
    let asserted = bounds(Declaration { assert_max_events: Some(30), ..total() });
    assert_eq!((asserted.max_events, asserted.max_total), (30, Some(20)));
    let enforced = Declaration { assert_max_total: None, max_total: "20".parse().ok(), ..total() };
    assert_eq!(bounds(Declaration { person: Some("who".into()), ..enforced }).max_events, 20);
    let scaled = Declaration {
        assert_max_events: Some(30),
        group_by: Some(vec!["airport".into()]),
        groups: Some(DeclaredGroups::Names(vec!["JFK".into(), "LGA".into()])),
        scales: Some(vec!["1".parse().unwrap(), "2".parse().unwrap()]),
        ..total()
    };
    let says = refused(&scaled).worded(Wording::Flags);
    assert!(says.starts_with("--assert-max-total and --scales do not go together"), "{says}");
}

/// A plan of publications refuses what their release refuses.
#[test]
fn windows_and_publications_do_not_go_together() {
    let declared = Declaration {
        epsilon: Some(1.0),
        max_events: Some(2),
        per: "7".parse().ok(),
        protect_window: "7".parse().ok(),
        publish: "7".parse().ok(),
        ..Declaration::default()
    };
    let says = declared.plan_request(28).unwrap_err().worded(Wording::Flags);
    assert!(says.starts_with("--protect-window and --publish do not go together"), "{says}");
    assert!(says.ends_with("published values; omit one of them"), "{says}");
    assert!(Declaration { publish: None, ..declared }.plan_request(28).is_ok());
}

#[test]
fn a_plan_alone_names_no_column() {
    let declared = Declaration { epsilon: Some(1.0), max_events: Some(3), ..Declaration::default() };
    assert_eq!(declared.plan_request(10).unwrap().unit(), evertally::privacy::Unit::person(3));
    let declared = Declaration { max_events: None, max_events_per_step: Some(3), ..declared };
    let problem = declared.plan_request(10).unwrap_err();
    let says = problem.worded(Wording::Keywords);
    assert!(says.starts_with("max_events_per_step needs max_events: how many events of a person are kept"), "{says}");
    let of_time = Declaration { per: "month".parse().ok(), max_events: Some(3), ..declared.clone() };
    assert!(of_time.plan_request(10).unwrap_err().worded(Wording::Keywords).contains("as with per=31"));
    let declared = Declaration { epsilon: Some(1.0), grid: "0.1".parse().ok(), ..Declaration::default() };
    let problem = declared.plan_request(10).unwrap_err();
    assert_eq!(problem.worded(Wording::Keywords), "grid needs bounds=(low, high): counts are whole numbers");
}

/// Bounds by group and period imply a total bound; a plan records the longest period and its name.
#[test]
fn units_are_what_was_declared() {
    let base = || Declaration {
        group_by: Some(vec!["airport".into()]),
        groups: Some(DeclaredGroups::Names(vec!["JFK".into(), "LGA".into()])),
        person: Some("tail".into()),
        ..year()
    };
    let bounds = |declared: Declaration| declared.resolve().unwrap().request.unit().bounds().unwrap();
    let (six, two, three) = (Some(6), Some(2), Some(3));
    let by_group = bounds(Declaration { max_events_per_group: six, max_groups: two, min_gap: three, ..base() });
    assert_eq!((by_group.max_events, by_group.min_gap, by_group.period), (12, three, None));
    let month = || Declaration { per: "month".parse().ok(), max_events_per_step: two, ..base() };
    assert_eq!((bounds(month()).max_events, bounds(month()).period), (62, Some(31)));
    assert_eq!(bounds(Declaration { min_gap: three, ..month() }).max_events, 22);
    assert_eq!(bounds(Declaration { max_events: Some(5), ..month() }).max_events, 5);
    // The unit does not depend on the horizon, so a stream that follows has the same one.
    let february = Declaration { start: Some("2024-02-01".into()), end: Some("2024-03-01".into()), ..month() };
    assert_eq!(bounds(february).period, Some(31));
    let settings = Declaration { max_events: Some(60), max_groups: two, min_gap: three, ..month() }.resolve().unwrap();
    assert_eq!(settings.request.meaning()["per"], "1mo");
    let plan = settings.request.clone().plan().unwrap();
    let stream = settings.planned(plan).unwrap();
    assert_eq!(
        stream.unit(),
        "what one tail does in one calendar month (at most 60 events kept, 2 a step, in 2 groups, in steps 3 apart)"
    );
    let steps = Declaration { per: "10".parse().ok(), max_events: Some(5), ..base() }.resolve().unwrap();
    assert_eq!((steps.request.meaning()["per"].as_str(), steps.periods.of(20)), ("10 steps", 11..21));
    let any = |per: &str, window: &str| Declaration {
        per: per.parse().ok(),
        protect_window: window.parse().ok(),
        max_events: Some(5),
        ..base()
    };
    let months = any("month", "30d").resolve().unwrap();
    // Of 30 days, 28 may be those of a whole month.
    assert_eq!(months.request.unit().bounds().unwrap().window, Some(RollingWindow { steps: 30, periods: 3 }));
    assert_eq!(months.request.meaning()["protect-window"], "30d");
    let plan = months.request.clone().plan().unwrap();
    let stream = months.planned(plan).unwrap();
    assert_eq!(
        stream.unit(),
        "what one tail does in any window of 30 days (at most 5 events kept, in each calendar month)"
    );
    let weeks = any("2w", "14").resolve().unwrap().request.unit().bounds().unwrap();
    assert_eq!(weeks.window, Some(RollingWindow { steps: 14, periods: 2 }));
    let days = any("day", "7").resolve().unwrap().request.unit();
    assert_eq!((days.spread().unwrap().total, days.spread().unwrap().substitutes), (35, None));
    let written = r#"{"per": 10, "max-events-per-group": 3, "max-groups": 2, "min-gap": 4}"#;
    let declared: Declaration = serde_json::from_str(written).unwrap();
    let unit = Declaration { epsilon: Some(1.0), ..declared }.plan_request(90).unwrap().unit();
    assert_eq!(unit, evertally::privacy::Unit::person(6).per_group(3).in_groups(2).apart(4).per_period(10));
}

#[test]
fn files_services_and_keywords_read_alike() {
    let toml = "start = \"2024-01-01\"\nend = \"2025-01-01\"\nevery = \"1d\"\nepsilon = 1\nvalue = \"x\"\n\
                bounds = [-1, 2.5]\ngrid = 0.5\ngroup-by = [\"g\"]\ngroups = [\"a\", \"b\"]\noutside = \"skip\"\n";
    let of_toml: Declaration = toml::from_str(toml).unwrap();
    let back: Declaration = toml::from_str(&toml::to_string(&of_toml).unwrap()).unwrap();
    assert_eq!(back, of_toml);
    let json = serde_json::to_string(&of_toml).unwrap();
    assert_eq!(Declaration::from_json(&json).unwrap(), of_toml);
    let serde_json::Value::Object(mut keywords) = serde_json::from_str(&json).unwrap() else { unreachable!() };
    let columns = keywords.remove("group-by").unwrap();
    keywords.insert("group".into(), columns);
    assert_eq!(Declaration::from_names(keywords, Wording::Keywords).unwrap(), of_toml);
    assert_eq!(of_toml.bounds.as_ref().unwrap()[1].0, "2.5");
    assert_eq!(of_toml.resolve().unwrap().request.values(), evertally::privacy::Values::Sum { lower: -2, upper: 5 });
    let tuples = Declaration::from_json(r#"{"group-by": ["g", "h"], "groups": [["a", "b"]]}"#).unwrap();
    assert_eq!(tuples.groups, Some(DeclaredGroups::Tuples(vec![vec!["a".into(), "b".into()]])));
}

#[test]
fn unknown_names_are_refused_with_the_nearest() {
    let problem = |json: &str| Declaration::from_json(json).unwrap_err().worded(Wording::Json);
    assert_eq!(problem(r#"{"max_events": 3}"#), "there is no `max_events`; did you mean `max-events`?");
    assert_eq!(problem(r#"{"xyzzy": 3}"#), "there is no `xyzzy`");
    assert!(problem(r#"{"out": "x.csv"}"#).starts_with("there is no `out`"));
    assert!(problem(r#"{"missing": "ignore"}"#).starts_with("\"missing\": unknown variant `ignore`"));
    assert!(problem("[]").starts_with("this is not a JSON object"));
    for (number, says) in [
        ("18446744073709551616", "it is more than 18446744073709551615"),
        ("-36893488147419103232", "it is less than 0"),
        ("-1", "-1 is not a whole number from 0 to 2^64 - 1"),
        ("1.5", "1.5 is not a whole number from 0 to 2^64 - 1"),
    ] {
        assert_eq!(problem(&format!(r#"{{"max-events": {number}}}"#)), format!("\"max-events\": {says}"));
    }
    assert!(serde_json::from_str::<Declaration>(r#"{"max-evnts": 3}"#).is_err());
    let in_file = |name| unknown_in_file(name, Use::Sketch).map(|problem| problem.to_string());
    assert_eq!(in_file("top"), None);
    assert!(in_file("topp").unwrap().ends_with("could set; did you mean `top`?"));
    assert!(in_file("group-by").is_some() && in_file("config").is_some());
}

#[test]
fn flags_are_read_as_their_types() {
    let mut written = Written::default();
    written.set(Parameter::Bounds, &["-1".as_ref(), "1".as_ref()]).unwrap();
    written.set(Parameter::OutputFormat, &["ndjson".as_ref()]).unwrap();
    written.set(Parameter::AtColumn, &["when".as_ref()]).unwrap();
    assert_eq!(written.declaration.bounds.as_ref().unwrap().len(), 2);
    assert_eq!(written.files.output_format, Some(crate::format::Format::JsonLines));
    assert!(written.has(Parameter::AtColumn) && !written.has(Parameter::At));
    for (parameter, text, says) in [
        (Parameter::Steps, "ten", "it is not a whole number, 0 or more"),
        (Parameter::MaxEvents, "18446744073709551616", "it is more than 18446744073709551615"),
        (Parameter::Rho, "half", "it is not a number"),
        (Parameter::Every, "0d", "`0d` is not a step width"),
        (Parameter::TimeZone, "Mars/Olympus", "is not a time zone"),
        (Parameter::Missing, "ignore", "expected `refuse` or `skip`"),
        (Parameter::Grid, "0", "is not a grid"),
        (Parameter::Mechanism, "magic", "unknown mechanism"),
    ] {
        let problem = parameter.check(text).unwrap_err();
        assert!(problem.contains(says), "{problem}");
        assert_eq!(written.set(parameter, &[text.as_ref()]), Err(problem));
    }
}

#[test]
fn the_schema_has_every_name_and_word() {
    let schema = schema();
    let properties = schema["properties"].as_object().unwrap();
    let declared: Vec<&str> = Parameter::all().filter(|p| p.is_declared()).map(Parameter::name).collect();
    assert_eq!(properties.len(), declared.len());
    assert!(declared.iter().all(|name| properties.contains_key(*name)));
    assert_eq!(properties["outside"]["oneOf"][1]["const"], "skip");
    assert_eq!(properties["noise"]["enum"][0], "laplace");
    assert_eq!(properties["sort-buffer"]["default"], 0);
    assert_eq!(properties["group-by"]["x-keyword"], "group");
    assert_eq!(properties["group-by"]["x-field"], "groups.columns");
    assert_eq!(schema["dependentRequired"]["max-events"], serde_json::json!(["person"]));
}

/// Quotes follow from the kind of a value, which the table of parameters does not know.
#[test]
fn texts_are_quoted_and_numbers_are_not() {
    for parameter in Parameter::all() {
        let is_text = matches!(
            parameter.kind(),
            ValueKind::Text | ValueKind::Words(_) | ValueKind::Width | ValueKind::Zone | ValueKind::Mechanism
        );
        assert_eq!(parameter.is_quoted(), is_text, "{}", parameter.name());
    }
}

/// The plan with which a stream began.
struct Begun(String);

impl crate::records::Records for Begun {
    fn plan_text(&self, _name: &evertally::noise::StreamName) -> Option<&str> {
        Some(&self.0)
    }
    fn joined(&self, _name: &evertally::noise::StreamName) -> &[crate::groups::Joined] {
        &[]
    }
    fn follows(&self, _name: &evertally::noise::StreamName) -> Option<&crate::follows::Follows> {
        None
    }
    fn last_published(&self, _name: &evertally::noise::StreamName) -> u64 {
        1
    }
}

/// Correlated noise is for people in declared groups. A stream keeps that of its beginning, also if groups are to join.
#[test]
fn groups_may_share_noise() {
    let base = |names: &[&str]| Declaration {
        group_by: Some(vec!["shop".into()]),
        groups: Some(DeclaredGroups::Names(names.iter().map(|name| (*name).to_owned()).collect())),
        person: Some("who".into()),
        max_events_per_group: Some(1),
        max_groups: Some(3),
        per: "1d".parse().ok(),
        epsilon: None,
        rho: Some(0.5),
        correlate_groups: Some(evertally::plan::GroupAim::Groups),
        ..year()
    };
    let settings = base(&["a", "b", "c"]).resolve().unwrap();
    let plan = settings.request.plan().unwrap();
    assert_eq!(plan.correlation().map(|found| found.groups()), Some(3));
    let apart =
        Declaration { correlate_groups: None, ..base(&["a", "b", "c"]) }.resolve().unwrap().request.plan().unwrap();
    assert!(plan.max_std_error() < 0.78 * apart.max_std_error() && apart.correlation().is_none());
    let begun = Begun(toml::to_string(&plan).unwrap());
    let (later, present) = base(&["a", "b", "c", "d"]).resolve().unwrap().begun(&begun).unwrap();
    assert_eq!((later.request.plan().unwrap().digest(), present.map(|now| now.present)), (plan.digest(), Some(3)));
    let of_single_events =
        Declaration { person: None, max_events_per_group: None, max_groups: None, per: None, ..base(&["a"]) };
    let found = refused(&of_single_events).worded(Wording::Flags);
    assert!(found.starts_with("--correlate-groups needs --person"), "{found}");
    let discovered = Declaration {
        groups: None,
        discover_groups: Some(true),
        selection_delta: Some(1e-9),
        max_events: Some(3),
        ..base(&[])
    };
    let found = refused(&discovered).worded(Wording::Flags);
    assert!(found.starts_with("--correlate-groups and --discover-groups do not go together"), "{found}");
}
