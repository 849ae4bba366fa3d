//! The same bytes, cut into the same pieces, to our HTTP/1 and to hyper's: both must see the same requests and give the
//! same replies. Each difference from a library in wide use has a reason: see `differences`.

mod differences;
mod exchange;
mod ours;
mod streams;
mod theirs;

use std::time::Duration;

use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use exchange::Exchange;
use streams::Stream;

/// The longest a body may be.
const BODY_BYTES_MAX: usize = 1 << 20;

/// Sends a stream piece by piece, ends it, and reads what comes back.
async fn talk(mut client: DuplexStream, stream: &Stream) -> Vec<u8> {
    let mut came = Vec::new();
    for piece in stream.pieces() {
        // A server that has had enough closes.
        if client.write_all(piece).await.is_err() {
            break;
        }
        for _ in 0..8 {
            tokio::task::yield_now().await;
        }
    }
    // A client that ends its side while an answer is awaited may be taken for gone.
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
    let _ended = client.shutdown().await;
    let _read = client.read_to_end(&mut came).await;
    came
}

/// What each of the two made of a stream.
async fn both(stream: &Stream) -> (Exchange, Exchange) {
    let (client, server) = duplex(1 << 20);
    let (talking, requests) = tokio::join!(talk(client, stream), ours::serve(server));
    let ours = Exchange::new(requests, &talking);
    let (client, server) = duplex(1 << 20);
    let (talking, requests) = tokio::join!(talk(client, stream), theirs::serve(server));
    (ours, Exchange::new(requests, &talking))
}

fn compare(stream: &Stream) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime of one thread starts");
    let (ours, theirs) = runtime
        .block_on(async { tokio::time::timeout(Duration::from_secs(20), both(stream)).await })
        .map_err(|_| format!("one of them does not end:\n{stream:?}"))?;
    if ours == theirs || differences::is_deliberate(stream, &ours, &theirs) {
        return Ok(());
    }
    Err(format!("{stream:?}\nours: {ours:#?}\ntheirs: {theirs:#?}"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, max_shrink_iters: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn requests_good_and_bad_are_read_alike(stream in streams::requests()) {
        compare(&stream).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn bytes_of_any_kind_are_read_alike(stream in streams::noise()) {
        compare(&stream).map_err(TestCaseError::fail)?;
    }
}

#[test]
fn each_difference_is_one() {
    for (text, why) in differences::EXAMPLES {
        let stream = Stream::whole(text.as_bytes());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime of one thread starts");
        let (ours, theirs) = runtime.block_on(both(&stream));
        assert_ne!(ours, theirs, "it is none any more: {why}");
        assert!(differences::is_deliberate(&stream, &ours, &theirs), "{why}: {ours:#?} {theirs:#?}");
    }
}
