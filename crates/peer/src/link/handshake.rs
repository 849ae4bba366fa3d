//! The first words of a connection: a version both speak, who is there, and proof of the fleet's secret.
//!
//! The side that connected says hello; the other answers with its own hello and its proof, and the first sends its
//! proof. A proof is an HMAC-SHA256 under the secret over a role and both hellos. Each hello holds a nonce, so a proof
//! that was recorded is worth nothing later; the role makes the proof of one side useless for the other; and as
//! versions and names are in the hellos, none of them can be changed on the way. The secret itself is never sent.
//!
//! The proofs say who begins the conversation. That it is not read or changed afterwards is for TLS to see to: an
//! endpoint takes any stream. The proofs over an encrypted one are also over its [`Binding`]: so nothing stands between
//! the two nodes, whatever certificates they have.
//!
//! A frame is its length (4 bytes, little-endian) and its body. A hello's body is the magic, the oldest and the newest
//! version spoken (2 bytes each), the nonce, and id and name, each behind its length (1 byte). What follows belongs to
//! later versions.

use std::fmt;
use std::io;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use hmac::{Hmac, KeyInit, Mac};
use kew_core::Entropy;
use sha2::Sha256;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use super::limits::{GREETING_MAX, HELLO_TIME_MAX};
use super::node::{Node, NodeId};

/// What a record of TLS begins with, an alert or a hello. As lengths they are longer than any of ours.
const TLS_RECORDS: [[u8; 2]; 2] = [[0x15, 3], [0x16, 3]];

/// What a hello begins with.
const MAGIC: &[u8; 8] = b"KEWPEER\n";
/// The bytes of a nonce.
const NONCE: usize = 32;
/// The bytes of a proof.
const PROOF: usize = 32;

const DIALER: &[u8] = b"kew peer handshake: the side that connected";
const LISTENER: &[u8] = b"kew peer handshake: the side that was connected to";

/// What all nodes of a fleet know.
#[derive(Clone, Copy)]
pub struct Secret(pub [u8; 32]);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// What only the two ends of an encrypted stream know: keying material that TLS exports (RFC 5705).
#[derive(Clone, Copy)]
pub struct Binding(pub [u8; 32]);

impl fmt::Debug for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Binding(..)")
    }
}

/// The versions of the protocol that a node speaks, from the oldest to the newest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Versions {
    /// The oldest of them.
    pub oldest: u16,
    /// The newest of them.
    pub newest: u16,
}

impl Versions {
    /// The newest version that both speak.
    pub fn common(self, other: Self) -> Option<u16> {
        let newest = self.newest.min(other.newest);
        (newest >= self.oldest.max(other.oldest)).then_some(newest)
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.oldest, self.newest)
    }
}

/// What a node is in a handshake.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Its id and name.
    pub node: Node,
    /// The versions it speaks.
    pub versions: Versions,
    /// The fleet's secret.
    pub secret: Secret,
}

/// Why a connection came to nothing.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HandshakeError {
    /// The other side is no Kew node.
    #[error("the other side does not speak the protocol of Kew nodes")]
    NotKew,
    /// One side speaks TLS, and the other does not.
    #[error("of the two sides of the connection only one speaks TLS")]
    NotAlike,
    /// A hello or a proof has no valid form.
    #[error("the other side's handshake is malformed")]
    Malformed,
    /// There is no version that both speak.
    #[error("node {peer} speaks versions {theirs} of the protocol, this node {ours}: update the older one")]
    NoCommonVersion {
        /// Who is there, by its own account.
        peer: Node,
        /// What this node speaks.
        ours: Versions,
        /// What the other speaks.
        theirs: Versions,
    },
    /// The other side does not know the fleet's secret.
    #[error("the other side, which calls itself {peer}, does not prove the fleet's secret")]
    NotProven {
        /// Who it says it is.
        peer: Node,
    },
    /// The other side is this node.
    #[error("the connection leads back to this node")]
    Itself,
    /// The other side is not the node that was connected to.
    #[error("{found} answers at the address of node {wanted}")]
    AnotherNode {
        /// Who was expected.
        wanted: NodeId,
        /// Who is there.
        found: Node,
    },
    /// The handshake took longer than [`GREETING_TIME_MAX`](super::limits::GREETING_TIME_MAX).
    #[error("the handshake took too long")]
    TooSlow,
    /// As many handshakes are under way as may be.
    #[error("too many handshakes are under way")]
    TooMany,
    /// The other side closed the connection.
    #[error("the other side closed the connection during the handshake")]
    Closed,
    /// Reading or writing failed.
    #[error("the connection failed during the handshake: {0}")]
    Io(io::ErrorKind),
}

impl HandshakeError {
    /// Whether it says why the connection came to nothing, and not only that it did.
    pub fn is_reason(&self) -> bool {
        !matches!(self, Self::Closed | Self::Io(_) | Self::TooSlow)
    }
}

impl From<io::Error> for HandshakeError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::Closed,
            // What TLS says of bytes that are none of its records.
            io::ErrorKind::InvalidData => Self::NotAlike,
            kind => Self::Io(kind),
        }
    }
}

