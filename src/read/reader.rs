//! The bytes of an input: plain or gzip, told apart by their first bytes, from a file or a copied stream.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use flate2::bufread::GzDecoder;

use super::input::Input;
use crate::error::{Error, Result, refused};

/// An input that can be opened as often as needed.
#[derive(Debug)]
pub(crate) struct Stored {
    /// What messages call it.
    pub(crate) name: PathBuf,
    /// A stream's copy, in a file without a name.
    copy: Option<File>,
    /// Bytes as stored, for the progress.
    pub(crate) size: u64,
}

impl Stored {
    /// Looks at the input; copies it if it cannot be read twice.
    pub(crate) fn new(input: Input) -> Result<Self> {
        match input {
            Input::Path(name) => {
                let file = File::open(&name).map_err(Error::io("open", &name))?;
                let data = file.metadata().map_err(Error::io("read the size of", &name))?;
                if data.is_dir() {
                    let source = refused(rustix::io::Errno::ISDIR.raw_os_error(), "it is a folder");
                    return Err(Error::Io { action: "read", path: name, source });
                }
                if data.is_file() {
                    return Ok(Self { name, copy: None, size: data.len() });
                }
                Self::copied(name, file)
            }
            Input::Reader { name, reader } => Self::copied(name.into(), reader),
        }
    }

    /// One that is somewhere else, and is not opened.
    pub(crate) fn elsewhere(name: PathBuf, size: u64) -> Self {
        Self { name, copy: None, size }
    }

    fn copied(name: PathBuf, mut reader: impl Read) -> Result<Self> {
        let mut copy = nameless_file()?;
        let failed = || Error::io("copy", &name);
        let mut head = Vec::new();
        (&mut reader).take(HEAD).read_to_end(&mut head).map_err(failed())?;
        copy.write_all(&head).map_err(failed())?;
        let mut size = head.len() as u64;
        // What is no trace from the start on may be without end, as /dev/zero: its start is enough to say so.
        if may_be_trace(&head) {
            size += io::copy(&mut reader, &mut copy).map_err(failed())?;
        }
        Ok(Self { name, copy: Some(copy), size })
    }

    /// A handle of the stored bytes, at their start.
    pub(crate) fn file(&self) -> Result<File> {
        match &self.copy {
            None => File::open(&self.name).map_err(Error::io("open", &self.name)),
            Some(copy) => {
                let mut file = copy.try_clone().map_err(Error::io("open the copy of", &self.name))?;
                file.seek(SeekFrom::Start(0)).map_err(Error::io("rewind the copy of", &self.name))?;
                Ok(file)
            }
        }
    }

    /// The document's bytes, from its start.
    pub(crate) fn open(&self) -> Result<Source> {
        Source::new(self.file()?, &self.name)
    }
}

/// Bytes of a stream that are looked at before it is copied.
const HEAD: u64 = 64 << 10;

/// Whether bytes could be the first of gzip or of a document.
fn may_be_trace(head: &[u8]) -> bool {
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    let first = text.iter().find(|byte| !matches!(byte, b' ' | b'\n' | b'\r' | b'\t'));
    head.starts_with(&[0x1f, 0x8b]) || first.is_none_or(|byte| matches!(byte, b'{' | b'['))
}

/// A file in the folder for temporary files that has no name there, so that nothing is left when the process dies.
pub(crate) fn nameless_file() -> Result<File> {
    let folder = std::env::temp_dir();
    tempfile::tempfile_in(&folder).map_err(Error::io("create a temporary file in", &folder))
}

/// The bytes of one document as a stream.
pub(crate) struct Source {
    name: PathBuf,
    kind: Kind,
    /// Bytes of JSON given so far.
    offset: u64,
}

enum Kind {
    Plain(File),
    Gzip(Gunzip),
}

impl Source {
    fn new(mut file: File, name: &Path) -> Result<Self> {
        let mut magic = Vec::with_capacity(6);
        (&mut file).take(6).read_to_end(&mut magic).map_err(Error::io("read", name))?;
        let foreign = match &magic[..] {
            [] => Some("the file is empty"),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some("this is zstd; only plain JSON and gzip are read"),
            [0xfd, b'7', b'z', b'X', b'Z', ..] => Some("this is xz; only plain JSON and gzip are read"),
            [b'B', b'Z', b'h', b'1'..=b'9', ..] => Some("this is bzip2; only plain JSON and gzip are read"),
            [4, b'"', b'M', 0x18, ..] => Some("this is lz4; only plain JSON and gzip are read"),
            [b'<', b'!' | b'?' | b'h' | b'H', ..] => Some("this is HTML or XML; only JSON is read"),
            [b'#', ..] => Some("this is text, not JSON; systrace and ftrace logs are not read"),
            [b'P', b'K', 3, 4, ..] => Some("this is a zip archive; only plain JSON and gzip are read"),
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Some("this is UTF-16; JSON must be UTF-8"),
            _ => None,
        };
        if let Some(what) = foreign {
            return Err(Error::Malformed { path: name.into(), offset: 0, what: what.into() });
        }
        file.seek(SeekFrom::Start(0)).map_err(Error::io("rewind", name))?;
        let kind = if magic.starts_with(&[0x1f, 0x8b]) { Kind::Gzip(Gunzip::new(file)) } else { Kind::Plain(file) };
        Ok(Self { name: name.into(), kind, offset: 0 })
    }

