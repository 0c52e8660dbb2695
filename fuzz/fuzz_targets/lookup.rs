//! A door and an asker under a script of honest, altered and forged frames.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| packhorse_tests::doors::look_ups(bytes));
