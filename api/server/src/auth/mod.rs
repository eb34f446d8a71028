//! Who asks, and what they may.

mod authority;
mod authorize;
mod identity;
mod kubeconfig;
mod subject;

pub use authority::{Authority, AuthorityError, ClientCertificate};
pub use authorize::{AllowAuthenticated, Attributes, Authorizer};
pub use identity::Identity;
pub use kubeconfig::{Kubeconfig, write_private};
pub(crate) use subject::identity_of;
