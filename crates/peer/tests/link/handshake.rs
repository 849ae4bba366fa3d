//! Handshakes: who is let in, and who is not.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use kew_peer::link::limits::{GREETING_TIME_MAX, GREETINGS_MAX, GREETINGS_OF_ADDRESS_MAX, HELLO_TIME_MAX};
use kew_peer::link::{Binding, Dialing, Endpoint, HandshakeError, Identity, Opened, Secret, Versions};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::time::{Instant, timeout};

use super::support::{Service, chance, endpoint, id, identity, settle};

fn other(change: impl FnOnce(&mut Identity)) -> Endpoint {
    let mut identity = identity("a");
    change(&mut identity);
    Endpoint::new(identity, chance(), Service::new())
}

/// What both sides find: the version that they agree on, or why there is no link.
async fn greet(a: &Endpoint, b: &Endpoint) -> (Result<u16, HandshakeError>, Result<u16, HandshakeError>) {
    let (to_b, to_a) = duplex(4_096);
    let b_id = id("b");
    let (a, b) = tokio::join!(async { a.dial(to_b, &b_id).await.map(|(link, _)| link.version()) }, async {
        b.accept(to_a).await.map(|(link, _)| link.version())
    },);
    (a, b)
}

fn b() -> Endpoint {
    endpoint("b", &Service::new())
}

#[tokio::test(start_paused = true)]
async fn another_secret_is_refused() {
    let a = other(|me| me.secret = Secret([43; 32]));
    let (a, b) = greet(&a, &b()).await;
    assert!(matches!(a, Err(HandshakeError::NotProven { .. })), "{a:?}");
    assert_eq!(b, Err(HandshakeError::Closed), "the side that connected does not send its proof then");
}

