mod errors;
pub(super) mod golden;
mod shapes;
mod streams;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use super::*;

/// A folder with files, and helpers to read them.
pub(super) struct Fixture {
    folder: tempfile::TempDir,
    columns: Columns,
    options: ReadOptions,
}

impl Fixture {
    /// Columns `time`, `airport` and `carrier` (groups), `tail` (person), `delay` (value).
    pub(super) fn new() -> Self {
        let columns = Columns {
            time: "time".into(),
            time_of_day: None,
            labels: vec!["airport".into(), "carrier".into()],
            person: Some("tail".into()),
            value: Some("delay".into()),
            filter: Vec::new(),
        };
        Fixture { folder: tempfile::tempdir().unwrap(), columns, options: ReadOptions::default() }
    }

    pub(super) fn columns(mut self, time: &str, labels: &[&str], person: Option<&str>, value: Option<&str>) -> Self {
        self.columns = Columns {
            time: time.into(),
            time_of_day: None,
            labels: labels.iter().map(|s| s.to_string()).collect(),
            person: person.map(String::from),
            value: value.map(String::from),
            filter: Vec::new(),
        };
        self
    }

    pub(super) fn options(mut self, options: ReadOptions) -> Self {
        self.options = options;
        self
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(super) fn file(&self, name: &str, contents: &[u8]) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, contents).unwrap();
        path
    }

    pub(super) fn read(&self, sources: &[PathBuf]) -> anyhow::Result<Vec<String>> {
        let mut rows = Vec::new();
        let summary = self.visit(sources, &AtomicBool::new(false), &mut |event| {
            let mut row = event.position.place.to_string();
            let fields = std::iter::once(event.time()).chain(event.labels()).chain([event.person(), event.value()]);
            for field in fields {
                row.push('|');
                row.push_str(&format!("{field}"));
            }
            rows.push(row);
            Ok(())
        })?;
        assert_eq!(summary, Summary { files: sources.len() as u64, rows: rows.len() as u64 });
        Ok(rows)
    }

    pub(super) fn visit(
        &self,
        sources: &[PathBuf],
        cancelled: &AtomicBool,
        visit: &mut dyn FnMut(&Event<'_>) -> anyhow::Result<()>,
    ) -> anyhow::Result<Summary> {
        for_each_event(sources, &self.columns, &self.options, &(), cancelled, visit)
    }

    /// Reads one file of these bytes.
    pub(super) fn read_bytes(&self, contents: &[u8]) -> anyhow::Result<Vec<String>> {
        self.read(&[self.file("events.csv", contents)])
    }

    /// The error message for one file of these bytes, without the folder.
    pub(super) fn error(&self, contents: &[u8]) -> String {
        self.error_of(&self.file("events.csv", contents))
    }

    pub(super) fn error_of(&self, path: &Path) -> String {
        let error = self.read(&[path.to_owned()]).unwrap_err();
        let error = error.downcast::<PipelineError>().expect("an error of the input");
        assert!(error.input().is_some(), "{error:?}");
        error.to_string().replace(&format!("{}/", self.folder.path().display()), "")
    }
}

pub(super) fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

pub(super) fn zst(data: &[u8]) -> Vec<u8> {
    zstd::encode_all(data, 1).unwrap()
}

/// Whether an error means that the run was cancelled.
pub(super) fn is_cancelled(error: &anyhow::Error) -> bool {
    error.downcast_ref::<PipelineError>().is_some_and(PipelineError::is_cancelled)
}
