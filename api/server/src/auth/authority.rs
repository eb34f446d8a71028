//! The certificate authority of one server: it signs the server's certificate and those of its clients.

use std::{net::IpAddr, sync::Arc, time::Duration};

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, SanType,
};
use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring::default_provider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
    version::TLS13,
};

use super::Identity;
use crate::csr::CertificateRequest;

const CA_NAME: &str = "roundhouse-ca";
const CA_YEARS: i16 = 10;
const SERVER_LIFETIME: Duration = Duration::from_secs(365 * 86_400);

/// Why a certificate could not be made or read.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// The certificate could not be made.
    #[error("cannot make the certificate of {subject}: {source}")]
    Certificate {
        /// Whose.
        subject: String,
        /// Why.
        source: rcgen::Error,
    },
    /// A PEM text could not be read.
    #[error("cannot read the {what} of the certificate authority; check that the file is whole: {source}")]
    Pem {
        /// Which.
        what: &'static str,
        /// Why.
        source: rustls::pki_types::pem::Error,
    },
    /// The key is no usable private key.
    #[error("cannot use the key of the certificate authority: {0}")]
    Key(rcgen::Error),
    /// The key that tokens are signed with cannot be made or read.
    #[error(
        "cannot use the key that tokens of service accounts are signed with; check that the file is whole: {0}"
    )]
    TokenKey(String),
    /// rustls refused what was made.
    #[error("cannot configure TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// The certificates clients present could not be verified with this authority.
    #[error("cannot verify client certificates: {0}")]
    Verifier(#[from] rustls::server::VerifierBuilderError),
    /// The subject of a request cannot be that of a certificate.
    #[error("the subject must have one common name, at most one organization, and nothing else")]
    Subject,
    /// A certificate names one group.
    #[error("the certificate of {0} would need more than one group; issue it with one")]
    Groups(String),
}

/// A client certificate with its key, both PEM.
#[derive(Clone)]
pub struct ClientCertificate {
    /// The certificate.
    pub certificate: String,
    /// Its private key.
    pub key: String,
}

impl std::fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientCertificate").finish_non_exhaustive()
    }
}

/// A certificate authority with its key.
pub struct Authority {
    certificate: String,
    key: String,
    issuer: Issuer<'static, KeyPair>,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

fn day(at: Timestamp, years: i16, seconds: u64) -> time::OffsetDateTime {
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    let at = Timestamp::from_second(at.as_second().saturating_add(seconds)).unwrap_or(at);
    let date = at.to_zoned(jiff::tz::TimeZone::UTC).date();
    let byte = |n: i8| u8::try_from(n).unwrap_or(1);
    // The 29th of February is not in every year.
    rcgen::date_time_ymd(
        i32::from(date.year()) + i32::from(years),
        byte(date.month()),
        byte(date.day()).min(28),
    )
}

/// So many seconds later, to the second: what was issued before a moment must be told from what was issued after it.
fn moment(at: Timestamp, seconds: u64) -> time::OffsetDateTime {
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    let at = at.as_second().saturating_add(seconds);
    // No certificate can end later.
    const LAST: i64 = 253_402_300_799;
    time::OffsetDateTime::from_unix_timestamp(at.min(LAST)).unwrap_or(time::OffsetDateTime::UNIX_EPOCH)
}

fn ca_params(now: Timestamp) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = name(CA_NAME, None);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::CrlSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    params.not_before = day(now, 0, 0);
    params.not_after = day(now, CA_YEARS, 0);
    params
}

fn name(common: &str, organization: Option<&str>) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common);
    if let Some(organization) = organization {
        name.push(DnType::OrganizationName, organization);
    }
    name
}

impl Authority {
    /// A new authority, valid for ten years.
    ///
    /// # Errors
    /// If the system gives no randomness for a key.
    pub fn generate(now: Timestamp) -> Result<Self, AuthorityError> {
        let failed = |source| AuthorityError::Certificate {
            subject: CA_NAME.to_owned(),
            source,
        };
        let key = KeyPair::generate().map_err(failed)?;
        let params = ca_params(now);
        let certificate = params.self_signed(&key).map_err(failed)?.pem();
        Ok(Self {
            certificate,
            key: key.serialize_pem(),
            issuer: Issuer::new(params, key),
        })
    }

    /// The authority of an earlier start, from what [`Authority::certificate`] and [`Authority::key`] gave.
    ///
    /// # Errors
    /// If either is damaged.
    pub fn from_pem(certificate: &str, key: &str) -> Result<Self, AuthorityError> {
        CertificateDer::from_pem_slice(certificate.as_bytes()).map_err(|source| AuthorityError::Pem {
            what: "certificate",
            source,
        })?;
        let pair = KeyPair::from_pem(key).map_err(AuthorityError::Key)?;
        // An issuer is its name and key; the dates of the certificate do not enter what it signs.
        let issuer = Issuer::new(ca_params(Timestamp::UNIX_EPOCH), pair);
        Ok(Self {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            issuer,
        })
    }

    /// The certificate, PEM: what clients trust.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// The private key, PEM. Keep it.
    pub fn key(&self) -> &str {
        &self.key
    }

