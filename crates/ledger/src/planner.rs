//! A disk cache for factorizations whose search takes minutes.
//!
//! A cached file is checked when it is read: its sensitivity follows from its content, not from its writer. A damaged
//! file, or one that others may write, is ignored and the search runs again. The search is deterministic, so the cache
//! only saves time. A plan identifies the factorization by 128 bits of its content, and noise is bound to the plan, so
//! two files never share noise: a foreign file can only worsen the error of a new stream.

#![expect(clippy::disallowed_methods, reason = "a cache: a file that is lost is computed again")]

use crate::disk::{Disk, RealDisk};
use evertally::mechanism::{LongSearch, Mechanism, MechanismName};
use evertally::plan::{Objective, PlanRequest, Prepared, SearchObserver, SearchProgress};
use evertally_declare::error::{Context, PipelineError, Result, usage};
use evertally_declare::groups::GroupTable;
use evertally_declare::settings::Settings;
use evertally_declare::stream::Stream;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Receives the error if the result of a search could not be cached.
pub type NotCached<'a> = dyn FnMut(PipelineError) + 'a;

/// Every name whose search takes minutes, with its parameters left open.
fn searched_names() -> impl Iterator<Item = (MechanismName, LongSearch)> {
    MechanismName::all_families().filter_map(|family| family.open.zip(family.long_search))
}

/// The longest horizon of a search.
pub fn longest_search() -> u64 {
    searched_names().map(|(_, search)| search.longest).max().unwrap_or(0)
}

/// The stream under the best plan for its request, and its declared groups. Searches report to the
/// [observer](Settings::observed) of the settings.
///
/// # Errors
/// If no plan serves the request, the confidence is out of range, or a search is cancelled.
pub fn plan(settings: Settings, not_cached: &mut NotCached<'_>) -> Result<(Stream, Option<GroupTable>)> {
    let groups = settings.groups();
    let stream = match settings.request.mix() {
        // All of its workloads are planned together.
        Some(_) => settings.plan_workloads()?,
        None => {
            let plan = with_searched(settings.request.clone(), not_cached)?.plan()?;
            settings.planned(plan)?
        }
    };
    Ok((stream, groups))
}

/// Adds the cached factorization to a request for a mechanism whose search takes minutes. Searches report to the
/// observer of the request; factorizations found in the cache report nothing.
///
/// # Errors
/// If the library refuses the search, or it is cancelled.
pub fn with_searched(request: PlanRequest, not_cached: &mut NotCached<'_>) -> Result<PlanRequest> {
    let Some(name) = request.mechanism() else { return Ok(request) };
    let Some(search) = name.family().long_search else { return Ok(request) };
    let objective = (search.objective)(name).unwrap_or(request.objective());
    prepare(request, [(name, search)], objective, not_cached)
}

/// Adds the searched factorizations to the request's mechanisms, if there are any for its horizon.
///
/// # Errors
/// As [`with_searched`].
pub fn with_all_searched(request: PlanRequest, not_cached: &mut NotCached<'_>) -> Result<PlanRequest> {
    let objective = request.objective();
    prepare(request, searched_names(), objective, not_cached)
}

fn prepare(
    request: PlanRequest,
    searches: impl IntoIterator<Item = (MechanismName, LongSearch)>,
    objective: Objective,
    not_cached: &mut NotCached<'_>,
) -> Result<PlanRequest> {
    let (horizon, observer) = (request.horizon(), request.search().observer());
    // The library reports why a horizon is refused.
    let fit = searches.into_iter().filter(|(_, search)| (1..=search.longest).contains(&horizon));
    let found = fit.map(|(name, _)| searched(name, horizon, objective, observer, not_cached));
    let found: Vec<_> = found.collect::<Result<_>>()?;
    if found.is_empty() {
        return Ok(request);
    }
    let search = request.search().clone().with_prepared(Prepared::new(found));
    Ok(request.with_search(search))
}

