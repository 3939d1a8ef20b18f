//! Tokens: who may write, read and operate.
//!
//! A token is `evt_<id>_<secret>` with a secret of 256 random bits. The file holds a hash of it: at that entropy,
//! a plain hash is as good as a slow one, since nobody can guess the secret. Readers of the file learn the roles, but
//! no token. The file is read again after every change, so that a revoked token is refused from then on, even if
//! another process revoked it.

mod expiry;
mod uses;

pub use crate::role::Role;
pub use expiry::expiry_from;

use crate::folder::chown_to_folder_owner;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use evertally::noise::check_name;
use evertally_declare::error::{Context, Result, failure, usage};
use evertally_ledger::disk::{Access, RealDisk, replace};
use evertally_ledger::lock::NameLock;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{Cursor, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;
use subtle::ConstantTimeEq;
use uses::LastUses;
use zeroize::Zeroizing;

/// The prefix of every token, for secret scanners.
const MARK: &str = "evt_";

/// A token as stored in the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenEntry {
    /// Its id, which is not secret.
    pub id: String,
    /// Its role.
    pub role: String,
    /// Its owner, for people.
    pub label: String,
    /// When it was made.
    pub made: Timestamp,
    /// When it ends by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    hash: String,
}

/// The token of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownToken {
    /// Its id, which is not secret.
    pub id: String,
    /// Its roles.
    pub roles: Vec<Role>,
    /// Its owner, for people.
    pub label: String,
}

impl TokenEntry {
    /// Whether it allows operating the service now.
    fn operates(&self) -> bool {
        let is_valid = self.expires.is_none_or(|expires| Timestamp::now() < expires);
        is_valid && self.role.parse::<Role>().is_ok_and(|role| role.operates())
    }
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenFile {
    version: u32,
    tokens: Vec<TokenEntry>,
}

/// Identifies the version of the file.
type FileVersion = Option<(SystemTime, u64)>;

/// The tokens of a service.
pub struct Tokens {
    path: PathBuf,
    known: Mutex<(FileVersion, Vec<TokenEntry>)>,
    uses: LastUses,
}

impl Tokens {
    /// The tokens of a folder; there may be none.
    ///
    /// # Errors
    /// If their file cannot be read.
    pub fn from_folder(folder: &Path) -> Result<Self> {
        let uses = LastUses::from_folder(folder);
        let tokens = Self { path: folder.join("tokens.json"), known: Mutex::default(), uses };
        tokens.all()?;
        Ok(tokens)
    }

    /// All tokens.
    ///
    /// # Errors
    /// If their file cannot be read.
    pub fn all(&self) -> Result<Vec<TokenEntry>> {
        self.with_known(<[TokenEntry]>::to_vec)
    }

    /// Looks at all tokens, which are read again if their file has changed.
    fn with_known<T>(&self, look: impl FnOnce(&[TokenEntry]) -> T) -> Result<T> {
        let mark = match std::fs::metadata(&self.path) {
            Ok(meta) => Some((meta.modified()?, inode(&meta))),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error).context(format_args!("cannot read {}", self.path.display())),
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.0 != mark || mark.is_none() {
            *known = (mark, if mark.is_some() { self.read()?.tokens } else { Vec::new() });
        }
        Ok(look(&known.1))
    }

