//! Many threads over TCP: what races with what is left to chance here.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kew_peer::link::{LinkError, Serve};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::support::{Service, endpoint, id};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_threads_ask_drop_and_end() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    for round in 0..8_u64 {
        let (service_a, service_b) = (Service::new(), Service::new());
        let (end_a, end_b) = (endpoint("a", &service_a), endpoint("b", &service_b));
        let b_id = id("b");
        let (a, b) = tokio::join!(
            async { end_a.dial(TcpStream::connect(address).await.unwrap(), &b_id).await.unwrap() },
            async { end_b.accept(listener.accept().await.unwrap().0).await.unwrap() },
        );
        let links = [a.0, b.0];
        let connections = [tokio::spawn(a.1), tokio::spawn(b.1)];
        let mut askers = tokio::task::JoinSet::new();
        for asker in 0..32_u64 {
            let link = links[usize::try_from(asker % 2).unwrap()].clone();
            askers.spawn(async move {
                let mut answered = 0_u64;
                for turn in 0..200_u64 {
                    let length = if turn % 50 == 0 { 100_000 } else { 20 };
                    let mut request = vec![b'e'; length];
                    request[1..9].copy_from_slice(&(asker << 32 | turn).to_le_bytes());
                    let request = Bytes::from(request);
                    match (turn + asker) % 7 {
                        0 => drop(timeout(Duration::from_micros(turn), link.ask(request)).await),
                        _ => match link.ask(request.clone()).await {
                            Ok(answer) => {
                                assert_eq!(answer, request);
                                answered += 1;
                            }
                            Err(LinkError::NotSent(_) | LinkError::Unknown(_)) => return answered,
                        },
                    }
                }
                answered
            });
        }
        if round % 2 == 1 {
            tokio::time::sleep(Duration::from_millis(5)).await;
            links[0].end();
        }
        let answered: u64 = askers.join_all().await.into_iter().sum();
        if round % 2 == 0 {
            assert!(answered > 32 * 150, "{answered} requests were answered");
            links[0].end();
        }
        for connection in connections {
            timeout(Duration::from_secs(5), connection).await.expect("both sides end").unwrap();
        }
        assert_eq!((service_a.open(), service_b.open()), (0, 0));
        assert_eq!((links[0].under_way(), links[1].under_way()), (0, 0));
        drop::<Arc<dyn Serve>>(service_a);
    }
}
