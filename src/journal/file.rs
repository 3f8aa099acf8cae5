//! The file of a journal.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::NamedTempFile;

use super::block::{MAGIC, Sink};
use crate::error::{Error, Result};

/// A file that grows by whole groups of blocks.
#[derive(Debug)]
pub(super) struct JournalFile {
    path: PathBuf,
    file: Arc<File>,
    bytes: u64,
    /// It has a name that goes with it.
    temporary: Option<tempfile::TempPath>,
}

impl JournalFile {
    /// A new file at a path where there is none, readable by its owner alone. `%p` in the path stands for the number of
    /// the process.
    pub(super) fn create(path: &Path) -> Result<Self> {
        let path = with_pid(path);
        // No other file is opened, nor what a link points to.
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        match file {
            Ok(file) => Self::begin(path, file, None),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(Error::invalid(format!(
                "{}: is there already. If it is the journal of a run that ended early, recover it with \
                 `tptrace recover`; then remove it, or choose another path",
                path.display()
            ))),
            Err(source) => Err(Error::Io { action: "create", path, source }),
        }
    }

    /// One that is to replace the file at `path`.
    pub(super) fn beside(path: &Path) -> Result<Self> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let named = tempfile::Builder::new().prefix(".tptrace-journal-").tempfile_in(folder);
        let (file, temporary) = named.map(NamedTempFile::into_parts).map_err(|source| Error::Io {
            action: "create a file beside",
            path: path.to_owned(),
            source,
        })?;
        Self::begin(path.to_owned(), file, Some(temporary))
    }

    fn begin(path: PathBuf, mut file: File, temporary: Option<tempfile::TempPath>) -> Result<Self> {
        match file.write_all(MAGIC) {
            Ok(()) => Ok(Self { path, file: Arc::new(file), bytes: MAGIC.len() as u64, temporary }),
            Err(source) => {
                if temporary.is_none() {
                    let _ = std::fs::remove_file(&path);
                }
                Err(Error::Io { action: "write", path, source })
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn handle(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }

    /// Adds what `fill` adds, or nothing.
    pub(super) fn append<T>(&mut self, fill: impl FnOnce(&mut Sink<'_>) -> T) -> Result<T> {
        let failed = |path: &Path, source| Error::Io { action: "write", path: path.to_owned(), source };
        // What a failure before left behind goes, also if it could not go then.
        let mut file = &*self.file;
        if file.stream_position().map_err(|source| failed(&self.path, source))? != self.bytes {
            let cut = file.set_len(self.bytes).and_then(|()| file.seek(SeekFrom::Start(self.bytes)));
            cut.map_err(|source| failed(&self.path, source))?;
        }
        let mut sink = Sink::new(&self.file);
        let result = fill(&mut sink);
        match sink.finish() {
            Ok(bytes) => {
                self.bytes += bytes;
                Ok(result)
            }
            Err(source) => {
                let _ = file.set_len(self.bytes).and_then(|()| file.seek(SeekFrom::Start(self.bytes)));
                Err(failed(&self.path, source))
            }
        }
    }

    /// Waits until the disk has it.
    pub(super) fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(|source| Error::Io { action: "sync", path: self.path.clone(), source })
    }

    /// Takes the place of an older one, on the disk too.
    pub(super) fn replace(mut self, older: &mut Self) -> io::Result<()> {
        self.file.sync_data()?;
        if let Some(temporary) = self.temporary.take() {
            temporary.persist(&self.path).map_err(|error| error.error)?;
        }
        *older = self;
        Ok(())
    }

    pub(super) fn remove(&self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn with_pid(path: &Path) -> PathBuf {
    match path.to_str() {
        Some(text) if text.contains("%p") => PathBuf::from(text.replace("%p", &std::process::id().to_string())),
        _ => path.to_owned(),
    }
}
