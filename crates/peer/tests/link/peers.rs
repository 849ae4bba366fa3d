//! The links between the nodes of a fleet: made when needed, made again, one for each pair.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use kew_peer::link::limits::{
    CONNECT_WAIT_MAX, CONNECT_WAITING_MAX, DIAL_COURTESY, GREETING_TIME_MAX, SILENCE_MAX,
};
use kew_peer::link::{
    Address, Dial, Dialing, HandshakeError, Link, LinkError, NodeId, Opened, Peers, TcpDial, Why,
};
use tokio::io::duplex;
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep, timeout};

use super::support::{Faults, Faulty, Service, endpoint, id, settle};

/// A network in memory. A node's address is its id.
#[derive(Default)]
struct Net {
    nodes: Mutex<HashMap<String, Peers>>,
    /// How long it takes to connect.
    delay: Mutex<Duration>,
    /// Connections are refused.
    is_down: AtomicBool,
    dials: AtomicUsize,
    /// The faults of each connection, at the side that connected.
    faults: Mutex<Vec<Arc<Faults>>>,
}

impl Net {
    fn dials(&self) -> usize {
        self.dials.load(Ordering::SeqCst)
    }

    fn node(self: &Arc<Self>, name: &str) -> (Peers, Arc<Service>) {
        let service = Service::new();
        let peers = Peers::new(endpoint(name, &service), Arc::new(NetDial(Arc::clone(self))));
        self.nodes.lock().unwrap().insert(name.to_owned(), peers.clone());
        (peers, service)
    }

    fn remove(&self, name: &str) {
        self.nodes.lock().unwrap().remove(name);
    }
}

struct NetDial(Arc<Net>);

impl Dial for NetDial {
    fn dial(&self, address: &Address) -> Dialing {
        let (net, address) = (Arc::clone(&self.0), address.0.clone());
        Box::pin(async move {
            net.dials.fetch_add(1, Ordering::SeqCst);
            let delay = *net.delay.lock().unwrap();
            sleep(delay).await;
            let node = net.nodes.lock().unwrap().get(&address).cloned();
            let node = node.filter(|_| !net.is_down.load(Ordering::SeqCst));
            let node = node.ok_or_else(|| io::Error::from(io::ErrorKind::ConnectionRefused))?;
            let (ours, theirs) = duplex(64 << 10);
            node.accept("10.0.0.1".parse().unwrap(), Box::pin(async { Ok(Opened::plain(theirs)) }));
            let (ours, faults) = Faulty::new(ours);
            net.faults.lock().unwrap().push(faults);
            Ok(Opened::plain(ours))
        })
    }
}

fn book(names: &[&str]) -> Vec<(NodeId, Address)> {
    names.iter().map(|name| (id(name), Address((*name).to_owned()))).collect()
}

async fn ask(peers: &Peers, node: &str, request: &str) -> Result<Bytes, LinkError> {
    peers.ask(&id(node), Bytes::from(request.to_owned())).await
}

fn link(peers: &Peers) -> Link {
    let links = peers.links();
    assert_eq!(links.len(), 1, "{links:?}");
    links.into_iter().next().unwrap()
}

#[tokio::test(start_paused = true)]
async fn nodes_of_the_book_are_connected_to_before_any_request() {
    let net = Arc::<Net>::default();
    let ((a, _), (b, _)) = (net.node("a"), net.node("b"));
    let mut changes = a.changes();
    a.set_nodes(book(&["a", "b"]));
    changes.changed().await.unwrap();
    settle().await;
    assert!(changes.has_changed().unwrap());
    assert_eq!((link(&a).peer().id.clone(), link(&b).peer().id.clone()), (id("b"), id("a")));
    assert_eq!(net.dials(), 1, "no connection to itself");
}

#[tokio::test(start_paused = true)]
async fn one_connection_carries_the_requests_of_both_nodes() {
    let net = Arc::<Net>::default();
    let ((a, _), (b, _)) = (net.node("a"), net.node("b"));
    a.set_nodes(book(&["a", "b"]));
    b.set_nodes(book(&["a", "b"]));
    assert_eq!(ask(&a, "b", "e to b").await, Ok("e to b".into()));
    assert_eq!(ask(&b, "a", "e to a").await, Ok("e to a".into()));
    sleep(DIAL_COURTESY * 3).await;
    assert_eq!(net.dials(), 1, "the node with the higher id waits for the other");
}

