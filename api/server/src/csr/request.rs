//! A PKCS#10 certificate request (RFC 2986): whose certificate is asked for, with which key.

use rcgen::PublicKeyData;
use ring::signature::{self, UnparsedPublicKey, VerificationAlgorithm};
use rustls::pki_types::{CertificateSigningRequestDer, pem::PemObject};
use sha2::{Digest, Sha256};
use yasna::{ASN1Result, BERReader, Tag, models::ObjectIdentifier};

/// Longest request that is read, in bytes of PEM.
const MAX_REQUEST: usize = 32 << 10;

/// A PKCS#10 request that has been read, and signed by the key it is for.
#[derive(Debug, Clone)]
pub struct CertificateRequest {
    /// The common names, of which a certificate has one.
    pub users: Vec<String>,
    /// The organizations.
    pub groups: Vec<String>,
    /// Whether the subject has anything else.
    pub more_subject: bool,
    /// Whether it asks for alternative names. What else it asks for beside the subject is left unheard.
    pub alternative_names: bool,
    pub(crate) key: PublicKey,
}

impl CertificateRequest {
    /// Reads the PEM of a request, at most 32 KiB of it, and checks its signature.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(pem: &[u8]) -> Result<Self, &'static str> {
        parse(pem)
    }

    /// Digest of the public key (DER, SubjectPublicKeyInfo): `sha256:` and 64 hexadecimal digits.
    pub fn key_digest(&self) -> String {
        format!("sha256:{}", self.key_digits())
    }

    pub(super) fn key_digits(&self) -> String {
        let digest = Sha256::digest(self.key.subject_public_key_info());
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The key of a request.
#[derive(Debug, Clone)]
pub(crate) struct PublicKey {
    bits: Vec<u8>,
    algorithm: &'static rcgen::SignatureAlgorithm,
}

impl rcgen::PublicKeyData for PublicKey {
    fn der_bytes(&self) -> &[u8] {
        &self.bits
    }

    fn algorithm(&self) -> &'static rcgen::SignatureAlgorithm {
        self.algorithm
    }
}

/// Reads the PEM of a request and checks its signature.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn parse(pem: &[u8]) -> Result<CertificateRequest, &'static str> {
    if pem.len() > MAX_REQUEST {
        return Err("the request is longer than 32 KiB");
    }
    let der = CertificateSigningRequestDer::from_pem_slice(pem)
        .map_err(|_| "PEM block type must be CERTIFICATE REQUEST")?;
    let malformed = "the request is no PKCS#10 certificate request";
    let (signed, verifier, bits) = yasna::parse_der(&der, |reader| {
        reader.read_sequence(|reader| {
            let signed = reader.next().read_der()?;
            let verifier = reader.next().read_sequence(|reader| {
                let oid = reader.next().read_oid()?;
                reader.read_optional(|parameters| parameters.read_der())?;
                Ok(oid)
            })?;
            let (bits, _) = reader.next().read_bitvec_bytes()?;
            Ok((signed, verifier, bits))
        })
    })
    .map_err(|_| malformed)?;
    let unsupported = "the key of the request must be RSA, ECDSA P-256 or P-384, or Ed25519";
    let (mut request, kind) = yasna::parse_der(&signed, content).map_err(|_| malformed)?;
    let (algorithm, verify) = supported(&kind, &verifier).ok_or(unsupported)?;
    request.key.algorithm = algorithm;
    UnparsedPublicKey::new(verify, &request.key.bits)
        .verify(&signed, &bits)
        .map_err(|_| "the signature of the request is not of its key")?;
    Ok(request)
}

/// The kind of a key: its algorithm, and its curve if it has one.
struct Kind {
    algorithm: ObjectIdentifier,
    curve: Option<ObjectIdentifier>,
}

