//! Moving frames.
//!
//! A frame is bytes here; what they mean is the business of `packhorse-proto`, which this crate does
//! not know. So far there is one network, [`sim`], which lives in virtual time and misbehaves on
//! demand, and [`pcapng`], which writes what it carried to a file that Wireshark opens.

// Later links need system calls and shared rings; they will get named modules that allow it.
#![forbid(unsafe_code)]

pub mod pcapng;
pub mod sim;
