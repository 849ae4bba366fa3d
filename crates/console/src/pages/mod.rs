//! The console: pages for people, written on the server from what the admin API answers.
//!
//! A page asks the API in this process ([`ask`]), so that both show the same, refuse the same and note the same in the
//! audit log. Everything can be read and every form be sent without the script.

mod alarms;
mod ask;
mod assets;
mod backups;
mod body;
mod charts;
mod commands;
mod cookies;
mod delayed;
mod done;
mod forms;
mod groups;
mod later;
mod layout;
mod leases;
mod live;
mod message;
mod messages;
mod places;
mod queue;
mod queues;
mod read;
mod redrive;
mod send;
mod server_places;
mod settings;
mod shards;
mod sign_in;
mod spark;
mod story;
mod system;
mod templates;
mod text;
mod theme;
mod trouble;

use std::borrow::Cow;

use kew_core::Entropy;
use kew_http::{Method, Reply, Request, StatusCode, form, percent};

use crate::access::{self, Caller, Role};
use crate::api::Turns;
use crate::error::ApiError;
use crate::{Console, Settings};
use layout::{Frame, Visitor};
use places::FormOp;
use trouble::Trouble;

pub use places::form_paths;

/// Pairs of a query that pages read.
const PAIRS_MAX: usize = 40;

/// What pages need beside the API.
pub(crate) struct Pages {
    /// What forms bring where there is no session: a page of another site cannot read it.
    csrf: String,
    /// Bounds the pages that wait for news.
    watchers: live::Watchers,
    /// Bounds the pages that hold whole messages while they are written.
    large: Turns,
    /// Acts that can still be undone.
    later: later::Later,
}

impl Pages {
    pub(crate) fn new(settings: &Settings) -> Self {
        let entropy: &dyn Entropy = &*settings.entropy;
        let csrf = format!("{:032x}", entropy.wide_bits());
        Self {
            csrf,
            watchers: live::Watchers::default(),
            large: Turns::of_large_replies(),
            later: later::Later::new(settings.undo_window),
        }
    }
}

/// A page that is asked for, or a form that is sent.
struct Visit<'a> {
    console: &'a Console,
    request: &'a Request,
    query: Vec<(String, String)>,
    /// What all pages have around them.
    frame: Frame,
}

/// A page, or why there is none.
type PageReply = Result<Reply, Trouble>;

impl Console {
    /// Answers a request for a page, a form or one of their files.
    pub(crate) async fn answer_page(&self, request: &Request) -> Reply {
        let path = request.uri.path();
        if let Err(refused) = access::admit(request, &self.settings) {
            return Trouble::from(refused).page(&self.bare_frame(request));
        }
        let frame = self.frame(request);
        if let Some(name) = path.strip_prefix(assets::BELOW) {
            return assets::answer(request, name).unwrap_or_else(|trouble| trouble.page(&frame));
        }
        let answered = match self.visit(request, frame.clone()) {
            Ok(visit) => Box::pin(visit.answer()).await,
            Err(trouble) => Err(trouble),
        };
        answered.unwrap_or_else(|trouble| trouble.page(&frame))
    }

    /// The reply to a request for a page that is refused by its head: where to sign in, or why that would not help.
    pub(crate) fn refuse_page(&self, request: &Request, refused: ApiError) -> Reply {
        if refused.status() == StatusCode::UNAUTHORIZED {
            return self.ask_to_sign_in(request);
        }
        Trouble::from(refused).page(&self.bare_frame(request))
    }

    fn ask_to_sign_in(&self, request: &Request) -> Reply {
        sign_in::ask(self, &self.frame(request), request)
    }

    fn visit<'a>(&'a self, request: &'a Request, frame: Frame) -> Result<Visit<'a>, Trouble> {
        let query = request.uri.query().unwrap_or_default();
        let pairs = form::pairs(query.as_bytes(), PAIRS_MAX).map_err(|error| {
            Trouble::new(StatusCode::BAD_REQUEST, "bad_request", format!("the address: {error}"))
        })?;
        let query = pairs.into_iter().map(|(name, value)| (name.into_owned(), value.into_owned())).collect();
        Ok(Visit { console: self, request, query, frame })
    }

    /// What surrounds the page of a request.
    fn frame(&self, request: &Request) -> Frame {
        let caller = access::identify(request, &self.settings, &self.login).ok();
        let visitor = caller.map(|caller| self.visitor(caller));
        let csrf = Some(&*self.pages.csrf);
        let frame =
            Frame::new(visitor, theme::of(request), csrf, sign_in::here(request), self.settings.version);
        frame.saying(done::of(request))
    }

    /// The same for who may not be here at all: the page may be read by another site's script under a name that leads
    /// here, so it holds no proof of forms.
    fn bare_frame(&self, request: &Request) -> Frame {
        Frame::new(None, theme::of(request), None, sign_in::here(request), self.settings.version)
    }

    fn visitor(&self, caller: Caller) -> Visitor {
        Visitor {
            may_act: caller.role == Role::Operator,
            role: caller.role.name(),
            csrf: caller.session.as_ref().map_or_else(|| self.pages.csrf.clone(), |one| one.csrf.clone()),
            has_session: caller.session.is_some(),
            name: caller.name,
        }
    }
}

/// Whether a path is there for people who have not signed in.
pub(crate) fn is_for_everybody(path: &str) -> bool {
    matches!(path, "/sign-in" | "/theme") || path.starts_with(assets::BELOW)
}

