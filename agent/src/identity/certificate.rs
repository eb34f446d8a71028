//! Keys, requests for certificates, and what a certificate says.

use super::error::IdentityError;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, PublicKeyData};
use roundhouse_api::hash;
use roundhouse_api::names::{AGENTS, AgentName};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use yasna::{ASN1Error, ASN1ErrorKind, ASN1Result, BERReader, Tag};

/// A new key (ECDSA P-256) as PEM, and the PEM of the request for a certificate of `name` with it: the common name, the
/// organization of agents, and nothing else.
///
/// # Errors
/// If the system gives no random numbers.
pub(crate) fn new_request(name: &AgentName) -> Result<(String, String), IdentityError> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, AGENTS);
    params
        .distinguished_name
        .push(DnType::CommonName, name.to_string());
    let request = params.serialize_request(&key)?.pem()?;
    Ok((key.serialize_pem(), request))
}

/// How people tell keys apart: `sha256:<hex>` of the DER of the SubjectPublicKeyInfo. The hub shows the same.
///
/// # Errors
/// If it is no key.
pub(crate) fn digest(key: &str) -> Result<String, IdentityError> {
    let key = KeyPair::from_pem(key)?;
    Ok(format!("sha256:{}", hash::sha256(&key.subject_public_key_info())))
}

/// From when to when a certificate is good, if it is of this key.
///
/// # Errors
/// [`IdentityError::Certificate`] if it is of another key, or no certificate.
pub(crate) fn validity(certificate: &[u8], key: &str) -> Result<(Timestamp, Timestamp), IdentityError> {
    let unread = IdentityError::Certificate("is no certificate that can be read");
    let Ok(der) = CertificateDer::from_pem_slice(certificate) else {
        return Err(unread);
    };
    let Ok(read) = yasna::parse_der(&der, content) else {
        return Err(unread);
    };
    if read.key != KeyPair::from_pem(key)?.subject_public_key_info() {
        return Err(IdentityError::Certificate("is of another key"));
    }
    Ok((read.from, read.until))
}

struct Content {
    from: Timestamp,
    until: Timestamp,
    key: Vec<u8>,
}

/// A certificate, as far as it matters here (RFC 5280, 4.1).
fn content(reader: BERReader<'_, '_>) -> ASN1Result<Content> {
    reader.read_sequence(|certificate| {
        let content = certificate.next().read_sequence(|fields| {
            fields.read_optional(|version| version.read_tagged(Tag::context(0), |v| v.read_u8()))?;
            // Its number, the algorithm of its signature, who issued it.
            for _ in 0..3 {
                fields.next().read_der()?;
            }
            let (from, until) = fields
                .next()
                .read_sequence(|times| Ok((time(times.next())?, time(times.next())?)))?;
            fields.next().read_der()?;
            let key = fields.next().read_der()?;
            while fields.read_optional(|rest| rest.read_der())?.is_some() {}
            Ok(Content { from, until, key })
        })?;
        certificate.next().read_der()?;
        certificate.next().read_der()?;
        Ok(content)
    })
}

