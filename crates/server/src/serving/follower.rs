//! A follower: keeps a copy of the database up to date, and takes over when the primary is gone.

#![expect(clippy::disallowed_methods, reason = "keeps copies of the database as files")]

mod memory;

pub(crate) use memory::health_of;

use super::opening::witness_from;
use super::preflight::{check_addresses, check_start, missing_key};
use super::signals::shutdown_signal;
use crate::config::{Config, StandbyConfig};
use crate::folder::{make_folder, store_path};
use crate::standby::{
    Applied, ClaimOutcome, FOLLOWERS, FollowerSign, PrimarySign, Replica, SIDE_FILES, Target, WholeChain, claim,
    end_chain, get_sign, last_whole, primary_file, put_sign, put_whole, target_from,
};
use crate::store::{Store, random_name};
use crate::supervisor::Supervisor;
use crate::witness::{Witness, WitnessRecord};
use evertally_declare::error::{Context, Result, failure, usage};
use evertally_ledger::disk::{Access, Disk, RealDisk, replace};
use evertally_ledger::lock::NameLock;
use memory::FollowerMemory;
use redb::backends::FileBackend;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often a follower checks whether it could serve.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);
/// The pause after a witness could not be read.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);
/// About how long segments are applied before the signs of life are read again.
const APPLY_TIME: Duration = Duration::from_secs(2);

/// Why a follower has stopped to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// This machine is the primary from now on: its folder is ready to be opened.
    IsPrimary,
    /// It was asked to stop.
    Stopped,
}

/// The last sign of life of a primary.
struct LastSign {
    sign: Option<PrimarySign>,
    /// Whose it is.
    primary: String,
    /// Since when it has not changed.
    since: Instant,
}

/// A follower with its copies.
pub struct Follower {
    folder: PathBuf,
    target: Box<dyn Target>,
    takeover: Duration,
    /// How often it gives a sign of life.
    interval: Duration,
    memory: FollowerMemory,
    /// Why this machine could not serve.
    unready: Option<String>,
    copies: Vec<Replica<FileBackend>>,
    last: Option<LastSign>,
    signed: Option<Instant>,
    counter: u64,
    /// Whether the log has the takeover that is being tried.
    is_announced: bool,
    /// Whether the copy is the database of the service's folder already.
    is_moved: bool,
    _lock: NameLock,
}

impl Follower {
    /// Continues with the copies in the folder of the service.
    ///
    /// # Errors
    /// If the folder cannot be used, or another process follows into it.
    pub fn new(folder: &Path, standby: &StandbyConfig) -> Result<Self> {
        let own = folder.join("standby");
        make_folder(&own)?;
        let (memory, lock) = FollowerMemory::open(&own)?;
        let copies = open_copies(&own, &memory.copies)?;
        Ok(Self {
            folder: folder.to_owned(),
            target: target_from(&standby.folder)?,
            takeover: standby.takeover().duration(),
            interval: 2 * standby.sign_interval(),
            memory,
            unready: None,
            copies,
            last: None,
            signed: None,
            counter: 0,
            is_announced: false,
            is_moved: false,
            _lock: lock,
        })
    }

    fn own(&self) -> PathBuf {
        self.folder.join("standby")
    }

    /// The whole copy.
    fn whole(&self) -> Option<&Applied> {
        self.copies.iter().map(|copy| &copy.applied).rfind(|applied| applied.is_whole)
    }

    /// Checks whether this machine could serve, as far as the primary and its database are known.
    fn check_start(&self, config: &Config) -> Result<()> {
        let copy = self.whole().map(|whole| self.own().join(file_name(&whole.epoch)));
        check_start(config, self.primary_key(), copy.as_deref())
    }