fn content(reader: BERReader<'_, '_>) -> ASN1Result<(CertificateRequest, Kind)> {
    reader.read_sequence(|reader| {
        reader.next().read_u8()?;
        let (mut users, mut groups, mut more_subject) = (vec![], vec![], false);
        reader.next().read_sequence_of(|set| {
            set.read_set_of(|attribute| {
                attribute.read_sequence(|pair| {
                    let oid = pair.next().read_oid()?;
                    let der = pair.next().read_der()?;
                    let utf8 = yasna::parse_der(&der, |r| r.read_utf8string());
                    let text = utf8.or_else(|_| yasna::parse_der(&der, |r| r.read_printable_string()));
                    match oid.components().as_slice() {
                        [2, 5, 4, 3] => users.push(text?),
                        [2, 5, 4, 10] => groups.push(text?),
                        _ => more_subject = true,
                    }
                    Ok(())
                })
            })
        })?;
        let (kind, bits) = reader.next().read_sequence(|reader| {
            let kind = reader.next().read_sequence(|reader| {
                let algorithm = reader.next().read_oid()?;
                let parameters = reader.read_optional(|parameters| parameters.read_der())?;
                let curve = parameters.and_then(|der| yasna::parse_der(&der, |r| r.read_oid()).ok());
                Ok(Kind { algorithm, curve })
            })?;
            Ok((kind, reader.next().read_bitvec_bytes()?.0))
        })?;
        let mut alternative_names = false;
        reader.next().read_tagged_implicit(Tag::context(0), |set| {
            set.read_set_of(|attribute| {
                let der = attribute.read_der()?;
                alternative_names |= yasna::parse_der(&der, names_hosts).unwrap_or(false);
                Ok(())
            })
        })?;
        let request = CertificateRequest {
            users,
            groups,
            more_subject,
            alternative_names,
            key: PublicKey {
                bits,
                algorithm: &rcgen::PKCS_ED25519,
            },
        };
        Ok((request, kind))
    })
}

/// Whether an attribute asks for the extension of alternative names (RFC 2985, 5.4.2).
fn names_hosts(attribute: BERReader<'_, '_>) -> ASN1Result<bool> {
    attribute.read_sequence(|pair| {
        let asks = pair.next().read_oid()?.components().as_slice() == [1, 2, 840, 113549, 1, 9, 14];
        let values = pair.next().read_der()?;
        if !asks {
            return Ok(false);
        }
        let mut found = false;
        yasna::parse_der(&values, |values| {
            values.read_set_of(|extensions| {
                extensions.read_sequence_of(|extension| {
                    extension.read_sequence(|fields| {
                        found |= fields.next().read_oid()?.components().as_slice() == [2, 5, 29, 17];
                        while fields.read_optional(|rest| rest.read_der())?.is_some() {}
                        Ok(())
                    })
                })
            })
        })?;
        Ok(found)
    })
}

type Supported = (
    &'static rcgen::SignatureAlgorithm,
    &'static dyn VerificationAlgorithm,
);

