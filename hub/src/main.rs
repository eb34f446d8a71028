//! The `roundhouse` binary.

#![warn(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;

fn main() -> ExitCode {
    // One crypto provider, chosen here and nowhere else. A second installation could only be this one again.
    let _ = rustls::crypto::ring::default_provider().install_default();
    roundhouse_hub::cli::main()
}
