//! TLS over TCP, in which both sides show certificates.
//!
//! This code runs in tasks of the replica's runtime. Each cluster has a certificate authority of
//! its own. A connection is made only if both sides show a certificate of that authority. The
//! accepting side's certificate must also be for the name or address that the connecting side has
//! used. Only TLS 1.3 is used. Handshakes run concurrently, and a handshake that takes too long is
//! ended, so a silent peer delays no other connection.

use crate::error::{Error, Result};
use crate::transport::{Connection, Listener, Transport, accept, connect};
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// Maximum time of a handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Maximum number of concurrent handshakes. Further connections wait in the operating system.
const HANDSHAKES_MAX: usize = 1024;

/// The files of certificates and keys, in PEM form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate of this replica or client, followed by the certificates between it and the
    /// authority, if there are any.
    pub certificate: PathBuf,
    /// The private key of the certificate.
    pub key: PathBuf,
    /// The certificate of the authority that certifies all replicas and clients.
    pub authority: PathBuf,
}

/// TLS with certificates on both sides, as a [`Transport`].
#[derive(Clone)]
pub struct Tls {
    connector: TlsConnector,
    acceptor: TlsAcceptor,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads the files, and uses the cryptography of `graviola`, which needs no C compiler.
    /// `graviola` needs an x86-64 processor with AVX2 and ADX (most since 2014) or an ARM processor
    /// with AES.
    ///
    /// # Errors
    /// [`Error::Tls`].
    pub fn new(files: &TlsFiles) -> Result<Tls> {
        Self::with_provider(files, rustls_graviola::default_provider().into())
    }

    /// Reads the files, and uses the cryptography of the given [`rustls`] provider.
    ///
    /// # Errors
    /// [`Error::Tls`].
    pub fn with_provider(files: &TlsFiles, provider: Arc<CryptoProvider>) -> Result<Tls> {
        let TlsFiles { certificate, key, authority } = files;
        let chain = certificates(certificate)?;
        let private = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, error))?;
        let mut roots = RootCertStore::empty();
        for root in certificates(authority)? {
            roots.add(root).map_err(|error| wrong(authority, error))?;
        }
        let roots = Arc::new(roots);
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone());
        let verifier = verifier.build().map_err(|error| wrong(authority, error))?;
        let versions = &[&rustls::version::TLS13];
        let server = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(versions)
            .map_err(|error| wrong(certificate, error))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain.clone(), private.clone_key())
            .map_err(|error| wrong(key, error))?;
        let client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .map_err(|error| wrong(certificate, error))?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, private)
            .map_err(|error| wrong(key, error))?;
        Ok(Tls { connector: Arc::new(client).into(), acceptor: Arc::new(server).into() })
    }
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let read = CertificateDer::pem_file_iter(file).and_then(|found| found.collect::<Result<Vec<_>, _>>());
    let found = read.map_err(|error| wrong(file, error))?;
    match found.is_empty() {
        true => Err(wrong(file, "it has no certificate")),
        false => Ok(found),
    }
}

fn wrong(file: &Path, reason: impl fmt::Display) -> Error {
    Error::Tls { file: file.display().to_string(), reason: reason.to_string() }
}

/// Returns the name that the certificate of the replica at `address` must have.
fn name(address: &str) -> io::Result<ServerName<'static>> {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    ServerName::try_from(host).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
}

impl Transport for Tls {
    fn connect(&self, address: &str) -> BoxFuture<'static, io::Result<Box<dyn Connection>>> {
        let (connector, name, address) = (self.connector.clone(), name(address), address.to_owned());
        Box::pin(async move {
            let stream = connect(&address).await?;
            Ok(Box::new(connector.connect(name?, stream).await?) as Box<dyn Connection>)
        })
    }

    fn listen(&self, address: &str) -> BoxFuture<'static, io::Result<Box<dyn Listener>>> {
        let (acceptor, address) = (self.acceptor.clone(), address.to_owned());
        Box::pin(async move {
            let listener = TcpListener::bind(address).await?;
            let address = listener.local_addr()?.to_string();
            let handshakes = FuturesUnordered::new();
            Ok(Box::new(TlsListener { listener, address, acceptor, handshakes }) as Box<dyn Listener>)
        })
    }
}

struct TlsListener {
    listener: TcpListener,
    address: String,
    acceptor: TlsAcceptor,
    handshakes: FuturesUnordered<BoxFuture<'static, Option<Box<dyn Connection>>>>,
}

impl Listener for TlsListener {
    fn address(&self) -> String {
        self.address.clone()
    }

    fn accept(&mut self) -> BoxFuture<'_, io::Result<Box<dyn Connection>>> {
        Box::pin(async move {
            loop {
                tokio::select! {
                    biased;
                    // A failed handshake yields `None`, and the loop goes on with the other
                    // handshakes.
                    Some(done) = self.handshakes.next() => if let Some(connection) = done {
                        return Ok(connection);
                    },
                    accepted = accept(&self.listener), if self.handshakes.len() < HANDSHAKES_MAX => {
                        let handshake = self.acceptor.accept(accepted?);
                        self.handshakes.push(Box::pin(async move {
                            let done = tokio::time::timeout(HANDSHAKE, handshake).await;
                            Some(Box::new(done.ok()?.ok()?) as Box<dyn Connection>)
                        }));
                    }
                }
            }
        })
    }
}
