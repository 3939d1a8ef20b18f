//! A folder to which released rows are written, one file of Parquet for each publication.

use super::store::SourceFolder;
use crate::{Address, Sink, SinkContent, SinkMemory, SourceError, SourceOptions, SourcePosition, blocking};
use async_trait::async_trait;
use evertally_declare::error::{Result, failure, usage};
use evertally_ledger::disk::{Access, RealDisk, replace};
use evertally_tables::input::put_object;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use std::io;
use std::path::Path;

/// Characters of names of streams that are kept in names of files.
const KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_');

/// The sink.
struct ParquetFolder {
    store: SourceFolder,
    /// The beginning of all names.
    prefix: String,
}

/// Opens a sink by its URL, a folder, for a stream with a name.
///
/// # Errors
/// If the URL is invalid, or options do not fit.
pub(crate) fn open(url: &str, address: &Address, stream: &str, options: &SourceOptions) -> Result<Box<dyn Sink>> {
    address.query.refuse_others(&[])?;
    if !url.ends_with('/') {
        return Err(usage(format!("the URL {url} names one object; end it with a slash to write into a folder")));
    }
    if options.password_file.is_some() || options.authority.is_some() || options.client.is_some() {
        return Err(usage(
            "stores have no password file, authority and certificate; set the variables of the store, such as \
             AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and SSL_CERT_FILE for a private authority",
        ));
    }
    Ok(Box::new(ParquetFolder {
        store: SourceFolder::new(url)?,
        prefix: utf8_percent_encode(stream, KEPT).to_string(),
    }))
}

#[async_trait]
impl Sink for ParquetFolder {
    fn shown(&self) -> String {
        self.store.shown()
    }

    fn content(&self) -> SinkContent {
        SinkContent::Parquet
    }

    /// The same file is written under the same name again.
    fn memory(&self) -> SinkMemory {
        SinkMemory::Caller
    }

    async fn last(&mut self) -> Result<Option<SourcePosition>, SourceError> {
        Ok(None)
    }

    async fn write(&mut self, _after: Option<&str>, rows: &[u8], position: &str) -> Result<(), SourceError> {
        let publication = position.split(' ').next().and_then(|number| number.parse::<u64>().ok());
        let publication = publication.ok_or_else(|| failure("a position begins with the number of a publication"))?;
        let name = format!("{}-{publication:010}.parquet", self.prefix);
        let (store, rows) = (self.store.clone(), rows.to_vec());
        let written = blocking(move || Ok::<_, SourceError>(write(&store, &name, rows))).await?;
        let shown = self.shown();
        written.map_err(|error| SourceError::Away(format!("cannot write to {shown}: {}", problem_of(&error))))
    }
}

fn write(store: &SourceFolder, name: &str, bytes: Vec<u8>) -> io::Result<()> {
    match store {
        SourceFolder::Url(url) => put_object(Path::new(&format!("{url}{name}")), bytes),
        SourceFolder::Folder(folder) => replace(&RealDisk, &folder.join(name), &Access::Usual, &mut &bytes[..]),
    }
}

/// The problem in words: that of a store is the cause of the error.
fn problem_of(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => format!("the folder does not exist; create it ({error})"),
        _ => error.get_ref().map_or_else(|| error.to_string(), ToString::to_string),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open_sink;

    #[tokio::test]
    async fn each_publication_is_a_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let url = format!("file://{}/", folder.path().display());
        let mut sink = open_sink(&url, "a/b ..", &SourceOptions::default()).expect("valid");
        for (position, rows) in [("7 aa", "x"), ("8 bb", "y"), ("7 aa", "x")] {
            sink.write(None, rows.as_bytes(), position).await.expect("written");
        }
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect("a file");
        assert_eq!(read("a%2Fb%20%2E%2E-0000000007.parquet"), "x");
        assert_eq!(read("a%2Fb%20%2E%2E-0000000008.parquet"), "y");
        assert_eq!(std::fs::read_dir(folder.path()).expect("readable").count(), 2);
        drop(folder);
        let Err(SourceError::Away(why)) = sink.write(None, b"x", "9 cc").await else { panic!("not away") };
        assert!(why.contains("the folder does not exist"), "{why}");
    }

    #[test]
    fn urls() {
        let options = SourceOptions { password_file: Some("/p".into()), ..SourceOptions::default() };
        for (url, options, why) in [
            ("s3://bucket/folder", SourceOptions::default(), "end it with a slash"),
            ("s3://bucket/folder/?format=csv", SourceOptions::default(), "no parameter `format`"),
            ("file:///folder/", options, "AWS_ACCESS_KEY_ID"),
        ] {
            let error = open_sink(url, "visits", &options).err().expect(url).to_string();
            assert!(error.contains(why), "{url}: {error}");
        }
    }
}
