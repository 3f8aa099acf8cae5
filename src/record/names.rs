//! Names of spans, for the whole process: interned once, a number on the hot path.

use std::sync::atomic::Ordering;

use hashbrown::HashMap;

use crate::error::{Error, Result};
use crate::sync::shared::{AtomicU8, Mutex, global, lock};
#[cfg(not(loom))]
use crate::sync::{MutexGuard, try_lock};

/// Categories of a process; index 0 is the one without a name.
const CATEGORIES: usize = if cfg!(loom) { 4 } else { 256 };
/// Names of a process, and their bytes: a program that makes up names without end gets the last one for all more.
const MAX_NAMES: usize = 1 << 20;
const MAX_BYTES: usize = 64 << 20;

/// The category of ops, which is number 1.
const OPS: &str = "cpu_op";

/// Whether spans of a category are recorded, by its number.
#[cfg(not(loom))]
static ON: [AtomicU8; CATEGORIES] = [const { AtomicU8::new(1) }; CATEGORIES];
#[cfg(loom)]
global! { static ON: [AtomicU8; CATEGORIES] = std::array::from_fn(|_| AtomicU8::new(1)); }

global! { static NAMES: Mutex<Option<Names>> = Mutex::new(None); }

/// The lock, while the process forks.
#[cfg(not(loom))]
struct Held(std::cell::UnsafeCell<Option<MutexGuard<'static, Option<Names>>>>);
// SAFETY: used by the thread that holds the lock, and in the child of a fork by the one that it has become.
#[cfg(not(loom))]
unsafe impl Sync for Held {}
#[cfg(not(loom))]
static HELD: Held = Held(std::cell::UnsafeCell::new(None));
#[cfg(not(loom))]
thread_local! {
    /// It was this thread that put it there.
    static HOLDS: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// A fork begins: nobody but its thread has the lock until it is over.
pub(super) fn hold() {
    #[cfg(not(loom))]
    for _ in 0..1000 {
        if let Some(guard) = try_lock(&NAMES) {
            // SAFETY: as above.
            unsafe { *HELD.0.get() = Some(guard) };
            HOLDS.set(true);
            return;
        }
        // A signal handler that forks may have interrupted a thread that has it: then it has to do without.
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// The fork is over, in the parent or in the child.
pub(super) fn release() {
    #[cfg(not(loom))]
    if HOLDS.replace(false) {
        // SAFETY: as above. Out of its place before it is given up, since the next fork's may be put there at once.
        let guard = unsafe { (*HELD.0.get()).take() };
        drop(guard);
    }
}

/// A name with its category. Valid in every trace of the process, for as long as it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Name(u32);

#[derive(Debug, Default)]
struct Names {
    categories: Vec<&'static str>,
    texts: Vec<&'static str>,
    known: HashMap<(u8, &'static str), u32, foldhash::fast::RandomState>,
    bytes: usize,
}

fn names<T>(call: impl FnOnce(&mut Names) -> T) -> T {
    let mut names = lock(&NAMES);
    call(names.get_or_insert_with(|| Names { categories: vec!["", OPS], ..Names::default() }))
}

/// Texts live as long as the process: numbers stand for them in records that nobody tracks.
fn forever(text: &str) -> &'static str {
    Box::leak(text.to_owned().into_boxed_str())
}

impl Names {
    fn category(&mut self, text: &str) -> Result<u8> {
        if let Some(known) = self.categories.iter().position(|category| *category == text) {
            return Ok(known as u8);
        }
        if self.categories.len() == CATEGORIES {
            return Err(Error::invalid(format!("category {text:?}: a process may have {}", CATEGORIES - 1)));
        }
        self.categories.push(forever(text));
        Ok((self.categories.len() - 1) as u8)
    }
}

impl Name {
    /// Interns a name. `category` is the document's `cat`; empty for `user_annotation`.
    ///
    /// Takes a lock: do it once for each place in the program. Any thread, but not a signal handler.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for the 256th category.
    pub fn new(name: &str, category: &str) -> Result<Self> {
        names(|names| {
            let category = names.category(category)?;
            if let Some(&known) = names.known.get(&(category, name)) {
                return Ok(Self(u32::from(category) << 24 | known));
            }
            let full = names.texts.len() >= MAX_NAMES || names.bytes + name.len() > MAX_BYTES;
            let text = if full { "(too many names)" } else { name };
            if full && let Some(&known) = names.known.get(&(category, text)) {
                return Ok(Self(u32::from(category) << 24 | known));
            }
            let text = forever(text);
            let index = names.texts.len() as u32;
            names.texts.push(text);
            names.bytes += text.len();
            names.known.insert((category, text), index);
            Ok(Self(u32::from(category) << 24 | index))
        })
    }

    /// A number that a caller keeps.
    pub fn to_bits(self) -> u32 {
        self.0 + 1
    }

    /// The reverse; `None` for a number that stands for no name.
    pub fn from_bits(bits: u32) -> Option<Self> {
        bits.checked_sub(1).map(Self)
    }

    #[inline(always)]
    pub(crate) fn is_on(self) -> bool {
        ON[(self.0 >> 24) as usize].load(Ordering::Relaxed) != 0
    }

    /// Spans of the name are ops, which kernels may point back at.
    #[inline(always)]
    pub(super) fn is_op(self) -> bool {
        self.0 >> 24 == 1
    }

    #[inline(always)]
    pub(super) fn word(self) -> u64 {
        u64::from(self.0) << 32
    }

    #[inline(always)]
    pub(super) fn of_word(word: u64) -> Self {
        Self((word >> 32) as u32)
    }

    pub(super) fn bits(self) -> u32 {
        self.0
    }

    /// Its text and its category; what no name stands for is told so.
    pub(super) fn texts(self) -> (&'static str, &'static str) {
        names(|names| {
            let text = names.texts.get((self.0 & 0xff_ffff) as usize).copied();
            let category = names.categories.get((self.0 >> 24) as usize).copied();
            (text.unwrap_or(UNKNOWN), category.unwrap_or(""))
        })
    }
}

/// The texts of names and of categories from these numbers on.
pub(super) fn since(text: usize, category: usize) -> (Vec<&'static str>, Vec<&'static str>) {
    names(|names| {
        let texts = names.texts.get(text..).unwrap_or_default();
        (texts.to_vec(), names.categories.get(category..).unwrap_or_default().to_vec())
    })
}

/// Names of another process, as its journal tells them.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) texts: Vec<String>,
    pub(crate) categories: Vec<String>,
}

impl Table {
    pub(super) fn texts(&self, name: Name) -> (&str, &str) {
        let text = self.texts.get((name.0 & 0xff_ffff) as usize).map(String::as_str);
        let category = self.categories.get((name.0 >> 24) as usize).map(String::as_str);
        (text.unwrap_or(UNKNOWN), category.unwrap_or(""))
    }
}

/// What no name stands for.
const UNKNOWN: &str = "(unknown name)";

/// Switches the spans of a category on or off, for all traces of the process. Those that are open stay as they are. The
/// empty category is that of names without one.
///
/// # Errors
/// As [`Name::new`].
pub fn enable_category(category: &str, on: bool) -> Result<()> {
    let index = names(|names| names.category(category))?;
    ON[usize::from(index)].store(u8::from(on), Ordering::Relaxed);
    Ok(())
}

/// The byte that says whether a category is on: not 0 for yes. It stays where it is, so that a caller can look at it
/// before it calls.
///
/// # Errors
/// As [`Name::new`].
pub fn category_flag(category: &str) -> Result<&'static AtomicU8> {
    let index = names(|names| names.category(category))?;
    Ok(&ON[usize::from(index)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_number() {
        let name = Name::new("step", "train").expect("interned");
        assert_eq!(Name::new("step", "train").expect("interned"), name);
        assert_ne!(Name::new("step", "").expect("interned"), name);
        assert_eq!(name.texts(), ("step", "train"));
        assert_eq!(Name::from_bits(name.to_bits()), Some(name));
        assert_eq!(Name::from_bits(0), None);
        assert_eq!(Name::from_bits(u32::MAX).map(Name::texts), Some(("(unknown name)", "")));
        assert!(name.is_on() && !name.is_op());
        assert!(Name::new("aten::mm", "cpu_op").expect("interned").is_op());
        enable_category("train", false).expect("known");
        assert!(!name.is_on() && category_flag("train").expect("known").load(Ordering::Relaxed) == 0);
        enable_category("train", true).expect("known");
        assert!(name.is_on());
    }
}
