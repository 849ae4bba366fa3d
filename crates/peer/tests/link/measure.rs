//! Figures over TCP on one machine. Each node has a thread of its own.
//!
//! `cargo test -p kew-peer --test link measure -- --ignored --nocapture`

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use kew_peer::link::{Counted, Endpoint, Link, Serve, Serving};
use rustix::time::{ClockId, clock_gettime};
use tokio::net::{TcpListener, TcpStream};

use super::support::{chance, id, identity};

/// Answers with the same bytes, at once.
struct Echo;

impl Serve for Echo {
    fn serve(&self, _: &Link, request: Bytes) -> Serving {
        Box::pin(std::future::ready(request))
    }
}

fn cpu() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.try_into().unwrap(), now.tv_nsec.try_into().unwrap())
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn node(name: &str) -> Endpoint {
    Endpoint::new(identity(name), chance(), Arc::new(Echo))
}

/// The node that is asked: returns its thread's CPU time and its figures.
fn asked(listener: std::net::TcpListener) -> (Duration, Counted) {
    runtime().block_on(async {
        let listener = TcpListener::from_std(listener).unwrap();
        let stream = listener.accept().await.unwrap().0;
        stream.set_nodelay(true).unwrap();
        let (link, connection) = node("b").accept(stream).await.unwrap();
        let before = cpu();
        connection.await;
        (cpu() - before, link.counted())
    })
}

async fn asking(
    address: std::net::SocketAddr,
    askers: usize,
    bytes: usize,
) -> (u64, Duration, Duration, Counted) {
    let stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let (link, connection) = node("a").dial(stream, &id("b")).await.unwrap();
    let connection = tokio::spawn(connection);
    let is_over = Arc::new(AtomicBool::new(false));
    let (begun, before) = (Instant::now(), cpu());
    let askers: Vec<_> = (0..askers)
        .map(|_| {
            let (link, is_over, request) = (link.clone(), Arc::clone(&is_over), Bytes::from(vec![1; bytes]));
            tokio::spawn(async move {
                let mut count = 0_u64;
                while !is_over.load(Ordering::Relaxed) {
                    link.ask(request.clone()).await.unwrap();
                    count += 1;
                }
                count
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_secs(2)).await;
    is_over.store(true, Ordering::Relaxed);
    let mut count = 0;
    for asker in askers {
        count += asker.await.unwrap();
    }
    let (took, used) = (begun.elapsed(), cpu() - before);
    link.end();
    connection.await.unwrap();
    (count, took, used, link.counted())
}

#[test]
#[ignore = "prints figures, asserts nothing"]
fn measure() {
    println!("askers  bytes    asks/s  CPU us/ask asking + asked  writes/ask asking + asked");
    for (askers, bytes) in [(1, 100), (8, 100), (64, 100), (512, 100), (64, 10_000), (8, 1 << 20)] {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let other = std::thread::spawn(move || asked(listener));
        let (count, took, used, counted) = runtime().block_on(asking(address, askers, bytes));
        let (used_other, counted_other) = other.join().unwrap();
        let each = |used: Duration| used.as_secs_f64() * 1e6 / count as f64;
        let writes = |counted: Counted| counted.writes as f64 / count as f64;
        println!(
            "{askers:6} {bytes:8} {:8.0}  {:10.2} + {:.2}  {:22.3} + {:.3}",
            count as f64 / took.as_secs_f64(),
            each(used),
            each(used_other),
            writes(counted),
            writes(counted_other),
        );
    }
}
