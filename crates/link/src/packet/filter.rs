//! Which frames the kernel queues for an endpoint: a program of classic BPF, made here.
//!
//! ```text
//!   sent to this interface?  ─ no ─▶ drop      a tag of a VLAN that nobody here is on makes it another's, too
//!   our EtherType?           ─ no ─▶ drop
//!   this endpoint's number?  ─ no ─▶ drop      or, for who asked for it, everybody's
//!   take all of it
//! ```
//!
//! It is attached before the socket is bound, so nothing else is ever queued. Who is handed the socket finds in the program
//! which endpoint it is for.

use crate::ether::{self, ETHERTYPE, EVERYBODY};

// Classic BPF: load half or whole word, compare, return.
const LOAD_HALF: u16 = (libc::BPF_LD | libc::BPF_H | libc::BPF_ABS) as u16;
const LOAD_WORD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const JUMP_IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const JUMP_IF_ABOVE: u16 = (libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
/// Where the kernel shows to whom a frame was sent: PACKET_HOST, PACKET_BROADCAST and above.
const SENT_TO: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE) as u32;
const ETHERTYPE_AT: u32 = ether::ETHERTYPE_AT as u32;
const ENDPOINT_AT: u32 = ether::TO_AT as u32;
/// Where in the program the endpoint's number stands.
const NUMBER_AT: usize = 5;
const INSTRUCTION_COUNT: usize = 9;

/// The program for an endpoint.
pub(super) fn program(endpoint: u32, broadcast: bool) -> [libc::sock_filter; INSTRUCTION_COUNT] {
    let op = |code: u16, k: u32, jt: u8, jf: u8| libc::sock_filter { code, jt, jf, k };
    let sent_to_max = if broadcast { libc::PACKET_BROADCAST } else { libc::PACKET_HOST };
    // BPF reads numbers as big-endian.
    let number = endpoint.swap_bytes();
    let all = if broadcast { EVERYBODY } else { number };
    [
        op(LOAD_WORD, SENT_TO, 0, 0),
        op(JUMP_IF_ABOVE, u32::from(sent_to_max), 6, 0),
        op(LOAD_HALF, ETHERTYPE_AT, 0, 0),
        op(JUMP_IF_EQUAL, u32::from(ETHERTYPE), 0, 4),
        op(LOAD_WORD, ENDPOINT_AT, 0, 0),
        op(JUMP_IF_EQUAL, number, 1, 0),
        op(JUMP_IF_EQUAL, all, 0, 1),
        op(RETURN, u32::MAX, 0, 0),
        op(RETURN, 0, 0, 0),
    ]
}

/// The endpoint that a program was made for, and whether it hears what is sent to all; `None` if it is none of ours.
pub(super) fn made_for(found: &[libc::sock_filter]) -> Option<(u32, bool)> {
    let endpoint = found.get(NUMBER_AT)?.k.swap_bytes();
    let is_same = |broadcast: &bool| {
        let ours = program(endpoint, *broadcast);
        ours.len() == found.len()
            && ours
                .iter()
                .zip(found)
                .all(|(a, b)| (a.code, a.jt, a.jf, a.k) == (b.code, b.jt, b.jf, b.k))
    };
    [false, true].into_iter().find(is_same).map(|broadcast| (endpoint, broadcast))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ether::{Station, header};

    /// What the kernel does with such a program; how many bytes it would take.
    fn run(program: &[libc::sock_filter], frame: &[u8], sent_to: u8) -> u32 {
        let (mut at, mut register) = (0, 0);
        loop {
            let op = program[at];
            at += 1;
            let start = op.k as usize;
            match op.code {
                LOAD_WORD if op.k == SENT_TO => register = u32::from(sent_to),
                LOAD_WORD => match frame.get(start..start + 4) {
                    Some(bytes) => register = u32::from_be_bytes(bytes.try_into().unwrap()),
                    None => return 0, // as the kernel has it
                },
                LOAD_HALF => match frame.get(start..start + 2) {
                    Some(bytes) => register = u16::from_be_bytes(bytes.try_into().unwrap()).into(),
                    None => return 0,
                },
                JUMP_IF_EQUAL => at += usize::from(if register == op.k { op.jt } else { op.jf }),
                JUMP_IF_ABOVE => at += usize::from(if register > op.k { op.jt } else { op.jf }),
                RETURN => return op.k,
                code => panic!("no instruction {code:#x}"),
            }
        }
    }

    fn frame(endpoint: u32) -> Vec<u8> {
        let place = |endpoint| Station { mac: [2; 6], endpoint };
        let mut bytes = header(&place(endpoint), &place(9), 8).to_vec();
        bytes.resize(60, 0);
        bytes
    }

    #[test]
    fn an_endpoint_gets_its_own_frames_only() {
        let own = program(0x1a2b_3c4d, false);
        let taken = |bytes: &[u8], sent_to| run(&own, bytes, sent_to) > 0;
        assert!(taken(&frame(0x1a2b_3c4d), libc::PACKET_HOST));
        assert!(!taken(&frame(0x4d3c_2b1a), libc::PACKET_HOST), "backwards");
        assert!(!taken(&frame(1), libc::PACKET_HOST));
        assert!(!taken(&frame(EVERYBODY), libc::PACKET_BROADCAST));
        for sent_to in [libc::PACKET_BROADCAST, libc::PACKET_MULTICAST, libc::PACKET_OTHERHOST] {
            assert!(!taken(&frame(0x1a2b_3c4d), sent_to), "{sent_to}");
        }
        let mut foreign = frame(0x1a2b_3c4d);
        foreign[13] = 0;
        assert!(!taken(&foreign, libc::PACKET_HOST), "another EtherType");
        for len in 0..18 {
            assert!(!taken(&frame(0x1a2b_3c4d)[..len], libc::PACKET_HOST), "{len} bytes");
        }
    }

    #[test]
    fn who_asks_for_it_hears_what_is_sent_to_all() {
        let own = program(77, true);
        assert!(run(&own, &frame(EVERYBODY), libc::PACKET_BROADCAST) > 0);
        assert!(run(&own, &frame(77), libc::PACKET_HOST) > 0);
        assert_eq!(run(&own, &frame(78), libc::PACKET_BROADCAST), 0);
        assert_eq!(run(&own, &frame(77), libc::PACKET_OTHERHOST), 0);
    }

    #[test]
    fn a_program_tells_whom_it_was_made_for() {
        for made in [(1, false), (1, true), (0xfeed_beef, false), (0xfeed_beef, true)] {
            assert_eq!(made_for(&program(made.0, made.1)), Some(made));
        }
        let mut other = program(5, false);
        other[3].k = 0x0800;
        assert_eq!(made_for(&other), None);
        assert_eq!(made_for(&[]), None);
    }
}
