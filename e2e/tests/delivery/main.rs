//! What a user is promised, one test per sentence: a hub, agents and members in one process, time paused.

mod doubled;
mod evidence;
mod hands;
mod input;
mod objects;
mod outage;
mod quiet;
mod seed;
mod sentences;
