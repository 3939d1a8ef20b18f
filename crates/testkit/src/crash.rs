//! Possible disk contents after a power failure, at every point of a run.
//!
//! [`TracedDisk`] is the file system of this machine, which records every call. After each call a [`Point`] knows the
//! certain contents of the disk and the pending ones: contents that were written but not synced, and names that were
//! created, removed or renamed while their folder was not synced. [`Point::images`] are the states of the folder that a
//! power failure at this point can leave, by this model of a page cache:
//!
//! * a file that was written but not synced can have any state since the last sync, or a part of one: the synced
//!   contents, a prefix of the written ones, nothing (if nothing was synced), or zeros instead of the new bytes;
//! * each name in an unsynced folder is old or new, independently of the others;
//! * syncing a file does not sync its name, and syncing a folder does not sync the contents of its files.
//!
//! An [`Image`] is written into a folder, and a run begins on it as if nothing had happened.

use evertally_ledger::disk::{Access, Disk, RealDisk};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The file system below one folder, which records all changes.
#[derive(Debug)]
pub struct TracedDisk {
    root: PathBuf,
    trace: Mutex<Trace>,
    /// This call, counted from 1, and all later ones fail.
    fails_at: Option<usize>,
}

#[derive(Debug, Default)]
struct Trace {
    now: Model,
    points: Vec<Point>,
    calls: usize,
}

/// The possible contents of the disk after a call.
#[derive(Clone, Debug)]
pub struct Point {
    /// The call, in words.
    pub after: String,
    model: Model,
}

/// Files and their names; paths are relative to the root.
#[derive(Clone, Debug, Default)]
struct Model {
    /// By number: the contents of files.
    files: Vec<Content>,
    /// The files that each name may refer to: first the certain one on disk, last the one that the run sees. `None`
    /// means no file.
    names: BTreeMap<PathBuf, Vec<Option<usize>>>,
    /// Folders, and whether their own name is synced.
    folders: BTreeMap<PathBuf, bool>,
}

/// The possible contents of a file: the synced ones, and every state since.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Content(Vec<Vec<u8>>);

/// The files of a folder after a power failure.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Image(pub BTreeMap<PathBuf, Vec<u8>>);

impl Content {
    fn now(&self) -> &Vec<u8> {
        self.0.last().expect("at least the synced contents")
    }

    /// Every possible content, the likeliest first: the current one, the synced one, torn states in between.
    fn outcomes(&self) -> Vec<Vec<u8>> {
        let mut found = vec![self.now().clone()];
        if self.0.len() > 1 {
            found.extend(self.0.iter().rev().skip(1).cloned());
            let (synced, now) = (&self.0[0], self.now());
            let common = synced.iter().zip(now).take_while(|(a, b)| a == b).count();
            found.push(now[..common + (now.len() - common) / 2].to_vec());
            let mut zeros = now[..common].to_vec();
            zeros.resize(now.len(), 0);
            found.push(zeros);
            let mut seen = BTreeSet::new();
            found.retain(|content| seen.insert(content.clone()));
        }
        found
    }
}

impl Model {
    /// Everything below a folder, as synced.
    fn new(root: &Path) -> io::Result<Self> {
        let mut model = Self::default();
        let mut folders = vec![PathBuf::new()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(root.join(&folder))? {
                let entry = entry?;
                let path = folder.join(entry.file_name());
                if entry.file_type()?.is_dir() {
                    model.folders.insert(path.clone(), true);
                    folders.push(path);
                } else {
                    let content = Content(vec![std::fs::read(entry.path())?]);
                    model.names.insert(path, vec![Some(model.files.len())]);
                    model.files.push(content);
                }
            }
        }
        Ok(model)
    }

    fn file(&self, path: &Path) -> Option<usize> {
        self.names.get(path).and_then(|names| *names.last().expect("never empty"))
    }

    fn write(&mut self, path: &Path, content: Vec<u8>) {
        if let Some(file) = self.file(path) {
            self.files[file].0.push(content);
        }
    }

