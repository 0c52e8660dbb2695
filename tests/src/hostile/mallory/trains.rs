//! Trains of Mallory's: frames behind each other, rightly keyed, that continue what she heard.

use packhorse_proto::wire::{
    Class, HEADER_LEN, Header, Lane, MessageHead, Record, VERSION, Writer, base_of, seal_high,
};
use packhorse_proto::{Address, Locator};

use super::super::together::Joined;
use super::{Mallory, message, scribble};
use crate::script::Script;

/// Frames in a train of hers: enough of the shortest to be taken for fragments.
const FRAME_COUNT_MAX: usize = 24;
/// Longest payload of a frame.
const PAYLOAD_LEN_MAX: u16 = 1_400;

/// A piece of a message, and the frame in which it was heard.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heard {
    pub(super) from: Locator,
    /// The association, and the number of the packet.
    pub(super) to: u64,
    pub(super) packet: u64,
    pub(super) piece: Piece,
}

/// A piece of a message that needs several frames.
#[derive(Clone, Copy, Debug)]
pub(super) enum Piece {
    /// Of one that nobody asked for.
    Fragment(MessageHead),
    /// Of one that was granted.
    Data { lane: Lane, message: u32, offset: u64, len: u16 },
}

impl Piece {
    /// What a record is a piece of, if it is one.
    pub(super) fn of(record: &Record<'_>, body: &[u8]) -> Option<Self> {
        match *record {
            Record::Message(head) if head.class == Class::Fragment => Some(Self::Fragment(head)),
            Record::Data { lane, message, offset } => {
                Some(Self::Data { lane, message, offset, len: body.len() as u16 })
            }
            _ => None,
        }
    }

    fn any(script: &mut Script<'_>) -> Self {
        let (lane, offset) = (super::lane(script), script.wide());
        Self::Data { lane, message: message(script), offset, len: PAYLOAD_LEN_MAX }
    }

    fn len(&self) -> u16 {
        match self {
            Self::Fragment(head) => head.len,
            Self::Data { len, .. } => *len,
        }
    }

    /// The piece `ahead` bytes behind where this one begins, `len` bytes long.
    fn at(self, ahead: u64, len: u16) -> Self {
        match self {
            Self::Fragment(head) => {
                let offset = head.offset.wrapping_add(ahead as u32);
                Self::Fragment(MessageHead { offset, len, ..head })
            }
            Self::Data { lane, message, offset, .. } => {
                Self::Data { lane, message, offset: offset.wrapping_add(ahead), len }
            }
        }
    }

    fn write(&self, writer: &mut Writer<'_>) {
        match *self {
            Self::Fragment(ref head) => writer.message(head),
            Self::Data { lane, message, offset, len } => writer.data(lane, message, len, offset),
        }
    }
}

impl Mallory {
    /// Frames to `victim` that arrive as one: mostly such as would follow what she heard last.
    pub(in super::super) fn forge_train(
        &mut self,
        victim: &Address,
        script: &mut Script<'_>,
    ) -> Joined {
        let shape = script.byte();
        let receiver = self.receiver(victim);
        let heard = self.pieces[receiver].filter(|_| shape & 0x0F != 0x0F);
        let (from, to, packet, piece) = match heard {
            Some(Heard { from, to, packet, piece }) => (from, to, packet, piece),
            None => {
                let (to, packet) = self.road(victim, script);
                (super::LOCATOR, to, packet, Piece::any(script))
            }
        };
        let plan = Plan::draw(&piece, script);
        let (mut bytes, mut stride) = (Vec::new(), 1);
        for number in 0..plan.count {
            let header = Header { to, packet: packet + 1 + number as u64, path: 0, form: VERSION };
            let piece = plan.piece(piece, number);
            let mut head = Vec::new();
            piece.write(&mut Writer::begin(&mut head, header));
            if plan.odd_one == number {
                scribble(&mut head[HEADER_LEN..], script);
            }
            let len = usize::from(piece.len());
            seal_high(&mut head, len, base_of(packet), &victim.secret, None);
            head.resize(head.len() + len, 0xBE);
            if number == 0 {
                stride = head.len();
            }
            bytes.extend_from_slice(&head);
        }
        // Whoever took these takes none again with their numbers.
        if let Some(heard) = &mut self.pieces[receiver] {
            heard.packet += plan.count as u64;
        }
        Joined { from, bytes, stride }
    }
}

/// The shape of a train.
struct Plan {
    count: usize,
    /// Where it begins, seen from the piece that was heard.
    ahead: u64,
    /// Payload of each frame, and of the last.
    len: u16,
    last_len: u16,
    /// The number of one that says something else, if there are as many.
    odd_one: usize,
}

impl Plan {
    fn draw(heard: &Piece, script: &mut Script<'_>) -> Self {
        let heard_len = heard.len();
        let ahead = match script.below(8) {
            0..=3 => heard_len.into(),
            4..=5 => 0,
            6 => u64::from(heard_len).wrapping_mul(script.byte().into()),
            _ => script.wide(),
        };
        let len = match script.below(8) {
            0..=4 => heard_len,
            5..=6 => 0,
            _ => script.half() % PAYLOAD_LEN_MAX,
        };
        let last_len = if script.flag() { len } else { script.half() % (len + 1) };
        let (count, odd_one) = (1 + script.below(FRAME_COUNT_MAX), script.below(256));
        Self { count, ahead, len, last_len, odd_one }
    }

    fn piece(&self, heard: Piece, number: usize) -> Piece {
        let is_last = number + 1 == self.count;
        let len = if is_last { self.last_len } else { self.len };
        heard.at(self.ahead.wrapping_add(number as u64 * u64::from(self.len)), len)
    }
}
