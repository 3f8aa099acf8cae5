//! The functions of CPython's stable ABI that the walk needs, found in the process at run time, so that one binary
//! serves every CPython and programs without one.

use std::ffi::{c_char, c_int, c_long, c_longlong, c_ulonglong, c_void};
use std::ptr::NonNull;
use std::sync::OnceLock;

use libloading::os::unix::Library;

/// Any Python object. Only its type is read, which follows the reference count.
#[repr(C)]
pub struct PyObject {
    refcount: isize,
    kind: *mut PyObject,
}

macro_rules! api {
    ($($name:ident: fn($($argument:ty),*) -> $result:ty;)*) => {
        /// CPython's functions, by their names there.
        #[allow(non_snake_case, reason = "the names are CPython's")]
        pub(super) struct Functions {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) -> $result,)*
        }

        impl Functions {
            fn load(process: &Library) -> Option<Self> {
                // SAFETY: the signatures are those of Include/*.h since Python 3.9.
                unsafe {
                    Some(Self { $($name: *process.get(concat!(stringify!($name), "\0").as_bytes()).ok()?,)* })
                }
            }
        }
    };
}

type Ptr = *mut PyObject;

api! {
    Py_IncRef: fn(Ptr) -> ();
    Py_DecRef: fn(Ptr) -> ();
    PyTuple_Size: fn(Ptr) -> isize;
    PyTuple_GetItem: fn(Ptr, isize) -> Ptr;
    PyList_Size: fn(Ptr) -> isize;
    PyList_GetItem: fn(Ptr, isize) -> Ptr;
    PySequence_Tuple: fn(Ptr) -> Ptr;
    PyNumber_Index: fn(Ptr) -> Ptr;
    PyLong_AsLongLongAndOverflow: fn(Ptr, *mut c_int) -> c_longlong;
    PyLong_AsUnsignedLongLong: fn(Ptr) -> c_ulonglong;
    PyFloat_AsDouble: fn(Ptr) -> f64;
    PyUnicode_AsUTF8AndSize: fn(Ptr, *mut isize) -> *const c_char;
    PyUnicode_AsEncodedString: fn(Ptr, *const c_char, *const c_char) -> Ptr;
    PyBytes_AsStringAndSize: fn(Ptr, *mut *mut c_char, *mut isize) -> c_int;
    PyObject_IsTrue: fn(Ptr) -> c_int;
    PyObject_Str: fn(Ptr) -> Ptr;
    PyObject_GetAttrString: fn(Ptr, *const c_char) -> Ptr;
    PyObject_Type: fn(Ptr) -> Ptr;
    PyType_GetFlags: fn(Ptr) -> c_long;
    PyErr_Occurred: fn() -> Ptr;
    PyErr_Clear: fn() -> ();
    PyErr_ExceptionMatches: fn(Ptr) -> c_int;
}

/// `Py_TPFLAGS_LONG_SUBCLASS` and its neighbours (Include/object.h): part of the stable ABI.
const LONG_SUBCLASS: c_long = 1 << 24;
const LIST_SUBCLASS: c_long = 1 << 25;
const TUPLE_SUBCLASS: c_long = 1 << 26;
const UNICODE_SUBCLASS: c_long = 1 << 28;

/// CPython as it is in this process.
pub(super) struct Api {
    pub(super) functions: Functions,
    none: usize,
    tuple: usize,
    list: usize,
    long: usize,
    unicode: usize,
    type_error: usize,
}

static API: OnceLock<Option<Api>> = OnceLock::new();

impl Api {
    pub(super) fn get() -> Option<&'static Api> {
        API.get()?.as_ref()
    }

    /// Whether the exception that is set is a TypeError: what CPython raises for an object of the wrong type, of which
    /// our own words say more.
    pub(super) fn type_error_is_set(&self) -> bool {
        // SAFETY: under the GIL; no exception matches nothing.
        unsafe {
            !(self.functions.PyErr_Occurred)().is_null()
                && (self.functions.PyErr_ExceptionMatches)(self.type_error as Ptr) != 0
        }
    }
}

