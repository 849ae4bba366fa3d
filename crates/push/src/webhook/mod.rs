//! The webhook target: a batch is one signed POST, and the reply is its verdict.
//!
//! `request` writes what is sent, `reply` judges what comes back; connections are the client's
//! ([`kew_http::client`]). Redirects are not followed, and nothing above the bound is read.

mod reply;
mod request;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use kew_core::Clock;
use kew_http::client::{Client, ClientError, ClientSettings, Outgoing, Reach};

use crate::WebhookUrl;
use crate::batch::Batch;
use crate::consumer::Secret;
use crate::delivered::Delivered;

/// One webhook, as its consumer describes it.
pub(crate) struct Webhook<'a> {
    pub(crate) url: &'a WebhookUrl,
    pub(crate) secret: Option<&'a Secret>,
    pub(crate) timeout: Duration,
}

/// Brings batches to webhooks.
pub(crate) struct Webhooks {
    client: Client,
    /// The machine's time, not the engine's: receivers compare a signature's time with their own clocks.
    clock: Arc<dyn Clock>,
}

impl Webhooks {
    pub(crate) fn new(reach: Reach, clock: Arc<dyn Clock>) -> Self {
        let client = Client::new(ClientSettings { reach, ..ClientSettings::default() });
        Self { client, clock }
    }

    pub(crate) async fn deliver(&self, webhook: Webhook<'_>, batch: &Batch) -> Delivered {
        let signed_at = self.clock.now().0 / 1_000;
        let (headers, body) = request::write(batch, signed_at, webhook.secret);
        let outgoing = Outgoing { method: Method::POST, uri: webhook.url.uri().clone(), headers, body };
        match self.client.exchange(outgoing, webhook.timeout).await {
            Ok(answer) => reply::judge(&answer, batch, self.clock.now()),
            Err(error) => without_reply(&error),
        }
    }
}

impl fmt::Debug for Webhooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhooks").field("client", &self.client).finish_non_exhaustive()
    }
}

fn without_reply(error: &ClientError) -> Delivered {
    let told = error.to_string();
    match error {
        _ if error.is_unreached() => Delivered::unreached(told),
        _ if error.is_out_of_time() => Delivered::timed_out(told),
        _ => Delivered::misunderstood(told),
    }
}
