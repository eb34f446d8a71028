//! Why a pass over an application did not finish.

/// The pass is repeated with back-off.
#[derive(Debug, thiserror::Error)]
pub enum PassError {
    /// The API server refused or could not be reached.
    #[error("application {application}: {action} failed: {source}; it is tried again")]
    Api {
        /// `<namespace>/<name>`.
        application: String,
        /// What was being done, with the object's name.
        action: String,
        /// What the server said.
        source: Box<kube::Error>,
    },
    /// Somebody else wrote the object in between.
    #[error("application {application}: {action} met a newer version; it is done again")]
    Conflict {
        /// `<namespace>/<name>`.
        application: String,
        /// What was being done, with the object's name.
        action: String,
    },
    /// A stored object does not read.
    #[error("application {application}: {object} does not read: {reason}")]
    Unreadable {
        /// `<namespace>/<name>`.
        application: String,
        /// Which object.
        object: String,
        /// What is wrong.
        reason: String,
    },
    /// An object of a name that is needed belongs to somebody else.
    #[error("application {application}: {object} exists and is not this application's: rename or delete it")]
    Foreign {
        /// `<namespace>/<name>`.
        application: String,
        /// Which object.
        object: String,
    },
    /// Going back would change nothing.
    #[error(
        "going back to revision {revision} changes nothing: its spec is the present one of application {application}, and only \
         what the hub makes of it differs; restart it instead"
    )]
    Same {
        /// `<namespace>/<name>`.
        application: String,
        /// Name of the revision.
        revision: String,
    },
    /// The object is of a newer hub than this one, or carries an epoch that nobody was given.
    #[error(
        "application {application}: its status.workflow.epoch is {stored}, and this hub's is {own}: it is left alone. Where no          newer hub has written that, take status.workflow away with: kubectl patch --subresource=status"
    )]
    Fenced {
        /// `<namespace>/<name>`.
        application: String,
        /// The epoch that is stored.
        stored: i64,
        /// The epoch of this hub.
        own: i64,
    },
    /// A pass broke off.
    #[error("a pass broke off: {reason}")]
    Ended {
        /// How.
        reason: String,
    },
    /// A pass took too long.
    #[error(
        "application {application}: no answer from the hub's API server for {seconds} s; it is tried again"
    )]
    Timeout {
        /// `<namespace>/<name>`.
        application: String,
        /// How long it was waited for, in seconds.
        seconds: u64,
    },
}

impl PassError {
    /// Whether somebody else's write came in between: the next pass knows better.
    pub(crate) fn is_conflict(&self) -> bool {
        matches!(self, PassError::Conflict { .. })
    }

    /// Whether the API server does not have what was to be written.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self, PassError::Api { source, .. } if matches!(&**source, kube::Error::Api(status) if status.code == 404))
    }

    /// What went wrong, without what becomes of it.
    pub(crate) fn reason(&self) -> String {
        match self {
            PassError::Api { action, source, .. } => match &**source {
                kube::Error::Api(status) => format!("{action} failed: {}", status.message),
                source => format!("{action} failed: {source}"),
            },
            other => other.to_string(),
        }
    }

    /// Whether the API server has understood what was asked for and does not do it: the same again would be refused again.
    pub(crate) fn is_refusal(&self) -> bool {
        match self {
            PassError::Api { source, .. } => match &**source {
                kube::Error::Api(status) => {
                    (400..500).contains(&status.code) && ![401, 408, 409, 429].contains(&status.code)
                }
                _ => false,
            },
            PassError::Same { .. } => true,
            _ => false,
        }
    }

    /// Sorts an answer of the API server.
    pub(crate) fn api(application: &str, action: impl Into<String>, source: kube::Error) -> PassError {
        let (application, action) = (application.to_owned(), action.into());
        match &source {
            kube::Error::Api(status) if status.code == 409 => PassError::Conflict { application, action },
            _ => PassError::Api {
                application,
                action,
                source: Box::new(source),
            },
        }
    }
}
