//! Connections between replicas: a trait, and TCP.
//!
//! This code runs in tasks of the replica's runtime. Tests and programs can replace TCP by a
//! transport of their own, such as TLS over TCP.

use futures_util::future::BoxFuture;
use std::io;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};

/// A connection: bytes in both directions.
pub trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

/// Makes and accepts connections.
pub trait Transport: Send + Sync + 'static {
    /// Connects to the replica at `address`.
    fn connect(&self, address: &str) -> BoxFuture<'static, io::Result<Box<dyn Connection>>>;

    /// Begins to accept connections at `address`.
    fn listen(&self, address: &str) -> BoxFuture<'static, io::Result<Box<dyn Listener>>>;
}

/// Accepts connections.
pub trait Listener: Send + 'static {
    /// Returns the address at which replicas and clients reach the listener.
    fn address(&self) -> String;

    /// Waits for the next connection. Dropping the future loses no connection.
    fn accept(&mut self) -> BoxFuture<'_, io::Result<Box<dyn Connection>>>;
}

/// TCP without encryption, for trusted networks. The cluster's id protects against replicas of
/// other clusters that connect by mistake, but not against attackers.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tcp;

impl Transport for Tcp {
    fn connect(&self, address: &str) -> BoxFuture<'static, io::Result<Box<dyn Connection>>> {
        let address = address.to_owned();
        Box::pin(async move {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as Box<dyn Connection>)
        })
    }

    fn listen(&self, address: &str) -> BoxFuture<'static, io::Result<Box<dyn Listener>>> {
        let address = address.to_owned();
        Box::pin(async move {
            let listener = TcpListener::bind(address).await?;
            let address = listener.local_addr()?.to_string();
            Ok(Box::new(TcpAcceptor { listener, address }) as Box<dyn Listener>)
        })
    }
}

struct TcpAcceptor {
    listener: TcpListener,
    address: String,
}

impl Listener for TcpAcceptor {
    fn address(&self) -> String {
        self.address.clone()
    }

    fn accept(&mut self) -> BoxFuture<'_, io::Result<Box<dyn Connection>>> {
        Box::pin(async move {
            let (stream, _) = self.listener.accept().await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as Box<dyn Connection>)
        })
    }
}
