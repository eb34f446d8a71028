//! What a client certificate says.

use jiff::Timestamp;
use sha2::{Digest, Sha256};
use yasna::{ASN1Result, BERReader, models::ObjectIdentifier};

use super::Identity;

/// Key of the extra that tells which certificate it was.
const CREDENTIAL: &str = "authentication.kubernetes.io/credential-id";

/// A certificate that a client has presented, and that has been verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Presented {
    /// User (common name) and groups (organizations).
    pub(crate) identity: Identity,
    /// Hexadecimal.
    pub(crate) serial: String,
    /// SHA-256, hexadecimal.
    pub(crate) fingerprint: String,
    pub(crate) not_before: Timestamp,
    pub(crate) not_after: Timestamp,
}

/// Reads a certificate that has been verified. `None` if it names no user.
pub(crate) fn presented(der: &[u8]) -> Option<Presented> {
    let mut out = Presented {
        identity: Identity::new("", Vec::<String>::new()),
        serial: String::new(),
        fingerprint: hex(&Sha256::digest(der)),
        not_before: Timestamp::MAX,
        not_after: Timestamp::MIN,
    };
    let parsed = yasna::parse_der(der, |reader| {
        reader.read_sequence(|reader| {
            reader.next().read_sequence(|tbs| content(tbs, &mut out))?;
            reader.next().read_der()?;
            reader.next().read_der()?;
            Ok(())
        })
    });
    let id = format!("X509SHA256={}", out.fingerprint);
    out.identity.extra.insert(CREDENTIAL.to_owned(), vec![id]);
    (parsed.is_ok() && !out.identity.user.is_empty()).then_some(out)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// `TBSCertificate` up to the subject (RFC 5280, 4.1).
fn content(tbs: &mut yasna::BERReaderSeq<'_, '_>, out: &mut Presented) -> ASN1Result<()> {
    tbs.read_optional(|version| version.read_tagged(yasna::Tag::context(0), |v| v.read_der()))?;
    out.serial = hex(&tbs.next().read_bigint_bytes()?.0);
    for _ in ["signature", "issuer"] {
        tbs.next().read_der()?;
    }
    (out.not_before, out.not_after) = tbs
        .next()
        .read_sequence(|validity| Ok((time(validity.next())?, time(validity.next())?)))?;
    let identity = &mut out.identity;
    tbs.next().read_sequence_of(|set| {
        set.read_set_of(|attribute| {
            attribute.read_sequence(|pair| {
                let oid = pair.next().read_oid()?;
                let text = text(pair.next())?;
                if oid == ObjectIdentifier::from_slice(&[2, 5, 4, 3]) {
                    identity.user = text;
                } else if oid == ObjectIdentifier::from_slice(&[2, 5, 4, 10]) {
                    identity.groups.push(text);
                }
                Ok(())
            })
        })
    })?;
    // Public key and extensions are not our business.
    while tbs.read_optional(|rest| rest.read_der())?.is_some() {}
    Ok(())
}

fn time(reader: BERReader<'_, '_>) -> ASN1Result<Timestamp> {
    let der = reader.read_der()?;
    let at = match yasna::parse_der(&der, |r| r.read_utctime()) {
        Ok(time) => *time.datetime(),
        Err(_) => *yasna::parse_der(&der, |r| r.read_generalized_time())?.datetime(),
    };
    Timestamp::from_second(at.unix_timestamp())
        .map_err(|_| yasna::ASN1Error::new(yasna::ASN1ErrorKind::Invalid))
}

fn text(reader: BERReader<'_, '_>) -> ASN1Result<String> {
    let der = reader.read_der()?;
    let utf8 = yasna::parse_der(&der, |r| r.read_utf8string());
    utf8.or_else(|_| yasna::parse_der(&der, |r| r.read_printable_string()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;
    use proptest::prelude::*;
    use rustls::pki_types::{CertificateDer, pem::PemObject};

    use super::*;
    use crate::auth::Authority;

    fn identity_of(der: &[u8]) -> Option<Identity> {
        let mut identity = presented(der)?.identity;
        let id = identity.extra.remove(CREDENTIAL)?;
        assert!(id.concat().starts_with("X509SHA256="));
        Some(identity)
    }

    fn der(identity: &Identity) -> Vec<u8> {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let authority = Authority::generate(now).unwrap();
        let issued = authority
            .issue(identity, Duration::from_secs(3_600), now)
            .unwrap();
        CertificateDer::from_pem_slice(issued.certificate.as_bytes())
            .unwrap()
            .to_vec()
    }

    #[test]
    fn what_was_issued_is_read_back() {
        for identity in [
            Identity::admin(),
            Identity::agent("east-1"),
            Identity::new("nobody", Vec::<String>::new()),
        ] {
            assert_eq!(identity_of(&der(&identity)), Some(identity));
        }
    }

    #[test]
    fn serial_and_times_are_read() {
        let read = presented(&der(&Identity::admin())).unwrap();
        assert_eq!(read.not_before.as_second(), 1_800_000_000);
        assert_eq!(read.not_after.as_second(), 1_800_003_600);
        assert_eq!(read.fingerprint.len(), 64);
        assert!(read.serial.len() >= 16, "{}", read.serial);
    }

    #[test]
    fn damaged_certificates_are_answered() {
        let whole = der(&Identity::admin());
        for cut in 0..whole.len() {
            assert_eq!(identity_of(&whole[..cut]), None);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = identity_of(&bytes);
        }
    }
}
