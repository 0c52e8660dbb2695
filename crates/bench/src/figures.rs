//! What the patterns of offload find: named numbers, as many as apply.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The name of a figure, in JSON as here but with underscores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// Time of the work alone ÷ time of the same work beside communication.
    Availability,
    /// Time of one slice of work, alone.
    SliceNs,
    /// (T_comm + T_comp − T_total) ÷ T_comm.
    Overlap,
    /// The transfer alone.
    CommNs,
    /// The computation alone.
    CompNs,
    /// Both together.
    TotalNs,
    /// The bare link, one way.
    LinkBytesPerS,
    /// The least of producer alone, consumer alone and bare link.
    LimitBytesPerS,
    /// The producer's rate without communication.
    ProducerAloneBytesPerS,
    /// The consumer's rate without communication.
    ConsumerAloneBytesPerS,
    /// The producer's rate while it filled buffers during the run.
    ProducerBytesPerS,
    /// The consumer's rate while it emptied buffers during the run.
    ConsumerBytesPerS,
    /// One post of a send.
    PostSendNs,
    /// One post of a receive.
    PostRecvNs,
    /// The wait for one message sent and one received.
    WaitNs,
    /// Share of the time that went into the application's own work.
    WorkShare,
    /// Processor time of the process ÷ time passed.
    ProcessShare,
}

impl Figure {
    /// What it is divided by for a plot: times are drawn in ms, rates in GB/s.
    pub fn unit(self) -> f64 {
        match self {
            Self::SliceNs | Self::CommNs | Self::CompNs | Self::TotalNs => 1e6,
            Self::PostSendNs | Self::PostRecvNs | Self::WaitNs => 1e6,
            Self::LinkBytesPerS | Self::LimitBytesPerS => 1e9,
            Self::ProducerAloneBytesPerS | Self::ConsumerAloneBytesPerS => 1e9,
            Self::ProducerBytesPerS | Self::ConsumerBytesPerS => 1e9,
            Self::Availability | Self::Overlap | Self::WorkShare | Self::ProcessShare => 1.0,
        }
    }
}

/// Figures by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Figures(BTreeMap<Figure, f64>);

impl Figures {
    /// These; what is no number is left out, for JSON has no word for it.
    pub fn of(figures: impl IntoIterator<Item = (Figure, f64)>) -> Self {
        Self(figures.into_iter().filter(|(_, value)| value.is_finite()).collect())
    }

    /// The value of one.
    pub fn get(&self, figure: Figure) -> Option<f64> {
        self.0.get(&figure).copied()
    }

    /// What is not there yet is taken from these.
    pub fn add(&mut self, others: &Self) {
        for (&figure, &value) in &others.0 {
            self.0.entry(figure).or_insert(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_add_up_and_keep_to_numbers() {
        let mut ours = Figures::of([(Figure::Overlap, 0.9), (Figure::CommNs, f64::NAN)]);
        ours.add(&Figures::of([(Figure::Overlap, 0.1), (Figure::CommNs, 5.0)]));
        assert_eq!((ours.get(Figure::Overlap), ours.get(Figure::CommNs)), (Some(0.9), Some(5.0)));
        assert_eq!(serde_json::to_string(&ours).unwrap(), r#"{"overlap":0.9,"comm_ns":5.0}"#);
    }
}
