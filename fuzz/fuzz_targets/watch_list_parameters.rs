//! A query string, for lists and watches of a built-in and of a custom kind in every shape of answer: no panic, refusals are
//! a `Status`, and every line of a watch is an event.

#![no_main]

#[path = "served/mod.rs"]
mod served;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|query: &str| served::lists(query));
