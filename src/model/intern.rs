//! Byte strings kept once, named by a small number.

use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use super::log::{Log, View};
use crate::error::{Error, Result};

/// Names an interned string; [`NONE`] stands for "absent".
pub(crate) type Id = u32;

/// The id of nothing. The interner never gives it out.
pub(crate) const NONE: Id = 0;

/// Set in ids of an interner that stands beside another one: see [`AsideInterner`].
const ASIDE: Id = 1 << 31;

/// The longest string accepted: 1 GiB.
pub(crate) const MAX_LEN: usize = 1 << 30;

const ARENA: usize = 64 << 10;

#[derive(Debug, Clone, Copy)]
struct Entry {
    chunk: u32,
    offset: u32,
    len: u32,
    /// Printable between JSON quotes as it is.
    clean: bool,
}

/// Slots of the front cache; a program has a few hundred names in use at a time.
const RECENT: usize = 512;
/// With its id and length, a slot fills one cache line.
const RECENT_LEN: usize = 56;

/// A string found lately, with its bytes in place: the table's way to them is four dependent loads.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Recent {
    id: Id,
    len: u32,
    bytes: [u8; RECENT_LEN],
}

/// Grows only; ids stay valid, and views of it can be read while it grows.
#[derive(Debug)]
pub(crate) struct Interner {
    table: HashTable<Id>,
    hasher: RandomState,
    recent: Box<[Recent]>,
    entries: Log<Entry>,
    sealed: Vec<Arc<Vec<u8>>>,
    tail: Vec<u8>,
    large: usize,
}

impl Default for Interner {
    fn default() -> Self {
        let mut this = Self {
            table: HashTable::new(),
            hasher: RandomState::default(),
            // Too long for any string: nothing is found in an empty slot.
            recent: vec![Recent { id: NONE, len: u32::MAX, bytes: [0; RECENT_LEN] }; RECENT].into_boxed_slice(),
            entries: Log::default(),
            sealed: Vec::new(),
            tail: Vec::new(),
            large: 0,
        };
        this.entries.push(Entry { chunk: 0, offset: 0, len: 0, clean: true }); // NONE
        this
    }
}

impl Interner {
    /// The id of `bytes` if they are known.
    #[inline]
    pub(crate) fn find(&mut self, bytes: &[u8]) -> Option<Id> {
        self.find_hashed(bytes, hash(&self.hasher, bytes))
    }

    #[inline]
    fn find_hashed(&mut self, bytes: &[u8], hash: u64) -> Option<Id> {
        // The table takes its bits from both ends of the hash.
        let slot = (hash >> 20) as usize % RECENT;
        let recent = &self.recent[slot];
        if recent.len as usize == bytes.len() && recent.bytes.get(..bytes.len()) == Some(bytes) {
            return Some(recent.id);
        }
        let id = *self.table.find(hash, |&id| self.bytes_of(id) == bytes)?;
        if bytes.len() <= RECENT_LEN {
            let recent = &mut self.recent[slot];
            (recent.id, recent.len) = (id, bytes.len() as u32);
            recent.bytes[..bytes.len()].copy_from_slice(bytes);
        }
        Some(id)
    }

    /// The id of `bytes`, new or known.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if `bytes` is longer than [`MAX_LEN`]; [`Error::OutOfMemory`] past 2^31 strings.
    #[inline]
    pub(crate) fn intern(&mut self, bytes: &[u8]) -> Result<Id> {
        let hash = hash(&self.hasher, bytes);
        match self.find_hashed(bytes, hash) {
            Some(id) => Ok(id),
            None => self.add(bytes, Some(hash)),
        }
    }

    /// A new id for `bytes`, whether or not they are known: for what hardly ever repeats.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<Id> {
        self.add(bytes, None)
    }

    #[cold]
    fn add(&mut self, bytes: &[u8], hash: Option<u64>) -> Result<Id> {
        if bytes.len() > MAX_LEN {
            return Err(Error::invalid(format!(
                "a text of {} bytes is too long: the limit is {MAX_LEN} bytes",
                bytes.len()
            )));
        }
        let id = Id::try_from(self.entries.len())
            .ok()
            .filter(|&id| id < ASIDE)
            .ok_or_else(|| Error::OutOfMemory("a trace holds at most 2^31 different texts".into()))?;
        let (chunk, offset) = self.place(bytes);
        let clean = is_clean(bytes);
        self.entries.push(Entry { chunk, offset, len: bytes.len() as u32, clean });
        if let Some(hash) = hash {
            let Self { table, hasher, entries, sealed, tail, .. } = self;
            table.insert_unique(hash, id, |&id| self::hash(hasher, resolve(entries, sealed, tail, id)));
        }
        Ok(id)
    }

    /// Copies `bytes` into the arena.
    fn place(&mut self, bytes: &[u8]) -> (u32, u32) {
        if bytes.len() > ARENA / 4 {
            // A chunk of its own, before the open one, which keeps its place at the end.
            let open = std::mem::take(&mut self.tail);
            if !open.is_empty() {
                self.sealed.push(Arc::new(open));
            }
            self.large += bytes.len();
            self.sealed.push(Arc::new(bytes.to_vec()));
            return ((self.sealed.len() - 1) as u32, 0);
        }
        if self.tail.len() + bytes.len() > ARENA {
            let full = std::mem::replace(&mut self.tail, Vec::with_capacity(ARENA));
            self.sealed.push(Arc::new(full));
        }
        let offset = self.tail.len() as u32;
        self.tail.extend_from_slice(bytes);
        (self.sealed.len() as u32, offset)
    }

    #[inline]
    fn bytes_of(&self, id: Id) -> &[u8] {
        resolve(&self.entries, &self.sealed, &self.tail, id)
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        self.table.capacity() * 9 / 2 * 8 / 7
            + size_of_val::<[Recent]>(&self.recent)
            + self.entries.bytes()
            + self.sealed.len() * ARENA
            + self.large
            + self.tail.capacity()
    }

    pub(crate) fn view(&self) -> Texts {
        let mut chunks = self.sealed.clone();
        chunks.push(Arc::new(self.tail.clone()));
        Texts { entries: self.entries.view(), chunks, aside: None }
    }
}

