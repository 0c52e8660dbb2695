//! The program that tells our packets from all others, written in eBPF instructions.
//!
//! ```text
//!   if the packet is shorter than our header,     pass
//!   if its EtherType is not ours,                 pass      (tagged packets have another one here)
//!   if it is for another endpoint,                pass      (`packet` on the same interface gets its own)
//!   to the socket of the queue it came in; where there is none, pass
//! ```
//!
//! It is assembled here, so that neither clang nor libbpf is needed, and one sees what runs in the kernel.

use crate::ether::{ETHERTYPE, ETHERTYPE_AT, HEADER_LEN, TO_AT};
use crate::sys::bpf::Instruction;

/// `XDP_PASS`: the packet goes on as if there were no program.
const PASS: i32 = 2;
/// `bpf_redirect_map`.
const REDIRECT_MAP: i32 = 51;
/// Offsets in `struct xdp_md`.
const DATA: i16 = 0;
const DATA_END: i16 = 4;
const RX_QUEUE: i16 = 16;

/// Registers: the answer, arguments of calls, one that calls leave alone.
const R0: u8 = 0;
const R1: u8 = 1;
const R2: u8 = 2;
const R3: u8 = 3;
const R4: u8 = 4;
const R6: u8 = 6;

/// Lengths of loads.
#[derive(Clone, Copy)]
enum Width {
    Two = 0x08,
    Four = 0x00,
}

/// Instructions in the order they run, with jumps to one place that is not known until the end.
#[derive(Default)]
struct Assembler {
    code: Vec<Instruction>,
    /// Jumps to `pass`.
    passes: Vec<usize>,
}

impl Assembler {
    fn add(&mut self, code: u8, to: u8, from: u8, offset: i16, constant: i32) {
        let is_little = cfg!(target_endian = "little"); // two bit fields, in the order of the machine
        let registers = if is_little { from << 4 | to } else { to << 4 | from };
        self.code.push(Instruction { code, registers, offset, constant });
    }

    /// `to = from`
    fn copy(&mut self, to: u8, from: u8) {
        self.add(0xbf, to, from, 0, 0);
    }

    /// `to = constant`
    fn set(&mut self, to: u8, constant: i32) {
        self.add(0xb7, to, 0, 0, constant);
    }

    /// `to += constant`
    fn add_constant(&mut self, to: u8, constant: i32) {
        self.add(0x07, to, 0, 0, constant);
    }

    /// `to = *(from + offset)`
    fn load(&mut self, width: Width, to: u8, from: u8, offset: i16) {
        self.add(0x61 | width as u8, to, from, offset, 0);
    }

    /// `to =` the map of this descriptor; takes the room of two instructions.
    fn load_map(&mut self, to: u8, map: i32) {
        const MAP_BY_DESCRIPTOR: u8 = 1;
        self.add(0x18, to, MAP_BY_DESCRIPTOR, 0, map);
        self.add(0, 0, 0, 0, 0);
    }

    /// `if a > b goto pass`
    fn pass_if_greater(&mut self, a: u8, b: u8) {
        self.passes.push(self.code.len());
        self.add(0x2d, a, b, 0, 0);
    }

    /// `if the lower half of a != constant goto pass`
    fn pass_if_not(&mut self, a: u8, constant: u32) {
        self.passes.push(self.code.len());
        self.add(0x56, a, 0, 0, constant as i32);
    }

    fn call(&mut self, function: i32) {
        self.add(0x85, 0, 0, 0, function);
    }

    fn exit(&mut self) {
        self.add(0x95, 0, 0, 0, 0);
    }

    /// Here is `pass`.
    fn end(mut self) -> Vec<Instruction> {
        let here = self.code.len();
        for jump in std::mem::take(&mut self.passes) {
            self.code[jump].offset = (here - jump - 1) as i16; // counted from the next instruction
        }
        self.set(R0, PASS);
        self.exit();
        self.code
    }
}

/// The program for the endpoint of this number, with the map from queues to sockets.
pub(super) fn assemble(number: u32, sockets: i32) -> Vec<Instruction> {
    let mut asm = Assembler::default();
    asm.copy(R6, R1);
    asm.load(Width::Four, R2, R1, DATA);
    asm.load(Width::Four, R3, R1, DATA_END);
    // The verifier lets us read what was compared with the end.
    asm.copy(R4, R2);
    asm.add_constant(R4, HEADER_LEN as i32);
    asm.pass_if_greater(R4, R3);
    // Numbers as this machine reads them from the bytes of the packet.
    asm.load(Width::Two, R4, R2, ETHERTYPE_AT as i16);
    asm.pass_if_not(R4, u16::from_ne_bytes(ETHERTYPE.to_be_bytes()).into());
    asm.load(Width::Four, R4, R2, TO_AT as i16);
    asm.pass_if_not(R4, u32::from_ne_bytes(number.to_le_bytes()));
    asm.load_map(R1, sockets);
    asm.load(Width::Four, R2, R6, RX_QUEUE);
    asm.set(R3, PASS);
    asm.call(REDIRECT_MAP);
    asm.exit();
    asm.end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_lead_to_the_two_instructions_that_pass() {
        let code = assemble(0xffff_fffe, 5);
        let pass = code.len() - 2;
        assert_eq!((code[pass].code, code[pass].constant), (0xb7, PASS));
        assert_eq!(code[pass + 1].code, 0x95);
        let jumps = code.iter().enumerate().filter(|(_, i)| matches!(i.code, 0x2d | 0x56));
        let targets: Vec<_> = jumps.map(|(at, i)| at + 1 + i.offset as usize).collect();
        assert_eq!(targets, [pass; 3]);
        let map = code.iter().position(|i| i.code == 0x18).unwrap();
        assert_eq!((code[map].registers, code[map].constant), (0x11, 5));
        assert_eq!(code[map + 1], Instruction { code: 0, registers: 0, offset: 0, constant: 0 });
    }
}
