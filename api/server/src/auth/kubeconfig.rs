//! Kubeconfig files.

use std::{fmt, fs, io, io::Write, os::unix::fs::OpenOptionsExt, path::Path};

use base64::{Engine, engine::general_purpose::STANDARD};

use super::{Authority, ClientCertificate};

/// A kubeconfig with inline certificates; its text is what `Display` gives.
#[derive(Debug, Clone)]
pub struct Kubeconfig {
    context: String,
    server: String,
    authority: String,
    client: ClientCertificate,
}

impl Kubeconfig {
    /// Access to the server at `url` (such as `https://127.0.0.1:6443`) under the context name `context`.
    pub fn new(context: &str, url: &str, authority: &Authority, client: ClientCertificate) -> Self {
        Self {
            context: context.to_owned(),
            server: url.to_owned(),
            authority: authority.certificate().to_owned(),
            client,
        }
    }
}

impl fmt::Display for Kubeconfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let (context, server) = (quoted(&self.context), quoted(&self.server));
        let encode = |text: &str| STANDARD.encode(text);
        writeln!(f, "apiVersion: v1\nkind: Config\ncurrent-context: {context}")?;
        writeln!(
            f,
            "clusters:\n- name: {context}\n  cluster:\n    server: {server}"
        )?;
        writeln!(f, "    certificate-authority-data: {}", encode(&self.authority))?;
        writeln!(
            f,
            "contexts:\n- name: {context}\n  context:\n    cluster: {context}\n    user: {context}"
        )?;
        writeln!(f, "users:\n- name: {context}\n  user:")?;
        writeln!(
            f,
            "    client-certificate-data: {}",
            encode(&self.client.certificate)
        )?;
        writeln!(f, "    client-key-data: {}", encode(&self.client.key))
    }
}

/// Writes a file only its owner can read (mode 0600), replacing what is there in one step.
///
/// # Errors
/// If the file cannot be written.
pub fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = Path::new(&beside);
    // A leftover of a write that broke off might have another mode.
    match fs::remove_file(beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(beside)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(beside, path)?;
    // The name is as durable as the text.
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    fs::File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}
