//! The dialects there are, and their front-ends.
//!
//! One event loop serves all of them over one engine. To add one: a row in `config::table` for its listener, a variant
//! of [`Dialect`] that [`Dialect::ALL`] names, a field of [`FrontEndSettings`] and of [`FrontEnds`], and an arm in
//! each `match` below, which the compiler asks for.

use std::pin::Pin;
use std::sync::Arc;

use kew_azure::Azure;
use kew_cloudflare::Cloudflare;
use kew_engine::Engine;
use kew_http::{Durations, Handler, HeaderValue, Refusal, Reply, Request, Standing, StatusCode, Subject};
use kew_sqs::Sqs;

use super::also::{self, KnownAccount};
use super::welcome::{self, AdminPlace};

/// A vendor's way to speak of queues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dialect {
    /// Amazon SQS.
    Sqs,
    /// Azure Queue Storage.
    Azure,
    /// Cloudflare Queues.
    Cloudflare,
}

impl Dialect {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Sqs, Self::Azure, Self::Cloudflare];

    /// Its name in flags, files, metrics and lists of ports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sqs => "sqs",
            Self::Azure => "azure",
            Self::Cloudflare => "cloudflare",
        }
    }

    /// Its name for people.
    pub fn title(self) -> &'static str {
        match self {
            Self::Sqs => "Amazon SQS",
            Self::Azure => "Azure Queue Storage",
            Self::Cloudflare => "Cloudflare Queues",
        }
    }
}

/// What a listener serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Serves {
    /// One dialect.
    Only(Dialect),
    /// All of them, distinguished by request.
    All,
}

/// How the front-ends are set up.
pub struct FrontEndSettings {
    /// SQS.
    pub sqs: kew_sqs::Settings,
    /// Azure.
    pub azure: kew_azure::Settings,
    /// Cloudflare.
    pub cloudflare: kew_cloudflare::Settings,
    /// Where the time that requests take is noted.
    pub durations: Arc<Durations>,
    /// Where the admin listener is, for people who look for it here.
    pub admin: Option<AdminPlace>,
    /// Whether this server may answer just now, where another one may be the one that does.
    pub may_answer: Option<MayAnswer>,
}

/// Called for each reply before it is sent.
pub type MayAnswer = Arc<dyn Fn() -> bool + Send + Sync>;

/// The front-ends.
pub struct FrontEnds {
    sqs: Sqs,
    /// The same where all dialects are served: web apps may ask at an address of SQS alone.
    sqs_among_all: Sqs,
    azure: Azure,
    cloudflare: Cloudflare,
    /// Tells the accounts that Azure requests may name.
    azure_account: Arc<KnownAccount>,
    durations: Arc<Durations>,
    admin: Option<AdminPlace>,
    may_answer: Option<MayAnswer>,
    is_strict: bool,
}

/// An answer under way.
type Answering<'a> = Pin<Box<dyn Future<Output = Reply> + Send + 'a>>;

impl FrontEnds {
    /// All front-ends over one engine.
    pub fn new(engine: &Arc<Engine>, settings: FrontEndSettings) -> Arc<Self> {
        let names: Vec<Arc<str>> =
            settings.azure.accounts.iter().map(|account| Arc::clone(&account.name)).collect();
        let is_strict = settings.azure.trust == kew_azure::Trust::Strict;
        let sqs = Sqs::new(Arc::clone(engine), settings.sqs);
        Arc::new(Self {
            is_strict,
            sqs_among_all: sqs.without_pages(),
            sqs,
            azure: Azure::new(Arc::clone(engine), settings.azure),
            cloudflare: Cloudflare::new(Arc::clone(engine), settings.cloudflare),
            azure_account: Arc::new(move |name: &str| names.iter().any(|known| **known == *name)),
            durations: settings.durations,
            admin: settings.admin,
            may_answer: settings.may_answer,
        })
    }

    /// In a box, so that a connection keeps no room for it, and no step on the way to the client moves it.
    fn answer<'a>(&'a self, (serves, dialect): (Serves, Dialect), request: &'a Request) -> Answering<'a> {
        match dialect {
            Dialect::Sqs => Box::pin(self.sqs(serves).answer(request)),
            Dialect::Azure => Box::pin(self.azure.answer(request)),
            Dialect::Cloudflare => Box::pin(self.cloudflare.answer(request)),
        }
    }

    fn sqs(&self, serves: Serves) -> &Sqs {
        match serves {
            Serves::Only(_) => &self.sqs,
            Serves::All => &self.sqs_among_all,
        }
    }

    /// What is known of who sends what may be any dialect's, such as a form that names its action in the body: nothing,
    /// where proofs are asked for.
    fn of_strangers(&self) -> Standing {
        if self.is_strict { Standing::Unknown } else { Standing::Known }
    }

    async fn standing(&self, (serves, dialect): (Serves, Dialect), request: &Request) -> Standing {
        match dialect {
            Dialect::Sqs => self.sqs(serves).standing(request).await,
            Dialect::Azure => self.azure.standing(request).await,
            Dialect::Cloudflare => self.cloudflare.standing(request).await,
        }
    }

    fn refuse(&self, (serves, dialect): (Serves, Dialect), refusal: &Refusal, request: &Request) -> Reply {
        match dialect {
            Dialect::Sqs => self.sqs(serves).refuse(refusal, request),
            Dialect::Azure => self.azure.refuse(refusal, request),
            Dialect::Cloudflare => self.cloudflare.refuse(refusal, request),
        }
    }
}