impl Visit<'_> {
    async fn answer(&self) -> PageReply {
        let path = self.request.uri.path();
        let parts = self.parts()?;
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let is_read = matches!(self.request.method, Method::GET | Method::HEAD);
        if self.frame.visitor.is_none() && !is_for_everybody(path) {
            return Ok(self.console.ask_to_sign_in(self.request));
        }
        let shown = match self.request.method {
            Method::GET | Method::HEAD => self.show(&parts).await,
            Method::POST => self.take(&parts).await,
            _ => None,
        };
        match shown {
            Some(shown) => shown,
            None if is_read => Err(Trouble::nothing_at(path)),
            None => Err(Trouble::not_a_form(path)),
        }
    }

    /// The parts of the path, decoded.
    fn parts(&self) -> Result<Vec<String>, Trouble> {
        let parts = self.request.uri.path().split('/').skip(1);
        let decoded = parts.map(|part| percent::decode(part.as_bytes()).map(Cow::into_owned));
        decoded.collect::<Result<Vec<_>, _>>().map_err(|error| {
            Trouble::new(StatusCode::BAD_REQUEST, "bad_request", format!("the address: {error}"))
        })
    }

    /// The page at a path.
    async fn show(&self, parts: &[&str]) -> Option<PageReply> {
        Some(match parts {
            [""] => queues::list(self).await,
            // The API would name an address of its own as the one where there is nothing.
            parts if parts.contains(&"") => return None,
            ["new-queue"] => queues::form(self),
            ["sign-in"] => Ok(sign_in::show(self)),
            ["messages"] => message::find(self).await,
            ["queues", queue] => self.in_turn(queue::show(self, queue)).await,
            ["queues", queue, "send"] => send::form(self, queue).await,
            ["queues", queue, "settings"] => settings::form(self, queue).await,
            ["queues", queue, "dead-letters"] => self.in_turn(redrive::show(self, queue)).await,
            ["queues", queue, "delayed"] => delayed::show(self, queue).await,
            ["queues", queue, "leases"] => leases::show(self, queue).await,
            ["queues", queue, "groups"] => groups::show(self, queue).await,
            ["queues", queue, "charts"] => charts::show(self, queue).await,
            ["queues", queue, "messages", id] => self.in_turn(message::show(self, queue, id)).await,
            ["queues", queue, "messages", id, "body"] => {
                self.in_turn(message::download(self, queue, id)).await
            }
            ["queues", queue, "messages", id, "attribute"] => {
                self.in_turn(message::download_attribute(self, queue, id)).await
            }
            ["queues", queue, "messages", id, "resend"] => {
                self.in_turn(redrive::resend_form(self, queue, id)).await
            }
            ["redrives", task] => redrive::task(self, task).await,
            ["later", id] => later::show(self, id),
            ["push"] => system::push(self).await,
            ["store"] => system::store(self).await,
            ["store", "backups", task] => backups::show(self, task).await,
            ["alarms"] => alarms::show(self).await,
            ["config"] => system::config(self).await,
            ["audit"] => system::audit(self).await,
            ["live", "queues"] => live::queues(self).await,
            ["live", "queue"] => live::queue(self).await,
            _ => return None,
        })
    }

    /// A page that holds whole messages while it is written: a few at once. The turn of the API's reply comes within.
    async fn in_turn(&self, page: impl Future<Output = PageReply>) -> PageReply {
        // A client that takes no replies does not wait for room in a turn that others need.
        self.request.room.free().await.map_err(ApiError::from)?;
        let _turn = self.console.pages.large.next().await?;
        page.await
    }

    /// What a form asks for.
    async fn take(&self, parts: &[&str]) -> Option<PageReply> {
        let (op, places) = places::form_at(parts)?;
        Some(match later::undoable(self, op, &places).await {
            Ok(Some(what)) => later::keep(self, what),
            Ok(None) => self.follow(op, &places).await,
            Err(trouble) => Err(trouble),
        })
    }

    /// Does what a form asks for.
    async fn follow(&self, op: FormOp, places: &[&str]) -> PageReply {
        let place = |number: usize| places.get(number).copied().unwrap_or_default();
        let first = place(0);
        match op {
            FormOp::SignIn => sign_in::take(self).await,
            FormOp::SignOut => sign_in::end(self).await,
            FormOp::Theme => theme::take(self),
            FormOp::NewQueue => queues::create(self).await,
            FormOp::Send => send::take(self, first).await,
            FormOp::Settings => settings::take(self, first).await,
            FormOp::Backup => backups::begin(self).await,
            FormOp::HandOver => shards::hand_over(self, first).await,
            FormOp::MoveShard => shards::move_to_database(self, first).await,
            FormOp::Pause => queue::set_paused(self, first, true).await,
            FormOp::Resume => queue::set_paused(self, first, false).await,
            FormOp::Purge => queue::purge(self, first).await,
            FormOp::DeleteQueue => queue::delete(self, first).await,
            FormOp::Redrive => redrive::start(self, first).await,
            FormOp::CancelRedrive => redrive::cancel(self, first).await,
            FormOp::Undo => later::undo(self, first),
            FormOp::BeginNow => later::begin_now(self, first),
            FormOp::Act(act) => message::act(self, first, place(1), act).await,
        }
    }

    /// A parameter of the address; an empty one is none.
    fn asked(&self, name: &str) -> Option<&str> {
        let found = self.query.iter().find(|(found, _)| found == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }
}

/// The address of a queue's page.
fn queue_path(queue: &str) -> String {
    format!("/queues/{}", percent::encode(queue.as_bytes()))
}

/// The address of a message's page.
fn message_path(queue: &str, id: &str) -> String {
    format!("{}/messages/{}", queue_path(queue), percent::encode(id.as_bytes()))
}

/// A query made of what is not empty.
fn query_of(pairs: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for (name, value) in pairs.iter().filter(|(_, value)| !value.is_empty()) {
        text.push(if text.is_empty() { '?' } else { '&' });
        text.push_str(name);
        text.push('=');
        percent::push_encoded(&mut text, value.as_bytes());
    }
    text
}
