//! Arbitrary bytes for the frame parser, raw and rightly keyed.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| packhorse_tests::frames::frame(bytes));