    fn read(&self) -> Result<TokenFile> {
        let shown = self.path.display();
        let text = match std::fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok(TokenFile { version: 1, tokens: Vec::new() });
            }
            Err(error) => return Err(error).context(format_args!("cannot read {shown}")),
        };
        let file: TokenFile =
            serde_json::from_str(&text).map_err(|e| usage(format!("{shown} cannot be read: {e}; restore it")))?;
        if file.version != 1 {
            return Err(usage(format!("{shown} was written by another version of this program")));
        }
        Ok(file)
    }

    fn write(&self, file: &TokenFile) -> Result<()> {
        let text = serde_json::to_string_pretty(file).map_err(failure)?;
        replace(&RealDisk, &self.path, &Access::Private, &mut Cursor::new(text))
            .and_then(|()| chown_to_folder_owner(&self.path))
            .context(format_args!("cannot write {}", self.path.display()))
    }

    /// Changes the file under a lock: a token that was revoked elsewhere must not come back.
    fn change<T>(&self, change: impl FnOnce(&mut TokenFile) -> Result<T>) -> Result<T> {
        let _lock = NameLock::soon(&self.path)?;
        let mut file = self.read()?;
        let changed = change(&mut file)?;
        file.version = 1;
        self.write(&file)?;
        Ok(changed)
    }

    /// When tokens were last used, by their ids. It may be a minute old.
    pub fn last_uses(&self) -> BTreeMap<String, Timestamp> {
        self.uses.all()
    }

    /// Saves when tokens were last used. Without that, uses since the last time are forgotten at the next start.
    pub fn save_uses(&self) {
        if let Err(error) = self.uses.save() {
            tracing::warn!(%error, "cannot save when tokens were last used");
        }
    }

    /// Creates a token. The returned text is shown once and cannot be recovered. The label may be empty.
    ///
    /// # Errors
    /// As [`make_until`](Self::make_until).
    pub fn make(&self, role: &Role, label: &str) -> Result<(String, Zeroizing<String>)> {
        self.make_until(role, label, None)
    }

    /// Creates a token that ends by itself at a time.
    ///
    /// # Errors
    /// If the label is not a valid name, the time is past, or the file cannot be written.
    pub fn make_until(
        &self,
        role: &Role,
        label: &str,
        expires: Option<Timestamp>,
    ) -> Result<(String, Zeroizing<String>)> {
        if expires.is_some_and(|expires| expires <= Timestamp::now()) {
            return Err(usage("the token would have expired already; choose a later time"));
        }
        if !label.is_empty() {
            check_name("a label", label)?;
        }
        let mut random = Zeroizing::new([0; 36]);
        getrandom::fill(random.as_mut_slice()).map_err(failure)?;
        let (name, secret) = random.split_at(4);
        let id = evertally::hex(name);
        let secret = Zeroizing::new(URL_SAFE_NO_PAD.encode(secret));
        let (made, hash) = (Timestamp::now(), hash_of(&secret));
        let entry = TokenEntry { id: id.clone(), role: role.to_string(), label: label.to_owned(), made, expires, hash };
        self.change(|file| {
            file.tokens.push(entry);
            Ok(())
        })?;
        Ok((id.clone(), Zeroizing::new(format!("{MARK}{id}_{}", *secret))))
    }

    /// Revokes a token immediately; the last one that operates the service stays, so that operators keep their access.
    ///
    /// # Errors
    /// If there is no token with this id, it is the last one of an operator, or the file cannot be written.
    pub fn revoke(&self, id: &str) -> Result<()> {
        self.remove(id, |left| {
            if left.iter().any(TokenEntry::operates) {
                return Ok(());
            }
            Err(usage(format!(
                "token {id} is the last one that operates the service; make another one first, or revoke it with \
                 `evertally token revoke --last-operator` on the machine of the service"
            )))
        })
    }

    /// Revokes a token immediately, even if none is left that operates the service.
    ///
    /// # Errors
    /// If there is no token with this id, or the file cannot be written.
    pub fn revoke_even_last(&self, id: &str) -> Result<()> {
        self.remove(id, |_| Ok(()))
    }

    /// Removes a token; `check` may refuse the removal of an operator's token, given the tokens that would be left.
    fn remove(&self, id: &str, check: impl FnOnce(&[TokenEntry]) -> Result<()>) -> Result<()> {
        self.change(|file| {
            let place = file.tokens.iter().position(|token| token.id == id);
            let removed = file.tokens.remove(place.ok_or_else(|| usage(format!("there is no token {id}")))?);
            if removed.operates() { check(&file.tokens) } else { Ok(()) }
        })
    }

    /// The role of a token; `None` if it is invalid. All cases take the same work.
    pub fn role_of(&self, token: &str) -> Option<Role> {
        self.find(token)?.roles.pop()
    }

    /// The role, now, of a token that was found earlier, by its id; `None` if it was revoked or has expired.
    pub fn role_now(&self, id: &str) -> Option<Role> {
        let now = Timestamp::now();
        let role = self.with_known(|all| {
            let entry = all.iter().find(|entry| entry.id == id)?;
            if entry.expires.is_some_and(|expires| expires <= now) { None } else { entry.role.parse::<Role>().ok() }
        });
        role.ok().flatten()
    }

    /// A token that is valid now, and notes its use; `None` if it is invalid or has expired. All cases take the same
    /// work.
    pub fn find(&self, token: &str) -> Option<KnownToken> {
        let (id, secret) = token.strip_prefix(MARK).and_then(|rest| rest.split_once('_')).unwrap_or(("", ""));
        let found = hash_of(secret);
        let (all, now) = (self.all().ok()?, Timestamp::now());
        let nobody = "0".repeat(found.len());
        let entry = all.iter().find(|entry| entry.id == id);
        let hash = entry.map_or(nobody.as_str(), |entry| entry.hash.as_str());
        let is_it: bool = hash.as_bytes().ct_eq(found.as_bytes()).into();
        let entry = entry.filter(|entry| is_it && entry.expires.is_none_or(|expires| now < expires))?;
        let role = entry.role.parse().ok()?;
        self.uses.note(&entry.id, now);
        Some(KnownToken { id: entry.id.clone(), roles: vec![role], label: entry.label.clone() })
    }
}

