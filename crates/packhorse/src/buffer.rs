//! What can be sent and received into.

use std::sync::Arc;

use packhorse_link::mem::Memory;

mod sealed {
    /// Only types of this crate's choosing: their memory must stay where it is while it is lent.
    pub trait Sealed {}
    impl Sealed for Vec<u8> {}
    impl Sealed for Vec<Vec<u8>> {}
    impl Sealed for std::sync::Arc<[u8]> {}
}

/// Memory a request owns until it ends.
///
/// `Vec<u8>` is one piece; `Vec<Vec<u8>>` is gathered or scattered, in order; `Arc<[u8]>` can be sent to many peers at once but
/// not received into.
pub trait Buffer: sealed::Sealed + Send + Sized + 'static {
    #[doc(hidden)]
    fn into_memory(self) -> Memory;
    #[doc(hidden)]
    fn from_memory(memory: Memory) -> Self;
    /// Cuts it to what was received.
    #[doc(hidden)]
    fn cut(&mut self, len: u64);
}

impl Buffer for Vec<u8> {
    fn into_memory(self) -> Memory {
        self.into()
    }

    fn from_memory(memory: Memory) -> Self {
        memory.into_vec()
    }

    fn cut(&mut self, len: u64) {
        self.truncate(usize::try_from(len).unwrap_or(usize::MAX));
    }
}

impl Buffer for Vec<Vec<u8>> {
    fn into_memory(self) -> Memory {
        self.into()
    }

    fn from_memory(memory: Memory) -> Self {
        memory.into_vecs()
    }

    fn cut(&mut self, len: u64) {
        let mut left = len;
        for segment in self {
            segment.truncate(usize::try_from(left).unwrap_or(usize::MAX));
            left -= segment.len() as u64;
        }
    }
}

impl Buffer for Arc<[u8]> {
    fn into_memory(self) -> Memory {
        self.into()
    }

    fn from_memory(memory: Memory) -> Self {
        memory.into_shared()
    }

    fn cut(&mut self, _len: u64) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_cut_in_order() {
        let mut segments = vec![vec![1; 4], vec![2; 4], vec![3; 4]];
        segments.cut(6);
        assert_eq!(segments, [vec![1; 4], vec![2; 2], vec![]]);
    }

    #[test]
    fn every_kind_comes_back_as_it_went() {
        assert_eq!(Vec::<u8>::from_memory(vec![1, 2].into_memory()), [1, 2]);
        let segments = vec![vec![1], vec![2, 3]];
        assert_eq!(Vec::<Vec<u8>>::from_memory(segments.clone().into_memory()), segments);
        let shared: Arc<[u8]> = vec![5; 3].into();
        let back = <Arc<[u8]>>::from_memory(Arc::clone(&shared).into_memory());
        assert!(Arc::ptr_eq(&shared, &back));
    }
}
