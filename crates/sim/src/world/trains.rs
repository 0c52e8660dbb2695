//! What a node's driver makes of trains.

/// How a node's driver treats trains. By default it knows none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trains {
    /// Most frames of a train it sends; 0: none.
    pub count_max: usize,
    /// Heads and payload of a train it sends, in bytes.
    pub len_max: usize,
    /// What arrives lands before it is looked at: where it was expected, and now and then where it was not.
    pub lands: bool,
}
