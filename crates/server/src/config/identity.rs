//! `[[identity]]`: issuers of OpenID Connect whose tokens the service accepts.

use super::TimeSpan;
use super::scheme::shown_url;
use evertally_feeds::is_this_machine;
use serde::Deserialize;
use std::path::PathBuf;

/// An issuer of tokens.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct IdentityConfig {
    /// Its URL, exactly as its tokens have it.
    pub issuer: String,
    /// The audience of tokens for this service.
    pub audience: String,
    /// The id of the page as a public client; without it, the page offers no sign-in there.
    #[serde(default)]
    pub client_id: Option<String>,
    /// The scopes that the page requests.
    #[serde(default = "scopes")]
    pub scopes: String,
    /// The claim that names the caller in the audit log.
    #[serde(default = "subject")]
    pub name_claim: String,
    /// A file with the certificate of the issuer's authority, if that is not a public one.
    #[serde(default)]
    pub authority: Option<PathBuf>,
    /// How long the issuer's keys are used if it cannot be reached.
    #[serde(default = "day")]
    pub keep_keys: TimeSpan,
    /// The roles of its tokens.
    pub roles: Vec<RoleRule>,
}

/// A role for tokens with a claim.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RoleRule {
    /// The claim, such as `groups` or `realm_access.roles`.
    pub claim: String,
    /// The text that it is, or contains if it is a list.
    pub value: String,
    /// The role, as tokens have it.
    pub role: String,
}

fn scopes() -> String {
    "openid profile".to_owned()
}

fn subject() -> String {
    "sub".to_owned()
}

fn day() -> TimeSpan {
    TimeSpan(86_400_000_000)
}

/// Whether a URL is encrypted, or stays on this machine.
pub(crate) fn is_protected(url: &str) -> bool {
    let host = |rest: &str| {
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        match authority.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or_default().to_owned(),
            None => authority.split(':').next().unwrap_or_default().to_owned(),
        }
    };
    match url.split_once("://") {
        Some(("https", rest)) => !host(rest).is_empty(),
        Some(("http", rest)) => !rest.contains('@') && is_this_machine(&host(rest)),
        _ => false,
    }
}

impl IdentityConfig {
    /// The origin of the issuer, to which the page sends requests.
    pub(crate) fn origin(&self) -> &str {
        let after = self.issuer.find("://").map_or(0, |place| place + 3);
        let end = self.issuer[after..].find('/').map_or(self.issuer.len(), |place| after + place);
        &self.issuer[..end]
    }

    /// Checks all issuers. Two tables with the same issuer would hide each other's roles.
    pub(super) fn check_all(all: &[Self]) -> Result<(), String> {
        for (index, config) in all.iter().enumerate() {
            config.check()?;
            if all[..index].iter().any(|other| other.issuer == config.issuer) {
                return Err(format!("two [[identity]] have the issuer `{}`; make them one", config.issuer));
            }
        }
        if all.iter().filter(|config| config.client_id.is_some()).count() > 1 {
            return Err(
                "two [[identity]] have a client-id; the page offers one sign-in, so keep one of them".to_owned()
            );
        }
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._~:/[]%".contains(c);
        if !is_protected(&self.issuer) || !self.issuer.chars().all(is_plain) {
            let shown = shown_url(&self.issuer);
            return Err(format!(
                "[[identity]] with issuer `{shown}`: the issuer is not a URL; write https://HOST/PATH as its tokens \
                 have it"
            ));
        }
        let what = format!("[[identity]] with issuer `{}`", self.issuer);
        if self.audience.is_empty() || self.client_id.as_ref().is_some_and(String::is_empty) {
            return Err(format!("{what}: the audience or the client-id is empty; give those of the issuer"));
        }
        if self.roles.iter().any(|rule| rule.claim.is_empty() || rule.value.is_empty()) {
            return Err(format!("{what}: a role needs a claim and its value"));
        }
        if self.roles.is_empty() {
            return Err(format!(
                "{what} gives no role; add roles = [{{ claim = \"groups\", value = \"...\", role = \"operate\" }}]"
            ));
        }
        Ok(())
    }
}
