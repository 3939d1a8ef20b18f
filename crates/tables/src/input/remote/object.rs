//! Objects of stores: S3, Google Cloud Storage, Azure Blob Storage, and those that speak their protocols.

use super::address::{Address, ObjectStamp, Protocol};
use super::client::{Connector, LastAnswer, METADATA_HOSTS, innermost, unreachable};
use super::settings::ConnectionSettings;
use bytes::{Buf, Bytes};
use evertally_declare::error::ReadProblem;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::path::Path as ObjectName;
use object_store::{GetOptions, GetRange, GetResult, ObjectMeta, ObjectStore, PutMode, PutOptions};
use std::io::{self, Read};
use tokio::runtime::Runtime;

/// How often a download is resumed without progress. The library resumes it more often, but only in its first minutes.
const MAX_RESUMES: usize = 2;

/// Bytes that count as progress.
const PROGRESS_BYTES: u64 = 1 << 20;

/// A bucket or container.
pub(super) struct Container {
    store: Box<dyn ObjectStore>,
    /// On the thread that reads.
    runtime: Runtime,
    protocol: Protocol,
    connector: Connector,
    settings: ConnectionSettings,
}

impl Container {
    pub(super) fn new(address: &Address<'_>, settings: &ConnectionSettings) -> Result<Self, ReadProblem> {
        let (protocol, connector) = (address.protocol, Connector::new(settings)?);
        settings.check(match protocol {
            Protocol::S3 => "AWS_",
            Protocol::Google => "GOOGLE_",
            Protocol::Azure | Protocol::Web => "AZURE_",
        })?;
        let store =
            build(address, settings, &connector).map_err(|error| problem(&error, &LastAnswer::default(), protocol))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let runtime = runtime.map_err(|error| ReadProblem(format!("it cannot be read ({error})")))?;
        Ok(Self { store, runtime, protocol, connector, settings: settings.clone() })
    }

    /// An object from its start.
    pub(super) fn open(self, name: &str) -> Result<ObjectReader, ReadProblem> {
        let name = parsed(name)?;
        let found = self.get(&name, GetOptions::default())?;
        let stamp = stamp_of(&found.meta);
        // The library resumes interrupted downloads, and recognises another version only by a strong tag.
        if stamp.tag.as_ref().is_some_and(|tag| tag.starts_with("W/")) {
            let problem = "the store does not tell versions of this object apart (its entity tag is weak); download \
                           it, and read the file";
            return Err(ReadProblem(problem.into()));
        }
        let stream = found.into_stream();
        Ok(ObjectReader {
            store: self,
            name,
            stamp,
            stream,
            chunk: Bytes::new(),
            received: 0,
            resumes: 0,
            resumed_at: 0,
        })
    }