    /// Reads the sign of the primary that the witness names, applies its segments, and gives its own sign.
    /// Returns whether the primary has given no sign of life for so long that this follower takes over.
    ///
    /// # Errors
    /// If the witness, the target or a copy cannot be read or written.
    pub fn poll(&mut self, witness: &mut dyn Witness) -> Result<bool> {
        let primary = witness.peek()?.map(|record| record.primary).unwrap_or_default();
        if self.memory.claim.as_ref() == Some(&primary) {
            return Ok(true); // a claim of this follower has arrived, though it was interrupted
        }
        if self.memory.claim.is_some() && self.memory.followed != primary {
            self.has_lost()?; // a name is claimed from one primary only
        }
        // None of a machine that was lost between its claim and its first sign.
        let sign = get_sign::<PrimarySign>(&*self.target, &primary_file(&primary))?;
        let epoch = sign.as_ref().and_then(|sign| sign.epoch.clone());
        let is_same = self.last.as_ref().is_some_and(|last| last.sign == sign && last.primary == primary);
        if !is_same {
            self.last = Some(LastSign { sign, primary: primary.clone(), since: Instant::now() });
        }
        // While a chain is not whole, the one before is needed for a takeover.
        if self.whole().is_none_or(|whole| Some(&whole.epoch) != epoch.as_ref()) {
            let last = last_whole(&*self.target, &primary)?;
            let is_known = |last: &String| self.whole().is_some_and(|whole| whole.epoch == *last);
            if let Some(last) = last.filter(|last| Some(last) != epoch.as_ref() && !is_known(last)) {
                self.apply(&last, APPLY_TIME)?;
            }
        }
        if let Some(epoch) = &epoch {
            self.apply(epoch, APPLY_TIME)?;
        }
        self.give_sign();
        let since = self.last.as_ref().map(|last| last.since);
        Ok(self.whole().is_some() && since.is_some_and(|since| since.elapsed() >= self.takeover))
    }

    /// Applies the segments of a chain, for about `limit`. The copy of another chain stays until this one is whole.
    fn apply(&mut self, epoch: &str, limit: Duration) -> Result<()> {
        let began = Instant::now();
        if !self.copies.iter().any(|copy| copy.applied.epoch == epoch) {
            let storage = file(&self.own().join(file_name(epoch)))?;
            redb::StorageBackend::set_len(&storage, 0)?;
            self.copies.push(Replica::new(storage, Applied::new(epoch)));
        }
        let at = self.copies.iter().position(|copy| copy.applied.epoch == epoch).expect("just made");
        let mut has_changed = false;
        while began.elapsed() < limit {
            let applied = self.copies[at].apply_next(&*self.target, i64::MAX);
            let Some(files) = applied.context(
                "cannot apply changes (if this lasts, restart the primary: it ships the whole database again)",
            )?
            else {
                break;
            };
            has_changed = true;
            for (name, bytes) in files {
                put_side_file(&self.folder, &name, &bytes)?;
            }
        }
        if has_changed {
            self.remember()?;
            if self.copies[at].applied.is_whole {
                self.forget_before(at)?;
            }
        }
        Ok(())
    }

    /// Removes the copies before a place, of earlier chains.
    fn forget_before(&mut self, at: usize) -> Result<()> {
        let old: Vec<Replica<FileBackend>> = self.copies.drain(..at).collect();
        if old.is_empty() {
            return Ok(());
        }
        self.remember()?;
        for copy in old {
            let path = self.own().join(file_name(&copy.applied.epoch));
            let _ = std::fs::remove_file(path); // an extra file only takes space
        }
        Ok(())
    }

    fn remember(&mut self) -> Result<()> {
        self.memory.copies = self.copies.iter().map(|copy| copy.applied.clone()).collect();
        self.memory.write(&self.own())
    }

    /// The id of the primary's key, if it has given a sign.
    fn primary_key(&self) -> Option<&str> {
        Some(self.last.as_ref()?.sign.as_ref()?.key_id.as_str())
    }

    /// Whether this follower has claimed the right to publish, and nobody else after it.
    fn has_claimed(&self, witness: &mut dyn Witness) -> Result<bool> {
        let Some(claim) = &self.memory.claim else { return Ok(false) };
        Ok(witness.peek()?.is_some_and(|record| record.primary == *claim))
    }

    fn give_sign(&mut self) {
        if self.unready.is_some() {
            return; // it could not take over
        }
        let Some(whole) = self.whole().cloned() else { return };
        if self.signed.is_some_and(|signed| signed.elapsed() < self.interval) {
            return;
        }
        self.counter += 1;
        let sign = FollowerSign { epoch: whole.epoch, number: whole.number, at: whole.at, counter: self.counter };
        let put = put_sign(&*self.target, &format!("{FOLLOWERS}/{}.json", self.memory.name), &sign);
        drop(put); // the primary then misses its follower
        self.signed = Some(Instant::now());
    }

