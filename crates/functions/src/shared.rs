//! What all listeners of a host share.

use std::sync::Arc;
use std::time::Duration;

use kew_core::Entropy;
use kew_http::RequestId;

use crate::clock::HostClock;
use crate::handler::Handler;
use crate::log::Log;
use crate::project::QueueSettings;
use crate::queue::Queues;
use crate::wakes::Wakes;

/// What all listeners of a host share.
pub(crate) struct Shared {
    pub(crate) queues: Queues,
    pub(crate) handler: Handler,
    pub(crate) settings: QueueSettings,
    pub(crate) run_within: Option<Duration>,
    pub(crate) clock: HostClock,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) log: Log,
    pub(crate) wakes: Wakes,
    /// Whether servers that can are asked to hold a poll.
    pub(crate) waits: bool,
}

impl Shared {
    /// Uniform in [0, 1).
    pub(crate) fn chance(&self) -> f64 {
        f64::from(u32::try_from(self.entropy.bits() >> 32).unwrap_or_default()) / (f64::from(u32::MAX) + 1.0)
    }

    pub(crate) fn id(&self) -> String {
        RequestId::from_chance(self.entropy.wide_bits()).to_string()
    }
}
