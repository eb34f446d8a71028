//! Who asks, and what they may.

mod authority;
mod authorize;
mod identity;
mod impersonate;
mod kubeconfig;
mod subject;

pub use authority::{Authority, AuthorityError, ClientCertificate};
pub(crate) use authorize::denied;
pub use authorize::{AllowAuthenticated, Attributes, Authorizer};
pub use identity::Identity;
pub(crate) use impersonate::effective;
pub use kubeconfig::{Kubeconfig, write_private};
pub(crate) use subject::identity_of;
