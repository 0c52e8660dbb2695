//! MX: the programming interface and the binary interface of Open-MX's users, over Packhorse.
//!
//! ```text
//!   a program linked with libmyriexpress.so or libopen-mx.so.0
//!        │ mx_isend, mx_test …           │ omx_isend, omx_test …        │ mx_raw_*, mx__*
//!        ▼                               ▼                              ▼
//!       mx ──── both ─────▶ ops ◀────── omx                         internals
//!                            │  handles, pointers, codes, the error handler (`calls`)
//!                            ▼
//!       ports ──▶ port: requests ⇄ packhorse::raw      waiting: who drives, who sleeps      unexpected: the handler
//!                   └──▶ connect ──▶ names: boards, hosts (the table), segment (questions: letter)
//! ```
//!
//! A thin translation: matching, order, repair and progress are the engine's. A board is an interface (`boards`), an endpoint is a named
//! endpoint of that interface's address (PROTOCOL §3.16), so that the kernel says who has an index. What is `unsafe` here is the C
//! boundary. Panics end the process with their message: they cannot cross into C.
//!
//! `survey` is for people: `packhorse mx` shows what programs get, and what open endpoints tell of themselves (`telling`).
//!
//! `caller` calls these functions as a program does, for `packhorse bench`.
//!
//! The shared object is made by `link.sh`, for its symbols have versions. docs/mx.md says how it is used.

pub mod abi;
mod address;
mod boards;
pub mod both;
pub mod caller;
pub mod calls;
mod codes;
mod connect;
mod hosts;
mod info;
pub mod internals;
mod letter;
mod memory;
pub mod mx;
mod names;
pub mod omx;
mod open;
mod ops;
mod port;
mod ports;
mod requests;
mod segment;
mod settings;
pub mod survey;
mod telling;
mod unexpected;
mod waiting;
