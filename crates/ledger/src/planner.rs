//! A disk cache for factorizations whose search takes minutes.
//!
//! A cached file is checked when it is read: its sensitivity follows from its content, not from its writer. A damaged
//! file, or one that others may write, is ignored and the search runs again. The search is deterministic, so the cache
//! only saves time. A plan identifies the factorization by 128 bits of its content, and noise is bound to the plan, so
//! two files never share noise: a foreign file can only worsen the error of a new stream.

#![expect(clippy::disallowed_methods, reason = "a cache: a file that is lost is computed again")]

use crate::disk::{Disk, RealDisk};
use evertally::mechanism::{DensePure, Mechanism, MechanismName};
use evertally::plan::{Objective, PlanRequest, Prepared};
use evertally_declare::error::{Context, PipelineError, Result, usage};
use evertally_declare::groups::GroupTable;
use evertally_declare::settings::Settings;
use evertally_declare::stream::Stream;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A progress report of a search.
pub enum SearchProgress {
    /// The share of the work that is done, 0 to 1.
    Share(f64),
    /// The result could not be cached.
    NotKept(PipelineError),
}

/// A callback for the progress of searches; factorizations found in the cache report nothing.
pub type SearchWatch<'a> = dyn FnMut(SearchProgress) + 'a;

/// The longest horizon of the search.
pub const LONGEST: u64 = 512;

/// The stream under the best plan for its request, and its declared groups. `watch` is told of searches that take
/// minutes.
///
/// # Errors
/// If no plan serves the request, or the confidence is out of range.
pub fn plan(settings: Settings, watch: &mut SearchWatch<'_>) -> Result<(Stream, Option<GroupTable>)> {
    let groups = settings.groups();
    let stream = match settings.request.mix() {
        // All of its workloads are planned together.
        Some(_) => settings.plan_workloads()?,
        None => {
            let plan = with_searched(settings.request.clone(), watch)?.plan()?;
            settings.planned(plan)?
        }
    };
    Ok((stream, groups))
}

/// Adds the cached factorization to a request for `dense-pure`.
///
/// # Errors
/// If the library refuses the search.
pub fn with_searched(request: PlanRequest, watch: &mut SearchWatch<'_>) -> Result<PlanRequest> {
    let Some(MechanismName::DensePure(optimum)) = request.mechanism() else { return Ok(request) };
    let objective = optimum.objective.unwrap_or(request.objective());
    prepare(request, objective, watch)
}

/// Adds the searched factorization to the request's mechanisms, if there is one for its horizon.
///
/// # Errors
/// If the library refuses the search.
pub fn prepare(request: PlanRequest, objective: Objective, watch: &mut SearchWatch<'_>) -> Result<PlanRequest> {
    if !(1..=LONGEST).contains(&request.horizon()) {
        return Ok(request); // the library reports the reason
    }
    let found: Arc<dyn Mechanism> = Arc::new(dense_pure(request.horizon(), objective, watch)?);
    let search = request.search().clone().with_prepared(Prepared::new([found]));
    Ok(request.with_search(search))
}

/// The best factorization for pure ε (1 to 512 steps), from the cache, or from a search whose result is then cached.
///
/// # Errors
/// If the horizon is out of range.
pub fn dense_pure(horizon: u64, objective: Objective, watch: &mut SearchWatch<'_>) -> Result<DensePure> {
    let path = folder().map(|folder| folder.join(format!("dense-pure-{horizon}-{objective}.bin")));
    if let Some(found) = path.as_deref().and_then(|path| read(path, horizon, objective)) {
        return Ok(found);
    }
    let found = DensePure::search(horizon, objective, &mut |_, share| watch(SearchProgress::Share(share)))?;
    if let Some(path) = path
        && let Err(error) = write(&path, &found.to_bytes())
    {
        watch(SearchProgress::NotKept(error));
    }
    Ok(found)
}

/// `$EVERTALLY_CACHE`, or else the user's cache folder; `None` if there is neither.
fn folder() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable("EVERTALLY_CACHE")
        .or_else(|| variable("XDG_CACHE_HOME").map(|folder| folder.join("evertally")))
        .or_else(|| variable("HOME").map(|home| home.join(".cache").join("evertally")))
}

fn read(path: &Path, horizon: u64, objective: Objective) -> Option<DensePure> {
    if others_may_write(path) || path.parent().is_some_and(others_may_write) {
        return None;
    }
    let found = DensePure::from_bytes(&std::fs::read(path).ok()?).ok()?;
    (found.horizon() == horizon && found.objective() == objective).then_some(found)
}

#[cfg(unix)]
fn others_may_write(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).is_ok_and(|meta| meta.permissions().mode() & 0o022 != 0)
}

#[cfg(not(unix))]
fn others_may_write(_: &Path) -> bool {
    false
}

/// Writes a file, all or nothing.
fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let folder = path.parent().expect("a file in a folder");
    RealDisk.create_folder(folder).context(format_args!("cannot create {}", folder.display()))?;
    if others_may_write(folder) {
        let shown = folder.display();
        return Err(usage(format!("others may write to {shown}, so it would not be read; run `chmod go-w {shown}`")));
    }
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(bytes)?;
    file.persist(path).map_err(std::io::Error::from)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn what_others_may_write_is_not_read() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("found.bin");
        let found = DensePure::search(4, Objective::Max, &mut |_, _| ()).unwrap();
        write(&path, &found.to_bytes()).unwrap();
        let readable = || read(&path, 4, Objective::Max).is_some();
        assert!(readable() && read(&path, 4, Objective::Mean).is_none());
        for place in [path.as_path(), folder.path()] {
            let before = std::fs::metadata(place).unwrap().permissions();
            std::fs::set_permissions(place, PermissionsExt::from_mode(before.mode() | 0o020)).unwrap();
            assert!(!readable() && write(&folder.path().join("other"), b"").is_err() == (place == folder.path()));
            std::fs::set_permissions(place, before).unwrap();
            assert!(readable());
        }
    }
}
