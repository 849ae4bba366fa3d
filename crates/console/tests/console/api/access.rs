//! Who may do what: tokens, sessions, roles, other sites, and the audit log of it.

use std::time::Duration;

use super::rig::{self, Answer, Guarded, PASSWORD, Rig, TOKEN};

const JSON: (&str, &str) = ("content-type", "application/json");

async fn login(rig: &Rig, user: &str, password: &str) -> Answer {
    let body = serde_json::json!({ "user": user, "password": password });
    rig.post("/session", &body.to_string()).await
}

/// The cookie and the second secret of a new session.
async fn session(rig: &Rig, user: &str) -> (String, String) {
    let answer = login(rig, user, PASSWORD).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let cookie = answer.header("set-cookie").split(';').next().unwrap_or_default().to_owned();
    (cookie, answer.body["csrf"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn an_operator_s_session_changes_things_with_its_second_secret_only() {
    let rig = rig::rig(Guarded::Strictly).await;
    let (cookie, csrf) = session(&rig, "anna").await;
    let cookie = ("cookie", cookie.as_str());
    let create = r#"{"name":"orders"}"#;
    let refused = rig.ask("POST", "/queues", &[JSON, cookie], create).await;
    assert_eq!((refused.status, refused.code()), (403, "csrf"));
    let wrong = rig.ask("POST", "/queues", &[JSON, cookie, ("x-kew-csrf", "0")], create).await;
    assert_eq!((wrong.status, wrong.code()), (403, "csrf"));
    let made = rig.ask("POST", "/queues", &[JSON, cookie, ("x-kew-csrf", &csrf)], create).await;
    assert_eq!(made.status, 201, "{made:?}");
    let who = rig.ask("GET", "/session", &[cookie], "").await;
    assert_eq!((&who.body["user"], &who.body["csrf"]), (&"anna".into(), &csrf.as_str().into()));
    let ended = rig.ask("DELETE", "/session", &[JSON, cookie, ("x-kew-csrf", &csrf)], "").await;
    assert_eq!(ended.status, 200, "{ended:?}");
    assert!(ended.header("set-cookie").contains("Max-Age=0"), "{ended:?}");
    assert_eq!(rig.ask("GET", "/queues", &[cookie], "").await.status, 401);
    let lines = rig.audited();
    let expected = [
        "anna beginSession anna ok",
        "anna createQueue  csrf",
        "anna createQueue  csrf",
        "anna createQueue orders ok",
        "anna endSession  ok",
    ];
    assert_eq!(lines, expected);
}

#[tokio::test]
async fn a_reader_sees_everything_and_changes_nothing_but_the_own_session() {
    let rig = rig::rig(Guarded::Strictly).await;
    let (cookie, csrf) = session(&rig, "bert").await;
    let headers = [JSON, ("cookie", cookie.as_str()), ("x-kew-csrf", csrf.as_str())];
    for path in ["/queues", "/store", "/shards", "/config", "/audit", "/openapi.json", "/session"] {
        assert_eq!(rig.ask("GET", path, &headers, "").await.status, 200, "{path}");
    }
    for (method, path, body) in [
        ("POST", "/queues", r#"{"name":"orders"}"#),
        ("PATCH", "/queues/orders", r#"{"settings":{}}"#),
        ("DELETE", "/queues/orders", ""),
        ("POST", "/queues/orders/purge", r#"{"confirm":"orders"}"#),
        ("POST", "/queues/orders/messages", r#"{"body":"x"}"#),
        ("POST", "/queues/orders/receive", ""),
        ("POST", "/queues/orders/settle", ""),
        ("POST", "/queues/orders/redrive", ""),
        ("POST", "/redrives/1/cancel", ""),
        ("POST", "/clock", r#"{"advance_ms":1}"#),
        ("POST", "/clock/confirm", ""),
    ] {
        let refused = rig.ask(method, path, &headers, body).await;
        assert_eq!((refused.status, refused.code()), (403, "read_only"), "{method} {path}");
    }
    assert_eq!(rig.ask("DELETE", "/session", &headers, "").await.status, 200);
}

#[tokio::test]
async fn the_token_is_an_operator_and_nothing_else_is_known() {
    let rig = rig::rig(Guarded::Strictly).await;
    let bearer = ("authorization", "Bearer hush");
    assert_eq!(TOKEN, "hush");
    let made = rig.ask("POST", "/queues", &[JSON, bearer], r#"{"name":"orders"}"#).await;
    assert_eq!(made.status, 201, "{made:?}");
    for headers in [
        &[][..],
        &[("authorization", "Bearer hus")],
        &[("authorization", "Basic hush")],
        &[("cookie", "kew_session=0000")],
        &[("cookie", "kew_session=a; kew_session=b")],
    ] {
        for path in ["/queues", "/openapi.json", "/nothing", "/session"] {
            let refused = rig.ask("GET", path, headers, "").await;
            assert_eq!((refused.status, refused.code()), (401, "unauthorized"), "{path} {headers:?}");
            assert!(refused.header("www-authenticate").starts_with("Bearer"), "{refused:?}");
        }
    }
    // A session beside a wrong token is no way around it.
    let (cookie, _) = session(&rig, "anna").await;
    let both = [("authorization", "Bearer x"), ("cookie", cookie.as_str())];
    assert_eq!(rig.ask("GET", "/queues", &both, "").await.status, 401);
    assert_eq!(rig.ask_at("/", "GET", &[], "").await.status, 401);
    assert_eq!(rig.ask_at("/livez", "GET", &[], "").await.status, 200);
}

#[tokio::test]
async fn the_cookie_is_out_of_reach_of_scripts_and_other_sites() {
    let rig = rig::rig(Guarded::Strictly).await;
    let answer = login(&rig, "anna", PASSWORD).await;
    let cookie = answer.header("set-cookie");
    for expected in ["kew_session=", "; Path=/", "; HttpOnly", "; SameSite=Strict", "; Max-Age=43200"] {
        assert!(cookie.contains(expected), "{cookie}");
    }
    assert!(!cookie.contains("Secure"), "{cookie}");
    assert_eq!(answer.header("cache-control"), "no-store");
    assert_eq!(answer.body["role"], "operator");
}

#[tokio::test]
async fn a_session_ends_by_time() {
    let rig = rig::rig(Guarded::Strictly).await;
    let (cookie, _) = session(&rig, "anna").await;
    let cookie = ("cookie", cookie.as_str());
    *rig.clock.0.lock() = Duration::from_secs(7_199);
    assert_eq!(rig.ask("GET", "/queues", &[cookie], "").await.status, 200);
    *rig.clock.0.lock() = Duration::from_secs(7_199 + 7_200);
    assert_eq!(rig.ask("GET", "/queues", &[cookie], "").await.status, 401);
}

#[tokio::test]
async fn wrong_passwords_are_counted_and_wait() {
    let rig = rig::rig(Guarded::Strictly).await;
    for number in 0..10 {
        let name = if number % 2 == 0 { "anna" } else { "nobody" };
        let refused = login(&rig, name, "wrong").await;
        assert_eq!((refused.status, refused.code()), (401, "wrong_password"));
    }
    let refused = login(&rig, "anna", PASSWORD).await;
    assert_eq!((refused.status, refused.code()), (429, "too_many_attempts"));
    assert_eq!(refused.header("retry-after"), "6");
    *rig.clock.0.lock() = Duration::from_secs(6);
    assert_eq!(login(&rig, "anna", PASSWORD).await.status, 200);
    assert_eq!(rig.audited().last().map(String::as_str), Some("anna beginSession anna ok"));
    assert_eq!(rig.audited()[0], "unknown beginSession anna wrong_password");
}

#[tokio::test]
async fn who_proves_nothing_is_noted_for_checked_passwords_only_and_by_no_name_of_their_own() {
    let rig = rig::rig(Guarded::Strictly).await;
    for body in ["", "{", "{}", r#"{"user":"anna"}"#, r#"{"user":"anna","password":"x","more":1}"#] {
        assert_eq!(rig.post("/session", body).await.status, 400, "{body}");
    }
    assert_eq!(rig.ask("POST", "/session", &[], "{}").await.status, 415);
    assert_eq!(rig.audited(), Vec::<String>::new());
    for user in ["anna", "hunter2", "anna", "forged\nline", "anna"] {
        assert_eq!(login(&rig, user, "wrong").await.code(), "wrong_password");
    }
    for _ in 0..5 {
        login(&rig, "bert", "wrong").await;
    }
    assert_eq!(login(&rig, "bert", "wrong").await.code(), "too_many_attempts");
    let line = |user: &str| format!("unknown beginSession {user} wrong_password");
    assert_eq!(rig.audited(), [line("anna"), line("(unknown user)"), line("bert")]);
    let bearer = ("authorization", "Bearer hush");
    let shown = rig.ask("GET", "/audit", &[bearer], "").await.body;
    let times = ["bert", "(unknown user)", "anna"].iter().zip([5, 2, 3]);
    for (place, (user, times)) in times.enumerate() {
        let entry = &shown["entries"][place];
        assert_eq!((&entry["target"], &entry["times"]), (&(*user).into(), &times.into()), "{shown}");
    }
}

#[tokio::test]
async fn wrong_tokens_are_one_entry_a_minute_whatever_they_ask_for_and_push_nothing_out() {
    let rig = rig::rig(Guarded::Strictly).await;
    let made = rig.ask("POST", "/queues", &[JSON, ("authorization", "Bearer hush")], r#"{"name":"a"}"#).await;
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(rig.ask("GET", "/queues", &[], "").await.status, 401, "no token is no wrong one");
    login(&rig, "anna", "wrong").await;
    for number in 0..300 {
        let wrong = format!("Bearer guess-{number}");
        let headers = [JSON, ("authorization", wrong.as_str())];
        let (method, path) = [("GET", "/queues"), ("POST", "/queues"), ("GET", "/nothing")][number % 3];
        assert_eq!(rig.ask(method, path, &headers, "").await.status, 401);
    }
    let lines = ["token createQueue a ok", "unknown beginSession anna wrong_password"];
    assert_eq!(rig.audited(), [&lines[..], &["unknown authenticate (unknown token) unauthorized"]].concat());
    let shown = rig.ask("GET", "/audit", &[("authorization", "Bearer hush")], "").await.body;
    let entries = shown["entries"].as_array().map(Vec::as_slice).unwrap_or_default();
    assert_eq!((entries.len(), &entries[0]["times"]), (3, &300.into()), "{shown}");
}

#[tokio::test]
async fn wrong_passwords_from_one_network_do_not_lock_the_user_out_of_another() {
    let rig = rig::rig(Guarded::Strictly).await;
    let attempt = async |address: &str, password: &str| {
        let body = serde_json::json!({ "user": "anna", "password": password }).to_string();
        let address = address.parse().expect("the test writes addresses");
        let reply = rig.ask_from(address, ("/api/v1/session", "POST"), &[JSON], &body).await;
        reply.status.as_u16()
    };
    for number in 0..10 {
        assert_eq!(attempt(&format!("2001:db8:0:1::{number}"), "wrong").await, 401);
    }
    assert_eq!(attempt("2001:db8:0:1:ffff::1", PASSWORD).await, 429, "it is the same network");
    assert_eq!(attempt("2001:db8:0:2::1", PASSWORD).await, 200);
    assert_eq!(attempt("10.0.0.1", PASSWORD).await, 200);
}

#[tokio::test]
async fn requests_from_other_sites_are_refused_whatever_they_carry() {
    for guarded in [Guarded::Open, Guarded::Strictly] {
        let rig = rig::rig(guarded).await;
        let bearer = ("authorization", "Bearer hush");
        for foreign in [
            ("origin", "https://evil.example"),
            ("origin", "null"),
            ("origin", "http://localhost:3000"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-mode", "no-cors"),
        ] {
            for (method, path, body) in
                [("GET", "/queues", ""), ("POST", "/queues", r#"{"name":"a"}"#), ("POST", "/session", "{}")]
            {
                let refused = rig.ask(method, path, &[JSON, bearer, foreign], body).await;
                assert_eq!(
                    (refused.status, refused.code()),
                    (403, "cross_site"),
                    "{foreign:?} {method} {path}"
                );
            }
        }
        let own = ("origin", "http://localhost:9325");
        assert_eq!(rig.ask("GET", "/queues", &[bearer, own], "").await.status, 200);
        assert_eq!(rig.engine.queue_count(), 0);
    }
}

#[tokio::test]
async fn an_open_server_is_not_reached_by_a_name_that_a_page_made_up() {
    let rig = rig::open().await;
    let refused = rig.ask("GET", "/queues", &[("host", "evil.example")], "").await;
    assert_eq!((refused.status, refused.code()), (421, "host_not_allowed"));
}

#[tokio::test]
async fn changes_are_json_and_paths_have_their_methods_only() {
    let rig = rig::open().await;
    for content_type in
        [None, Some(("content-type", "text/plain")), Some(("content-type", "application/jsonx"))]
    {
        let headers: Vec<(&str, &str)> = content_type.into_iter().collect();
        for (method, path) in
            [("POST", "/queues"), ("DELETE", "/queues/a"), ("PATCH", "/queues/a"), ("DELETE", "/session")]
        {
            let refused = rig.ask(method, path, &headers, "{}").await;
            assert_eq!((refused.status, refused.code()), (415, "not_json"), "{method} {path}");
        }
    }
    for (method, path, allowed) in [
        ("PUT", "/queues", "GET, POST, HEAD"),
        ("POST", "/queues/a", "GET, PATCH, DELETE, HEAD"),
        ("GET", "/queues/a/purge", "POST"),
        ("DELETE", "/audit", "GET, HEAD"),
    ] {
        let refused = rig.change(method, path, "{}").await;
        assert_eq!((refused.status, refused.code()), (405, "method_not_allowed"), "{method} {path}");
        assert_eq!(refused.header("allow"), allowed);
    }
    let large = format!(r#"{{"name":"{}"}}"#, "a".repeat(70_000));
    assert_eq!(rig.post("/queues", &large).await.status, 413);
    assert_eq!(rig.get("/nothing").await.status, 404);
    assert_eq!(rig.get("").await.status, 404);
    assert_eq!(rig.get("/queues?colour=red").await.code(), "bad_request");
}

#[tokio::test]
async fn a_change_whose_client_hangs_up_is_finished_and_noted() {
    let rig = rig::open().await;
    rig.done("POST", "/queues", r#"{"name":"victim"}"#).await;
    hang_up(rig.change("DELETE", "/queues/victim", ""), std::future::ready(())).await;
    rig.until_audited(2).await;
    assert_eq!(rig.audited()[1], "open deleteQueue victim ok");
    assert_eq!(rig.engine.queue_count(), 0);
}

#[tokio::test]
async fn a_receive_whose_client_hangs_up_while_it_waits_leases_nothing_and_is_noted() {
    let rig = rig::open().await;
    rig.done("POST", "/queues", r#"{"name":"orders"}"#).await;
    hang_up(rig.post("/queues/orders/receive", r#"{"wait_seconds":20}"#), tokio::task::yield_now()).await;
    rig.until_audited(2).await;
    assert_eq!(rig.audited()[1], "open receiveMessages orders unavailable");
    rig.done("POST", "/queues/orders/messages", r#"{"body":"x"}"#).await;
    assert_eq!(rig.get("/queues/orders").await.body["visible"], 1);
}

/// Begins a request and drops it at this moment, as the listener does when its client closes the connection.
async fn hang_up(request: impl Future<Output = Answer>, moment: impl Future<Output = ()>) {
    tokio::select! {
        biased;
        answer = request => panic!("the request ended at once: {answer:?}"),
        () = moment => {}
    }
}
