//! Content: what a packet carried that must arrive (PROTOCOL, preamble; §6.2).
//!
//! A packet that is lost is forgotten; its contents go back to their owners, who send them again in their own way.
//! Small and `Copy`, because every packet in flight keeps a few.

/// One thing that must arrive. Indices name slots of the endpoint's tables; `serial` tells a reused slot from the
/// one that was meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// Given up meanwhile (refused, cancelled): nothing to do.
    Void,
    /// `len` bytes of an eager message from `offset`; or a large message's announcement (`len` first bytes).
    Message {
        /// Slot of the outgoing message.
        slot: u32,
        /// Its serial.
        serial: u32,
        /// First byte.
        offset: u32,
        /// Bytes.
        len: u32,
    },
    /// Bytes of a large message.
    Data {
        /// Slot of the outgoing message.
        slot: u32,
        /// Its serial.
        serial: u32,
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u32,
    },
    /// A grant for a message that arrives here.
    Grant {
        /// Slot of the incoming message.
        slot: u32,
        /// Its serial.
        serial: u32,
        /// First byte.
        offset: u64,
        /// Bytes, in frames' payload the grant was cut in; at most u32.
        len: u32,
    },
    /// The end of a message that arrived here.
    Done {
        /// Its number.
        message: u32,
        /// Status byte.
        status: u8,
        /// Bytes that the receive took.
        placed_len: u64,
    },
    /// A message of ours that was cancelled.
    Cancel {
        /// Its number.
        message: u32,
    },
    /// The newest refusal or recall of the row.
    Turn {
        /// Its order.
        order: u16,
    },
    /// A query.
    Query {
        /// Slot of the query.
        query: u32,
    },
    /// An answer to a query; not repeated (the query is).
    Found,
    /// A request of a one-sided operation of ours.
    Request {
        /// Slot of the request.
        slot: u32,
        /// Its serial.
        serial: u32,
    },
    /// What came of a request of the peer's.
    Reply {
        /// Slot of the answer.
        slot: u32,
        /// Its serial.
        serial: u32,
    },
    /// Requests of the peer's that were carried out and asked for nothing.
    Replied {
        /// Number of the first.
        first: u32,
        /// How many, one behind the other.
        count: u16,
    },
    /// Nothing more is wanted of a request of ours.
    End {
        /// Its number.
        number: u32,
    },
    /// An acknowledgement up to here rode along: once it is known to have arrived, older ranges need no repeating.
    AckUpTo {
        /// The path it speaks of.
        path: u8,
        /// The largest packet acknowledged.
        largest: u64,
    },
    /// How far the peer may go on with its streams; always the newest word.
    StreamCredit,
    /// Ping: nothing to repeat.
    Ping,
    /// A padded probe for a longer frame.
    Probe {
        /// The frame's length.
        frame_len: u16,
    },
    /// Goodbye.
    Goodbye,
}

impl Content {
    /// Divides what the packets of a run carried, which is bytes of one message: the first `first_len` of them, and the rest.
    pub(crate) fn cut(self, first_len: u32) -> (Self, Self) {
        match self {
            Self::Message { slot, serial, offset, len } => (
                Self::Message { slot, serial, offset, len: first_len },
                Self::Message { slot, serial, offset: offset + first_len, len: len - first_len },
            ),
            Self::Data { slot, serial, offset, len } => {
                let behind = offset + u64::from(first_len);
                (
                    Self::Data { slot, serial, offset, len: first_len },
                    Self::Data { slot, serial, offset: behind, len: len - first_len },
                )
            }
            other => unreachable!("a run of {other:?}"),
        }
    }

    /// Bytes of the message that the packets of a run carried.
    pub(crate) fn run_len(self) -> u32 {
        match self {
            Self::Message { len, .. } | Self::Data { len, .. } => len,
            other => unreachable!("a run of {other:?}"),
        }
    }
}