    fn name(&mut self, path: &Path, file: Option<usize>) {
        self.names.entry(path.to_owned()).or_insert_with(|| vec![None]).push(file);
    }
}

impl TracedDisk {
    /// Starts with everything below a folder on disk.
    ///
    /// # Panics
    /// If it cannot be read.
    pub fn new(root: &Path) -> Self {
        let root = std::fs::canonicalize(root).expect("a folder");
        let now = Model::new(&root).expect("a readable folder");
        let start = Point { after: "the beginning".into(), model: now.clone() };
        Self { root, trace: Mutex::new(Trace { now, points: vec![start], calls: 0 }), fails_at: None }
    }

    /// The same, but a call, counted from 1, and all later ones fail as on a full or missing disk.
    #[must_use]
    pub fn failing_at(self, call: usize) -> Self {
        Self { fails_at: Some(call), ..self }
    }

    /// The points after each call so far that changed something, starting with the one before the first call.
    pub fn points(&self) -> Vec<Point> {
        self.trace.lock().unwrap_or_else(PoisonError::into_inner).points.clone()
    }

    /// The number of calls so far that could have failed.
    pub fn calls(&self) -> usize {
        self.trace.lock().unwrap_or_else(PoisonError::into_inner).calls
    }

    fn below(&self, path: &Path) -> PathBuf {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let full = std::fs::canonicalize(folder).expect("a folder").join(path.file_name().unwrap_or_default());
        full.strip_prefix(&self.root).expect("a path below the root").to_owned()
    }

    fn may_fail(&self) -> io::Result<()> {
        let mut trace = self.trace.lock().unwrap_or_else(PoisonError::into_inner);
        trace.calls += 1;
        match self.fails_at {
            Some(call) if trace.calls >= call => Err(io::ErrorKind::StorageFull.into()),
            _ => Ok(()),
        }
    }

    fn done(&self, what: &str, path: &Path, change: impl FnOnce(&mut Model)) {
        let mut trace = self.trace.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut trace.now);
        let point = Point { after: format!("{what} {}", path.display()), model: trace.now.clone() };
        trace.points.push(point);
    }
}

impl Disk for TracedDisk {
    fn read(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        RealDisk.read(path)
    }

    fn len(&self, path: &Path) -> io::Result<Option<u64>> {
        RealDisk.len(path)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        RealDisk.list(folder)
    }

    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        self.may_fail()?;
        let path = self.below(folder);
        RealDisk.create_folder(folder)?;
        self.done("make folder", &path, |model| {
            model.folders.entry(path.clone()).or_insert(false);
        });
        Ok(())
    }

    fn create(&self, path: &Path, access: &Access, contents: &mut dyn Read) -> io::Result<()> {
        self.may_fail()?;
        RealDisk.create(path, access, contents)?;
        let (path, written) = (self.below(path), std::fs::read(path)?);
        self.done("create", &path, |model| {
            model.files.push(Content(vec![Vec::new(), written]));
            model.name(&path, Some(model.files.len() - 1));
        });
        Ok(())
    }

    fn append(&self, path: &Path, contents: &mut dyn Read) -> io::Result<()> {
        self.may_fail()?;
        RealDisk.append(path, contents)?;
        let (path, written) = (self.below(path), std::fs::read(path)?);
        self.done("append to", &path, |model| model.write(&path, written));
        Ok(())
    }

    fn truncate(&self, path: &Path, len: u64) -> io::Result<()> {
        self.may_fail()?;
        RealDisk.truncate(path, len)?;
        let (path, written) = (self.below(path), std::fs::read(path)?);
        self.done("truncate", &path, |model| model.write(&path, written));
        Ok(())
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        self.may_fail()?;
        let path = self.below(path);
        self.done("sync", &path, |model| {
            if let Some(file) = model.file(&path) {
                let now = model.files[file].now().clone();
                model.files[file] = Content(vec![now]);
            }
        });
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.may_fail()?;
        RealDisk.rename(from, to)?;
        let (from, to) = (self.below(from), self.below(to));
        self.done("rename to", &to, |model| {
            let file = model.file(&from);
            model.name(&from, None);
            model.name(&to, file);
        });
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.may_fail()?;
        RealDisk.remove(path)?;
        let path = self.below(path);
        self.done("remove", &path, |model| model.name(&path, None));
        Ok(())
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        self.may_fail()?;
        let folder = self.below(&folder.join("x")).parent().map(Path::to_owned).unwrap_or_default();
        self.done("sync folder", &folder, |model| {
            let is_in = |path: &Path| path.parent() == Some(&*folder);
            for (_, stands_for) in model.names.iter_mut().filter(|(path, _)| is_in(path)) {
                stands_for.drain(..stands_for.len() - 1);
            }
            model.folders.iter_mut().filter(|(path, _)| is_in(path)).for_each(|(_, is_sure)| *is_sure = true);
        });
        Ok(())
    }
}