#[tokio::test(start_paused = true)]
async fn the_node_with_the_higher_id_connects_at_once_when_a_request_needs_it() {
    let net = Arc::<Net>::default();
    let ((_a, _), (b, _)) = (net.node("a"), net.node("b"));
    b.set_nodes(book(&["a", "b"]));
    let begun = Instant::now();
    assert_eq!(ask(&b, "a", "e").await, Ok("e".into()));
    assert!(begun.elapsed() < Duration::from_millis(2));
    // And without a request after a while.
    let (c, _) = net.node("c");
    c.set_nodes(book(&["a", "c"]));
    sleep(DIAL_COURTESY + Duration::from_millis(2)).await;
    assert_eq!(c.links().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn two_nodes_that_connect_at_once_keep_one_link_and_lose_no_request() {
    for delay in [0, 1, 5, 50] {
        let net = Arc::<Net>::default();
        *net.delay.lock().unwrap() = Duration::from_millis(delay);
        let ((a, service_a), (b, service_b)) = (net.node("a"), net.node("b"));
        a.set_nodes(book(&["a", "b"]));
        b.set_nodes(book(&["a", "b"]));
        let mut asked = tokio::task::JoinSet::new();
        for (peers, node) in [(&a, "b"), (&b, "a")] {
            for number in 0..50 {
                let (peers, request) = (peers.clone(), format!("g{number} to {node}"));
                asked.spawn(async move { (ask(&peers, node, &request).await, Bytes::from(request)) });
            }
        }
        sleep(Duration::from_secs(10)).await;
        assert_eq!(net.dials(), 2, "both connected");
        assert_eq!((service_a.open(), service_b.open()), (50, 50));
        service_a.open_gate();
        service_b.open_gate();
        while let Some(result) = asked.join_next().await {
            let (answer, request) = result.unwrap();
            assert_eq!(answer, Ok(request));
        }
        sleep(Duration::from_secs(5)).await;
        assert_eq!(net.dials(), 2);
        assert!(link(&a).is_dialed() && !link(&b).is_dialed(), "the one that the lower id dialed stays");
        let (x, y) = (link(&a).heard(), link(&b).heard());
        assert!(x.elapsed() < SILENCE_MAX && y.elapsed() < SILENCE_MAX);
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_to_a_node_that_cannot_be_reached_waits_a_bounded_time() {
    let net = Arc::<Net>::default();
    net.is_down.store(true, Ordering::SeqCst);
    let ((a, _), (_b, _)) = (net.node("a"), net.node("b"));
    a.set_nodes(book(&["b"]));
    let begun = Instant::now();
    assert_eq!(ask(&a, "b", "e").await, Err(LinkError::NotSent(Why::NotConnected)));
    assert_eq!(begun.elapsed().as_millis(), CONNECT_WAIT_MAX.as_millis());
    let refused = a.refused();
    assert_eq!(refused.last, Some(HandshakeError::Io(io::ErrorKind::ConnectionRefused)));
    assert_eq!(refused.count, u64::try_from(net.dials()).unwrap());
    assert_eq!(ask(&a, "c", "e").await, Err(LinkError::NotSent(Why::NoSuchNode)));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_waits_is_sent_once_the_node_can_be_reached() {
    let net = Arc::<Net>::default();
    net.is_down.store(true, Ordering::SeqCst);
    let ((a, _), (_b, _)) = (net.node("a"), net.node("b"));
    a.set_nodes(book(&["b"]));
    let asked = tokio::spawn({
        let a = a.clone();
        async move { ask(&a, "b", "e").await }
    });
    sleep(Duration::from_millis(500)).await;
    net.is_down.store(false, Ordering::SeqCst);
    assert_eq!(asked.await.unwrap(), Ok("e".into()));
}

#[tokio::test(start_paused = true)]
async fn only_so_many_requests_wait_for_a_connection() {
    let net = Arc::<Net>::default();
    net.is_down.store(true, Ordering::SeqCst);
    let (a, _) = net.node("a");
    a.set_nodes(book(&["b"]));
    let waiting: Vec<_> = (0..CONNECT_WAITING_MAX)
        .map(|_| {
            let a = a.clone();
            tokio::spawn(async move { ask(&a, "b", "e").await })
        })
        .collect();
    settle().await;
    assert_eq!(ask(&a, "b", "e").await, Err(LinkError::NotSent(Why::TooManyWaiting)));
    waiting.first().unwrap().abort();
    settle().await;
    let again = timeout(Duration::from_millis(100), ask(&a, "b", "e")).await;
    assert!(again.is_err(), "there is room again, so it waits: {again:?}");
}

#[tokio::test(start_paused = true)]
async fn attempts_to_connect_pause_between_them() {
    let net = Arc::<Net>::default();
    net.is_down.store(true, Ordering::SeqCst);
    let (a, _) = net.node("a");
    a.set_nodes(book(&["b"]));
    sleep(Duration::from_secs(20)).await;
    // 50, 100, 200, 400, 800 ms, then one a second.
    assert!((22..=24).contains(&net.dials()), "{} attempts in 20 s", net.dials());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_drops_every_link_is_not_connected_to_in_a_loop() {
    let net = Arc::<Net>::default();
    let ((a, _), (b, _)) = (net.node("a"), net.node("b"));
    a.set_nodes(book(&["b"]));
    for _ in 0..20_000 {
        b.links().iter().for_each(Link::end);
        sleep(Duration::from_millis(1)).await;
    }
    assert!(net.dials() <= 26, "{} attempts in 20 s", net.dials());
}

#[tokio::test(start_paused = true)]
async fn a_link_that_ends_is_made_again_at_once() {
    let net = Arc::<Net>::default();
    let ((a, _), (_b, service)) = (net.node("a"), net.node("b"));
    a.set_nodes(book(&["b"]));
    sleep(Duration::from_secs(3)).await;
    let first = link(&a);
    let asked = tokio::spawn({
        let a = a.clone();
        async move { ask(&a, "b", "n").await }
    });
    service.wait_for(1).await;
    first.end();
    assert_eq!(asked.await.unwrap(), Err(LinkError::Unknown(Why::Ended)), "it is not asked twice");
    assert_eq!(ask(&a, "b", "e").await, Ok("e".into()));
    assert_ne!(link(&a).id(), first.id());
}

#[tokio::test(start_paused = true)]
async fn a_dead_link_is_replaced_by_the_one_that_the_other_node_makes() {
    let net = Arc::<Net>::default();
    let ((a, _), (b, _)) = (net.node("a"), net.node("b"));
    a.set_nodes(book(&["a", "b"]));
    b.set_nodes(book(&["a", "b"]));
    sleep(GREETING_TIME_MAX * 2).await;
    let (dead_a, dead_b) = (link(&a), link(&b));
    // The first connection is cut in both directions; `b` ends its side, and `a` does not notice.
    net.faults.lock().unwrap()[0].set(|faults| &faults.mute_reads, true);
    net.faults.lock().unwrap()[0].set(|faults| &faults.lost_writes, true);
    dead_b.end();
    assert_eq!(ask(&b, "a", "e").await, Ok("e".into()));
    assert_eq!(dead_a.ended(), None);
    let begun = Instant::now();
    assert_eq!(ask(&a, "b", "e").await, Ok("e".into()), "the newer link is used");
    assert!(begun.elapsed() < Duration::from_millis(10));
    sleep(SILENCE_MAX * 2).await;
    assert_eq!(dead_a.ended(), Some(Why::Silent));
    assert_eq!((a.links().len(), b.links().len(), net.dials()), (1, 1, 2));
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_node_is_not_asked_and_its_link_ends_after_its_requests() {
    let net = Arc::<Net>::default();
    let ((a, _), (b, service)) = (net.node("a"), net.node("b"));
    a.set_nodes(book(&["b"]));
    settle().await;
    let old = link(&a);
    let asked = tokio::spawn({
        let a = a.clone();
        async move { ask(&a, "b", "g").await }
    });
    service.wait_for(1).await;
    a.set_nodes(book(&[]));
    assert_eq!(ask(&a, "b", "e").await, Err(LinkError::NotSent(Why::NoSuchNode)));
    sleep(Duration::from_secs(5)).await;
    service.open_gate();
    assert_eq!(asked.await.unwrap(), Ok("g".into()));
    b.close().await;
    settle().await;
    assert!(old.ended().is_some());
    sleep(Duration::from_secs(5)).await;
    assert_eq!(net.dials(), 1, "it is not connected to again");
}

#[tokio::test(start_paused = true)]
async fn requests_that_wait_for_a_node_end_when_it_is_forgotten() {
    let net = Arc::<Net>::default();
    net.is_down.store(true, Ordering::SeqCst);
    let (a, _) = net.node("a");
    a.set_nodes(book(&["b"]));
    let asked = tokio::spawn({
        let a = a.clone();
        async move { ask(&a, "b", "e").await }
    });
    settle().await;
    let begun = Instant::now();
    a.set_nodes(book(&["c"]));
    assert_eq!(asked.await.unwrap(), Err(LinkError::NotSent(Why::NoSuchNode)));
    assert!(begun.elapsed() < Duration::from_millis(2));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_not_in_the_book_yet_may_connect_and_is_kept_when_it_comes_in() {
    let net = Arc::<Net>::default();
    let ((a, _), (b, _)) = (net.node("a"), net.node("b"));
    b.set_nodes(book(&["a", "b"]));
    assert_eq!(ask(&b, "a", "e").await, Ok("e".into()));
    assert_eq!(ask(&a, "b", "e").await, Ok("e".into()));
    let before = link(&a).id();
    a.set_nodes(book(&["a"]));
    a.set_nodes(book(&["a", "b"]));
    sleep(Duration::from_secs(3)).await;
    assert_eq!((link(&a).id(), net.dials()), (before, 1));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_never_in_the_book_is_forgotten_with_its_link() {
    let net = Arc::<Net>::default();
    let ((a, _), (b, _)) = (net.node("a"), net.node("b"));
    b.set_nodes(book(&["a"]));
    assert_eq!(ask(&b, "a", "e").await, Ok("e".into()));
    b.close().await;
    net.remove("b");
    settle().await;
    assert_eq!(ask(&a, "b", "e").await, Err(LinkError::NotSent(Why::NoSuchNode)));
}

#[tokio::test(start_paused = true)]
async fn closing_drops_all_that_is_under_way() {
    let net = Arc::<Net>::default();
    let ((a, service_a), (b, service_b)) = (net.node("a"), net.node("b"));
    a.set_nodes(book(&["a", "b"]));
    settle().await;
    let asked = [(&a, "b"), (&b, "a")].map(|(peers, node)| {
        let peers = peers.clone();
        tokio::spawn(
            async move { peers.link_to(&id(node)).await.unwrap().ask(Bytes::from_static(b"n")).await },
        )
    });
    settle().await;
    a.close().await;
    assert_eq!(service_a.open(), 0);
    settle().await;
    assert_eq!(service_b.open(), 0);
    for asked in asked {
        assert!(matches!(asked.await.unwrap(), Err(LinkError::Unknown(_))));
    }
    a.set_nodes(book(&["b"]));
    assert!(matches!(ask(&a, "b", "e").await, Err(LinkError::NotSent(_))));
    assert_eq!(net.dials(), 1, "a closed node connects no more");
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_a_service_ends_one_link_and_the_next_request_makes_another() {
    let net = Arc::<Net>::default();
    let ((a, _), (_b, _)) = (net.node("a"), net.node("b"));
    a.set_nodes(book(&["b"]));
    assert_eq!(ask(&a, "b", "p").await, Err(LinkError::Unknown(Why::Closed)));
    assert_eq!(ask(&a, "b", "e").await, Ok("e".into()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn three_nodes_ask_each_other_over_tcp() {
    let names: [&'static str; 3] = ["a", "b", "c"];
    let (mut nodes, mut book) = (Vec::new(), Vec::new());
    for name in names {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        book.push((id(name), Address(listener.local_addr().unwrap().to_string())));
        let peers = Peers::new(endpoint(name, &Service::new()), Arc::new(TcpDial));
        let accepting = tokio::spawn({
            let peers = peers.clone();
            async move {
                loop {
                    let (stream, from) = listener.accept().await.unwrap();
                    peers.accept(from.ip(), Box::pin(async { Ok(Opened::plain(stream)) }));
                }
            }
        });
        nodes.push((peers, accepting));
    }
    for (peers, _) in &nodes {
        peers.set_nodes(book.clone());
    }
    let mut asked = tokio::task::JoinSet::new();
    for (name, (peers, _)) in names.into_iter().zip(&nodes) {
        for other in names.into_iter().filter(|other| *other != name) {
            for number in 0..100 {
                let (peers, request) = (peers.clone(), format!("e{number} from {name} to {other}"));
                asked.spawn(async move {
                    assert_eq!(ask(&peers, other, &request).await, Ok(Bytes::from(request)));
                });
            }
        }
    }
    while let Some(result) = asked.join_next().await {
        result.unwrap();
    }
    for (peers, accepting) in nodes {
        accepting.abort();
        timeout(Duration::from_secs(5), peers.close()).await.expect("all tasks end");
    }
}
