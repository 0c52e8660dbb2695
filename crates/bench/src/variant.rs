//! What a pattern is varied by, and how a system is set, beyond the length of its messages, link and placement.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

#[cfg(doc)]
use crate::system::Pattern;

/// What the patterns of offload are varied by; what does not apply is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Variant {
    /// Units of work between two polls ([`Pattern::Availability`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice: Option<u64>,
    /// Which side of [`Pattern::DoubleBuf`] is the slow one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<Bound>,
    /// Who computes in [`Pattern::Overlap`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub computing: Option<Computing>,
    /// Percent of its time that the application of [`Pattern::Posts`] wants for itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<u8>,
    /// What is done in [`Pattern::Idle`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rest: Option<Rest>,
    /// Where the two processes of [`Pattern::Waiting`] run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<Cores>,
}

impl Variant {
    /// As in a progress bar, behind the length.
    pub fn label(self) -> String {
        let mut text = String::new();
        if let Some(slice) = self.slice {
            text += &format!(", slices of {slice}");
        }
        if let Some(load) = self.load {
            text += &format!(", {load} % work");
        }
        let names = [
            self.bound.map(|bound| bound.name()),
            self.computing.map(|computing| computing.name()),
            self.rest.map(|rest| rest.name()),
            self.cores.map(|cores| cores.name()),
        ];
        for name in names.into_iter().flatten() {
            text += ", ";
            text += name;
        }
        text
    }
}

/// The slow side of a double buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Bound {
    /// The producer is slow, the consumer three times as fast.
    Producer,
    /// The consumer is slow, the producer three times as fast.
    Consumer,
}

impl Bound {
    /// As a phrase.
    pub fn name(self) -> &'static str {
        match self {
            Self::Producer => "producer-bound",
            Self::Consumer => "consumer-bound",
        }
    }
}

/// Who computes while a message is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Computing {
    /// Its sender, while the receiver waits.
    Sender,
    /// Its receiver, while the sender waits.
    Receiver,
    /// Both, with a message each way, on all cores of the machine.
    All,
}

impl Computing {
    /// As a phrase.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sender => "sender computes",
            Self::Receiver => "receiver computes",
            Self::All => "both compute on all cores",
        }
    }
}

/// Two ways of doing nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Rest {
    /// Open, known to a peer, nothing posted, no call.
    Idle,
    /// In a blocking receive.
    Receive,
}

impl Rest {
    /// As a phrase.
    pub fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Receive => "in a blocking receive",
        }
    }
}

/// Where two processes run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Cores {
    /// Where the system puts them, or each on its own.
    Apart,
    /// Both on one: more ranks than cores.
    One,
}

impl Cores {
    /// As a phrase.
    pub fn name(self) -> &'static str {
        match self {
            Self::Apart => "a core each",
            Self::One => "both on one core",
        }
    }
}

/// How a system is set, beyond link and placement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Manner {
    /// Whether who waits sleeps at once instead of spinning first.
    #[serde(default, skip_serializing_if = "is_false")]
    pub asleep: bool,
    /// What Packhorse's helper may do while the application computes: none, receive, send, both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offload: Option<String>,
    /// Frames still missing when Packhorse's receiver grants more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant_ahead: Option<u32>,
    /// Whether a second thread of Packhorse's copies: off, auto, or from how many bytes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copies: Option<String>,
    /// Whether the consumer of a double buffer says when a buffer is free, as in the paper's Figure 7.
    #[serde(default, skip_serializing_if = "is_false")]
    pub clear_to_send: bool,
    /// Rate of the slow side of a double buffer, bytes a second; 1 GB/s where none is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow_rate: Option<u64>,
    /// Whether both sides are processes of one machine, and have half of its cores each.
    #[serde(default, skip_serializing_if = "is_false")]
    pub shares_machine: bool,
    /// Process that holds the passive side's namespace, where the two are apart on one machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other: Option<u32>,
}

fn is_false(value: &bool) -> bool {
    !value
}