/// The best factorization of a family whose search takes minutes, from the cache, or from a search whose result is then
/// cached. `name` is any name of the family.
///
/// # Errors
/// If the horizon is out of range, the family has no such search, or the observer cancels it.
pub fn searched(
    name: MechanismName,
    horizon: u64,
    objective: Objective,
    observer: &SearchObserver,
    not_cached: &mut NotCached<'_>,
) -> Result<Arc<dyn Mechanism>> {
    let family = name.family();
    let (Some(open), Some(search)) = (family.open, family.long_search) else {
        return Err(usage(format!("`{name}` has no search whose result is kept")));
    };
    let path = folder().map(|folder| folder.join(format!("{}-{horizon}-{objective}.bin", family.stem)));
    match path.as_deref().and_then(|path| read(path, open, horizon, objective)) {
        Some(found) => Ok(found),
        None => found_and_cached((search, horizon, objective), path.as_deref(), observer, not_cached),
    }
}

/// The result of a search, which is written to a file unless the observer cancels the search, at the latest when it has
/// ended.
fn found_and_cached(
    (search, horizon, objective): (LongSearch, u64, Objective),
    path: Option<&Path>,
    observer: &SearchObserver,
    not_cached: &mut NotCached<'_>,
) -> Result<Arc<dyn Mechanism>> {
    let mut report = |share| match observer.report(SearchProgress::Share(share)) {
        Ok(()) => ControlFlow::Continue(()),
        Err(_) => ControlFlow::Break(()),
    };
    let found = (search.run)(horizon, objective, &mut report)?;
    observer.report(SearchProgress::Share(1.0))?;
    if let Some(path) = path
        && let Err(error) = write(path, &found.bytes)
    {
        not_cached(error);
    }
    Ok(found.mechanism)
}

/// `$EVERTALLY_CACHE`, or else the user's cache folder; `None` if there is neither.
fn folder() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable("EVERTALLY_CACHE")
        .or_else(|| variable("XDG_CACHE_HOME").map(|folder| folder.join("evertally")))
        .or_else(|| variable("HOME").map(|home| home.join(".cache").join("evertally")))
}

/// The mechanism in a file, if it is what `open` asks for.
fn read(path: &Path, open: MechanismName, horizon: u64, objective: Objective) -> Option<Arc<dyn Mechanism>> {
    if others_may_write(path) || path.parent().is_some_and(others_may_write) {
        return None;
    }
    let found = (open.family().long_search?.read)(&std::fs::read(path).ok()?).ok()?;
    (found.horizon() == horizon && open.matches_request(found.name(), objective)).then_some(found)
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
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A search leaves no file if it is cancelled, even by the last question, which follows its end.
    #[test]
    fn cancelled_searches_leave_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("found.bin");
        let (open, search) = searched_names().next().unwrap();
        let asked = Arc::new(AtomicUsize::new(0));
        let run = |most: usize| {
            asked.store(0, Ordering::Relaxed);
            let asked = Arc::clone(&asked);
            let observer = SearchObserver::new(move |_| match asked.fetch_add(1, Ordering::Relaxed) < most {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            });
            let mut not_cached = |error| panic!("{error}");
            found_and_cached((search, 4, Objective::Max), Some(&path), &observer, &mut not_cached)
        };
        let whole = run(usize::MAX).unwrap();
        let questions = asked.load(Ordering::Relaxed);
        assert_eq!(read(&path, open, 4, Objective::Max).unwrap().name(), whole.name());
        std::fs::remove_file(&path).unwrap();
        for most in [0, questions / 2, questions - 2, questions - 1] {
            assert!(run(most).unwrap_err().is_cancelled(), "after {most} of {questions}");
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "after {most} of {questions}");
        }
        assert_eq!(run(questions).unwrap().name(), whole.name());
        assert!(path.exists());
    }

    #[cfg(unix)]
    #[test]
    fn what_others_may_write_is_not_read() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("found.bin");
        let (open, search) = searched_names().next().unwrap();
        let found = (search.run)(4, Objective::Max, &mut |_| ControlFlow::Continue(())).unwrap();
        write(&path, &found.bytes).unwrap();
        let readable = || read(&path, open, 4, Objective::Max).is_some();
        assert!(readable() && read(&path, open, 4, Objective::Mean).is_none());
        assert!(read(&path, open, 5, Objective::Max).is_none());
        for place in [path.as_path(), folder.path()] {
            let before = std::fs::metadata(place).unwrap().permissions();
            std::fs::set_permissions(place, PermissionsExt::from_mode(before.mode() | 0o020)).unwrap();
            assert!(!readable() && write(&folder.path().join("other"), b"").is_err() == (place == folder.path()));
            std::fs::set_permissions(place, before).unwrap();
            assert!(readable());
        }
    }
}
