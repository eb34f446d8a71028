//! Each kind of fault is seen to happen, and without it nothing happens.

mod disk;
mod line;
mod requests;
mod watches;