    /// Claims the right to publish; if the claim is won, prepares the folder of the service.
    ///
    /// # Errors
    /// If the witness is locked, which means that the primary runs, or cannot be reached; or the copy cannot be opened.
    pub fn take_over(&mut self, witness: &mut dyn Witness) -> Result<ClaimOutcome> {
        if self.is_moved {
            self.finish()?; // which failed before
            return Ok(ClaimOutcome::Won);
        }
        if self.copies.is_empty() {
            // An attempt that failed has closed them.
            self.copies = open_copies(&self.own(), &self.memory.copies)?;
        }
        let whole = self.whole().cloned().ok_or_else(|| failure("there is no whole copy"))?;
        if self.memory.claim.is_none() {
            self.memory.claim = Some(random_name()?);
        }
        // Without a sign since the start, this is a claim that was interrupted.
        if let Some(last) = &self.last {
            self.memory.followed.clone_from(&last.primary);
        }
        let followed = self.memory.followed.clone();
        // Remembered first: if this process is interrupted after the claim, the next one knows the name.
        self.remember()?;
        let name = self.memory.claim.clone().expect("just set");
        if !self.memory.is_complete {
            put_whole(&*self.target, &name, &WholeChain::After(followed.clone()))?;
        }
        let outcome = claim(witness, &whole.folder, &followed, &name)?;
        match outcome {
            ClaimOutcome::Won => self.become_primary(&name, &followed)?,
            ClaimOutcome::Lost => self.has_lost()?,
        }
        Ok(outcome)
    }

    /// Another machine has taken over: the next claim has another name.
    fn has_lost(&mut self) -> Result<()> {
        self.memory.claim = None;
        self.last = None;
        self.is_moved = false;
        if std::mem::take(&mut self.memory.is_complete) {
            self.copies.clear(); // they have changes that the new primary does not
        }
        self.remember()
    }

    /// Applies the rest, which nobody adds to any more that was published, and makes the copy the folder's database.
    fn become_primary(&mut self, name: &str, followed: &str) -> Result<()> {
        if !self.memory.is_complete {
            self.complete(name, followed)?;
        }
        let whole = self.whole().cloned().ok_or_else(|| failure("there is no whole copy"))?;
        // Until this machine has shipped a chain, a follower needs the one that it continues.
        put_whole(&*self.target, name, &WholeChain::Chain(whole.epoch.clone()))?;
        self.copies.clear(); // closes their files, which are locked while they are open
        move_copy(&self.own().join(file_name(&whole.epoch)), &store_path(&self.folder), name)?;
        self.is_moved = true;
        self.finish()?;
        let at = jiff::Timestamp::from_microsecond(whole.at).map_or_else(|_| String::new(), |at| at.to_string());
        tracing::warn!(
            shipped = %at, segment = whole.number,
            "this machine is the primary now: batches that were accepted after the last shipped change are lost unless \
             their senders repeat them"
        );
        Ok(())
    }

    /// Makes the move of the copy durable, and removes the rest of the folder of copies.
    fn finish(&self) -> Result<()> {
        RealDisk.sync_folder(&self.folder)?;
        // The next start removes it otherwise.
        if let Err(error) = std::fs::remove_dir_all(self.own()) {
            tracing::warn!(%error, folder = %self.own().display(), "cannot remove the folder of the follower");
        }
        Ok(())
    }

    /// Applies everything that the primary has published, ends its chain, and removes the other copies.
    fn complete(&mut self, name: &str, followed: &str) -> Result<()> {
        let own = self.whole().map(|whole| whole.epoch.clone());
        let last = last_whole(&*self.target, followed)?.or(own);
        let last = last.ok_or_else(|| failure("there is no whole copy"))?;
        loop {
            self.apply(&last, Duration::MAX)?;
            let copy = self.copies.iter().find(|copy| copy.applied.epoch == last).expect("just applied");
            if !copy.applied.is_whole {
                return Err(failure(format!("the chain {last} is not whole in {}", self.target.place())));
            }
            if end_chain(&*self.target, &copy.applied, name)? {
                break;
            }
        }
        self.copies.retain(|copy| copy.applied.epoch == last);
        // Remembered before the copy is opened, which changes it: later segments would not fit any more.
        self.memory.is_complete = true;
        self.remember()
    }