    /// Whether the stored bytes are the document itself.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self.kind, Kind::Plain(_))
    }

    /// Skips to this byte of the document, which must not lie behind.
    pub(crate) fn skip_to(&mut self, offset: u64) -> Result<()> {
        if let Kind::Plain(file) = &mut self.kind {
            file.seek(SeekFrom::Start(offset)).map_err(Error::io("seek in", &self.name))?;
            self.offset = offset;
            return Ok(());
        }
        let mut skipped = Vec::new();
        while self.offset < offset {
            skipped.clear();
            let want = (offset - self.offset).min(256 << 10) as usize;
            if self.fill(&mut skipped, want)? == 0 {
                let what = "the document is shorter than when it was read before; is it being written?";
                return Err(Error::Malformed { path: self.name.clone(), offset: self.offset, what: what.into() });
            }
        }
        Ok(())
    }

    /// Appends up to `want` bytes of the document; 0 at its end.
    pub(crate) fn fill(&mut self, buffer: &mut Vec<u8>, want: usize) -> Result<usize> {
        buffer.reserve(want);
        let before = buffer.len();
        let result = match &mut self.kind {
            Kind::Plain(file) => file.take(want as u64).read_to_end(buffer),
            Kind::Gzip(gunzip) => gunzip.take(want as u64).read_to_end(buffer),
        };
        let got = buffer.len() - before;
        self.offset += got as u64;
        match result {
            Ok(n) => Ok(n),
            // What came before the damage counts; the next call meets it again.
            Err(_) if got > 0 => Ok(got),
            Err(source) if self.is_plain() => Err(Error::Io { action: "read", path: self.name.clone(), source }),
            Err(e) => {
                let what = match e.kind() {
                    io::ErrorKind::UnexpectedEof => "the gzip data end too early".into(),
                    _ => format!("damaged gzip data: {e}"),
                };
                Err(Error::Malformed { path: self.name.clone(), offset: self.offset, what })
            }
        }
    }
}

/// Inflates gzip members one after another.
struct Gunzip {
    state: State,
    /// The kind and text of the failure that ended the stream, to be given again.
    failed: Option<(io::ErrorKind, String)>,
}

enum State {
    Member(Box<GzDecoder<BufReader<File>>>),
    Ended,
}

impl Gunzip {
    fn new(file: File) -> Self {
        Self { state: State::Member(Box::new(GzDecoder::new(BufReader::with_capacity(128 << 10, file)))), failed: None }
    }

    fn step(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let State::Member(decoder) = &mut self.state else { return Ok(0) };
            let n = decoder.read(buffer)?;
            if n > 0 || buffer.is_empty() {
                return Ok(n);
            }
            let State::Member(decoder) = std::mem::replace(&mut self.state, State::Ended) else { return Ok(0) };
            let mut rest = decoder.into_inner();
            // Tapes and block devices pad with zeros; gzip and Python skip them.
            let next = loop {
                let bytes = rest.fill_buf()?;
                match bytes.iter().position(|&b| b != 0) {
                    Some(n) => {
                        rest.consume(n);
                        break rest.fill_buf()?[0];
                    }
                    None if bytes.is_empty() => return Ok(0),
                    None => {
                        let n = bytes.len();
                        rest.consume(n);
                    }
                }
            };
            if next != 0x1f {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "something that is not gzip follows the last member",
                ));
            }
            self.state = State::Member(Box::new(GzDecoder::new(rest)));
        }
    }
}

impl Read for Gunzip {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some((kind, text)) = &self.failed {
            return Err(io::Error::new(*kind, text.clone()));
        }
        let result = self.step(buffer);
        if let Err(e) = &result
            && e.kind() != io::ErrorKind::Interrupted
        {
            self.failed = Some((e.kind(), e.to_string()));
        }
        result
    }
}
