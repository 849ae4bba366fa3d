//! Which paths are health, metrics, the admin API and pages of the console.

use kew_http::{Method, Reply, Request, Standing};

use crate::access::UNKNOWN;
use crate::api::BASE;
use crate::error::ApiError;
use crate::{Console, access, health, pages};

const READS: &str = "GET, HEAD";
/// What a request with a wrong token tried, in the audit log, and what stands for the token.
const PROVES: &str = "authenticate";
const WRONG_TOKEN: &str = "(unknown token)";

impl Console {
    pub(crate) async fn route(&self, request: &Request) -> Reply {
        let is_read = matches!(request.method, Method::GET | Method::HEAD);
        match request.uri.path() {
            "/livez" if is_read => health::live(),
            "/readyz" if is_read => health::ready(&self.board, &self.settings.upkeep),
            "/metrics" if is_read => match access::check_metrics(request, &self.settings) {
                Ok(()) => self.metrics().await,
                Err(refused) => {
                    if request.header("authorization").is_some() {
                        self.note_wrong_token("unauthorized");
                    }
                    *refused
                }
            },
            "/livez" | "/readyz" | "/metrics" => access::not_allowed(&request.method, READS),
            path => match path.strip_prefix(BASE) {
                Some(below) if below.is_empty() || below.starts_with('/') => {
                    self.answer_api(request, below).await
                }
                _ => Box::pin(self.answer_page(request)).await,
            },
        }
    }

    /// What a head says of its sender. What everybody may ask for needs no body.
    pub(crate) fn judge(&self, request: &Request) -> Standing {
        match (request.uri.path(), self.check(request)) {
            (_, Ok(())) => Standing::Known,
            ("/livez" | "/readyz" | "/metrics" | "/api/v1/session", Err(_)) => Standing::Unknown,
            (path, Err(_)) if pages::is_for_everybody(path) => Standing::Unknown,
            (_, Err(refused)) => Standing::Refused(Box::new(self.refuse(request, refused))),
        }
    }

    fn check(&self, request: &Request) -> Result<(), ApiError> {
        access::admit(request, &self.settings)?;
        access::identify(request, &self.settings, &self.login).map(drop)
    }

    /// The reply to a head that proves nothing: a program hears why, a person where to sign in.
    fn refuse(&self, request: &Request, refused: ApiError) -> Reply {
        if is_page(request.uri.path()) {
            self.refuse_page(request, refused)
        } else {
            self.challenge(request, &refused)
        }
    }

    /// The reply of the API to a request that proves nothing. A wrong token is noted as wrong passwords are; what was
    /// asked for is not: then one who guesses would have as many places in the log as there are operations.
    pub(crate) fn challenge(&self, request: &Request, refused: &ApiError) -> Reply {
        if access::brings_wrong_proof(request, refused) {
            self.note_wrong_token(refused.code());
        }
        access::challenge(refused)
    }

    fn note_wrong_token(&self, outcome: &'static str) {
        self.audit.note_unproved(self.now(), UNKNOWN, PROVES, WRONG_TOKEN, outcome);
    }
}

fn is_page(path: &str) -> bool {
    path.strip_prefix(BASE).is_none_or(|below| !below.is_empty() && !below.starts_with('/'))
}