/// What a handshake found.
#[derive(Clone, Debug)]
pub struct Greeted {
    /// The node at the other end.
    pub peer: Node,
    /// The version to speak.
    pub version: u16,
    /// Whether this side connected.
    pub is_dialer: bool,
}

/// The handshake of the side that connected, to the node `wanted`.
pub(super) async fn dial<S>(
    stream: &mut S,
    (me, binding): (&Identity, Option<Binding>),
    wanted: &NodeId,
    entropy: &dyn Entropy,
) -> Result<Greeted, HandshakeError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let ours = hello(me, entropy);
    send(stream, &[&ours]).await?;
    let theirs = receive(stream).await?;
    let hello = Hello::read(theirs.clone())?;
    let version = hello.check(me, &ours)?;
    if hello.node.id != *wanted {
        return Err(HandshakeError::AnotherNode { wanted: wanted.clone(), found: hello.node });
    }
    let hellos = Hellos { dialer: &ours, listener: &theirs, binding };
    expect_proof(stream, &hellos, &me.secret, LISTENER, &hello.node).await?;
    send(stream, &[&hellos.proof(&me.secret, DIALER).finalize().into_bytes()]).await?;
    Ok(Greeted { peer: hello.node, version, is_dialer: true })
}

/// The handshake of the side that was connected to.
pub(super) async fn accept<S>(
    stream: &mut S,
    (me, binding): (&Identity, Option<Binding>),
    entropy: &dyn Entropy,
) -> Result<Greeted, HandshakeError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let theirs = timeout(HELLO_TIME_MAX, receive(stream)).await.map_err(|_| HandshakeError::TooSlow)??;
    let hello = Hello::read(theirs.clone())?;
    let ours = self::hello(me, entropy);
    let hellos = Hellos { dialer: &theirs, listener: &ours, binding };
    let version = match hello.check(me, &ours) {
        Ok(version) => version,
        Err(error @ HandshakeError::NoCommonVersion { .. }) => {
            // So that the other side can say so, too.
            send(stream, &[&ours]).await?;
            return Err(error);
        }
        Err(error) => return Err(error),
    };
    send(stream, &[&ours, &hellos.proof(&me.secret, LISTENER).finalize().into_bytes()]).await?;
    expect_proof(stream, &hellos, &me.secret, DIALER, &hello.node).await?;
    Ok(Greeted { peer: hello.node, version, is_dialer: false })
}

/// Both hellos of one connection, byte for byte.
struct Hellos<'a> {
    dialer: &'a [u8],
    listener: &'a [u8],
    binding: Option<Binding>,
}

impl Hellos<'_> {
    /// The proof of the side of that role, not finished: it is then either sent or compared in constant time.
    fn proof(&self, secret: &Secret, role: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&secret.0).expect("HMAC takes a key of any length");
        for part in [role, self.dialer, self.listener] {
            mac.update(&u64::try_from(part.len()).expect("a length in memory fits in 64 bits").to_le_bytes());
            mac.update(part);
        }
        if let Some(binding) = &self.binding {
            mac.update(&binding.0);
        }
        mac
    }
}

async fn expect_proof<S>(
    stream: &mut S,
    hellos: &Hellos<'_>,
    secret: &Secret,
    role: &[u8],
    peer: &Node,
) -> Result<(), HandshakeError>
where
    S: AsyncRead + Unpin,
{
    let proof = receive(stream).await?;
    if proof.len() != PROOF {
        return Err(HandshakeError::Malformed);
    }
    let is_proven = hellos.proof(secret, role).verify_slice(&proof).is_ok();
    is_proven.then_some(()).ok_or_else(|| HandshakeError::NotProven { peer: peer.clone() })
}

/// The body of this node's hello.
fn hello(me: &Identity, entropy: &dyn Entropy) -> Bytes {
    let mut body = BytesMut::with_capacity(GREETING_MAX);
    body.put_slice(MAGIC);
    body.put_u16_le(me.versions.oldest);
    body.put_u16_le(me.versions.newest);
    body.put_u128_le(entropy.wide_bits());
    body.put_u128_le(entropy.wide_bits());
    for text in [me.node.id.as_str(), me.node.name()] {
        body.put_u8(u8::try_from(text.len()).expect("an id or a name has at most 255 bytes"));
        body.put_slice(text.as_bytes());
    }
    body.freeze()
}

/// What the other side's hello says.
struct Hello {
    versions: Versions,
    nonce: Bytes,
    node: Node,
}

impl Hello {
    fn read(mut body: Bytes) -> Result<Self, HandshakeError> {
        let magic = body.try_copy(MAGIC.len()).ok_or(HandshakeError::NotKew)?;
        if magic != MAGIC[..] {
            return Err(HandshakeError::NotKew);
        }
        Self::read_rest(&mut body).ok_or(HandshakeError::Malformed)
    }

    fn read_rest(body: &mut Bytes) -> Option<Self> {
        let oldest = body.try_get_u16_le().ok()?;
        let newest = body.try_get_u16_le().ok()?;
        let nonce = body.try_copy(NONCE)?;
        let id = text(body)?;
        let name = text(body)?;
        let node = Node::new(NodeId::new(std::str::from_utf8(&id).ok()?)?, std::str::from_utf8(&name).ok()?)?;
        (oldest <= newest).then_some(Self { versions: Versions { oldest, newest }, nonce, node })
    }

