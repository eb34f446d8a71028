//! How long ago.

use jiff::Timestamp;

/// How long ago, in the largest unit, as kubectl does; `-` if never.
pub(super) fn ago(time: Option<Timestamp>, now: Timestamp) -> String {
    let Some(time) = time else { return "-".to_owned() };
    let seconds = now.duration_since(time).as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}