    /// The stamp of an object; `None` if it does not exist.
    pub(super) fn stamp(&self, name: &str) -> Result<Option<ObjectStamp>, ReadProblem> {
        match self.runtime.block_on(self.store.get_opts(&parsed(name)?, GetOptions::default().with_head(true))) {
            Ok(found) => Ok(Some(stamp_of(&found.meta))),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.problem(&error)),
        }
    }

    /// The objects in a folder, each with its name after the folder's and its stamp, in byte order; if `deep`, with
    /// those in folders in it. The folder's name ends in a slash, or is empty.
    pub(super) fn list(&self, folder: &str, deep: bool) -> Result<Vec<(String, ObjectStamp)>, ReadProblem> {
        let prefix = if folder.is_empty() { ObjectName::ROOT } else { parsed(folder)? };
        let found: object_store::Result<Vec<ObjectMeta>> = self.runtime.block_on(async {
            if !deep {
                return Ok(self.store.list_with_delimiter(Some(&prefix)).await?.objects);
            }
            let (mut listed, mut objects) = (self.store.list(Some(&prefix)), Vec::new());
            while let Some(object) = listed.next().await {
                objects.push(object?);
            }
            Ok(objects)
        });
        let found = found.map_err(|error| self.problem(&error))?;
        let name = |object: &ObjectMeta| {
            let rest = object.location.as_ref().strip_prefix(folder)?;
            Some((rest.to_owned(), stamp_of(object))).filter(|(name, _)| !name.is_empty())
        };
        let mut names: Vec<(String, ObjectStamp)> = found.iter().filter_map(name).collect();
        names.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(without_markers(names))
    }

    /// Writes an object.
    pub(super) fn put(&self, name: &str, bytes: Bytes) -> Result<(), ReadProblem> {
        let put = self.runtime.block_on(self.store.put_opts(&parsed(name)?, bytes.into(), PutOptions::default()));
        put.map(drop).map_err(|error| self.problem(&error))
    }

    /// Writes an object unless one of the same name exists; returns whether it was written.
    pub(super) fn create(&self, name: &str, bytes: Bytes) -> Result<bool, ReadProblem> {
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        match self.runtime.block_on(self.store.put_opts(&parsed(name)?, bytes.into(), options)) {
            Ok(_) => Ok(true),
            Err(object_store::Error::AlreadyExists { .. }) => Ok(false),
            Err(error) => Err(self.problem(&error)),
        }
    }

    /// The bytes of an object, which fit into memory; `None` if it does not exist.
    pub(super) fn bytes(&self, name: &str) -> Result<Option<Bytes>, ReadProblem> {
        let name = parsed(name)?;
        let found = self.runtime.block_on(async {
            let found = self.store.get_opts(&name, GetOptions::default()).await?;
            found.bytes().await
        });
        match found {
            Ok(bytes) => Ok(Some(bytes)),
            // Not that of a bucket that does not exist.
            Err(error @ object_store::Error::NotFound { .. }) if !is_of_container(&error) => Ok(None),
            Err(error) => Err(self.problem(&error)),
        }
    }

    /// The names of the objects directly in a folder, and of the folders in it, sorted.
    pub(super) fn names(&self, folder: &str) -> Result<Vec<String>, ReadProblem> {
        let prefix = if folder.is_empty() { ObjectName::ROOT } else { parsed(folder)? };
        let found = self.runtime.block_on(self.store.list_with_delimiter(Some(&prefix)));
        let found = found.map_err(|error| self.problem(&error))?;
        let objects = found.objects.iter().map(|object| &object.location);
        let name = |path: &ObjectName| Some(path.filename()?.to_owned());
        let mut names: Vec<String> = objects.chain(&found.common_prefixes).filter_map(name).collect();
        names.sort();
        Ok(names)
    }

    /// Removes the objects in a folder and in folders in it.
    pub(super) fn remove_all(&self, folder: &str) -> Result<(), ReadProblem> {
        let prefix = parsed(folder)?;
        let removed: object_store::Result<()> = self.runtime.block_on(async {
            let (mut listed, mut found) = (self.store.list(Some(&prefix)), Vec::new());
            while let Some(object) = listed.next().await {
                found.push(Ok(object?.location));
            }
            let mut removed = self.store.delete_stream(futures_util::stream::iter(found).boxed());
            while let Some(one) = removed.next().await {
                match one {
                    Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        });
        removed.map_err(|error| self.problem(&error))
    }

    fn get(&self, name: &ObjectName, options: GetOptions) -> Result<GetResult, ReadProblem> {
        self.runtime.block_on(self.store.get_opts(name, options)).map_err(|error| self.problem(&error))
    }

    fn problem(&self, error: &object_store::Error) -> ReadProblem {
        problem(error, &self.connector.last_answer(), self.protocol)
    }
}

fn build(
    address: &Address<'_>,
    settings: &ConnectionSettings,
    connector: &Connector,
) -> object_store::Result<Box<dyn ObjectStore>> {
    Ok(match address.protocol {
        Protocol::S3 => {
            let builder = AmazonS3Builder::new().with_url(address.store).with_retry(settings.retries());
            let options = settings.options("AWS_");
            let builder = options.fold(builder, |builder, (key, value)| builder.with_config(key, value));
            Box::new(builder.with_http_connector(connector.clone()).build()?)
        }
        Protocol::Google => {
            let builder = GoogleCloudStorageBuilder::new().with_url(address.store).with_retry(settings.retries());
            let options = settings.options("GOOGLE_");
            let builder = options.fold(builder, |builder, (key, value)| builder.with_config(key, value));
            Box::new(builder.with_http_connector(connector.clone()).build()?)
        }
        Protocol::Azure | Protocol::Web => {
            let builder = MicrosoftAzureBuilder::new().with_url(address.store).with_retry(settings.retries());
            let options = settings.options("AZURE_");
            let builder = options.fold(builder, |builder, (key, value)| builder.with_config(key, value));
            Box::new(builder.with_http_connector(connector.clone()).build()?)
        }
    })
}

fn parsed(name: &str) -> Result<ObjectName, ReadProblem> {
    if name.is_empty() {
        return Err(ReadProblem("this URL names no object; end it with a slash to read all objects in it".into()));
    }
    // The library drops slashes at both ends, and would read another object.
    if name.starts_with('/') || name.contains("//") {
        let problem = "objects whose names begin with a slash, or have two in a row, cannot be read; copy the object";
        return Err(ReadProblem(problem.into()));
    }
    ObjectName::parse(name).map_err(|error| ReadProblem(format!("this name of an object cannot be used: {error}")))
}

fn stamp_of(meta: &ObjectMeta) -> ObjectStamp {
    ObjectStamp { size: meta.size, tag: meta.e_tag.clone(), modified_seconds: meta.last_modified.timestamp() }
}

/// The names without empty objects that stand for folders, as some tools write them. They are sorted.
fn without_markers(names: Vec<(String, ObjectStamp)>) -> Vec<(String, ObjectStamp)> {
    let is_folder = |name: &str| {
        let inside = format!("{name}/");
        let next = names.partition_point(|(other, _)| *other < inside);
        names.get(next).is_some_and(|(other, _)| other.starts_with(&inside))
    };
    let is_object = |(name, stamp): &&(String, ObjectStamp)| stamp.size > 0 || !is_folder(name);
    names.iter().filter(is_object).cloned().collect()
}

/// The bytes of an object.
pub(super) struct ObjectReader {
    store: Container,
    name: ObjectName,
    stamp: ObjectStamp,
    stream: BoxStream<'static, object_store::Result<Bytes>>,
    chunk: Bytes,
    received: u64,
    /// The resumed downloads since the last progress, which are counted from `resumed_at` on.
    resumes: usize,
    resumed_at: u64,
}

impl ObjectReader {
    pub(super) fn stamp(&self) -> &ObjectStamp {
        &self.stamp
    }

    /// Resumes a download that was interrupted, if the store can still give the same object.
    fn resume(&mut self, interrupted: ReadProblem) -> Result<(), ReadProblem> {
        let may_resume = self.resumes < MAX_RESUMES || self.received >= self.resumed_at + PROGRESS_BYTES;
        let Some(tag) = self.stamp.tag.clone().filter(|_| may_resume) else { return Err(interrupted) };
        if self.received >= self.resumed_at + PROGRESS_BYTES {
            self.resumes = 0;
        }
        self.resumes += 1;
        self.resumed_at = self.received;
        std::thread::sleep(self.store.settings.first_pause);
        let range = Some(GetRange::Offset(self.received));
        let options = GetOptions { range, if_match: Some(tag), ..GetOptions::default() };
        let found = self.store.get(&self.name, options)?;
        if stamp_of(&found.meta) != self.stamp || found.range.start != self.received {
            return Err(ReadProblem(CHANGED.into()));
        }
        self.stream = found.into_stream();
        Ok(())
    }

    fn cut_short(&self, why: &str) -> ReadProblem {
        let (received, size) = (self.received, self.stamp.size);
        ReadProblem(format!("the download ended after {received} of {size} bytes{why}; run again"))
    }
}

impl Read for ObjectReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.chunk.is_empty() {
            match self.store.runtime.block_on(self.stream.next()) {
                Some(Ok(chunk)) => {
                    self.chunk = chunk;
                    self.received += self.chunk.len() as u64;
                    if self.received > self.stamp.size {
                        let problem = format!("the store sent more than the {} bytes of the object", self.stamp.size);
                        return Err(ReadProblem(problem).into());
                    }
                }
                _ if self.received == self.stamp.size => return Ok(0),
                None => self.resume(self.cut_short(""))?,
                Some(Err(error)) => {
                    let why = format!(" ({})", self.store.problem(&error).0);
                    self.resume(self.cut_short(&why))?;
                }
            }
        }
        let length = self.chunk.len().min(buffer.len());
        self.chunk.copy_to_slice(&mut buffer[..length]);
        Ok(length)
    }
}

