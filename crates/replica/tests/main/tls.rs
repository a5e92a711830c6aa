//! TLS: which clients and replicas are accepted, and which are refused.

use katydid_replica::{
    Client, ClientOptions, Error, ReadAt, Replica, ReplicaOptions, RequestId, Tls, TlsFiles, Transport,
    WriteOptions, WriteSet,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const CLUSTER: [u8; 16] = [9; 16];

fn files(certificate: &str, authority: &str) -> TlsFiles {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/main/certificates");
    TlsFiles {
        certificate: folder.join(format!("{certificate}.pem")),
        key: folder.join(format!("{certificate}.key")),
        authority: folder.join(format!("{authority}.pem")),
    }
}

fn tls(certificate: &str, authority: &str) -> Arc<dyn Transport> {
    Arc::new(Tls::new(&files(certificate, authority)).expect("the files are good"))
}

fn options(folder: &Path, id: u64, transport: Arc<dyn Transport>) -> ReplicaOptions {
    let mut options = ReplicaOptions::new(folder.join(id.to_string()), CLUSTER, id, "127.0.0.1:0");
    options.transport = transport;
    options
}

fn client(address: &str, transport: Arc<dyn Transport>) -> Client {
    let mut options = ClientOptions::new([address]);
    options.transport = transport;
    options.wait = Duration::from_secs(5);
    Client::new(options).expect("a client")
}

#[test]
fn members_and_clients_with_certificates_get_in_and_others_do_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let replicas: BTreeMap<u64, Replica> = (1..=3)
        .map(|id| {
            let options = options(folder.path(), id, tls("member", "authority"));
            (id, Replica::open(options).expect("open"))
        })
        .collect();
    let members: BTreeMap<_, _> =
        replicas.iter().map(|(id, replica)| (*id, replica.address().to_owned())).collect();
    replicas[&1].initialize(&members).expect("initialize");
    let known = client(&members[&1], tls("member", "authority"));
    let id = RequestId { client: known.open_client().expect("a session"), sequence: 1 };
    let set = WriteSet::default().put("t", "k", vec![3; 100_000]);
    let all = WriteOptions { durability: katydid_replica::Replicated::All, ..WriteOptions::default() };
    known.write(id, set, all).expect("three replicas reach each other");
    assert_eq!(known.get("t", "k", ReadAt::Leader).expect("read"), Some(vec![3; 100_000]));

    let address = &members[&1];
    let refused = |transport| matches!(client(address, transport).status(address), Err(Error::Io { .. }));
    assert!(refused(tls("stranger", "authority")), "the certificate of another authority");
    assert!(refused(tls("member", "other-authority")), "the client trusts another authority");
    assert!(refused(Arc::new(katydid_replica::Tcp)), "without TLS");
    let no_certificate = client(address, tls("elsewhere", "authority"));
    no_certificate.status(address).expect("a client's certificate may be for any name");
}

#[test]
fn a_replica_at_another_address_than_its_certificates_is_not_believed() {
    let folder = tempfile::tempdir().expect("a folder");
    let replica = Replica::open(options(folder.path(), 1, tls("elsewhere", "authority"))).expect("open");
    let found = client(replica.address(), tls("member", "authority")).status(replica.address());
    assert!(
        matches!(&found, Err(error @ Error::Io { .. }) if error.to_string().contains("certificate")),
        "{found:?}"
    );
}

#[test]
fn a_file_that_cannot_be_used_is_named() {
    let good = files("member", "authority");
    let no_key = TlsFiles { key: good.certificate.clone(), ..good.clone() };
    let other_key = TlsFiles { key: files("stranger", "authority").key, ..good.clone() };
    let no_file = TlsFiles { authority: "/no/such/file".into(), ..good.clone() };
    let no_certificate = TlsFiles { certificate: good.key.clone(), ..good.clone() };
    let cases = [
        (&no_key, &no_key.key),
        (&other_key, &other_key.key),
        (&no_file, &no_file.authority),
        (&no_certificate, &no_certificate.certificate),
    ];
    for (files, wrong) in cases {
        match Tls::new(files) {
            Err(Error::Tls { file, .. }) => assert_eq!(Path::new(&file), wrong),
            other => panic!("{other:?} of {files:?}"),
        }
    }
}
