//! The identity a client certificate carries.

use yasna::{ASN1Result, BERReader, models::ObjectIdentifier};

use super::Identity;

/// Reads user (common name) and groups (organizations) from a certificate that has been verified. `None` if it names
/// no user.
pub(crate) fn identity_of(der: &[u8]) -> Option<Identity> {
    let mut user = String::new();
    let mut groups = vec![];
    let parsed = yasna::parse_der(der, |reader| {
        reader.read_sequence(|reader| {
            reader
                .next()
                .read_sequence(|tbs| subject(tbs, &mut user, &mut groups))?;
            reader.next().read_der()?;
            reader.next().read_der()?;
            Ok(())
        })
    });
    (parsed.is_ok() && !user.is_empty()).then_some(Identity { user, groups })
}

/// `TBSCertificate` up to the subject (RFC 5280, 4.1).
fn subject(
    tbs: &mut yasna::BERReaderSeq<'_, '_>,
    user: &mut String,
    groups: &mut Vec<String>,
) -> ASN1Result<()> {
    tbs.read_optional(|version| version.read_tagged(yasna::Tag::context(0), |v| v.read_der()))?;
    for _ in ["serialNumber", "signature", "issuer", "validity"] {
        tbs.next().read_der()?;
    }
    tbs.next().read_sequence_of(|set| {
        set.read_set_of(|attribute| {
            attribute.read_sequence(|pair| {
                let oid = pair.next().read_oid()?;
                let text = text(pair.next())?;
                if oid == ObjectIdentifier::from_slice(&[2, 5, 4, 3]) {
                    *user = text;
                } else if oid == ObjectIdentifier::from_slice(&[2, 5, 4, 10]) {
                    groups.push(text);
                }
                Ok(())
            })
        })
    })?;
    // Public key and extensions are not our business.
    while tbs.read_optional(|rest| rest.read_der())?.is_some() {}
    Ok(())
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
