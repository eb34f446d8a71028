//! Who asks, and what they may.

mod authorize;
mod identity;

pub use authorize::{AllowAuthenticated, Attributes, Authorizer};
pub use identity::Identity;