const CHANGED: &str = "the object was replaced while it was read; run again";

/// An error of a store in words, with the remedy. Texts of the store are left out, except for its short code: some
/// contain parts of the request.
fn problem(error: &object_store::Error, last: &LastAnswer, protocol: Protocol) -> ReadProblem {
    use object_store::Error;
    if last.is_refused {
        return ReadProblem(last.failure.clone().unwrap_or_default());
    }
    let code = code_of(error).map_or_else(String::new, |code| format!(" ({code})"));
    let access = credentials(protocol);
    if METADATA_HOSTS.contains(&&*last.host) {
        return ReadProblem(format!("there are no credentials; {access}"));
    }
    ReadProblem(match (error, last.status) {
        (Error::NotFound { .. }, _) | (_, Some(404)) => {
            format!("there is no such object{code}; check the bucket and the name")
        }
        (Error::InvalidPath { source }, _) => {
            format!("an object in this folder has a name that cannot be read ({source}); name the others one by one")
        }
        (Error::PermissionDenied { .. } | Error::Unauthenticated { .. }, _) | (_, Some(400 | 401 | 403)) => {
            format!("the store denies access{code}; {access}")
        }
        (Error::Precondition { .. }, _) => CHANGED.to_owned(),
        (_, Some(301..=308)) => {
            "the store redirects to another address: set AWS_REGION to the region of the bucket, or AWS_ENDPOINT".into()
        }
        (_, Some(status)) if !(200..300).contains(&status) => {
            format!("the store answered with status {status}{code}; run again later")
        }
        (_, Some(_)) => format!("the answer of the store cannot be used ({})", innermost(error)),
        _ => match &last.failure {
            Some(failure) => unreachable(&last.host, failure),
            None => format!("it cannot be read ({}); {access}", innermost(error)),
        },
    })
}

