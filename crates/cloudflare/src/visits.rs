//! A deployed Worker's own address: `http://NAME.kew.localhost:9326/` leads to its `fetch` handler.
//!
//! As at the service, who visits shows no token. Like uploads, visits come from this machine only, unless the server
//! was started to be exposed.

use kew_core::AccountId;
use kew_http::{
    HeaderMap, HeaderName, HeaderValue, Host, Refusal, Reply, Request, StatusCode, header, is_below,
};
use kew_push::workers::{Visit, VisitError, WorkerError, Workers};

use crate::{Cloudflare, Trust};

/// The account's name below the domains of Workers' addresses.
pub(crate) const SUBDOMAIN: &str = "kew";
/// The domains: names of this machine, and the one that the vendor's tools print.
const DOMAINS: [&str; 2] = ["kew.localhost", "kew.workers.dev"];

/// Headers of one connection, and those that are written anew.
const OF_CONNECTION: [HeaderName; 9] = [
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::HOST,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];
const KEEP_ALIVE: &str = "keep-alive";
/// Headers between Kew and the Worker's process.
const OURS: &str = "x-kew-";

/// Whether a host is a Worker's address.
pub fn is_workers_host(host: &str) -> bool {
    DOMAINS.iter().any(|domain| is_below(host, domain))
}

/// The Worker that a request visits.
fn visited(request: &Request) -> Option<&str> {
    match request.authority()?.host {
        Host::Name(name) if is_workers_host(name) => name.split('.').next(),
        _ => None,
    }
}

impl Cloudflare {
    /// Whether a request is for a Worker's own address.
    pub fn is_visit(&self, request: &Request) -> bool {
        self.settings.scripts.wanted && visited(request).is_some()
    }

    /// Brings a request to the Worker it is for.
    pub async fn visit(&self, request: &Request) -> Reply {
        let answer = self.brought(request).await;
        answer.unwrap_or_else(|(status, text)| Reply::text(status, &text)).to("WorkerVisit")
    }

    async fn brought(&self, request: &Request) -> Result<Reply, (StatusCode, String)> {
        let scripts = &self.settings.scripts;
        if !scripts.exposed && !request.peer.ip().to_canonical().is_loopback() {
            let text =
                "Workers answer this machine only: start the server with --workers-expose to change that";
            return Err((StatusCode::FORBIDDEN, text.to_owned()));
        }
        let starting =
            || (StatusCode::SERVICE_UNAVAILABLE, "the Workers are being started: try again".to_owned());
        let workers = scripts.workers.get().ok_or_else(starting)?;
        let label = visited(request).unwrap_or_default();
        let find =
            || self.visited_accounts().find_map(|account| Some((account, named(workers, account, label)?)));
        let mut found = find();
        if found.is_none() {
            // Another node may just have deployed it.
            let unread = |error: WorkerError| (StatusCode::SERVICE_UNAVAILABLE, error.to_string());
            workers.follow_all().await.map_err(unread)?;
            found = find();
        }
        let (account, name) = found.ok_or_else(|| told(&VisitError::NotFound(label.to_owned())))?;
        let full = |refusal: Refusal| (refusal.status(), refusal.to_string());
        // Nothing is kept of it while the handler takes its time: everybody else's replies would wait for that.
        request.room.free().await.map_err(full)?;
        let answer = workers.visit(account, &name, visit(request)).await.map_err(|error| told(&error))?;
        let mut reply = Reply { status: answer.status, body: answer.body, ..Reply::text(StatusCode::OK, "") };
        reply.headers = kew_http::Headers::default();
        for (name, value) in &answer.headers {
            if !is_of_connection(name.as_str()) {
                reply.headers.append(name, value.clone());
            }
        }
        Ok(reply)
    }

    /// The accounts whose Workers are looked at, the first that has one of the name answers.
    fn visited_accounts(&self) -> impl Iterator<Item = AccountId> {
        let open = (self.settings.trust == Trust::Open).then_some(AccountId(0));
        open.into_iter().chain(self.settings.accounts.iter().map(|account| account.id))
    }
}

/// The name of the Worker that a label of a host names. Hosts have no case: clients may change it.
fn named(workers: &Workers, account: AccountId, label: &str) -> Option<String> {
    if workers.describe(account, label).is_some() {
        return Some(label.to_owned());
    }
    let names = workers.list(account).into_iter().map(|worker| worker.name);
    names.into_iter().find(|name| name.eq_ignore_ascii_case(label))
}

fn visit(request: &Request) -> Visit {
    let mut headers = HeaderMap::new();
    for (name, value) in request.headers.iter() {
        let pair = (HeaderName::try_from(name), HeaderValue::from_bytes(value.as_bytes()));
        if let (Ok(name), Ok(value)) = pair
            && !is_of_connection(name.as_str())
        {
            headers.append(name, value);
        }
    }
    let scheme = if request.secure { "https" } else { "http" };
    let host = request.header(header::HOST).unwrap_or_default();
    let path = request.uri.path_and_query().map_or("/", |path| path.as_str());
    let address = format!("{scheme}://{host}{path}");
    // What is read is a part of the connection's buffer.
    let body = bytes::Bytes::copy_from_slice(&request.body);
    Visit { method: request.method.clone(), address, headers, body }
}

fn is_of_connection(name: &str) -> bool {
    OF_CONNECTION.iter().any(|known| known == name) || name == KEEP_ALIVE || name.starts_with(OURS)
}

fn told(error: &VisitError) -> (StatusCode, String) {
    let status = match error {
        VisitError::NotFound(_) => StatusCode::NOT_FOUND,
        VisitError::NotRunning | VisitError::Busy => StatusCode::SERVICE_UNAVAILABLE,
        VisitError::NoHandler | VisitError::Threw => StatusCode::INTERNAL_SERVER_ERROR,
        VisitError::TooLong | VisitError::Ended => StatusCode::BAD_GATEWAY,
        VisitError::OutOfTime => StatusCode::GATEWAY_TIMEOUT,
    };
    (status, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_below_the_domains_are_workers_addresses() {
        for host in ["orders.kew.localhost", "ORDERS.kew.localhost", "orders.kew.workers.dev"] {
            assert!(is_workers_host(host), "{host}");
        }
        for host in ["kew.localhost", "localhost", "orders.localhost", "orders.kew.workers.dev.evil.example"]
        {
            assert!(!is_workers_host(host), "{host}");
        }
    }

    #[test]
    fn headers_of_the_connection_and_ours_stay_here() {
        for name in ["connection", "keep-alive", "transfer-encoding", "host", "x-kew-token"] {
            assert!(is_of_connection(name), "{name}");
        }
        assert!(!is_of_connection("x-request-id"));
    }
}
