//! Whole endpoints under a script of commands, faults and forged frames.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| packhorse_tests::hostile::endpoints(bytes));
