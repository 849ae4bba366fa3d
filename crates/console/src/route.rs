//! What each path shows.

use kew_http::{HeaderValue, Method, Reply, Request, Standing, StatusCode};

use crate::api::BASE;
use crate::error::ApiError;
use crate::{Console, access, health};

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const READS: &str = "GET, HEAD";

impl Console {
    pub(crate) async fn route(&self, request: &Request) -> Reply {
        let is_read = matches!(request.method, Method::GET | Method::HEAD);
        match request.uri.path() {
            "/livez" if is_read => health::live(),
            "/readyz" if is_read => health::ready(&self.board, &self.settings.upkeep),
            "/metrics" if is_read => match access::check_metrics(request, &self.settings) {
                Ok(()) => self.metrics().await,
                Err(refused) => *refused,
            },
            "/livez" | "/readyz" | "/metrics" => access::not_allowed(&request.method, READS),
            path => match path.strip_prefix(BASE) {
                Some(below) if below.is_empty() || below.starts_with('/') => {
                    self.answer_api(request, below).await
                }
                _ => self.answer_page(request),
            },
        }
    }

    /// What a head says of its sender. What everybody may ask for needs no body.
    pub(crate) fn judge(&self, request: &Request) -> Standing {
        match (request.uri.path(), self.check(request)) {
            (_, Ok(())) => Standing::Known,
            ("/livez" | "/readyz" | "/metrics" | "/api/v1/session", Err(_)) => Standing::Unknown,
            (_, Err(refused)) => Standing::Refused(Box::new(access::challenge(&refused))),
        }
    }

    fn check(&self, request: &Request) -> Result<(), ApiError> {
        access::admit(request, &self.settings)?;
        access::identify(request, &self.settings, &self.login).map(drop)
    }

    fn answer_page(&self, request: &Request) -> Reply {
        if let Err(refused) = self.check(request) {
            return access::challenge(&refused);
        }
        match request.uri.path() {
            "/" if matches!(request.method, Method::GET | Method::HEAD) => {
                Reply::new(StatusCode::OK, TEXT, INDEX)
            }
            "/" => access::not_allowed(&request.method, READS),
            path => Reply::text(StatusCode::NOT_FOUND, &format!("there is nothing at {path}")),
        }
    }
}

const INDEX: &str = "\
Kew
  /livez                  200 while the process answers
  /readyz                 200 while requests are served, else 503 and why not
  /metrics                figures for Prometheus
  /api/v1/openapi.json    the admin API: every operation with what it takes and answers
";