/// The algorithm of a key, and how a signature of this kind by it is verified.
fn supported(kind: &Kind, signed_with: &ObjectIdentifier) -> Option<Supported> {
    let curve = kind.curve.as_ref().map(|c| c.components().as_slice());
    let with = signed_with.components().as_slice();
    Some(match (kind.algorithm.components().as_slice(), curve, with) {
        ([1, 2, 840, 10045, 2, 1], Some([1, 2, 840, 10045, 3, 1, 7]), [1, 2, 840, 10045, 4, 3, 2]) => {
            (&rcgen::PKCS_ECDSA_P256_SHA256, &signature::ECDSA_P256_SHA256_ASN1)
        }
        ([1, 2, 840, 10045, 2, 1], Some([1, 2, 840, 10045, 3, 1, 7]), [1, 2, 840, 10045, 4, 3, 3]) => {
            (&rcgen::PKCS_ECDSA_P256_SHA256, &signature::ECDSA_P256_SHA384_ASN1)
        }
        ([1, 2, 840, 10045, 2, 1], Some([1, 3, 132, 0, 34]), [1, 2, 840, 10045, 4, 3, 2]) => {
            (&rcgen::PKCS_ECDSA_P384_SHA384, &signature::ECDSA_P384_SHA256_ASN1)
        }
        ([1, 2, 840, 10045, 2, 1], Some([1, 3, 132, 0, 34]), [1, 2, 840, 10045, 4, 3, 3]) => {
            (&rcgen::PKCS_ECDSA_P384_SHA384, &signature::ECDSA_P384_SHA384_ASN1)
        }
        ([1, 2, 840, 113549, 1, 1, 1], _, [1, 2, 840, 113549, 1, 1, 11]) => {
            (&rcgen::PKCS_RSA_SHA256, &signature::RSA_PKCS1_2048_8192_SHA256)
        }
        ([1, 2, 840, 113549, 1, 1, 1], _, [1, 2, 840, 113549, 1, 1, 12]) => {
            (&rcgen::PKCS_RSA_SHA256, &signature::RSA_PKCS1_2048_8192_SHA384)
        }
        ([1, 2, 840, 113549, 1, 1, 1], _, [1, 2, 840, 113549, 1, 1, 13]) => {
            (&rcgen::PKCS_RSA_SHA256, &signature::RSA_PKCS1_2048_8192_SHA512)
        }
        ([1, 3, 101, 112], None, [1, 3, 101, 112]) => (&rcgen::PKCS_ED25519, &signature::ED25519),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;

    fn pem(algorithm: &'static rcgen::SignatureAlgorithm, names: &[&str]) -> String {
        let mut params =
            CertificateParams::new(names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>()).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "jane");
        params.distinguished_name.push(DnType::OrganizationName, "people");
        let key = KeyPair::generate_for(algorithm).unwrap();
        params.serialize_request(&key).unwrap().pem().unwrap()
    }

    #[test]
    fn what_is_asked_for() {
        for algorithm in [
            &rcgen::PKCS_ECDSA_P256_SHA256,
            &rcgen::PKCS_ECDSA_P384_SHA384,
            &rcgen::PKCS_ED25519,
        ] {
            let request = parse(pem(algorithm, &[]).as_bytes()).unwrap();
            assert_eq!(
                (request.users, request.groups),
                (vec!["jane".to_owned()], vec!["people".to_owned()])
            );
            assert!(!request.more_subject && !request.alternative_names);
        }
        assert!(
            parse(pem(&rcgen::PKCS_ED25519, &["a.example"]).as_bytes())
                .unwrap()
                .alternative_names
        );
    }

    /// Made with `openssl req -new -newkey rsa:2048 -nodes -subj /CN=joe/O=a/O=b/L=here`.
    #[test]
    fn a_request_of_another_make() {
        let request = parse(include_bytes!("testdata/rsa.csr")).unwrap();
        assert_eq!(
            (request.users, request.groups),
            (vec!["joe".to_owned()], vec!["a".to_owned(), "b".to_owned()])
        );
        assert!(request.more_subject);
    }

    #[test]
    fn what_is_no_request_is_refused() {
        assert_eq!(
            parse(b"").unwrap_err(),
            "PEM block type must be CERTIFICATE REQUEST"
        );
        assert!(parse(&[b'-'; 40_000]).is_err());
        let whole = pem(&rcgen::PKCS_ECDSA_P256_SHA256, &[]);
        let der = CertificateSigningRequestDer::from_pem_slice(whole.as_bytes())
            .unwrap()
            .to_vec();
        let wrap = |der: &[u8]| {
            use base64::{Engine, engine::general_purpose::STANDARD};
            let text = STANDARD.encode(der);
            format!("-----BEGIN CERTIFICATE REQUEST-----\n{text}\n-----END CERTIFICATE REQUEST-----\n")
        };
        assert!(parse(wrap(&der).as_bytes()).is_ok());
        for cut in 0..der.len() {
            assert!(parse(wrap(&der[..cut]).as_bytes()).is_err(), "{cut}");
        }
        // The key must have signed what the request says.
        let at = der.windows(4).position(|w| w == b"jane").unwrap();
        let mut other = der;
        other[at] = b'J';
        assert_eq!(
            parse(wrap(&other).as_bytes()).unwrap_err(),
            "the signature of the request is not of its key"
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }
    }
}