/// `UTCTime` up to 2049, `GeneralizedTime` after it (RFC 5280, 4.1.2.5).
fn time(reader: BERReader<'_, '_>) -> ASN1Result<Timestamp> {
    let value = reader.read_tagged_der()?;
    let text = String::from_utf8_lossy(value.value());
    let invalid = || ASN1Error::new(ASN1ErrorKind::Invalid);
    let full = match text.get(..2).and_then(|year| year.parse::<u8>().ok()) {
        Some(year) if value.tag() == yasna::tags::TAG_UTCTIME => {
            format!("{}{text}", if year < 50 { "20" } else { "19" })
        }
        _ => text.into_owned(),
    };
    let civil = DateTime::strptime("%Y%m%d%H%M%SZ", full).map_err(|_| invalid())?;
    let zoned = civil.to_zoned(TimeZone::UTC).map_err(|_| invalid())?;
    Ok(zoned.timestamp())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use rcgen::{BasicConstraints, IsCa, Issuer};
    use roundhouse_api::names::ClusterName;

    /// Signs a request as a hub does.
    pub(crate) fn sign(request: &str, from: Timestamp, until: Timestamp) -> String {
        let time = |at: Timestamp| time::OffsetDateTime::from_unix_timestamp(at.as_second()).unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = Issuer::new(params, KeyPair::generate().unwrap());
        let mut certificate = CertificateParams::default();
        certificate.not_before = time(from);
        certificate.not_after = time(until);
        certificate.signed_by(&Point::of(request), &issuer).unwrap().pem()
    }

    /// The public key of a request.
    struct Point(Vec<u8>);

    impl Point {
        fn of(request: &str) -> Self {
            let der =
                rustls::pki_types::CertificateSigningRequestDer::from_pem_slice(request.as_bytes()).unwrap();
            let point = yasna::parse_der(&der, |reader| {
                reader.read_sequence(|request| {
                    let point = request.next().read_sequence(|info| {
                        info.next().read_u8()?;
                        info.next().read_der()?;
                        let key = info.next().read_der()?;
                        info.next().read_der()?;
                        Ok(key)
                    })?;
                    request.next().read_der()?;
                    request.next().read_der()?;
                    Ok(point)
                })
            });
            // An uncompressed point of P-256 is at the end of its SubjectPublicKeyInfo.
            let info = point.unwrap();
            Point(info[info.len() - 65..].to_vec())
        }
    }

    impl PublicKeyData for Point {
        fn der_bytes(&self) -> &[u8] {
            &self.0
        }

        fn algorithm(&self) -> &'static rcgen::SignatureAlgorithm {
            &rcgen::PKCS_ECDSA_P256_SHA256
        }
    }

    pub(crate) fn name(serial: u32) -> AgentName {
        AgentName::new(ClusterName::new("c1").unwrap(), serial)
    }

    #[test]
    fn a_certificate_tells_when_it_is_good_and_whose_it_is() {
        let (key, request) = new_request(&name(3)).unwrap();
        for (from, until) in [
            ("2026-01-01T00:00:00Z", "2026-01-31T12:30:45Z"),
            ("2049-12-31T23:59:59Z", "2050-01-01T00:00:00Z"),
        ] {
            let (from, until): (Timestamp, Timestamp) = (from.parse().unwrap(), until.parse().unwrap());
            let certificate = sign(&request, from, until);
            assert_eq!(validity(certificate.as_bytes(), &key).unwrap(), (from, until));
            let (other, _) = new_request(&name(3)).unwrap();
            let error = validity(certificate.as_bytes(), &other).unwrap_err().to_string();
            assert!(error.contains("another key"), "{error}");
        }
        assert!(validity(b"no certificate", &key).is_err());
    }

    #[test]
    fn a_request_has_the_subject_and_nothing_else_and_each_key_is_new() {
        let (key, request) = new_request(&name(7)).unwrap();
        let der =
            rustls::pki_types::CertificateSigningRequestDer::from_pem_slice(request.as_bytes()).unwrap();
        let mut entries = Vec::new();
        let mut attributes = 0;
        yasna::parse_der(&der, |reader| {
            reader.read_sequence(|request| {
                request.next().read_sequence(|info| {
                    info.next().read_u8()?;
                    info.next().read_sequence_of(|set| {
                        set.read_set_of(|pair| {
                            pair.read_sequence(|pair| {
                                entries.push((
                                    pair.next().read_oid()?.to_string(),
                                    pair.next().read_utf8string()?,
                                ));
                                Ok(())
                            })
                        })
                    })?;
                    info.next().read_der()?;
                    info.next().read_tagged_implicit(Tag::context(0), |set| {
                        set.read_set_of(|attribute| {
                            attribute.read_der()?;
                            attributes += 1;
                            Ok(())
                        })
                    })
                })?;
                request.next().read_der()?;
                request.next().read_der()
            })
        })
        .unwrap();
        entries.sort();
        let expected = [
            ("2.5.4.10", "roundhouse:agents"),
            ("2.5.4.3", "roundhouse:agent:c1:7"),
        ];
        let expected = expected.map(|(oid, text)| (oid.to_owned(), text.to_owned()));
        assert_eq!((entries.as_slice(), attributes), (&expected[..], 0));
        let digests = [
            digest(&key).unwrap(),
            digest(&new_request(&name(7)).unwrap().0).unwrap(),
        ];
        assert_ne!(digests[0], digests[1]);
        assert!(digests.iter().all(|digest| digest.len() == "sha256:".len() + 64));
    }
}