/// Finds everything, once.
///
/// # Safety
/// Both are live objects of this process's Python, the second a tuple, and the GIL is held.
pub(super) unsafe fn load(none: Ptr, tuple: Ptr) -> bool {
    let load = || {
        let process = Library::this();
        let functions = Functions::load(&process)?;
        let symbol = |name: &[u8]| {
            // SAFETY: only the address is taken.
            unsafe { process.get::<*mut c_void>(name) }.ok().map(|symbol| symbol.into_raw() as usize)
        };
        let api = Api {
            none: symbol(b"_Py_NoneStruct\0")?,
            tuple: symbol(b"PyTuple_Type\0")?,
            list: symbol(b"PyList_Type\0")?,
            long: symbol(b"PyLong_Type\0")?,
            unicode: symbol(b"PyUnicode_Type\0")?,
            // SAFETY: a variable of CPython's that holds the address of the class for as long as the process lives.
            type_error: unsafe { *(symbol(b"PyExc_TypeError\0")? as *const usize) },
            functions,
        };
        // Free-threaded and debug builds lay objects out in another way: then nothing here would hold.
        // SAFETY: two words of live objects, of whatever layout.
        let types = unsafe { ((*none).kind as usize, (*tuple).kind as usize) };
        // SAFETY: live objects, under the GIL.
        let asked = unsafe { ((api.functions.PyObject_Type)(none), (api.functions.PyObject_Type)(tuple)) };
        let plain = none as usize == api.none && types == (asked.0 as usize, asked.1 as usize) && types.1 == api.tuple;
        // SAFETY: PyObject_Type gave these references.
        unsafe {
            (api.functions.Py_DecRef)(asked.0);
            (api.functions.Py_DecRef)(asked.1);
        }
        plain.then_some(api)
    };
    API.get_or_init(load).is_some()
}

/// A borrowed object that something else keeps alive for `'a`.
#[derive(Clone, Copy)]
pub(super) struct Object<'a> {
    pub(super) api: &'static Api,
    pointer: NonNull<PyObject>,
    _owner: std::marker::PhantomData<&'a ()>,
}

impl<'a> Object<'a> {
    /// # Safety
    /// A live object, kept alive for `'a` by someone else; the GIL is held for `'a`.
    pub(super) unsafe fn borrowed(api: &'static Api, pointer: Ptr) -> Object<'a> {
        // A NULL from a caller becomes None, which no conversion takes.
        let pointer = NonNull::new(pointer).unwrap_or_else(|| {
            // SAFETY: the address of a static object of CPython.
            unsafe { NonNull::new_unchecked(api.none as Ptr) }
        });
        Object { api, pointer, _owner: std::marker::PhantomData }
    }

    #[inline]
    pub(super) fn pointer(self) -> Ptr {
        self.pointer.as_ptr()
    }

    #[inline]
    fn kind(self) -> usize {
        // SAFETY: a live object whose layout `load` has checked.
        unsafe { (*self.pointer.as_ptr()).kind as usize }
    }

    /// Asks the processor for the object's first cache lines, before they are needed.
    #[inline]
    pub(super) fn fetch(self, lines: usize) {
        #[cfg(target_arch = "x86_64")]
        for line in 0..lines {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let address = self.pointer.as_ptr().cast::<i8>().wrapping_add(64 * line);
            // SAFETY: a prefetch reads nothing, and any address will do.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(address) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = lines;
    }

    #[inline]
    pub(super) fn is_none(self) -> bool {
        self.pointer.as_ptr() as usize == self.api.none
    }

    fn has_flag(self, flag: c_long) -> bool {
        // SAFETY: the type of a live object.
        unsafe { (self.api.functions.PyType_GetFlags)(self.kind() as Ptr) & flag != 0 }
    }

    #[inline]
    pub(super) fn is_tuple(self) -> bool {
        self.kind() == self.api.tuple || self.has_flag(TUPLE_SUBCLASS)
    }

    #[inline]
    pub(super) fn is_list(self) -> bool {
        self.kind() == self.api.list || self.has_flag(LIST_SUBCLASS)
    }

    #[inline]
    pub(super) fn is_int(self) -> bool {
        self.kind() == self.api.long || self.has_flag(LONG_SUBCLASS)
    }

    #[inline]
    pub(super) fn is_str(self) -> bool {
        self.kind() == self.api.unicode || self.has_flag(UNICODE_SUBCLASS)
    }
}

/// An object with a reference of ours.
pub(super) struct Owned {
    api: &'static Api,
    pointer: NonNull<PyObject>,
}

impl Owned {
    /// Takes over the reference that a function returned; `None` if it returned NULL, with an exception set.
    ///
    /// # Safety
    /// NULL, or a new reference; the GIL is held for the life of the result.
    pub(super) unsafe fn new(api: &'static Api, pointer: Ptr) -> Option<Self> {
        NonNull::new(pointer).map(|pointer| Self { api, pointer })
    }

    /// Another reference to a live object.
    #[inline]
    pub(super) fn share(object: Object<'_>) -> Self {
        // SAFETY: a live object, under the GIL.
        unsafe { (object.api.functions.Py_IncRef)(object.pointer()) };
        Self { api: object.api, pointer: object.pointer }
    }

    #[inline]
    pub(super) fn object(&self) -> Object<'_> {
        Object { api: self.api, pointer: self.pointer, _owner: std::marker::PhantomData }
    }
}

impl Drop for Owned {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: our reference, under the GIL.
        unsafe { (self.api.functions.Py_DecRef)(self.pointer.as_ptr()) };
    }
}