/// The short code of an error, which stores of all kinds write in this element.
fn code_of(error: &object_store::Error) -> Option<String> {
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        let text = error.to_string();
        if let Some((code, _)) = text.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>"))
            && code.len() <= 64
            && code.bytes().all(|byte| byte.is_ascii_alphanumeric())
        {
            return Some(code.to_owned());
        }
        source = error.source();
    }
    None
}

/// Whether it is the bucket or container that was not found.
fn is_of_container(error: &object_store::Error) -> bool {
    code_of(error).is_some_and(|code| ["NoSuchBucket", "ContainerNotFound"].contains(&&*code))
}

/// Where credentials are read from.
fn credentials(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::S3 => {
            "set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, for temporary keys AWS_SESSION_TOKEN, and for \
             other stores than Amazon's AWS_ENDPOINT; public objects need AWS_SKIP_SIGNATURE=true"
        }
        Protocol::Google => {
            "set GOOGLE_APPLICATION_CREDENTIALS to the JSON file of an account, or run `gcloud auth \
             application-default login`; public objects need GOOGLE_SKIP_SIGNATURE=true"
        }
        Protocol::Azure | Protocol::Web => {
            "set AZURE_STORAGE_ACCOUNT_NAME, and AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_KEY; public objects \
             need AZURE_SKIP_SIGNATURE=true"
        }
    }
}