    fn sign(
        &self,
        subject: &str,
        mut params: CertificateParams,
    ) -> Result<(String, KeyPair), AuthorityError> {
        let failed = |source| AuthorityError::Certificate {
            subject: subject.to_owned(),
            source,
        };
        let key = KeyPair::generate().map_err(failed)?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&key, &self.issuer).map_err(failed)?;
        Ok((certificate.pem(), key))
    }

    /// A client certificate: the common name is the user, the organization the group.
    ///
    /// # Errors
    /// If the identity has more than one group.
    pub fn issue(
        &self,
        identity: &Identity,
        lifetime: Duration,
        now: Timestamp,
    ) -> Result<ClientCertificate, AuthorityError> {
        if identity.groups.len() > 1 {
            return Err(AuthorityError::Groups(identity.user.clone()));
        }
        let mut params = CertificateParams::default();
        params.distinguished_name = name(&identity.user, identity.groups.first().map(String::as_str));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.not_before = moment(now, 0);
        params.not_after = moment(now, lifetime.as_secs());
        let (certificate, key) = self.sign(&identity.user, params)?;
        Ok(ClientCertificate {
            certificate,
            key: key.serialize_pem(),
        })
    }

    /// A client certificate for the key of a request, with the user and the group that the request names. PEM.
    ///
    /// # Errors
    /// If the request has not one common name, or more than one organization, or more than that in its subject.
    pub(crate) fn sign_request(
        &self,
        request: &CertificateRequest,
        usages: &[&str],
        serial: [u64; 2],
        lifetime: Duration,
        now: Timestamp,
    ) -> Result<String, AuthorityError> {
        let (user, group) = match (request.users.as_slice(), request.groups.as_slice()) {
            ([user], []) => (user, None),
            ([user], [group]) => (user, Some(group)),
            _ => return Err(AuthorityError::Subject),
        };
        if request.more_subject {
            return Err(AuthorityError::Subject);
        }
        let mut params = CertificateParams::default();
        params.distinguished_name = name(user, group.map(String::as_str));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let usage = |(word, usage)| usages.contains(&word).then_some(usage);
        params.key_usages = [
            ("digital signature", KeyUsagePurpose::DigitalSignature),
            ("key encipherment", KeyUsagePurpose::KeyEncipherment),
        ]
        .into_iter()
        .filter_map(usage)
        .collect();
        params.use_authority_key_identifier_extension = true;
        params.not_before = moment(now, 0);
        params.not_after = moment(now, lifetime.as_secs());
        // Its first bit is zero, or it would be a negative number.
        let [high, low] = serial;
        let serial = u128::from(high >> 1) << 64 | u128::from(low);
        params.serial_number = Some(serial.to_be_bytes().to_vec().into());
        let certificate =
            params
                .signed_by(&request.key, &self.issuer)
                .map_err(|source| AuthorityError::Certificate {
                    subject: user.clone(),
                    source,
                })?;
        Ok(certificate.pem())
    }

    /// TLS for a server that goes by these host names and addresses: TLS 1.3, HTTP/2 and HTTP/1.1, client
    /// certificates of this authority verified where presented.
    ///
    /// # Errors
    /// If a name is no host name.
    pub fn server_config(
        &self,
        names: &[String],
        now: Timestamp,
    ) -> Result<Arc<ServerConfig>, AuthorityError> {
        let ClientCertificate { certificate, key } = self.server_certificate(names, now)?;
        let pem = |what| move |source| AuthorityError::Pem { what, source };
        let chain = CertificateDer::pem_slice_iter(certificate.as_bytes())
            .collect::<Result<Vec<_>, _>>()
            .map_err(pem("server certificate"))?;
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(pem("server key"))?;
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(self.certificate.as_bytes()).map_err(pem("certificate"))?)?;
        let provider = Arc::new(default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone())
            .allow_unauthenticated()
            .build()?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    /// A certificate for a server that goes by these host names and addresses, with its key.
    ///
    /// # Errors
    /// If a name is no host name.
    pub fn server_certificate(
        &self,
        names: &[String],
        now: Timestamp,
    ) -> Result<ClientCertificate, AuthorityError> {
        let failed = |source| AuthorityError::Certificate {
            subject: names.join(", "),
            source,
        };
        let mut params = CertificateParams::default();
        params.distinguished_name = name("roundhouse-apiserver", None);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.not_before = day(now, 0, 0);
        params.not_after = day(now, 0, SERVER_LIFETIME.as_secs());
        for name in names {
            params.subject_alt_names.push(match name.parse::<IpAddr>() {
                Ok(address) => SanType::IpAddress(address),
                Err(_) => SanType::DnsName(name.as_str().try_into().map_err(failed)?),
            });
        }
        let (certificate, key) = self.sign("the server", params)?;
        Ok(ClientCertificate {
            certificate,
            key: key.serialize_pem(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{auth::presented, csr::parse};

    fn signed(names: &[(DnType, &str)]) -> Result<String, AuthorityError> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        for (ty, name) in names {
            params.distinguished_name.push(ty.clone(), *name);
        }
        let pem = params
            .serialize_request(&KeyPair::generate().unwrap())
            .unwrap()
            .pem()
            .unwrap();
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let authority = Authority::generate(now).unwrap();
        let request = parse(pem.as_bytes()).unwrap();
        let usages = ["client auth", "digital signature"];
        authority.sign_request(&request, &usages, [u64::MAX, 7], Duration::from_secs(600), now)
    }

    #[test]
    fn a_request_is_signed_as_it_asks() {
        let (user, group) = (DnType::CommonName, DnType::OrganizationName);
        let pem = signed(&[(user.clone(), "jane"), (group, "people")]).unwrap();
        let der = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
        let mut read = presented(&der).unwrap();
        read.identity.extra.clear();
        assert_eq!(read.identity, Identity::new("jane", ["people"]));
        assert_eq!(read.serial, "7fffffffffffffff0000000000000007");
        assert_eq!(read.not_before.as_second(), 1_800_000_000);
        assert_eq!(read.not_after.as_second(), 1_800_000_600);
        assert!(signed(&[(DnType::OrganizationName, "people")]).is_err());
        assert!(signed(&[(user, "jane"), (DnType::CountryName, "NL")]).is_err());
    }
}
