//! A browser without scripts: it keeps cookies, and sends forms with the proof that their pages hold.

use kew_http::Reply;
use parking_lot::Mutex;

use super::rig::{Guarded, PASSWORD, Rig, rig};

/// A form as browsers send it.
pub const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");

pub struct Browser {
    pub rig: Rig,
    cookie: Mutex<String>,
    csrf: Mutex<String>,
}

/// What is seen.
#[derive(Debug)]
pub struct Page {
    pub status: u16,
    pub text: String,
    pub reply: Reply,
}

impl Page {
    fn of(reply: Reply) -> Self {
        let text = String::from_utf8_lossy(&reply.body).into_owned();
        Self { status: reply.status.as_u16(), text, reply }
    }

    pub fn header(&self, name: &str) -> String {
        self.reply.headers.get(name).and_then(|value| value.text().map(str::to_owned)).unwrap_or_default()
    }

    pub fn has(&self, text: &str) -> bool {
        self.text.contains(text)
    }

    /// What stands between two marks, the first time.
    pub fn between(&self, begin: &str, end: &str) -> String {
        let rest = self.text.split_once(begin).map_or("", |(_, rest)| rest);
        rest.split_once(end).map_or("", |(inner, _)| inner).to_owned()
    }
}

impl Browser {
    /// At a server that needs no sign-in.
    pub async fn open() -> Self {
        Self::at(rig(Guarded::Open).await)
    }

    /// At a server with users and a token, signed in as this user.
    pub async fn signed_in(user: &str) -> Self {
        let browser = Self::at(rig(Guarded::Strictly).await);
        browser.sign_in(user).await;
        browser
    }

    pub fn at(rig: Rig) -> Self {
        Self { rig, cookie: Mutex::default(), csrf: Mutex::default() }
    }

    pub async fn sign_in(&self, user: &str) {
        self.get("/sign-in").await;
        let page = self.post("/sign-in", &[("user", user), ("password", PASSWORD)]).await;
        assert_eq!(page.status, 303, "{page:?}");
        *self.cookie.lock() = page.header("set-cookie").split(';').next().unwrap_or_default().to_owned();
        self.get("/").await;
    }

    /// What it sends as its cookies.
    pub fn cookie(&self) -> String {
        self.cookie.lock().clone()
    }

    /// The page at an address; its proof is kept for forms.
    pub async fn get(&self, path: &str) -> Page {
        self.kept(self.ask("GET", path, &[], "").await)
    }

    /// A page whose proof is kept for forms.
    fn kept(&self, page: Page) -> Page {
        let csrf = page.between("name=\"csrf\" value=\"", "\"");
        if !csrf.is_empty() {
            *self.csrf.lock() = csrf;
        }
        page
    }

    /// Sends a form with the proof of the page before.
    pub async fn post(&self, path: &str, fields: &[(&str, &str)]) -> Page {
        if self.csrf.lock().is_empty() {
            self.get("/").await;
        }
        let csrf = self.csrf.lock().clone();
        let fields = [&[("csrf", csrf.as_str())], fields].concat();
        self.ask("POST", path, &[FORM], &form(&fields)).await
    }

    /// A form that must be followed; the page that it leads to.
    pub async fn done(&self, path: &str, fields: &[(&str, &str)]) -> Page {
        let page = self.post(path, fields).await;
        assert_eq!(page.status, 303, "{path} {fields:?}: {}", page.text);
        self.follow(&page).await
    }

    /// The page that a form leads to, asked for with the cookie that it set.
    pub async fn follow(&self, page: &Page) -> Page {
        let set = page.header("set-cookie").split(';').next().unwrap_or_default().to_owned();
        let cookie = [self.cookie.lock().clone(), set].join("; ");
        self.kept(self.ask("GET", &page.header("location"), &[("cookie", &cookie)], "").await)
    }

    pub async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Page {
        let cookie = self.cookie.lock().clone();
        let mut all = headers.to_vec();
        if !cookie.is_empty() && headers.iter().all(|(name, _)| *name != "cookie") {
            all.push(("cookie", &cookie));
        }
        Page::of(self.rig.ask_at(path, method, &all, body).await)
    }

    /// Makes a queue through the API of the server, with the token where it asks for one.
    pub async fn queue(&self, body: &str) {
        self.api("/queues", body).await;
    }

    /// Sends a message; its id.
    pub async fn message(&self, queue: &str, body: &str) -> String {
        let sent = self.api(&format!("/queues/{queue}/messages"), body).await;
        sent["id"].as_str().expect("a sent message has an id").to_owned()
    }

    pub async fn api(&self, path: &str, body: &str) -> serde_json::Value {
        let headers = [("content-type", "application/json"), ("authorization", "Bearer hush")];
        let answer = self.rig.ask("POST", path, &headers, body).await;
        assert!(answer.status < 300, "{path} {body}: {answer:?}");
        answer.body
    }
}

/// Fields as a form writes them.
pub fn form(fields: &[(&str, &str)]) -> String {
    let encode = |text: &str| kew_http::percent::encode(text.as_bytes()).into_owned();
    let pairs: Vec<String> =
        fields.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value))).collect();
    pairs.join("&")
}
