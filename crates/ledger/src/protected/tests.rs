use super::*;
use crate::ledger::new_key;
use std::fs;

/// A folder with one of everything that is protected, and their paths.
fn everything() -> (tempfile::TempDir, Vec<PathBuf>) {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    new_key(&at("my.key")).unwrap();
    let ledger = fs::read(at("my.key.ledger")).unwrap();
    fs::create_dir(at("my.key.state")).unwrap();
    fs::create_dir(at("service")).unwrap();
    let budget =
        r#"{"version":1,"name":"shop","unit":"person","neighbours":"remove","total":{},"basic":false,"costs":[]}"#;
    let witness = r#"{"version":1,"counter":3,"writer":"x","streams":{}}"#;
    for (name, contents) in [
        ("renamed", &ledger[..]),
        ("key-by-any-name", &fs::read(at("my.key")).unwrap()[..]),
        ("my.key.uses", b"evertally uses 1"),
        ("my.key.state/part-1", b"x"),
        ("sealed", b"evertally sealed key 1\n"),
        ("state-by-any-name", b"evertally state\n\x03"),
        ("shop.json", budget.as_bytes()),
        ("witness.json", witness.as_bytes()),
        ("service/store.redb", b"redb\x1a\x0a\xa9\x0d\x0a\0\0"),
        ("copy-of-store", b"redb\x1a\x0a\xa9\x0d\x0a\0\0"),
    ] {
        fs::write(at(name), contents).unwrap();
    }
    let names = [
        // What is there.
        "my.key",
        "my.key.ledger",
        "my.key.uses",
        "my.key.state/part-1",
        "renamed",
        "key-by-any-name",
        "sealed",
        "state-by-any-name",
        "shop.json",
        "witness.json",
        "service/store.redb",
        "copy-of-store",
        // What may come.
        "other.key.ledger",
        "other.key.uses",
        "other.key.state",
        "my.key.state",
        "my.key.state/new",
        "MY.KEY.LEDGER",
        ".my.key.lock",
        "my.key.lock",
        ".my.key.ledger.lock",
        "my.key.ledger.lock",
        ".my.key.ledger.tmp",
        ".shop.json.lock",
        ".witness.json.lock",
        ".service/../.my.key.uses.lock",
        "service/table.csv",
        "service/deep/table.csv",
        "new-folder/../my.key.uses",
        "./my.key.ledger",
    ];
    let paths = names.iter().map(|name| at(name)).collect();
    (folder, paths)
}

#[test]
fn nothing_that_is_protected_is_an_output() {
    let (_folder, paths) = everything();
    for path in paths {
        assert!(check_output(&path, &[]).is_err(), "{}", path.display());
    }
}

#[cfg(unix)]
#[test]
fn links_of_either_kind_hide_nothing() {
    let (folder, paths) = everything();
    for (number, path) in paths.iter().enumerate() {
        let link = folder.path().join(format!("soft-{number}.csv"));
        std::os::unix::fs::symlink(path, &link).unwrap();
        assert!(check_output(&link, &[]).is_err(), "a link to {}", path.display());
        // Of what has a name of its own only, a second name is none: then it is refused where the run uses it.
        if path.is_file() {
            let hard = folder.path().join(format!("hard-{number}.csv"));
            fs::hard_link(path, &hard).unwrap();
            assert!(check_output(&hard, std::slice::from_ref(path)).is_err(), "another name of {}", path.display());
        }
    }
    let elsewhere = tempfile::tempdir().unwrap();
    let through = elsewhere.path().join("folder");
    std::os::unix::fs::symlink(folder.path(), &through).unwrap();
    for name in ["my.key", "my.key.uses", "service/table.csv", ".my.key.lock", "my.key.state/new"] {
        assert!(check_output(&through.join(name), &[]).is_err(), "{name} through a folder that is a link");
    }
}

#[test]
fn what_the_run_uses_is_no_output() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("events.csv"), "time\n").unwrap();
    fs::create_dir(at("folder")).unwrap();
    let used = [at("events.csv"), at("run.toml"), at("yet.key"), PathBuf::from("-"), PathBuf::new()];
    for name in
        ["events.csv", "folder/../events.csv", "run.toml", "RUN.toml", "yet.key", ".yet.key.lock", ".run.toml.tmp"]
    {
        assert!(check_output(&at(name), &used).is_err(), "{name}");
    }
    for name in ["table.csv", "events.csv.gz", "folder/events.csv", "run.toml.csv", "yet.key.csv", ".yet.key.csv"] {
        assert!(check_output(&at(name), &used).is_ok(), "{name}");
    }
    assert!(check_output(Path::new("-"), &used).is_ok());
}

#[test]
fn other_files_may_be_replaced() {
    let (folder, _) = everything();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("solid.state")).unwrap();
    fs::write(at("plan.json"), r#"{"version":2,"name":"visits"}"#).unwrap();
    fs::write(at("rows.jsonl"), "{\"version\":1,\"key_id\":1}\n{\"streams\":2}\n").unwrap();
    fs::write(at("table.csv"), "time,sum\n").unwrap();
    fs::write(at("empty"), "").unwrap();
    for name in [
        "plan.json",
        "rows.jsonl",
        "table.csv",
        "empty",
        "new.csv",
        "solid.state/table.csv",
        "no/such/table.csv",
        "ledger",
        "a.lock",
        "states.csv",
    ] {
        assert!(check_output(&at(name), &[]).is_ok(), "{name}: {:?}", check_output(&at(name), &[]));
    }
}
