//! Who asks, and what they may.

mod agent;
mod authority;
mod authorize;
mod bearer;
mod caller;
mod grant;
mod identity;
mod impersonate;
mod kubeconfig;
mod rbac;
mod revoked;
mod subject;
mod token;

pub(crate) use agent::request_name;
pub use authority::{Authority, AuthorityError, ClientCertificate};
pub use authorize::{Action, AllowAuthenticated, Attributes, Authorizer, Decision};
pub(crate) use authorize::{denied, path_denied};
use bearer::bearer;
pub(crate) use caller::Caller;
pub(crate) use grant::{Grant, Rights};
pub use identity::Identity;
pub(crate) use identity::{MASTERS, cluster_of_agent, cluster_of_invitation};
pub(crate) use impersonate::{asked_to_act_as, effective};
pub use kubeconfig::{Kubeconfig, write_private};
pub(crate) use rbac::{
    GROUP as RBAC_GROUP, Stored, TABLES as RBAC_TABLES, count as count_rules, defaults as default_roles,
    described, missing as missing_rules, quoted,
};
pub use rbac::{PolicyRule, Rbac};
pub(crate) use revoked::{
    Revoked, check_list as check_revoked, is_list as is_revoked_list, list_key as revoked_list,
};
pub(crate) use subject::{Presented, presented};
pub use token::TokenKey;
pub(crate) use token::{Claims, ISSUER, Named, Private};