impl Point {
    /// At most `most` images that a power failure can leave: first everything as the run saw it, then everything as
    /// synced, then all combinations, beginning with those in which one item differs from either.
    pub fn images(&self, most: usize) -> Vec<Image> {
        // One choice for each unsynced name and file.
        let mut choices: Vec<usize> = Vec::new();
        let names: Vec<(&PathBuf, Vec<Option<usize>>)> = self
            .model
            .names
            .iter()
            .map(|(path, of)| {
                let mut of: Vec<Option<usize>> = of.iter().rev().copied().collect();
                let mut seen = BTreeSet::new();
                of.retain(|file| seen.insert(*file));
                (path, of)
            })
            .collect();
        let folders: Vec<&PathBuf> =
            self.model.folders.iter().filter(|(_, is_sure)| !**is_sure).map(|(path, _)| path).collect();
        let contents: Vec<Vec<Vec<u8>>> = self.model.files.iter().map(Content::outcomes).collect();
        choices.extend(names.iter().map(|(_, of)| of.len()));
        choices.extend(folders.iter().map(|_| 2));
        choices.extend(contents.iter().map(Vec::len));
        let image = |picks: &[usize]| {
            let lost = |path: &Path| {
                let gone = folders.iter().zip(&picks[names.len()..]).filter(|(_, pick)| **pick == 1);
                gone.into_iter().any(|(folder, _)| path.starts_with(folder))
            };
            let held = |file: usize| contents[file][picks[names.len() + folders.len() + file]].clone();
            let of = |((path, of), pick): (&(&PathBuf, Vec<Option<usize>>), &usize)| {
                of[*pick].filter(|_| !lost(path)).map(|file| ((*path).clone(), held(file)))
            };
            Image(names.iter().zip(picks).filter_map(of).collect())
        };
        let (now, oldest) = (vec![0; choices.len()], choices.iter().map(|count| count - 1).collect::<Vec<_>>());
        let mut picked: Vec<Vec<usize>> = vec![now.clone(), oldest.clone()];
        for (place, count) in choices.iter().enumerate() {
            for pick in 0..*count {
                for base in [&now, &oldest] {
                    let mut picks = base.clone();
                    picks[place] = pick;
                    picked.push(picks);
                }
            }
        }
        // The rest as mixed-radix numbers, as many as requested.
        let mut picks = now;
        for _ in 0..most {
            let Some(place) = (0..picks.len()).find(|place| picks[*place] + 1 < choices[*place]) else { break };
            picks[..place].fill(0);
            picks[place] += 1;
            picked.push(picks.clone());
        }
        let mut seen = BTreeSet::new();
        let mut images: Vec<Image> = Vec::new();
        for picks in picked {
            let image = image(&picks);
            if images.len() < most && seen.insert(image.clone()) {
                images.push(image);
            }
        }
        images
    }
}

impl Image {
    /// Writes it into an empty folder. Files are readable by the user only.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn write_into(&self, folder: &Path) {
        for (path, content) in &self.0 {
            let path = folder.join(path);
            RealDisk.create_folder(path.parent().expect("below a folder")).expect("made");
            RealDisk.create(&path, &Access::Private, &mut content.as_slice()).expect("written");
        }
    }
}
