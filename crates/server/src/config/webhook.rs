//! `[[webhook]]`: where publications are sent.

use super::TimeSpan;
use evertally_declare::url::without_secrets;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// A webhook: where publications are sent.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct WebhookConfig {
    /// The URL for a POST.
    pub url: String,
    /// What logs, metrics and lists call it; by default its URL without password and query, which may be secrets.
    #[serde(default)]
    pub name: Option<String>,
    /// The streams; if none are named, all public ones.
    #[serde(default)]
    pub streams: Vec<String>,
    /// A file with the value of an `Authorization` header.
    #[serde(default)]
    pub authorization_file: Option<PathBuf>,
    /// A file with the secrets that sign messages, one on each line.
    #[serde(default)]
    pub secret_file: Option<PathBuf>,
    /// How long the content of a publication may be refused until it is set aside.
    #[serde(default = "give_up_after")]
    pub give_up_after: TimeSpan,
}

fn give_up_after() -> TimeSpan {
    TimeSpan(3_600_000_000)
}

impl WebhookConfig {
    /// What logs, metrics and lists call it.
    pub fn name(&self) -> String {
        let shown = || without_secrets(Path::new(&self.url));
        self.name.clone().unwrap_or_else(|| shown().split(['?', '#']).next().unwrap_or_default().to_owned())
    }

    pub(super) fn check(&self) -> Result<(), String> {
        let is_url = self.url.starts_with("http://") || self.url.starts_with("https://");
        // A text that is not a URL may have a password anywhere: it is not shown.
        let which = self.name.as_ref().map_or_else(|| "a [[webhook]]".to_owned(), |name| format!("[[webhook]] {name}"));
        match is_url {
            true => Ok(()),
            false => Err(format!("the url of {which} does not begin with http:// or https://")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_urls_are_left_out() {
        let hook = |url: &str| toml::from_str::<WebhookConfig>(&format!("url = \"{url}\"")).unwrap();
        for (url, shown) in [
            ("https://hooks.example/a/b?token=x#y", "https://hooks.example/a/b"),
            ("https://user:secret@hooks.example:8443/a@b", "https://hooks.example:8443/a@b"),
            ("http://hooks.example", "http://hooks.example"),
        ] {
            assert_eq!(hook(url).name(), shown);
        }
        assert_eq!(hook("https://a/secret\"\nname = \"chat").name(), "chat");
        let refused = hook("htp:user:secret@hooks.example").check().unwrap_err();
        assert_eq!(refused, "the url of a [[webhook]] does not begin with http:// or https://");
    }
}