/// The front-ends as one listener shows them.
pub struct Door {
    /// All of them.
    pub front_ends: Arc<FrontEnds>,
    /// What is served here.
    pub serves: Serves,
}

impl Door {
    fn dialect(&self, request: &Request) -> Option<Dialect> {
        match self.serves {
            Serves::Only(dialect) => Some(dialect),
            Serves::All => also::dialect_of(request, &*self.front_ends.azure_account),
        }
    }

    /// Whether a request is for a Worker's own address.
    fn is_visit(&self, request: &Request) -> bool {
        self.serves == Serves::Only(Dialect::Cloudflare) && self.front_ends.cloudflare.is_visit(request)
    }
}

impl Handler for Door {
    async fn answer(&self, request: &Request) -> Reply {
        if self.is_visit(request) {
            return Box::pin(self.front_ends.cloudflare.visit(request)).await;
        }
        if welcome::is_asked(request) {
            return welcome::page(self.serves, self.front_ends.admin, request);
        }
        let shows_all = self.serves == Serves::All;
        if shows_all && request.uri.path() == HEALTH {
            return health();
        }
        let Some(dialect) = self.dialect(request) else { return unknown() };
        if shows_all && kew_cloudflare::is_about_workers(request.uri.path()) {
            return kew_cloudflare::refused_here();
        }
        let stopwatch = self.front_ends.durations.start();
        let reply = if shows_all && kew_sqs::is_look(request.uri.path()) {
            Box::pin(self.front_ends.sqs_among_all.look(request)).await
        } else {
            self.front_ends.answer((self.serves, dialect), request).await
        };
        // Also what no store was asked for, such as a list of queues, is known by the owner alone.
        let may_answer = self.front_ends.may_answer.as_ref().is_none_or(|may_answer| may_answer());
        let operation = reply.operation;
        let refused = || Reply { operation, ..self.refuse(&Refusal::MayNotAnswer, request) };
        let reply = if may_answer { reply } else { refused() };
        self.front_ends.durations.stop(stopwatch, dialect.name(), &reply);
        reply
    }

    async fn standing(&self, request: &Request) -> Standing {
        if self.is_visit(request) {
            return Standing::Known;
        }
        let Some(dialect) = self.dialect(request) else { return self.front_ends.of_strangers() };
        let stopwatch = self.front_ends.durations.start();
        let standing = self.front_ends.standing((self.serves, dialect), request).await;
        if let Standing::Refused(reply) = &standing {
            self.front_ends.durations.stop(stopwatch, dialect.name(), reply);
        }
        standing
    }

    fn refuse(&self, refusal: &Refusal, request: &Request) -> Reply {
        match self.dialect(request) {
            Some(dialect) => self.front_ends.refuse((self.serves, dialect), refusal, request),
            None => Reply::text(refusal.status(), &refusal.to_string()),
        }
    }

    fn subject(&self, request: &Request, reply: Option<&Reply>) -> Subject {
        let front_ends = &self.front_ends;
        match self.dialect(request) {
            Some(Dialect::Sqs) => front_ends.sqs.subject(request, reply),
            Some(Dialect::Azure) => front_ends.azure.subject(request, reply),
            Some(Dialect::Cloudflare) => front_ends.cloudflare.subject(request, reply),
            None => Subject::default(),
        }
    }
}

/// What tools that come from a local emulator ask first, on the address that serves all dialects.
const HEALTH: &str = "/_localstack/health";

/// The services there are, as that emulator's documentation has it. It tells nothing of anybody.
fn health() -> Reply {
    let version = env!("CARGO_PKG_VERSION");
    let body = serde_json::json!({ "services": { "sqs": "running" }, "edition": "kew", "version": version });
    Reply::new(StatusCode::OK, HeaderValue::from_static("application/json"), body.to_string())
}

fn unknown() -> Reply {
    let all = Dialect::ALL.map(Dialect::title).join(", ");
    Reply::text(StatusCode::NOT_FOUND, &format!("this is no request of {all}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unrecognized_request_gets_the_names_of_all_three_dialects() {
        assert_eq!(unknown().status, StatusCode::NOT_FOUND);
        let text = String::from_utf8(unknown().body.to_vec()).expect("the refusal is UTF-8");
        for dialect in Dialect::ALL {
            assert!(text.contains(dialect.title()), "{text}");
        }
    }

    fn bytes_of<'a, H, F>(_: impl Fn(&'a H, &'a Request) -> F) -> usize
    where
        H: 'a,
        F: Future<Output = Reply>,
    {
        size_of::<F>()
    }

    // Requests under way are many, and each keeps room for the largest answer of its front-end.
    #[test]
    fn an_answer_under_way_is_small() {
        let front_ends = [
            bytes_of::<Sqs, _>(Sqs::answer),
            bytes_of::<Azure, _>(Azure::answer),
            bytes_of::<Cloudflare, _>(Cloudflare::answer),
        ];
        assert!(front_ends.iter().all(|bytes| *bytes <= 6 << 10), "{front_ends:?}");
    }

    // Every connection keeps room for this, asked or not.
    #[test]
    fn what_is_kept_for_an_answer_is_tiny() {
        let bytes = bytes_of::<Door, _>(Door::answer);
        assert!(bytes <= 512, "{bytes}");
    }
}
