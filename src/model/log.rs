//! An append-only list that can be read while it grows.

use std::sync::Arc;

/// Items in a sealed chunk. One chunk of ops prints about 1 MiB of JSON, the unit of work of the writer.
pub(crate) const CHUNK: usize = 4096;

/// Grows in chunks; full chunks are shared with readers, never copied or moved.
#[derive(Debug)]
pub(crate) struct Log<T> {
    sealed: Vec<Arc<Vec<T>>>,
    tail: Vec<T>,
}

impl<T> Default for Log<T> {
    fn default() -> Self {
        Self { sealed: Vec::new(), tail: Vec::new() }
    }
}

impl<T: Copy> Log<T> {
    #[inline]
    pub(crate) fn push(&mut self, item: T) {
        if self.tail.len() == CHUNK {
            self.seal();
        }
        self.tail.push(item);
    }

    #[cold]
    fn seal(&mut self) {
        // A log that filled one chunk will fill another: skip the growth by doubling.
        let full = std::mem::replace(&mut self.tail, Vec::with_capacity(CHUNK));
        self.sealed.push(Arc::new(full));
    }

    pub(crate) fn len(&self) -> usize {
        self.sealed.len() * CHUNK + self.tail.len()
    }

    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        match self.sealed.get(index / CHUNK) {
            Some(chunk) => chunk.get(index % CHUNK),
            None => self.tail.get(index.checked_sub(self.sealed.len() * CHUNK)?),
        }
    }

    /// Bytes held, unused capacity included.
    pub(crate) fn bytes(&self) -> usize {
        let chunk = CHUNK * size_of::<T>();
        self.sealed.len() * (chunk + size_of::<usize>() * 6) + self.tail.capacity() * size_of::<T>()
    }

    /// What is there now; copies at most one chunk.
    pub(crate) fn view(&self) -> View<T> {
        let mut chunks = Vec::with_capacity(self.sealed.len() + 1);
        chunks.extend(self.sealed.iter().cloned());
        if !self.tail.is_empty() {
            chunks.push(Arc::new(self.tail.clone()));
        }
        View { chunks, len: self.len() }
    }
}

/// A log as it was at one moment.
#[derive(Debug, Clone)]
pub(crate) struct View<T> {
    chunks: Vec<Arc<Vec<T>>>,
    len: usize,
}

impl<T> View<T> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds items to what is seen, not to the log.
    pub(crate) fn extend(&mut self, items: Vec<T>)
    where
        T: Copy,
    {
        let mut tail = match self.len % CHUNK {
            0 => Vec::new(),
            _ => self.chunks.pop().map_or_else(Vec::new, |last| last.to_vec()),
        };
        self.len += items.len();
        for item in items {
            tail.push(item);
            if tail.len() == CHUNK {
                self.chunks.push(Arc::new(std::mem::take(&mut tail)));
            }
        }
        if !tail.is_empty() {
            self.chunks.push(Arc::new(tail));
        }
    }

    /// The items of chunk `index`, the first of which is item `index * CHUNK`.
    pub(crate) fn chunk(&self, index: usize) -> &[T] {
        &self.chunks[index]
    }

    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        self.chunks.get(index / CHUNK)?.get(index % CHUNK)
    }

    /// The items from `index` on.
    pub(crate) fn from(&self, index: usize) -> impl Iterator<Item = &T> {
        let chunks = self.chunks.get(index / CHUNK..).unwrap_or_default();
        chunks.iter().flat_map(|chunk| chunk.iter()).skip(index % CHUNK)
    }

    /// Every item with its index.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        self.chunks.iter().flat_map(|chunk| chunk.iter()).enumerate()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_stays_as_it_was() {
        let mut log = Log::default();
        for i in 0..CHUNK + 10 {
            log.push(i);
        }
        let view = log.view();
        for i in 0..2 * CHUNK {
            log.push(i);
        }
        assert_eq!(view.len(), CHUNK + 10);
        assert_eq!(view.iter().map(|(_, &v)| v).collect::<Vec<_>>(), (0..CHUNK + 10).collect::<Vec<_>>());
        assert_eq!(view.from(CHUNK + 8).copied().collect::<Vec<_>>(), [CHUNK + 8, CHUNK + 9]);
        assert_eq!(view.from(CHUNK + 10).count() + view.from(9 * CHUNK).count(), 0);
        assert_eq!(view.get(CHUNK + 9), Some(&(CHUNK + 9)));
        assert_eq!(view.get(CHUNK + 10), None);
        assert_eq!(log.len(), 3 * CHUNK + 10);
        assert_eq!(log.get(CHUNK), Some(&CHUNK));
        assert_eq!(log.get(CHUNK + 10), Some(&0));
        assert_eq!(log.get(3 * CHUNK + 10), None);
        for (start, more) in [(CHUNK + 10, 5), (CHUNK + 10, 2 * CHUNK), (0, 3), (CHUNK, 1), (CHUNK - 1, 1)] {
            let mut log = Log::default();
            (0..start).for_each(|i| log.push(i));
            let mut view = log.view();
            view.extend((start..start + more).collect());
            assert_eq!(view.iter().map(|(_, &v)| v).collect::<Vec<_>>(), (0..start + more).collect::<Vec<_>>());
            assert_eq!((view.len(), view.get(start), log.len()), (start + more, Some(&start), start));
        }
    }
}
