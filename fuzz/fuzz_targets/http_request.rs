//! A request as text: a line with method and target, lines of headers, an empty line, the body. Whatever is asked: the API
//! server answers without a panic, and what it refuses is a Kubernetes `Status` with its code and a reason.

#![no_main]

#[path = "served/mod.rs"]
mod served;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| served::answers(bytes));
