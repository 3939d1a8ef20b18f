//! What a run of the program or a service refuses, although the declaration alone is right.

use evertally_declare::declaration::{Declaration, Written};
use evertally_declare::problem::Problem;

fn written(json: &str) -> Written {
    serde_json::from_str(&format!("{{{json}}}")).unwrap()
}

fn says(checked: Result<(), Problem>, json: &str, expected: &str) {
    let problem = checked.expect_err(json);
    assert!(problem.to_string().contains(expected), "{json}: {problem}");
    assert!(!problem.parameters().is_empty(), "{problem} names no parameter");
}

#[test]
fn a_release_refuses_what_its_files_cannot_do() {
    for (json, expected) in [
        (r#""all": true, "extend": true, "continue": true"#, "--all and --extend do not go together"),
        (r#""discover-groups": true, "extend": true, "continue": true"#, "--discover-groups and --extend do not go"),
        (r#""measure": ["mean"], "extend": true, "continue": true"#, "--measure and --extend do not go together"),
        (r#""publish": "1w", "extend": true, "continue": true"#, "or no end with --unbounded"),
        (
            r#""workload": ["sum", "window(7)"], "publish": "1w", "rebuild": true"#,
            "--workload, --publish and --rebuild do not go together",
        ),
        (r#""measure": ["mean"], "publish": "1w", "continue": true"#, "--measure, --publish and --continue do not"),
        (r#""unsafe-show-truth": true, "measure": ["mean"]"#, "--unsafe-show-truth and --measure do not go together"),
        (r#""unsafe-show-truth": true, "discover-groups": true"#, "--unsafe-show-truth and --discover-groups do not"),
        (r#""unsafe-show-truth": true, "continue": true"#, "--unsafe-show-truth needs the true counts of all steps"),
        (r#""top": 3, "group-by": ["g"], "measure": ["mean"]"#, "--top and --measure do not go together"),
        (r#""top": 0, "group-by": ["g"]"#, "--top needs a number of at least 1, and a release by group"),
        (r#""top": 3"#, "--top needs a number of at least 1, and a release by group"),
        (r#""extend": true"#, "--extend needs --continue"),
        (r#""expect": "%Y.csv""#, "--expect needs --continue"),
        (r#""late-file": "late.csv""#, "--late-file needs --continue"),
        (r#""late": "side-file", "continue": true"#, "--late-file is needed"),
        (r#""view": ["non-decreasing"], "continue": true, "extend": true"#, "--view non-decreasing cannot continue"),
        (r#""scale-column": "s""#, "--scale-column needs --groups-file"),
        (r#""groups-file": "g.csv""#, "need --group-by: the column that names the group"),
        (r#""groups-file": "g.csv", "groups": ["a"], "group-by": ["g"]"#, "either --groups or --groups-file, not both"),
        (
            r#""groups-file": "g.csv", "group-by": ["g"], "scales": [1], "scale-column": "s""#,
            "either --scales or --scale-column, not both",
        ),
    ] {
        says(written(json).check_release(), json, expected);
    }
    for json in [
        "",
        r#""extend": true, "continue": true"#,
        r#""measure": ["mean"], "publish": "1w""#,
        r#""workload": "window(7)", "publish": "1w", "continue": true"#,
        r#""extend": false, "all": true, "discover-groups": false"#,
        r#""extend": true, "plan-only": true"#,
        r#""top": 3, "group-by": ["g"]"#,
        r#""groups-file": "g.csv", "group-by": ["g"], "scale-column": "s""#,
    ] {
        assert_eq!(written(json).check_release(), Ok(()), "{json}");
    }
}

#[test]
fn a_sketch_refuses_queries_that_contradict_each_other() {
    let (items, tree) = (r#""key-columns": ["k"], "#, r#""key-columns": ["k"], "key-bits": 8, "#);
    for (declared, asked, expected) in [
        ("", r#""queries": "q.csv""#, "--key-columns is needed"),
        (items, r#""rows": 3"#, "there is nothing to query: list the items in --queries or --candidates"),
        (items, r#""queries": "q.csv", "candidates": "c.csv""#, "either --queries or --candidates, not both"),
        (items, r#""queries": "q.csv", "top": 3"#, "--top and --threshold select among --candidates"),
        (items, r#""candidates": "c.csv""#, "--candidates needs --top or --threshold"),
        (items, r#""candidates": "c.csv", "top": 0"#, "--top must be at least 1"),
        (items, r#""candidates": "c.csv", "top": 3, "at-column": "t""#, "--at-column is for --queries"),
        (items, r#""top": 3"#, "need a file of items: --candidates or --queries"),
        (items, r#""queries": "q.csv", "at": ["2024-01-01"], "every-query": 7"#, "give one of --at, --at-column and"),
        (items, r#""queries": "q.csv", "every-query": 0"#, "--every-query must be at least 1"),
        (items, r#""queries": "q.csv", "at": []"#, "--at is empty"),
        (tree, r#""threshold": 2, "queries": "q.csv""#, "without a list: omit --queries, --candidates and --at-column"),
        (tree, r#""threshold": 0"#, "--key-bits needs a --threshold above 0"),
        (tree, r#""threshold": 2, "top": 0"#, "--top must be at least 1"),
        (tree, r#""threshold": 2, "value": "v", "bounds": [-1, 2]"#, "negative values (--bounds below 0) hide them"),
    ] {
        let json = format!("{declared}{asked}");
        says(written(&json).check_sketch(), &json, expected);
    }
    for (declared, asked) in [
        (items, r#""queries": "q.csv", "at-column": "t""#),
        (items, r#""candidates": "c.csv", "threshold": 2.5, "every-query": 7"#),
        (items, r#""plan-only": true"#),
        (tree, r#""threshold": 2, "top": 3, "at": ["2024-01-01"]"#),
        (tree, r#""plan-only": true"#),
    ] {
        let json = format!("{declared}{asked}");
        assert_eq!(written(&json).check_sketch(), Ok(()), "{json}");
    }
}

#[test]
fn a_service_refuses_what_is_for_runs() {
    for (json, expected) in [
        (r#"{"through": "2024-02-01"}"#, "--through is for runs: a service closes steps when they are due"),
        (r#"{"all": true}"#, "--all is for runs"),
        (r#"{"key-columns": ["k"]}"#, "sketches are released by runs"),
    ] {
        says(Declaration::from_json(json).unwrap().check_service(), json, expected);
    }
    let declared = Declaration::from_json(r#"{"late": "next-step", "group-by": ["g"]}"#).unwrap();
    assert_eq!(declared.check_service(), Ok(()));
}
