//! Tests of explanations.

mod arithmetic;
mod commands;
mod fixture;
mod flips;
mod properties;
mod reasons;
