//! What each path shows.

use kew_http::{HeaderValue, Method, Reply, Request, Standing, StatusCode};

use crate::{Console, access, clock, health, pushes};

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
            _ => match self.check(request) {
                Ok(()) => self.route_guarded(request).await,
                Err(refused) => *refused,
            },
        }
    }

    /// What a head says of its sender. What everybody may ask for needs no body.
    pub(crate) fn judge(&self, request: &Request) -> Standing {
        if self.settings.token.is_none() {
            return Standing::Known;
        }
        match (request.uri.path(), self.check(request)) {
            (_, Ok(())) => Standing::Known,
            ("/livez" | "/readyz" | "/metrics", Err(_)) => Standing::Unknown,
            (_, Err(refused)) => Standing::Refused(refused),
        }
    }

    fn check(&self, request: &Request) -> Result<(), Box<Reply>> {
        let admitted = self.settings.guard.admit(request);
        admitted.map_err(|refusal| Box::new(Reply::text(refusal.status(), &refusal.to_string())))?;
        access::check_token(request, self.settings.token.as_deref())
    }

    async fn route_guarded(&self, request: &Request) -> Reply {
        match request.uri.path() {
            "/api/v1/clock" => {
                clock::answer(&self.board, &self.followers, request).await.unwrap_or_else(|refused| refused)
            }
            "/api/v1/clock/confirm" => {
                clock::confirm(&self.board, request).await.unwrap_or_else(|refused| refused)
            }
            "/api/v1/push/attempts" => pushes::answer(&self.board, request),
            "/" if matches!(request.method, Method::GET | Method::HEAD) => {
                Reply::new(StatusCode::OK, TEXT, INDEX)
            }
            path => Reply::text(StatusCode::NOT_FOUND, &format!("there is nothing at {path}")),
        }
    }
}

const INDEX: &str = "\
Kew
  /livez           200 while the process answers
  /readyz          200 while requests are served, else 503 and why not
  /metrics         figures for Prometheus
  /api/v1/push/attempts?queue=NAME&consumer=ID&outcome=ok|failed|unreached&max=N
                   what came of batches brought to consumers lately, and which cannot be reached
  /api/v1/clock/confirm
                   POST {} to say that the clock is right, when it leapt and expiry is held
  /api/v1/clock    GET or POST {\"advance_ms\":N} or {\"freeze\":true|false}, with --clock virtual
";