    /// Logs once that the primary is gone: a witness that it has locked is tried again and again.
    fn announce(&mut self, takeover: Duration) {
        if !std::mem::replace(&mut self.is_announced, true) {
            tracing::warn!(seconds = takeover.as_secs_f64(), "the primary gives no sign of life; taking over");
        }
    }

    /// Logs a problem once, and leaves it for the check of the health.
    fn note(&mut self, problem: Option<String>) {
        if self.memory.problem == problem {
            return;
        }
        if let Some(problem) = &problem {
            tracing::warn!(%problem, "cannot follow the primary");
        }
        self.memory.problem = problem;
        // The copies stay as they were remembered: an attempt to take over may have closed them.
        if let Err(error) = self.memory.write(&self.own()) {
            tracing::warn!(%error, "a check of the health does not learn of this");
        }
    }
}

/// Opens the copies in a folder.
fn open_copies(own: &Path, copies: &[Applied]) -> Result<Vec<Replica<FileBackend>>> {
    let mut opened = Vec::new();
    for applied in copies {
        opened.push(Replica::new(file(&own.join(file_name(&applied.epoch)))?, applied.clone()));
    }
    Ok(opened)
}

/// Makes a copy the database at `path`, of a primary with a name. If this fails, the copy stays.
fn move_copy(copy: &Path, path: &Path, name: &str) -> Result<()> {
    let store = Store::open(copy)?;
    store.set_primary(name)?;
    drop(store);
    std::fs::rename(copy, path)?;
    Ok(())
}

fn file_name(epoch: &str) -> String {
    format!("{epoch}.redb")
}

/// A file that nobody else may read.
fn file(path: &Path) -> Result<FileBackend> {
    let mut options = std::fs::OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    FileBackend::new(options.open(path)?).map_err(failure)
}

fn put_side_file(folder: &Path, name: &str, bytes: &[u8]) -> Result<()> {
    if !SIDE_FILES.contains(&name) {
        return Err(usage(format!("a segment holds the file `{name}`, which no service ships")));
    }
    let _lock = NameLock::soon(&folder.join(name))?;
    replace(&RealDisk, &folder.join(name), &Access::Private, &mut Cursor::new(bytes))
        .context(format_args!("cannot write {name}"))
}

/// Whether the folder of this machine holds the database that may publish.
fn is_primary(config: &Config, record: Option<&WitnessRecord>) -> Result<bool> {
    let path = store_path(&config.folder);
    if !path.exists() {
        return Ok(false);
    }
    let own = Store::open(&path)?.primary()?;
    Ok(record.is_none_or(|record| record.primary == own))
}

/// Follows the primary of a configuration until this machine is the primary, or `is_over`.
///
/// # Errors
/// If the configuration names no standby folder or no witness, or the folder cannot be used.
pub fn follow(config: &Config, is_over: &AtomicBool, say: &dyn Fn(&str)) -> Result<Waited> {
    let standby = config.standby.as_ref().ok_or_else(|| {
        usage("--follow needs [standby] in the configuration, with the folder that the primary ships to")
    })?;
    let (mut reader, takeover) = (witness_from(config)?, standby.takeover().duration());
    if !config.key.exists() {
        return Err(missing_key(config));
    }
    make_folder(&config.folder)?;
    let record = loop {
        match reader.peek() {
            Ok(record) => break record,
            Err(error) if is_over.load(Ordering::Relaxed) => return Err(error),
            Err(error) => tracing::warn!(%error, "cannot tell which machine is the primary"),
        }
        std::thread::sleep(RETRY_INTERVAL);
    };
    if is_primary(config, record.as_ref())? {
        let _ = std::fs::remove_dir_all(config.folder.join("standby")); // the rest of an interrupted takeover
        say("this machine is the primary: its folder is the one that the witness names");
        return Ok(Waited::IsPrimary);
    }
    set_aside(&config.folder)?;
    let mut follower = Follower::new(&config.folder, standby)?;
    say(&format!("following the primary that ships to {}", standby.folder.display()));
    let mut checked: Option<(Instant, (bool, bool))> = None;
    while !is_over.load(Ordering::Relaxed) {
        let known = (follower.primary_key().is_some(), follower.whole().is_some());
        if checked.is_none_or(|(at, before)| at.elapsed() >= CHECK_INTERVAL || before != known) {
            follower.unready = follower.check_start(config).err().map(|error| error.to_string());
            checked = Some((Instant::now(), known));
        }
        let problem = match follower.poll(&mut *reader) {
            Ok(true) => match take_over(config, &mut follower, &mut *reader, takeover) {
                Ok(ClaimOutcome::Won) => return Ok(Waited::IsPrimary),
                Ok(ClaimOutcome::Lost) => Some("another follower has taken over".to_owned()),
                Err(error) => Some(error.to_string()),
            },
            Ok(false) => {
                follower.is_announced = false;
                follower.unready.as_ref().map(|why| format!("this machine could not take over: {why}"))
            }
            Err(error) => Some(error.to_string()),
        };
        follower.note(problem);
        std::thread::sleep(standby.sign_interval());
    }
    Ok(Waited::Stopped)
}

