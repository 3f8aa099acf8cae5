//! The file of a journal.

use std::ffi::OsString;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::IntoRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::OFlags;

use super::block::{MAGIC, Sink};
use crate::error::{Error, Result};
use crate::output::Pending;

/// Its owner alone may read it.
const MODE: u32 = 0o600;

/// A file that grows by whole groups of blocks.
#[derive(Debug)]
pub(super) struct JournalFile {
    /// From the root: the process may change its folder.
    path: PathBuf,
    file: Arc<File>,
    /// Its device and number there.
    identity: (u64, u64),
    /// The program has closed it behind our back.
    lost: bool,
    bytes: u64,
    /// It is yet to take the place of another.
    pending: Option<Pending>,
}

impl JournalFile {
    /// A new file at a path where there is none, readable by its owner alone. `%p` in the path stands for the number of
    /// the process.
    pub(super) fn create(path: &Path) -> Result<Self> {
        let path = std::path::absolute(with_pid(path)).map_err(Error::io("create", path))?;
        Self::at(path)
    }

    fn at(path: PathBuf) -> Result<Self> {
        // No other file is opened, nor what a link points to.
        let file = OpenOptions::new().write(true).create_new(true).mode(MODE).open(&path);
        match file {
            Ok(file) => {
                let mut this = Self::of(path, file, None);
                // Nothing but its first line is lost.
                if let Err(error) = this.first_line() {
                    this.remove();
                    return Err(error);
                }
                Ok(this)
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(Error::invalid(format!(
                "{}: is there already. If it is the journal of a run that ended early, recover it with \
                 `tptrace recover`; then remove it, or choose another path",
                path.display()
            ))),
            Err(source) => Err(Error::Io { action: "create", path, source }),
        }
    }

    /// One that is to replace this one; or to have its name, if this one was moved.
    pub(super) fn beside(&self) -> Result<Self> {
        if !self.is_named()? {
            return Self::at(self.path.clone());
        }
        let mut pending = Pending::replacing(&self.path, MODE)?;
        let file = pending.file().try_clone().map_err(Error::io("create a file beside", &self.path))?;
        let mut this = Self::of(self.path.clone(), file, Some(pending));
        this.first_line()?;
        Ok(this)
    }

    fn of(path: PathBuf, file: File, pending: Option<Pending>) -> Self {
        let identity = file.metadata().map(|own| (own.dev(), own.ino())).unwrap_or_default();
        Self { path, file: Arc::new(file), identity, lost: false, bytes: 0, pending }
    }

    fn first_line(&mut self) -> Result<()> {
        (&*self.file).write_all(MAGIC).map_err(Error::io("write", &self.path))?;
        self.bytes = MAGIC.len() as u64;
        Ok(())
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

    /// Whether the path still names this file.
    fn is_named(&self) -> Result<bool> {
        match std::fs::symlink_metadata(&self.path) {
            Ok(found) if self.is(&found) => Ok(true),
            Ok(_) => Err(self.replaced()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(source) => Err(Error::Io { action: "look at", path: self.path.clone(), source }),
        }
    }

    fn is(&self, found: &Metadata) -> bool {
        (found.dev(), found.ino()) == self.identity
    }

    fn replaced(&self) -> Error {
        Error::invalid(format!(
            "{}: another file took the place of the journal; remove it, and the journal is begun anew",
            self.path.display()
        ))
    }

    /// Whether what was written is still there, wherever the file was moved: not if it was removed or made shorter.
    pub(super) fn is_whole(&mut self) -> Result<bool> {
        let own = match self.file.metadata() {
            Ok(own) if self.is(&own) => Some(own),
            _ => self.regain()?,
        };
        Ok(own.is_some_and(|own| own.nlink() > 0 && own.len() >= self.bytes.max(MAGIC.len() as u64)))
    }

    /// Opens it again. Programs that become daemons close all files, and what has its descriptor by now is another's: it is
    /// not written, nor closed once more. `None`: nothing is there, and it is a new one.
    fn regain(&mut self) -> Result<Option<Metadata>> {
        let failed = |source| Error::Io { action: "open again", path: self.path.clone(), source };
        if !self.lost {
            let nothing = File::open("/dev/null").map_err(failed)?;
            match Arc::try_unwrap(std::mem::replace(&mut self.file, Arc::new(nothing))) {
                Ok(file) => _ = file.into_raw_fd(),
                // Another thread is writing: it must not close it either.
                Err(shared) => std::mem::forget(shared),
            }
            self.lost = true;
        }
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
        match OpenOptions::new().write(true).custom_flags(flags).open(&self.path) {
            Ok(file) => {
                let found = file.metadata().map_err(failed)?;
                if !self.is(&found) {
                    return Err(self.replaced());
                }
                (self.file, self.lost) = (Arc::new(file), false);
                Ok(Some(found))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                *self = Self::at(self.path.clone())?;
                Ok(None)
            }
            Err(source) => Err(failed(source)),
        }
    }

    /// Begins it anew, with nothing in it: under its name, if it has lost that.
    ///
    /// # Errors
    /// Another file has its name, or the system refuses.
    pub(super) fn begin_anew(&mut self) -> Result<()> {
        if !self.is_named()? {
            *self = Self::at(self.path.clone())?;
            return Ok(());
        }
        self.bytes = 0;
        let mut file = &*self.file;
        let emptied = file.set_len(0).and_then(|()| file.seek(SeekFrom::Start(0)));
        emptied.map_err(Error::io("write", &self.path))?;
        self.first_line()
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
    pub(super) fn replace(mut self, older: &mut Self) -> Result<()> {
        self.sync()?;
        if let Some(pending) = self.pending.take() {
            pending.commit(false)?;
        }
        *older = self;
        Ok(())
    }

    /// One that is to replace another does not.
    pub(super) fn give_up(self) {
        if self.pending.is_none() {
            self.remove();
        }
    }

    /// Removes the file, and no other that has its name by now.
    pub(super) fn remove(&self) {
        if self.is_named().is_ok_and(|named| named) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Whether both are of one file.
pub(super) fn same(left: &Metadata, right: &Metadata) -> bool {
    (left.dev(), left.ino()) == (right.dev(), right.ino())
}

/// A path need not be UTF-8.
fn with_pid(path: &Path) -> PathBuf {
    let pid = std::process::id().to_string();
    let mut rest = path.as_os_str().as_bytes();
    let mut out = Vec::with_capacity(rest.len() + pid.len());
    while let Some((&first, more)) = rest.split_first() {
        if let Some(after) = rest.strip_prefix(b"%p") {
            out.extend_from_slice(pid.as_bytes());
            rest = after;
        } else {
            out.push(first);
            rest = more;
        }
    }
    OsString::from_vec(out).into()
}
