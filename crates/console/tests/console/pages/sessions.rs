//! Who sees pages: people who sign in with a password or the token, and all visitors of an open server.

use std::time::Duration;

use super::browser::{Browser, FORM, form};
use super::rig::{Guarded, PASSWORD, TOKEN, rig};

#[tokio::test]
async fn a_page_asks_who_has_not_signed_in_and_leads_back() {
    let browser = Browser::at(rig(Guarded::Strictly).await);
    let page = browser.get("/queues/orders?state=any").await;
    assert_eq!(page.status, 401);
    assert!(page.header("www-authenticate").starts_with("Bearer"));
    let next = page.between("name=\"next\" value=\"", "\"");
    assert_eq!(next, "/queues/orders?state=any");
    let page = browser
        .post("/sign-in", &[("user", "anna"), ("password", PASSWORD), ("next", "//evil.example")])
        .await;
    assert_eq!((page.status, page.header("location")), (303, "/".to_owned()));
    let page = browser.post("/sign-in", &[("user", "anna"), ("password", PASSWORD), ("next", &next)]).await;
    assert_eq!((page.status, page.header("location")), (303, next));
    let cookie = page.header("set-cookie");
    for part in ["kew_session=", "HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(cookie.contains(part), "{cookie}");
    }
}

#[tokio::test]
async fn a_form_that_is_sent_after_its_session_says_so_and_signing_in_leads_back_to_it() {
    let browser = Browser::signed_in("anna").await;
    browser.queue(r#"{"name":"orders"}"#).await;
    *browser.rig.clock.0.lock() = Duration::from_secs(3 * 3_600);
    let send = |path: &'static str, referer: &'static str| {
        let headers = [FORM, ("referer", referer)];
        let browser = &browser;
        async move { browser.ask("POST", path, &headers, &form(&[("body", "typed for an hour")])).await }
    };
    let sentence = "Your session has ended: what you sent was not done.";
    for (path, referer, next) in [
        ("/queues/orders/send", "http://localhost:9325/queues/orders/send", "/queues/orders/send"),
        ("/queues/orders/pause", "http://localhost:9325/queues/orders?state=any", "/queues/orders?state=any"),
        ("/queues/orders/pause", "http://evil.example/queues/orders", "/"),
    ] {
        let page = send(path, referer).await;
        assert_eq!((page.status, page.has(sentence)), (401, true), "{path}: {}", page.text);
        assert_eq!(page.between("name=\"next\" value=\"", "\""), next, "{path}");
    }
    // It is over anyway.
    assert!(!send("/sign-out", "http://localhost:9325/").await.has(sentence));
    assert!(!browser.get("/queues/orders").await.has(sentence));
    let messages = browser.rig.ask("GET", "/queues/orders", &[("authorization", "Bearer hush")], "").await;
    assert_eq!((&messages.body["visible"], &messages.body["paused"]), (&0.into(), &false.into()));
}

#[tokio::test]
async fn a_wrong_password_is_said_on_the_page_and_too_many_wait() {
    let browser = Browser::at(rig(Guarded::Strictly).await);
    browser.get("/sign-in").await;
    for _ in 0..10 {
        let page = browser.post("/sign-in", &[("user", "anna"), ("password", "wrong")]).await;
        assert_eq!((page.status, page.has("User or password is wrong.")), (401, true), "{}", page.text);
        assert!(!page.has("value=\"wrong\""));
    }
    let page = browser.post("/sign-in", &[("token", TOKEN)]).await;
    assert_eq!((page.status, page.header("retry-after")), (429, "6".to_owned()));
}

#[tokio::test]
async fn the_holder_of_the_token_signs_in_as_an_operator() {
    let browser = Browser::at(rig(Guarded::Strictly).await);
    browser.get("/sign-in").await;
    let page = browser.post("/sign-in", &[("token", "hus")]).await;
    assert_eq!((page.status, page.has("The token is wrong.")), (401, true));
    let page = browser.post("/sign-in", &[("token", TOKEN)]).await;
    assert_eq!(page.status, 303);
    let cookie = page.header("set-cookie").split(';').next().unwrap_or_default().to_owned();
    let page = browser.ask("GET", "/", &[("cookie", &cookie)], "").await;
    assert!(page.has("<bdi>token</bdi>, operator") && page.has("New queue"), "{}", page.text);
    assert!(!page.has(TOKEN));
    let lines = browser.rig.audited();
    assert_eq!(lines, ["unknown beginSession token wrong_token", "token beginSession token ok"]);
}

#[tokio::test]
async fn signing_out_ends_the_session() {
    let browser = Browser::signed_in("bert").await;
    assert!(browser.get("/").await.has("<bdi>bert</bdi>, read-only"));
    let page = browser.post("/sign-out", &[]).await;
    assert_eq!((page.status, page.header("location")), (303, "/sign-in".to_owned()));
    assert!(page.header("set-cookie").contains("Max-Age=0"));
    assert_eq!(browser.get("/").await.status, 401);
}

#[tokio::test]
async fn an_open_server_asks_nobody_and_forms_still_bring_a_proof() {
    let browser = Browser::open().await;
    let page = browser.get("/").await;
    assert!(page.status == 200 && !page.has("Sign out"));
    assert_eq!(page.between("name=\"csrf\" value=\"", "\"").len(), 32);
    assert!(browser.get("/sign-in").await.has("No sign-in is needed"));
}

#[tokio::test]
async fn the_colours_that_were_chosen_are_remembered() {
    let browser = Browser::open().await;
    assert!(!browser.get("/").await.has("<html lang=\"en\" data-theme"));
    let page = browser.post("/theme", &[("theme", "dark"), ("back", "/queues/a?state=any")]).await;
    assert_eq!((page.status, page.header("location")), (303, "/queues/a?state=any".to_owned()));
    let cookie = page.header("set-cookie").split(';').next().unwrap_or_default().to_owned();
    assert_eq!(cookie, "kew_theme=dark");
    let page = browser.ask("GET", "/", &[("cookie", &cookie)], "").await;
    assert!(page.has("data-theme=\"dark\"") && page.has("value=\"dark\" aria-pressed=\"true\""));
    let odd = browser.ask("GET", "/", &[("cookie", "kew_theme=\"><script>")], "").await;
    assert!(!odd.has("<script>") && !odd.has("data-theme"));
    let away = browser.post("/theme", &[("theme", "dark"), ("back", "https://evil.example")]).await;
    assert_eq!(away.header("location"), "/");
}

#[tokio::test]
async fn signing_in_ends_the_session_that_the_browser_had() {
    let browser = Browser::signed_in("bert").await;
    let page = browser.post("/sign-in", &[("user", "anna"), ("password", PASSWORD)]).await;
    assert_eq!(page.status, 303, "{page:?}");
    let new = page.header("set-cookie").split(';').next().unwrap_or_default().to_owned();
    assert_eq!(browser.get("/").await.status, 401, "the old cookie is worth nothing");
    let page = browser.ask("GET", "/", &[("cookie", &new)], "").await;
    assert!(page.has("<bdi>anna</bdi>"), "{}", page.text);
    let again = browser.ask("GET", "/sign-in", &[("cookie", &new)], "").await;
    let csrf = again.between("name=\"csrf\" value=\"", "\"");
    let fields = form(&[("csrf", &csrf), ("token", TOKEN)]);
    let page = browser.ask("POST", "/sign-in", &[FORM, ("cookie", &new)], &fields).await;
    assert_eq!(page.status, 303, "{page:?}");
    assert_eq!(browser.ask("GET", "/", &[("cookie", &new)], "").await.status, 401);
}

#[tokio::test]
async fn a_page_that_is_left_open_does_not_keep_its_session_alive() {
    let browser = Browser::signed_in("anna").await;
    browser.rig.console.look().await;
    // Every minute for three hours, while the person is away.
    for minute in 1..=180 {
        *browser.rig.clock.0.lock() = Duration::from_secs(minute * 60);
        let event = browser.ask("GET", "/live/queues", &[("last-event-id", "0")], "").await;
        let expected = if minute < 120 { 200 } else { 401 };
        assert_eq!(event.status, expected, "minute {minute}: {}", event.text);
    }
    assert_eq!(browser.get("/").await.status, 401);
}

#[tokio::test]
async fn a_page_that_loads_itself_again_does_not_keep_its_session_alive() {
    let browser = Browser::signed_in("anna").await;
    let cookie = format!("{}; kew_reloaded=1", browser.cookie());
    for minute in 1..=180 {
        *browser.rig.clock.0.lock() = Duration::from_secs(minute * 60);
        let page = browser.ask("GET", "/alarms", &[("cookie", &cookie)], "").await;
        let expected = if minute < 120 { 200 } else { 401 };
        assert_eq!(page.status, expected, "minute {minute}: {}", page.text);
    }
    assert_eq!(browser.get("/").await.status, 401);
}

#[tokio::test]
async fn a_form_that_is_sent_counts_whatever_was_loaded_again_a_moment_before() {
    let browser = Browser::signed_in("anna").await;
    let cookie = format!("{}; kew_reloaded=1", browser.cookie());
    for minutes in [90, 180, 270] {
        *browser.rig.clock.0.lock() = Duration::from_secs(minutes * 60);
        // It is refused, for its proof is missing: a person sent it all the same.
        let headers = [("cookie", cookie.as_str()), ("content-type", "application/x-www-form-urlencoded")];
        assert_eq!(browser.ask("POST", "/new-queue", &headers, "").await.status, 403, "minute {minutes}");
    }
    assert_eq!(browser.get("/").await.status, 200);
}

#[tokio::test]
async fn a_session_that_is_used_goes_on() {
    let browser = Browser::signed_in("anna").await;
    for hour in 1..12 {
        *browser.rig.clock.0.lock() = Duration::from_secs(hour * 3_600);
        assert_eq!(browser.get("/").await.status, 200, "hour {hour}");
    }
}