#[tokio::test(start_paused = true)]
async fn the_highest_common_version_is_spoken() {
    let speaks = |oldest, newest| move |me: &mut Identity| me.versions = Versions { oldest, newest };
    let b = |oldest, newest| {
        let mut identity = identity("b");
        identity.versions = Versions { oldest, newest };
        Endpoint::new(identity, chance(), Service::new())
    };
    assert_eq!(greet(&other(speaks(1, 1)), &b(1, 2)).await, (Ok(1), Ok(1)));
    assert_eq!(greet(&other(speaks(1, 2)), &b(1, 1)).await, (Ok(1), Ok(1)));
    assert_eq!(greet(&other(speaks(2, 5)), &b(1, 3)).await, (Ok(3), Ok(3)));
    for (ours, theirs) in [((2, 3), (1, 1)), ((1, 1), (2, 3))] {
        let (a, b) = greet(&other(speaks(ours.0, ours.1)), &b(theirs.0, theirs.1)).await;
        let text = a.unwrap_err().to_string();
        let expected =
            format!("{} to {} of the protocol, this node {} to {}", theirs.0, theirs.1, ours.0, ours.1);
        assert!(text.contains(&expected), "{text}");
        assert!(matches!(b, Err(HandshakeError::NoCommonVersion { .. })), "{b:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn another_node_at_the_address_is_refused() {
    let (to_c, to_a) = duplex(4_096);
    let (a, c) = (endpoint("a", &Service::new()), endpoint("c", &Service::new()));
    let b_id = id("b");
    let (a, c) = tokio::join!(a.dial(to_c, &b_id), c.accept(to_a));
    let text = a.unwrap_err().to_string();
    assert_eq!(text, "node c (c) answers at the address of node b");
    assert_eq!(c.unwrap_err(), HandshakeError::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_connects_to_itself_notices() {
    let (to_b, to_b_again) = duplex(4_096);
    let (b, b_id) = (b(), id("b"));
    let (dialed, accepted) = tokio::join!(b.dial(to_b, &b_id), b.accept(to_b_again));
    assert!(matches!(dialed, Err(HandshakeError::Closed)));
    assert_eq!(accepted.unwrap_err(), HandshakeError::Itself);
}

#[tokio::test(start_paused = true)]
async fn garbage_is_refused_at_its_first_bytes() {
    let long = vec![0x55; 100_000];
    let requests: [&[u8]; 6] = [
        b"GET / HTTP/1.1\r\nhost: b\r\n\r\n",
        b"\x15\x03\x03\x00\x02\x02\x28",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a hello of TLS",
        b"\x08\x00\x00\x00KEWPEER\n",
        b"\x00\x00\x00\x00\x00\x00\x00\x00",
        &long,
    ];
    for request in requests {
        let (mut stranger, to_stranger) = duplex(4_096);
        let (begun, b) = (Instant::now(), b());
        let (refused, ()) = tokio::join!(b.accept(to_stranger), async {
            // The node closes before all of it is written.
            drop(stranger.write_all(request).await);
        });
        let refused = refused.unwrap_err();
        let is_tls = request.get(1) == Some(&3);
        let is_named = match refused {
            HandshakeError::NotAlike => is_tls,
            HandshakeError::NotKew | HandshakeError::Malformed => !is_tls,
            _ => false,
        };
        assert!(is_named, "{refused:?}");
        assert_eq!(begun.elapsed(), Duration::ZERO);
        let mut answer = Vec::new();
        stranger.read_to_end(&mut answer).await.unwrap();
        assert_eq!(answer, b"", "a stranger learns nothing");
    }
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_does_not_end_is_closed() {
    for sent in [0, 2, 4, 40] {
        let (mut stranger, to_stranger) = duplex(4_096);
        stranger.write_all(&[60, 0, 0, 0].repeat(10)[..sent]).await.unwrap();
        let begun = Instant::now();
        assert_eq!(b().accept(to_stranger).await.unwrap_err(), HandshakeError::TooSlow);
        assert_eq!(begun.elapsed().as_millis(), HELLO_TIME_MAX.as_millis());
    }
    // The proof does not come.
    let (mut stranger, to_stranger) = duplex(4_096);
    stranger.write_all(&hello([1; 32])).await.unwrap();
    let begun = Instant::now();
    assert_eq!(b().accept(to_stranger).await.unwrap_err(), HandshakeError::TooSlow);
    assert_eq!(begun.elapsed().as_millis(), GREETING_TIME_MAX.as_millis());
    let (_stranger, to_stranger) = duplex(4_096);
    assert_eq!(b().dial(to_stranger, &id("c")).await.unwrap_err(), HandshakeError::TooSlow);
}

#[tokio::test(start_paused = true)]
async fn unfinished_handshakes_are_counted_and_one_too_many_is_refused() {
    let b = b();
    let mut strangers = Vec::new();
    let mut greetings = tokio::task::JoinSet::new();
    for _ in 0..GREETINGS_MAX {
        let (stranger, to_stranger) = duplex(4_096);
        strangers.push(stranger);
        let b = b.clone();
        greetings.spawn(async move { b.accept(to_stranger).await.map(|_| ()) });
    }
    settle().await;
    let (_stranger, to_stranger) = duplex(4_096);
    assert_eq!(b.accept(to_stranger).await.unwrap_err(), HandshakeError::TooMany);
    strangers.pop();
    settle().await;
    let a = endpoint("a", &Service::new());
    assert_eq!(greet(&a, &b).await, (Ok(1), Ok(1)), "a place is free again");
}

#[tokio::test(start_paused = true)]
async fn one_address_cannot_keep_others_away() {
    let b = b();
    let (near, far): (IpAddr, IpAddr) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
    let mut greetings = tokio::task::JoinSet::new();
    // One of them does not even end its opening.
    for number in 0..=GREETINGS_OF_ADDRESS_MAX {
        let b = b.clone();
        let (stranger, to_stranger) = duplex(4_096);
        let opening: Dialing = Box::pin(async move {
            if number == 0 {
                std::future::pending::<()>().await;
            }
            Ok(Opened::plain(to_stranger))
        });
        greetings.spawn(async move {
            let refused = b.accept_from(near, opening).await.map(drop);
            drop(stranger);
            refused
        });
        settle().await;
    }
    let first = greetings.join_next().await.unwrap().unwrap();
    assert_eq!(first, Err(HandshakeError::TooMany), "one too many from this address");
    let a = endpoint("a", &Service::new());
    let (to_b, from_a) = duplex(4_096);
    let opening: Dialing = Box::pin(async move { Ok(Opened::plain(from_a)) });
    let b_id = id("b");
    let (dialed, accepted) = tokio::join!(a.dial(to_b, &b_id), b.accept_from(far, opening));
    assert!(dialed.is_ok() && accepted.is_ok(), "another address is let in");
    let begun = Instant::now();
    while let Some(greeting) = greetings.join_next().await {
        assert_eq!(greeting.unwrap(), Err(HandshakeError::TooSlow));
    }
    assert!(begun.elapsed() <= GREETING_TIME_MAX);
}

#[tokio::test(start_paused = true)]
async fn ends_of_two_encrypted_streams_prove_nothing_to_each_other() {
    for [of_a, of_b] in [[Some(1), Some(2)], [None, Some(1)], [Some(1), None], [Some(3), Some(3)]] {
        let (a, b, b_id) = (endpoint("a", &Service::new()), b(), id("b"));
        let (to_b, from_a) = duplex(4_096);
        let binding = |key: Option<u8>| key.map(|key| Binding([key; 32]));
        let dialed = Opened { stream: Box::new(to_b), binding: binding(of_a) };
        let opening: Dialing =
            Box::pin(async move { Ok(Opened { stream: Box::new(from_a), binding: binding(of_b) }) });
        let from = "10.0.0.1".parse().unwrap();
        let (dialed, accepted) = tokio::join!(a.dial_opened(dialed, &b_id), b.accept_from(from, opening));
        assert_eq!((dialed.is_ok(), accepted.is_ok()), (of_a == of_b, of_a == of_b));
    }
}

/// Hands on what is read, changed by `change`, which has each byte with its place; keeps a copy.
async fn relay(
    mut from: tokio::io::ReadHalf<DuplexStream>,
    mut to: tokio::io::WriteHalf<DuplexStream>,
    change: impl Fn(usize, u8) -> u8,
) -> Vec<u8> {
    let (mut copy, mut part) = (Vec::new(), [0; 4_096]);
    while let Ok(length @ 1..) = from.read(&mut part).await {
        for byte in &mut part[..length] {
            *byte = change(copy.len(), *byte);
            copy.push(*byte);
        }
        if to.write_all(&part[..length]).await.is_err() {
            break;
        }
    }
    drop(to.shutdown().await);
    copy
}

/// A handshake through a third party that changes one byte of one direction. Says whether each side has a link, and
/// what passed in both directions.
async fn through(to_b: (usize, u8), to_a: (usize, u8)) -> ([bool; 2], [Vec<u8>; 2]) {
    let (a, a_middle) = duplex(4_096);
    let (b_middle, b_stream) = duplex(4_096);
    let (from_a, into_a) = tokio::io::split(a_middle);
    let (from_b, into_b) = tokio::io::split(b_middle);
    let flip = |(at, mask): (usize, u8)| move |place, byte| if place == at { byte ^ mask } else { byte };
    let (end_a, end_b, b_id) = (endpoint("a", &Service::new()), b(), id("b"));
    let (a, b, passed_to_b, passed_to_a) = tokio::join!(
        async { end_a.dial(a, &b_id).await.is_ok() },
        async { end_b.accept(b_stream).await.is_ok() },
        relay(from_a, into_b, flip(to_b)),
        relay(from_b, into_a, flip(to_a)),
    );
    ([a, b], [passed_to_b, passed_to_a])
}

#[tokio::test(start_paused = true)]
async fn no_byte_of_a_handshake_can_be_changed_on_the_way() {
    let (linked, [to_b, to_a]) = through((0, 0), (0, 0)).await;
    assert_eq!(linked, [true, true]);
    for at in 0..to_b.len() {
        for mask in [1, 0x80] {
            let (linked, _) = through((at, mask), (0, 0)).await;
            assert!(!linked[1], "byte {at} of those to the listener");
        }
    }
    for at in 0..to_a.len() {
        for mask in [1, 0x80] {
            let (linked, _) = through((0, 0), (at, mask)).await;
            assert_eq!(linked, [false, false], "byte {at} of those to the side that connected");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_recorded_handshake_proves_nothing_later() {
    let (_, [to_b, to_a]) = through((0, 0), (0, 0)).await;
    let (mut stranger, to_stranger) = duplex(4_096);
    stranger.write_all(&to_b).await.unwrap();
    let refused = b().accept(to_stranger).await.unwrap_err();
    assert!(matches!(refused, HandshakeError::NotProven { .. }), "{refused:?}");
    let (mut stranger, to_stranger) = duplex(4_096);
    stranger.write_all(&to_a).await.unwrap();
    let refused = endpoint("a", &Service::new()).dial(to_stranger, &id("b")).await.unwrap_err();
    assert!(matches!(refused, HandshakeError::NotProven { .. }), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn a_mirror_proves_nothing() {
    for is_dialer in [true, false] {
        let (node, mirror) = duplex(4_096);
        let (from, into) = tokio::io::split(mirror);
        let mirroring = tokio::spawn(relay(from, into, |_, byte| byte));
        let (end, b_id) = (endpoint("a", &Service::new()), id("b"));
        let refused = match is_dialer {
            true => end.dial(node, &b_id).await.map(|_| ()),
            // A mirror says nothing first.
            false => end.accept(node).await.map(|_| ()),
        };
        let expected = if is_dialer { HandshakeError::Itself } else { HandshakeError::TooSlow };
        assert_eq!(refused, Err(expected));
        mirroring.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_nodes_own_proof_sent_back_proves_nothing() {
    let (mut stranger, to_stranger) = duplex(4_096);
    let b = b();
    let accepting = tokio::spawn(async move { b.accept(to_stranger).await.map(|_| ()) });
    stranger.write_all(&hello([1; 32])).await.unwrap();
    body(&mut stranger).await;
    let proof = body(&mut stranger).await;
    stranger.write_all(&[&32_u32.to_le_bytes()[..], &proof].concat()).await.unwrap();
    let refused = accepting.await.unwrap().unwrap_err();
    assert!(matches!(refused, HandshakeError::NotProven { .. }), "{refused:?}");
}

/// The hello of a stranger that names itself `c`.
fn hello(nonce: [u8; 32]) -> Vec<u8> {
    let mut body = b"KEWPEER\n\x01\0\x01\0".to_vec();
    body.extend_from_slice(&nonce);
    body.extend_from_slice(b"\x01c\x01c");
    [&u32::try_from(body.len()).unwrap().to_le_bytes()[..], &body].concat()
}

/// A stranger names itself `c`. To prove the secret to `b`, it has `b` prove it: it connects to `b` twice, and has the
/// hello of one connection answered on the other.
#[tokio::test(start_paused = true)]
async fn a_nodes_own_proof_of_another_connection_proves_nothing() {
    let b = b();
    let (mut first, to_first) = duplex(4_096);
    let (mut second, to_second) = duplex(4_096);
    let (b_first, b_second) = (b.clone(), b.clone());
    let first_result = tokio::spawn(async move { b_first.accept(to_first).await.map(|_| ()) });
    let second_result = tokio::spawn(async move { b_second.accept(to_second).await.map(|_| ()) });
    first.write_all(&hello([1; 32])).await.unwrap();
    let theirs = body(&mut first).await;
    // The nonce that `b` chose on the first connection is the stranger's own on the second.
    second.write_all(&hello(theirs[12..44].try_into().unwrap())).await.unwrap();
    body(&mut second).await;
    let proof = body(&mut second).await;
    first.write_all(&[&32_u32.to_le_bytes()[..], &proof].concat()).await.unwrap();
    let refused = first_result.await.unwrap().unwrap_err();
    assert!(matches!(refused, HandshakeError::NotProven { .. }), "{refused:?}");
    drop(second);
    assert_eq!(second_result.await.unwrap().unwrap_err(), HandshakeError::Closed);
}

async fn body(stream: &mut DuplexStream) -> Vec<u8> {
    let mut body = vec![0; stream.read_u32_le().await.unwrap() as usize];
    stream.read_exact(&mut body).await.unwrap();
    body
}

#[tokio::test(start_paused = true)]
async fn the_secret_is_not_among_the_bytes_that_are_sent() {
    let (_, passed) = through((0, 0), (0, 0)).await;
    for bytes in passed {
        assert!(!bytes.windows(8).any(|part| part == [42; 8]));
    }
}

#[tokio::test(start_paused = true)]
async fn frames_that_follow_the_last_proof_at_once_are_not_lost() {
    // The side that connected asks at once; the other still waits for its proof then.
    for _ in 0..50 {
        let (a, _b) = super::support::pair().await;
        let asked = timeout(Duration::from_secs(1), a.link.ask("e".into())).await;
        assert!(asked.unwrap().is_ok());
    }
}

#[allow(dead_code, reason = "an endpoint is shared by tasks: this compiles only if it may be")]
fn an_endpoint_is_shared(endpoint: Arc<Endpoint>) -> impl Send + Sync {
    endpoint
}
