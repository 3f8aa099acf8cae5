//! A file that is replaced as a whole, or not at all.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

use crate::error::{Error, Result, refused};

/// Names tried for the temporary file before giving up.
const TRIES: u32 = 64;
/// Symbolic links followed, as the system does.
const LINKS: u32 = 40;

/// A file being written. Dropped before [`Pending::commit`], it leaves nothing behind.
#[derive(Debug)]
pub(crate) struct Pending {
    file: File,
    target: PathBuf,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// Not a regular file: written in place.
    Direct,
    /// A file without a name: gone by itself if this process is killed.
    Nameless,
    /// A file under this name beside the target.
    Named(PathBuf),
}

impl Pending {
    /// Prepares to write `path`.
    pub(super) fn create(path: &Path) -> Result<Self> {
        let given = path;
        if path.as_os_str().is_empty() {
            return Err(Error::invalid("the path is empty"));
        }
        if path.as_os_str().as_encoded_bytes().ends_with(b"/") {
            return Err(Error::invalid(format!("{} names a folder, not a file", path.display())));
        }
        let mode = match fs::metadata(path) {
            Ok(found) if found.is_dir() => {
                return Err(Error::io("write", given)(refused(Errno::ISDIR.raw_os_error(), "it is a folder")));
            }
            Ok(found) if !found.is_file() => {
                // A pipe, a device: there is nothing to replace.
                let file = OpenOptions::new().write(true).open(path).map_err(Error::io("open", given))?;
                return Ok(Self { file, target: path.to_path_buf(), kind: Kind::Direct });
            }
            Ok(found) => {
                let writable = found.mode() & 0o222 != 0 && rustix::fs::access(path, Access::WRITE_OK).is_ok();
                if !writable {
                    return Err(Error::io("replace", given)(refused(
                        Errno::ACCESS.raw_os_error(),
                        "the file is read-only",
                    )));
                }
                Some(found.mode() & 0o7777)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(Error::io("write", given)(error)),
        };
        Self::beside(follow(path)?, given, mode)
    }

    /// Prepares to put a file of this mode at this very path: a link that is there is replaced, and not followed.
    pub(crate) fn replacing(path: &Path, mode: u32) -> Result<Self> {
        Self::beside(path.to_owned(), path, Some(mode))
    }

    /// `mode`: that of the file, if it is not the usual one.
    fn beside(target: PathBuf, given: &Path, mode: Option<u32>) -> Result<Self> {
        let folder = match target.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_path_buf(),
            _ => PathBuf::from("."),
        };
        if !folder.is_dir() {
            let number = if folder.exists() { Errno::NOTDIR } else { Errno::NOENT };
            let error = refused(number.raw_os_error(), &format!("the folder {} does not exist", folder.display()));
            return Err(Error::io("create", given)(error));
        }
        // From its first moment nobody can open it whom the mode keeps out.
        let first = mode.map_or(0o666, |mode| mode & 0o777);
        let (file, kind) = match nameless(&folder, first) {
            Some(file) => (file, Kind::Nameless),
            None => {
                let (name, file) = named(&target, given, first)?;
                (file, Kind::Named(name))
            }
        };
        let this = Self { file, target, kind };
        if let Some(mode) = mode {
            this.file.set_permissions(fs::Permissions::from_mode(mode)).map_err(Error::io("set the mode of", given))?;
        }
        Ok(this)
    }

    pub(crate) fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Puts the file in the target's place. `sync`: and waits until both are on the disk.
    pub(crate) fn commit(mut self, sync: bool) -> Result<()> {
        if sync {
            // Pipes and terminals have nothing to sync.
            match self.file.sync_all() {
                Err(error) if matches!(self.kind, Kind::Direct) && error.kind() == io::ErrorKind::InvalidInput => {}
                done => done.map_err(Error::io("sync", &self.target))?,
            }
        }
        let name = match std::mem::replace(&mut self.kind, Kind::Direct) {
            Kind::Direct => return Ok(()),
            Kind::Named(name) => name,
            Kind::Nameless => self.give_name()?,
        };
        let renamed = fs::rename(&name, &self.target);
        if renamed.is_err() {
            let _ = fs::remove_file(&name);
        }
        renamed.map_err(Error::io("replace", &self.target))?;
        if sync {
            let folder = self.target.parent().filter(|folder| !folder.as_os_str().is_empty());
            let folder = folder.unwrap_or(Path::new("."));
            File::open(folder).and_then(|folder| folder.sync_all()).map_err(Error::io("sync", folder))?;
        }
        Ok(())
    }

    /// A rename needs a name to start from, for a moment.
    fn give_name(&self) -> Result<PathBuf> {
        use std::os::fd::AsRawFd;
        let own = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        for _ in 0..TRIES {
            let name = beside(&self.target);
            match rustix::fs::linkat(CWD, &own, CWD, &name, AtFlags::SYMLINK_FOLLOW) {
                Ok(()) => return Ok(name),
                Err(rustix::io::Errno::EXIST) => {}
                Err(error) => return Err(Error::io("create a file beside", &self.target)(error.into())),
            }
        }
        Err(Error::io("create a file beside", &self.target)(io::ErrorKind::AlreadyExists.into()))
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Kind::Named(name) = &self.kind {
            let _ = fs::remove_file(name);
        }
    }
}

/// The file that a path names once symbolic links are followed, whether it exists or not: the link itself is kept.
fn follow(path: &Path) -> Result<PathBuf> {
    let mut target = path.to_path_buf();
    for _ in 0..LINKS {
        match fs::read_link(&target) {
            Ok(next) => target = target.parent().unwrap_or(Path::new("")).join(next),
            Err(_) => return Ok(target),
        }
    }
    Err(Error::io("follow", path)(io::Error::other("too many symbolic links")))
}

/// A file without a name, on systems and file systems that have them.
fn nameless(folder: &Path, mode: u32) -> Option<File> {
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    // Without /proc it could not be given a name.
    Path::new("/proc/self/fd").is_dir().then_some(())?;
    rustix::fs::open(folder, flags, Mode::from_raw_mode(mode)).ok().map(File::from)
}

/// A new file beside the target. Never one that is there already, nor through a link.
fn named(target: &Path, given: &Path, mode: u32) -> Result<(PathBuf, File)> {
    for _ in 0..TRIES {
        let name = beside(target);
        match OpenOptions::new().write(true).create_new(true).mode(mode).open(&name) {
            Ok(file) => return Ok((name, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Error::io("create a file beside", given)(error)),
        }
    }
    Err(Error::io("create a file beside", given)(io::ErrorKind::AlreadyExists.into()))
}

/// A hidden name in the target's folder that nobody can foresee.
fn beside(target: &Path) -> PathBuf {
    target.with_file_name(format!(".tptrace-{}.tmp", uuid::Uuid::new_v4().simple()))
}