/// Strings beside those of a trace, which go with the one document that they are for.
#[derive(Debug, Default)]
pub(crate) struct AsideInterner {
    own: Interner,
}

impl AsideInterner {
    /// The id of `bytes`: that of `kept` if they are known there, which stays as it is.
    ///
    /// # Errors
    /// As [`Interner::intern`].
    pub(crate) fn intern(&mut self, kept: &mut Interner, bytes: &[u8]) -> Result<Id> {
        match kept.find(bytes) {
            Some(id) => Ok(id),
            None => Ok(self.own.intern(bytes)? | ASIDE),
        }
    }

    /// As [`Interner::push`].
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<Id> {
        Ok(self.own.push(bytes)? | ASIDE)
    }

    /// The strings of the trace, and these.
    pub(crate) fn join(self, texts: &mut Texts) {
        texts.aside = Some(Arc::new(self.own.view()));
    }
}

#[inline]
fn hash(hasher: &RandomState, bytes: &[u8]) -> u64 {
    let mut hasher = hasher.build_hasher();
    hasher.write(bytes);
    hasher.finish()
}

#[inline]
fn resolve<'a>(entries: &Log<Entry>, sealed: &'a [Arc<Vec<u8>>], tail: &'a [u8], id: Id) -> &'a [u8] {
    let Some(entry) = entries.get(id as usize) else { return b"" };
    let chunk: &[u8] = sealed.get(entry.chunk as usize).map_or(tail, |c| c);
    &chunk[entry.offset as usize..][..entry.len as usize]
}

/// The strings of an interner as it was at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Texts {
    entries: View<Entry>,
    chunks: Vec<Arc<Vec<u8>>>,
    aside: Option<Arc<Texts>>,
}

impl Texts {
    #[inline]
    fn entry(&self, id: Id) -> (&[u8], bool) {
        if id & ASIDE != 0 {
            return self.aside.as_deref().map_or((b"", true), |aside| aside.entry(id & !ASIDE));
        }
        let Some(entry) = self.entries.get(id as usize) else { return (b"", true) };
        (&self.chunks[entry.chunk as usize][entry.offset as usize..][..entry.len as usize], entry.clean)
    }

    /// How many the trace has, with [`NONE`]: its ids are smaller.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The bytes named `id`, and whether they can stand between JSON quotes as they are.
    #[inline]
    pub(crate) fn get(&self, id: Id) -> (&[u8], bool) {
        self.entry(id)
    }

    /// The bytes named `id`.
    #[inline]
    pub(crate) fn bytes(&self, id: Id) -> &[u8] {
        self.entry(id).0
    }
}

fn is_clean(bytes: &[u8]) -> bool {
    bytes.iter().all(|&b| b >= 0x20 && b != b'"' && b != b'\\')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_stable_and_unique() {
        let mut interner = Interner::default();
        let texts: Vec<String> = (0..20_000).map(|i| format!("name {i}")).collect();
        let ids: Vec<Id> = texts.iter().map(|t| interner.intern(t.as_bytes()).unwrap()).collect();
        let again: Vec<Id> = texts.iter().map(|t| interner.intern(t.as_bytes()).unwrap()).collect();
        assert_eq!(ids, again);
        assert!(!ids.contains(&NONE));
        let view = interner.view();
        for (id, text) in ids.iter().zip(&texts) {
            assert_eq!(view.get(*id), (text.as_bytes(), true));
        }
    }

    #[test]
    fn large_and_small_texts_mix() {
        let mut interner = Interner::default();
        let big = vec![b'x'; 10 << 20];
        let a = interner.intern(b"a").unwrap();
        let b = interner.intern(&big).unwrap();
        let c = interner.intern(b"quote\"").unwrap();
        let d = interner.intern(b"").unwrap();
        let view = interner.view();
        assert_eq!(view.bytes(a), b"a");
        assert_eq!(view.bytes(b), big);
        assert_eq!(view.get(c), (&b"quote\""[..], false));
        assert_eq!(view.get(d), (&b""[..], true));
        assert_eq!(interner.intern(b"a").unwrap(), a);
        assert_ne!(interner.push(b"a").unwrap(), a);
    }
}
