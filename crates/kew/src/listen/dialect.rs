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
#[derive(Clone)]
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
}

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
    /// Says whether this server may answer, where another one may be the one that does.
    engine: Arc<Engine>,
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
            engine: Arc::clone(engine),
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

    /// A reply, if this server may answer for its store. Also what no store was asked for, such as a list of queues, is
    /// known by the owner alone.
    fn while_owned(&self, reply: Reply, request: &Request) -> Reply {
        if self.front_ends.engine.may_answer() {
            return reply;
        }
        let operation = reply.operation;
        Reply { operation, ..self.refuse(&Refusal::MayNotAnswer, request) }
    }

    /// Brings a request to a Worker: the scripts too are what the store holds.
    async fn visit(&self, request: &Request) -> Reply {
        if !self.front_ends.engine.may_answer() {
            return self.refuse(&Refusal::MayNotAnswer, request);
        }
        let reply = self.front_ends.cloudflare.visit(request).await;
        self.while_owned(reply, request)
    }

    /// Whether a request is for a Worker's own address.
    fn is_visit(&self, request: &Request) -> bool {
        self.serves == Serves::Only(Dialect::Cloudflare) && self.front_ends.cloudflare.is_visit(request)
    }
}

impl Handler for Door {
    async fn answer(&self, request: &Request) -> Reply {
        if self.is_visit(request) {
            return Box::pin(self.visit(request)).await;
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
        let reply = self.while_owned(reply, request);
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
        let Standing::Refused(reply) = standing else { return standing };
        // What its sender may do can rest on what the store holds, such as a stored access policy.
        let reply = self.while_owned(*reply, request);
        self.front_ends.durations.stop(stopwatch, dialect.name(), &reply);
        Standing::Refused(Box::new(reply))
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
    use kew_engine::Options;
    use kew_testing::{CountingEntropy, FixedClock, LentStore, TestStore, start_engine};

    use super::*;

    #[test]
    fn an_unrecognized_request_gets_the_names_of_all_three_dialects() {
        assert_eq!(unknown().status, StatusCode::NOT_FOUND);
        let text = String::from_utf8(unknown().body.to_vec()).expect("the refusal is UTF-8");
        for dialect in Dialect::ALL {
            assert!(text.contains(dialect.title()), "{text}");
        }
    }

    /// The Cloudflare address of a server over a store; it refuses requests without a token, and runs Workers.
    async fn cloudflare_over(store: &Arc<LentStore>) -> Door {
        let entropy = Arc::new(CountingEntropy::default());
        let store = TestStore::of(Arc::clone(store) as _);
        let engine = start_engine(&store, Arc::clone(&entropy) as _, Options::default()).await;
        let cloudflare = kew_cloudflare::Settings::open("r".into());
        let scripts = kew_cloudflare::Scripts { wanted: true, ..kew_cloudflare::Scripts::default() };
        let settings = FrontEndSettings {
            sqs: kew_sqs::Settings::default(),
            azure: kew_azure::Settings::open(Vec::new(), "r".into(), Arc::new(FixedClock), entropy),
            cloudflare: kew_cloudflare::Settings {
                trust: kew_cloudflare::Trust::Strict,
                scripts,
                ..cloudflare
            },
            durations: Arc::default(),
            admin: None,
        };
        Door { front_ends: FrontEnds::new(&engine, settings), serves: Serves::Only(Dialect::Cloudflare) }
    }

    fn request(host: &'static str, target: &'static str) -> Request {
        let mut headers = kew_http::Headers::default();
        headers.insert(kew_http::header::HOST, HeaderValue::from_static(host));
        Request {
            method: kew_http::Method::GET,
            uri: target.parse().expect("the target is a URI"),
            headers,
            body: Default::default(),
            id: kew_http::RequestId::from_chance(0),
            received_at: kew_core::Timestamp::ZERO,
            peer: ([127, 0, 0, 1], 1).into(),
            secure: false,
            room: Default::default(),
        }
    }

    const MAY_NOT_ANSWER: &str = "this server may not answer just now";

    #[tokio::test]
    async fn a_visit_is_answered_only_while_the_server_may_answer_for_its_store() {
        let store = LentStore::new();
        let door = cloudflare_over(&store).await;
        let visit = request("shop.kew.localhost", "/");
        let text = |reply: &Reply| String::from_utf8(reply.body.to_vec()).expect("the reply is text");
        let told = text(&door.answer(&visit).await);
        assert!(told.contains("Workers are being started"), "{told}");
        store.set_away(true);
        let told = text(&door.answer(&visit).await);
        assert!(told.contains(MAY_NOT_ANSWER), "{told}");
    }

    #[tokio::test]
    async fn a_sender_is_refused_by_its_head_only_while_the_server_may_answer_for_its_store() {
        let store = LentStore::new();
        let door = cloudflare_over(&store).await;
        let asked = request("localhost", "/client/v4/accounts/00000000000000000000000000000000/queues");
        let Standing::Refused(reply) = door.standing(&asked).await else { panic!("it shows no token") };
        assert_ne!(reply.status, door.refuse(&Refusal::MayNotAnswer, &asked).status);
        store.set_away(true);
        let Standing::Refused(reply) = door.standing(&asked).await else { panic!("it shows no token") };
        assert_eq!(reply.body, door.refuse(&Refusal::MayNotAnswer, &asked).body);
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
