//! The texts that records point to.

use std::collections::HashMap;
use std::ffi::{CStr, c_char};

use super::names;

/// Slots of the cache of addresses.
const ADDRESSES: usize = 256;

/// The names of kernels and markers, copied and made readable once each. The same address may hold another name once a
/// module was loaded anew, so addresses count within one buffer only.
#[derive(Debug)]
pub(super) struct Texts {
    known: HashMap<Box<[u8]>, usize>,
    texts: Vec<String>,
    addresses: Box<[(u64, usize); ADDRESSES]>,
}

impl Default for Texts {
    fn default() -> Self {
        Self { known: HashMap::new(), texts: Vec::new(), addresses: Box::new([(0, 0); ADDRESSES]) }
    }
}

impl Texts {
    pub(super) fn forget_addresses(&mut self) {
        self.addresses.fill((0, 0));
    }

    /// The number of the text at an address; `None` for NULL.
    #[inline]
    pub(super) fn get(&mut self, address: u64) -> Option<usize> {
        if address == 0 {
            return None;
        }
        let slot = (address >> 3) as usize % ADDRESSES;
        let (known, number) = self.addresses[slot];
        if known == address {
            return Some(number);
        }
        let number = self.read(address);
        self.addresses[slot] = (address, number);
        Some(number)
    }

    fn read(&mut self, address: u64) -> usize {
        // SAFETY: CUPTI's own text, which it keeps for as long as the kernel's module, and longer than its records.
        let name = unsafe { CStr::from_ptr(address as usize as *const c_char) }.to_bytes();
        if let Some(&number) = self.known.get(name) {
            return number;
        }
        let number = self.texts.len();
        self.texts.push(names::demangled(name));
        self.known.insert(name.into(), number);
        number
    }

    #[inline]
    pub(super) fn text(&self, number: usize) -> &str {
        self.texts.get(number).map_or("", String::as_str)
    }
}
