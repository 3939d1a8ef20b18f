//! A disk in memory under a database: it fails on request, and after a crash it holds the synced data and any part of
//! the unsynced data.

use redb::StorageBackend;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The unit of torn writes: real disks write whole sectors.
const SECTOR: usize = 512;

/// A disk; clones are the same disk.
#[derive(Clone, Default)]
pub struct TornDisk(Arc<Mutex<Platter>>);

#[derive(Default)]
struct Platter {
    /// The contents that programs see.
    seen: Vec<u8>,
    /// The synced contents.
    safe: Vec<u8>,
    /// The writes since, in order.
    unsafe_writes: Vec<(u64, Vec<u8>)>,
    /// This many operations succeed; then all fail until the machine is restarted.
    good: Option<u64>,
    is_broken: bool,
    syncs: u64,
}

impl Platter {
    fn go(&mut self) -> Result<(), io::Error> {
        if let Some(good) = &mut self.good {
            if *good == 0 {
                self.is_broken = true;
            } else {
                *good -= 1;
            }
        }
        if self.is_broken { Err(io::Error::other("the disk has failed")) } else { Ok(()) }
    }
}

impl TornDisk {
    fn platter(&self) -> MutexGuard<'_, Platter> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next `good` operations succeed, and none after them.
    pub fn fail_after(&self, good: u64) {
        self.platter().good = Some(good);
    }

    /// The number of syncs.
    pub fn syncs(&self) -> u64 {
        self.platter().syncs
    }

    /// The machine stops and restarts: of the unsynced data, those sectors remain for which `keeps` returns true.
    pub fn restart(&self, mut keeps: impl FnMut() -> bool) {
        let mut platter = self.platter();
        let mut disk = platter.safe.clone();
        for (offset, bytes) in std::mem::take(&mut platter.unsafe_writes) {
            for (number, sector) in bytes.chunks(SECTOR).enumerate() {
                let at = offset as usize + number * SECTOR;
                if keeps() {
                    if disk.len() < at + sector.len() {
                        disk.resize(at + sector.len(), 0);
                    }
                    disk[at..at + sector.len()].copy_from_slice(sector);
                }
            }
        }
        // A file has its written length, or its synced length.
        let len = if keeps() { platter.seen.len().max(platter.safe.len()) } else { disk.len().max(platter.safe.len()) };
        disk.resize(len, 0);
        (platter.seen, platter.safe) = (disk.clone(), disk);
        (platter.good, platter.is_broken) = (None, false);
    }

    /// Another disk with the same contents, like a backup.
    pub fn copied(&self) -> Self {
        let platter = self.platter();
        let (seen, safe) = (platter.safe.clone(), platter.safe.clone());
        Self(Arc::new(Mutex::new(Platter { seen, safe, ..Platter::default() })))
    }
}

impl fmt::Debug for TornDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TornDisk").finish_non_exhaustive()
    }
}

impl StorageBackend for TornDisk {
    fn len(&self) -> Result<u64, io::Error> {
        let mut platter = self.platter();
        platter.go()?;
        Ok(platter.seen.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        let mut platter = self.platter();
        platter.go()?;
        let (from, to) = (offset as usize, offset as usize + out.len());
        let bytes = platter.seen.get(from..to).ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
        out.copy_from_slice(bytes);
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<(), io::Error> {
        let mut platter = self.platter();
        platter.go()?;
        platter.seen.resize(len as usize, 0);
        Ok(())
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        let mut platter = self.platter();
        platter.go()?;
        platter.safe = platter.seen.clone();
        platter.unsafe_writes.clear();
        platter.syncs += 1;
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        let mut platter = self.platter();
        platter.go()?;
        let from = offset as usize;
        if platter.seen.len() < from + data.len() {
            platter.seen.resize(from + data.len(), 0);
        }
        platter.seen[from..from + data.len()].copy_from_slice(data);
        platter.unsafe_writes.push((offset, data.to_vec()));
        Ok(())
    }
}
