//! Configurations that are read, and those that are refused.

use super::*;
use crate::store::ClosedBy;

const WHOLE: &str = r#"
folder = "data"
key = "keys/serve.key"
[public]
listen = "127.0.0.1:0"
[witness]
file = "other/witness.json"
[steps]
grace = "2m"
[sources]
shop = "shop.budget"
[[stream]]
stream = "visits"
public = true
source = "shop"
grace = "10s"
time = "time"
start = "2026-01-01"
every = "1h"
steps = 100
epsilon = 1
"#;

fn read(text: &str) -> Result<Config> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("serve.toml");
    std::fs::write(&path, text)?;
    Config::read(&path)
}

#[test]
fn a_configuration_is_read() {
    let config = read(WHOLE).unwrap();
    assert!(config.folder.is_absolute() && config.sources["shop"].is_absolute());
    let stream = &config.streams[0];
    assert_eq!((stream.name.as_str(), stream.public), ("visits", true));
    assert!(!stream.declaration.contains("grace") && stream.declaration.contains("\"every\":\"1h\""));
    assert_eq!(stream.closing(&config.steps), ClosedBy::Schedule { grace: 10_000_000, delay: 5_000_000 });
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (from, to, expected) in [
        ("keys/serve.key", "data/serve.key", "inside the folder"),
        ("other/witness.json", "data/witness.json", "rolled back"),
        ("file = \"other/witness.json\"", "", "either a file or a url"),
        ("source = \"shop\"", "source = \"stop\"", "not in [sources]"),
        ("grace = \"2m\"", "grace = \"two\"", "is not a duration"),
        ("grace = \"2m\"", "grave = \"2m\"", "grave"),
        ("[public]\nlisten = \"127.0.0.1:0\"", "", "nobody can reach"),
        ("stream = \"visits\"", "", "needs a name"),
        ("\"data\"", "\"s3://bucket/data\"", "s3://bucket/data: the service keeps its files on this machine"),
        ("\"shop.budget\"", "\"gs://bucket/shop.budget\"", "gs://bucket/shop.budget: the service keeps"),
        ("[public]\n", "[private]\ncors = \"*\"\n", "[public]"),
        ("[public]\n", "[public]\ntrusted-proxies = [\"10.0.0.0/33\"]\n", "`10.0.0.0/33` is not an address"),
        ("[public]\n", "[public]\ncors = [\"https://a.example/\"]\n", "is not an origin"),
    ] {
        let refused = read(&WHOLE.replace(from, to)).unwrap_err().to_string();
        assert!(refused.contains(expected) && refused.contains("serve.toml"), "{refused}");
    }
}

#[cfg(unix)]
#[test]
fn links_into_the_folder_are_followed() {
    let base = tempfile::tempdir().unwrap();
    let path = base.path().join("serve.toml");
    std::fs::create_dir_all(base.path().join("data/inner")).unwrap();
    std::os::unix::fs::symlink("data/inner", base.path().join("link")).unwrap();
    std::os::unix::fs::symlink(base.path(), base.path().join("data/out")).unwrap();
    for (key, is_refused) in
        [("link/serve.key", true), ("keys/../link/new/serve.key", true), ("data/out/serve.key", false)]
    {
        std::fs::write(&path, WHOLE.replace("keys/serve.key", key)).unwrap();
        let read = Config::read(&path).map_err(|error| error.to_string());
        assert_eq!(read.is_err_and(|error| error.contains("inside the folder")), is_refused, "{key}");
    }
    std::fs::write(&path, WHOLE.replace("other/witness.json", "link/witness.json")).unwrap();
    assert!(Config::read(&path).unwrap_err().to_string().contains("rolled back"));
}
