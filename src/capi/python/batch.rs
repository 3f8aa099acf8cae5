//! Sequences of Python objects, and what keeps their parts alive while a batch is gathered.

use super::api::{Object, Owned};
use super::value::{self, Answer, Trouble};
use crate::Text;
use crate::capi::status::Failure;
use crate::model::store::Store;

/// Reads events of one kind into a batch, and adds the batch to a store.
pub(super) trait Gather {
    /// What messages call one of them.
    const WHAT: &'static str;
    /// Events in the batch.
    fn len(&self) -> usize;
    /// Reads one event. On failure the batch is as before.
    fn take(&mut self, index: usize, item: Object<'_>) -> Answer<()>;
    /// Adds the batch, in order. Touches no Python object, so that any thread may do it, without the GIL.
    fn add(&mut self, store: &mut Store) -> Result<(), Failure>;
    /// Empties the batch.
    fn clear(&mut self);
}

/// A list or a tuple.
#[derive(Clone, Copy)]
pub(super) struct Items<'a> {
    object: Object<'a>,
    /// The length of a tuple; a list's may change.
    fixed: Option<usize>,
}

impl<'a> Items<'a> {
    #[inline]
    pub(super) fn of(object: Object<'a>) -> Option<Self> {
        if object.is_tuple() {
            // SAFETY: a live tuple under the GIL.
            let len = unsafe { (object.api.functions.PyTuple_Size)(object.pointer()) };
            return Some(Self { object, fixed: Some(usize::try_from(len).unwrap_or(0)) });
        }
        object.is_list().then_some(Self { object, fixed: None })
    }

    #[inline]
    pub(super) fn len(self) -> usize {
        self.fixed.unwrap_or_else(|| {
            // SAFETY: a live list under the GIL.
            let len = unsafe { (self.object.api.functions.PyList_Size)(self.object.pointer()) };
            usize::try_from(len).unwrap_or(0)
        })
    }

    /// The element at `index` as it is now. A list must not lose it while the result is in use.
    #[inline]
    pub(super) fn get(self, index: usize) -> Option<Object<'a>> {
        // SAFETY: within the bounds just asked for.
        (index < self.len()).then(|| unsafe { self.at(index) })
    }

    /// # Safety
    /// `index` is within the bounds now.
    #[inline]
    unsafe fn at(self, index: usize) -> Object<'a> {
        let functions = &self.object.api.functions;
        let get = if self.fixed.is_some() { functions.PyTuple_GetItem } else { functions.PyList_GetItem };
        // SAFETY: a live list or tuple under the GIL, and its own element.
        unsafe { Object::borrowed(self.object.api, get(self.object.pointer(), index as isize)) }
    }

    /// Calls `visit` for each element.
    #[inline]
    pub(super) fn each(self, mut visit: impl FnMut(usize, Object<'_>) -> Answer<()>) -> Answer<()> {
        let (mut index, mut len) = (0, self.len());
        while index < len {
            // SAFETY: within the bounds, which only other Python code could have changed.
            let object = unsafe { self.at(index) };
            if object.is_int() {
                visit(index, object)?;
            } else {
                // What runs Python code may take it out of its list, and change that.
                let held = Owned::share(object);
                visit(index, held.object())?;
                len = self.len();
            }
            index += 1;
        }
        Ok(())
    }
}

/// Any iterable as a tuple of our own, which nobody can change.
#[cold]
pub(super) fn as_tuple(field: &str, wanted: &str, object: Object<'_>) -> Answer<Owned> {
    let functions = &object.api.functions;
    // SAFETY: a live object under the GIL; the result is a new reference.
    match unsafe { Owned::new(object.api, (functions.PySequence_Tuple)(object.pointer())) } {
        Some(tuple) => Ok(tuple),
        // The caller's own iterator failed.
        None if !object.api.type_error_is_set() => Err(Trouble::Raised),
        None => {
            // SAFETY: under the GIL.
            unsafe { (functions.PyErr_Clear)() };
            value::wrong(field, wanted, object)
        }
    }
}

/// A text of a batch: in a Python string or in one of ours, both in [`Keep`].
#[derive(Clone, Copy)]
pub(super) struct RawText {
    start: *const u8,
    len: usize,
}

impl RawText {
    pub(super) const EMPTY: Self = Self { start: std::ptr::null(), len: 0 };

    fn of(bytes: &[u8]) -> Self {
        Self { start: bytes.as_ptr(), len: bytes.len() }
    }

    /// # Safety
    /// The [`Keep`] that it came from has not been cleared, and lives for `'a`.
    #[inline]
    pub(super) unsafe fn get<'a>(self) -> Text<'a> {
        if self.len == 0 {
            return Text(b"");
        }
        // SAFETY: bytes of a string that the caller vouches for.
        Text(unsafe { std::slice::from_raw_parts(self.start, self.len) })
    }
}

/// Keeps what a batch points to.
#[derive(Default)]
pub(super) struct Keep {
    objects: Vec<Owned>,
    strings: Vec<String>,
}

impl Keep {
    /// The event as a tuple that stays until the batch is done.
    #[inline]
    pub(super) fn event<'a>(&mut self, item: Object<'a>) -> Answer<Items<'a>> {
        let kept = if item.is_tuple() { Owned::share(item) } else { as_tuple("it", "a tuple", item)? };
        // SAFETY: the reference stays in `objects` until `clear`, after the batch is flushed.
        let object = unsafe { Object::borrowed(item.api, kept.object().pointer()) };
        self.objects.push(kept);
        Items::of(object).ok_or_else(|| Trouble::Bad("it must be a tuple".to_owned()))
    }

    /// A text that is a field of a kept event.
    #[inline]
    pub(super) fn field(&mut self, field: &str, object: Object<'_>) -> Answer<RawText> {
        match value::text(field, object)? {
            Ok(bytes) => Ok(RawText::of(bytes)),
            Err(repaired) => Ok(self.string(repaired)),
        }
    }

    /// A text from inside a field, which may be a list that loses it.
    #[inline]
    pub(super) fn nested(&mut self, field: &str, object: Object<'_>) -> Answer<RawText> {
        let text = self.field(field, object)?;
        self.objects.push(Owned::share(object));
        Ok(text)
    }

    pub(super) fn string(&mut self, text: String) -> RawText {
        // The bytes stay in place when the vector grows.
        let raw = RawText::of(text.as_bytes());
        self.strings.push(text);
        raw
    }

    /// What `str()` says of an object.
    #[cold]
    pub(super) fn shown(&mut self, object: Object<'_>) -> Answer<String> {
        // SAFETY: a live object under the GIL; the result is a new reference.
        let shown = unsafe { Owned::new(object.api, (object.api.functions.PyObject_Str)(object.pointer())) };
        let Some(shown) = shown else { return Err(Trouble::Raised) };
        Ok(match value::text("it", shown.object())? {
            Ok(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Err(repaired) => repaired,
        })
    }

    pub(super) fn clear(&mut self) {
        self.objects.clear();
        self.strings.clear();
    }
}