    /// The common version, unless the other side is this node or a mirror of it.
    fn check(&self, me: &Identity, ours: &Bytes) -> Result<u16, HandshakeError> {
        let our_nonce = ours.get(MAGIC.len() + 4..MAGIC.len() + 4 + NONCE).unwrap_or_default();
        if self.node.id == me.node.id || self.nonce == our_nonce {
            return Err(HandshakeError::Itself);
        }
        self.versions.common(me.versions).ok_or_else(|| HandshakeError::NoCommonVersion {
            peer: self.node.clone(),
            ours: me.versions,
            theirs: self.versions,
        })
    }
}

/// A text behind its length.
fn text(body: &mut Bytes) -> Option<Bytes> {
    let length = body.try_get_u8().ok()?;
    body.try_copy(usize::from(length))
}

/// Takes bytes off the front, if there are as many.
trait TryCopy {
    fn try_copy(&mut self, length: usize) -> Option<Bytes>;
}

impl TryCopy for Bytes {
    fn try_copy(&mut self, length: usize) -> Option<Bytes> {
        (length <= self.len()).then(|| self.split_to(length))
    }
}

async fn send<S: AsyncWrite + Unpin>(stream: &mut S, bodies: &[&[u8]]) -> Result<(), HandshakeError> {
    let mut out = BytesMut::with_capacity(2 * GREETING_MAX);
    for body in bodies {
        out.put_u32_le(u32::try_from(body.len()).expect("a hello or a proof has at most GREETING_MAX bytes"));
        out.put_slice(body);
    }
    stream.write_all(&out).await?;
    stream.flush().await?;
    Ok(())
}

/// Reads one body, and not a byte more: what follows the last may be a frame of the link.
async fn receive<S: AsyncRead + Unpin>(stream: &mut S) -> Result<Bytes, HandshakeError> {
    let mut bytes = [0; 4];
    stream.read_exact(&mut bytes).await?;
    if TLS_RECORDS.iter().any(|begin| bytes.starts_with(begin)) {
        return Err(HandshakeError::NotAlike);
    }
    let length = usize::try_from(u32::from_le_bytes(bytes)).unwrap_or(usize::MAX);
    if length > GREETING_MAX {
        // Its first bytes are no length of ours.
        return Err(HandshakeError::NotKew);
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok(Bytes::from(body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_common_version_is_spoken_and_none_is_none() {
        let versions = |oldest, newest| Versions { oldest, newest };
        assert_eq!(versions(1, 1).common(versions(1, 2)), Some(1));
        assert_eq!(versions(1, 4).common(versions(2, 3)), Some(3));
        assert_eq!(versions(2, 3).common(versions(1, 1)), None);
        assert_eq!(versions(1, 1).common(versions(2, 3)), None);
    }

    #[test]
    fn a_proof_rests_on_role_secret_and_every_byte_of_both_hellos() {
        let bound = |binding: Option<Binding>, secret: u8, role: &[u8], dialer: &[u8], listener: &[u8]| {
            Hellos { dialer, listener, binding }.proof(&Secret([secret; 32]), role).finalize().into_bytes()
        };
        let proof = |secret, role, dialer, listener| bound(None, secret, role, dialer, listener);
        let base = proof(1, DIALER, b"ab", b"cd");
        assert_eq!(base, proof(1, DIALER, b"ab", b"cd"));
        let others = [
            proof(2, DIALER, b"ab", b"cd"),
            proof(1, LISTENER, b"ab", b"cd"),
            proof(1, DIALER, b"cd", b"ab"),
            proof(1, DIALER, b"abc", b"d"),
            proof(1, DIALER, b"a", b"bcd"),
            proof(1, DIALER, b"ab", b"ce"),
        ];
        for other in others {
            assert_ne!(base, other);
        }
        let [encrypted, otherwise] =
            [1, 2].map(|key| bound(Some(Binding([key; 32])), 1, DIALER, b"ab", b"cd"));
        assert!(base != encrypted && encrypted != otherwise);
    }

    #[test]
    fn a_secret_is_not_printed() {
        assert_eq!(format!("{:?}", Secret([7; 32])), "Secret(..)");
    }

    #[test]
    fn a_hello_cut_anywhere_is_refused() {
        let me = Identity {
            node: Node::new(NodeId::new("a").unwrap(), "node a").unwrap(),
            versions: Versions { oldest: 1, newest: 1 },
            secret: Secret([1; 32]),
        };
        let whole = hello(&me, &Zeros);
        for cut in 0..whole.len() {
            assert!(Hello::read(whole.slice(..cut)).is_err(), "cut at byte {cut}");
        }
        let read = Hello::read(whole).map(|hello| hello.node);
        assert_eq!(read, Ok(me.node));
    }

    struct Zeros;

    impl Entropy for Zeros {
        fn bits(&self) -> u64 {
            0
        }
    }
}