/// Takes over from a primary that gives no sign of life, if this machine can serve: once it has claimed the right to
/// publish, no other machine does.
fn take_over(
    config: &Config,
    follower: &mut Follower,
    reader: &mut dyn Witness,
    takeover: Duration,
) -> Result<ClaimOutcome> {
    if !follower.has_claimed(reader)? {
        let ready = follower.check_start(config).and_then(|()| check_addresses(config));
        ready.context("the primary gives no sign of life, and this machine cannot take over")?;
        follower.announce(takeover);
    }
    // Dropped after the claim, so that the service can lock it.
    follower.take_over(&mut *witness_from(config)?)
}

/// Waits as [`follow`] does, until a signal to end. The service manager learns that the process is up.
///
/// # Errors
/// As [`follow`].
pub(crate) async fn wait(config: &Config, say: &dyn Fn(&str)) -> Result<Waited> {
    let supervisor = Supervisor::from_env();
    let shutdown = shutdown_signal()?;
    let is_over = Arc::<AtomicBool>::default();
    let (lines, mut received) = tokio::sync::mpsc::unbounded_channel::<String>();
    let (own, ends) = (config.clone(), Arc::clone(&is_over));
    let following = tokio::task::spawn_blocking(move || follow(&own, &ends, &|line| drop(lines.send(line.to_owned()))));
    supervisor.is_following();
    tokio::pin!(shutdown, following);
    loop {
        tokio::select! {
            Some(line) = received.recv() => say(&line),
            _ = &mut shutdown, if !is_over.load(Ordering::Relaxed) => is_over.store(true, Ordering::Relaxed),
            ended = &mut following => return ended.map_err(failure)?,
        }
    }
}

/// Keeps the database of a primary that was replaced, under another name: it may hold batches that were accepted and
/// not shipped.
fn set_aside(folder: &Path) -> Result<()> {
    let path = store_path(folder);
    if path.exists() {
        let kept = folder.join("store.replaced.redb");
        tracing::warn!(file = %kept.display(), "another machine has taken over: the database of this one is set aside");
        std::fs::rename(&path, kept)?;
        // Copies and claims from before this machine was the primary.
        let _ = std::fs::remove_dir_all(folder.join("standby"));
        RealDisk.sync_folder(folder)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_takeover_that_failed_can_be_repeated() {
        let place = tempfile::tempdir().unwrap();
        let (folder, shared) = (place.path().join("data"), place.path().join("shared"));
        std::fs::create_dir(&folder).unwrap();
        std::fs::create_dir(&shared).unwrap();
        let standby: StandbyConfig = serde_json::from_value(serde_json::json!({ "folder": shared })).unwrap();
        let mut follower = Follower::new(&folder, &standby).unwrap();
        let own = follower.own();
        drop(Store::open(&own.join(file_name("chain"))).unwrap());
        let copies = [Applied { is_whole: true, ..Applied::new("chain") }];
        follower.copies = open_copies(&own, &copies).unwrap();
        follower.memory.is_complete = true;
        follower.remember().unwrap();
        // The copy cannot replace a folder.
        let path = store_path(&folder);
        std::fs::create_dir(&path).unwrap();
        follower.become_primary("new", "old").unwrap_err();
        follower.note(Some("cannot take over".to_owned()));
        assert_eq!(follower.memory.copies, copies);
        drop(follower);
        std::fs::remove_dir(&path).unwrap();
        let mut again = Follower::new(&folder, &standby).unwrap();
        again.become_primary("new", "old").unwrap();
        assert_eq!(Store::open(&path).unwrap().primary().unwrap(), "new");
        assert!(!own.exists());
    }
}