#[cfg(unix)]
fn inode(meta: &std::fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(meta)
}

#[cfg(not(unix))]
fn inode(meta: &std::fs::Metadata) -> u64 {
    meta.len()
}

fn hash_of(secret: &str) -> String {
    blake3::Hash::from_bytes(blake3::derive_key("evertally serve 1 token", secret.as_bytes())).to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_open_what_they_say_until_they_are_revoked() {
        let folder = tempfile::tempdir().unwrap();
        let tokens = Tokens::from_folder(folder.path()).unwrap();
        let (id, token) = tokens.make(&Role::Write("visits".into()), "the shop").unwrap();
        let role = tokens.role_of(&token).unwrap();
        assert!(role.writes("visits") && !role.writes("other") && !role.reads("visits") && !role.operates());
        let text = std::fs::read_to_string(folder.path().join("tokens.json")).unwrap();
        assert!(!text.contains(token.split('_').next_back().unwrap()), "the file contains no token");
        for wrong in ["", "evt_", &token[..token.len() - 1], &format!("{}A", *token), "evt_00000000_x", &token[4..]] {
            assert_eq!(tokens.role_of(wrong), None, "{wrong}");
        }
        // Another process revokes it.
        Tokens::from_folder(folder.path()).unwrap().revoke(&id).unwrap();
        assert_eq!(tokens.role_of(&token), None);
        assert!(tokens.revoke(&id).unwrap_err().to_string().contains("no token"));
    }

    #[test]
    fn an_expired_token_opens_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let tokens = Tokens::from_folder(folder.path()).unwrap();
        let soon = Timestamp::now() + jiff::SignedDuration::from_millis(300);
        let (id, token) = tokens.make_until(&Role::Operate, "", Some(soon)).unwrap();
        assert_eq!((tokens.role_of(&token), tokens.role_now(&id)), (Some(Role::Operate), Some(Role::Operate)));
        std::thread::sleep(std::time::Duration::from_millis(350));
        assert_eq!((tokens.role_of(&token), tokens.role_now(&id)), (None, None));
        assert!(tokens.make_until(&Role::Operate, "", Some(soon)).unwrap_err().to_string().contains("expired"));
        // Its last use is known, also after a restart.
        let used = tokens.last_uses()[&id];
        assert!(used < soon);
        tokens.save_uses();
        assert_eq!(Tokens::from_folder(folder.path()).unwrap().last_uses()[&id].as_second(), used.as_second());
    }

    #[test]
    fn the_last_operator_keeps_access() {
        let folder = tempfile::tempdir().unwrap();
        let tokens = Tokens::from_folder(folder.path()).unwrap();
        let (first, _) = tokens.make(&Role::Operate, "").unwrap();
        let (reader, _) = tokens.make(&Role::ReadAll, "").unwrap();
        let problem = tokens.revoke(&first).unwrap_err().to_string();
        assert!(problem.contains(&format!("token {first} is the last one that operates")), "{problem}");
        assert_eq!(tokens.all().unwrap().len(), 2, "nothing changed");
        tokens.revoke(&reader).unwrap();
        let (second, _) = tokens.make(&Role::Operate, "").unwrap();
        tokens.revoke(&first).unwrap();
        assert!(tokens.revoke(&second).is_err());
        tokens.revoke_even_last(&second).unwrap();
        assert!(tokens.all().unwrap().is_empty());
    }

    #[test]
    fn whoever_writes_at_once_loses_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let tokens = Tokens::from_folder(folder.path()).unwrap();
        let old: Vec<String> = (0..20).map(|_| tokens.make(&Role::Read("a".into()), "").unwrap().0).collect();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                (0..20).for_each(|_| drop(Tokens::from_folder(folder.path()).unwrap().make(&Role::ReadAll, "")));
            });
            old.iter().for_each(|id| tokens.revoke(id).unwrap());
        });
        let left = tokens.all().unwrap();
        assert!(left.len() == 20 && left.iter().all(|token| token.role == "read:*"));
    }
}
