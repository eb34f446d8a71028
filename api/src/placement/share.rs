//! Shares of a workload's replicas: a percentage with up to three decimals, or a count.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::{borrow::Cow, fmt, str::FromStr};

/// A percentage in thousandths of a percent, 0 to 100,000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Percent(u32);

impl Percent {
    /// Thousandths of a percent: `70%` is 70,000.
    pub fn milli(self) -> u32 {
        self.0
    }
}

/// Why a share is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShareError {
    /// The text is no percentage.
    #[error(
        "{0:?} is not a percentage: write a number of at most three decimals followed by '%', such as \"70%\" or \"12.5%\", or an integer without quotes for a count"
    )]
    Malformed(String),
    /// The percentage is above 100.
    #[error("{0:?} is above 100%: a rule can claim at most all replicas")]
    Above(String),
    /// The count is negative or too large.
    #[error("{0} is not a replica count: use an integer from 0 to 2147483647")]
    Count(String),
}

impl FromStr for Percent {
    type Err = ShareError;

    fn from_str(text: &str) -> Result<Self, ShareError> {
        let malformed = || ShareError::Malformed(text.to_owned());
        let number = text.strip_suffix('%').ok_or_else(malformed)?;
        let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
        let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
        let has_point = number.contains('.');
        if whole.is_empty() || !digits(whole) || !digits(decimals) || decimals.len() > 3 {
            return Err(malformed());
        }
        if has_point && decimals.is_empty() {
            return Err(malformed());
        }
        let above = || ShareError::Above(text.to_owned());
        let whole: u32 = whole.parse().map_err(|_| above())?;
        let thousandths: u32 = format!("{decimals:0<3}").parse().map_err(|_| malformed())?;
        let milli = whole
            .checked_mul(1000)
            .and_then(|w| w.checked_add(thousandths))
            .ok_or_else(above)?;
        if milli > 100_000 {
            Err(above())
        } else {
            Ok(Percent(milli))
        }
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, thousandths) = (self.0 / 1000, self.0 % 1000);
        if thousandths == 0 {
            write!(f, "{whole}%")
        } else {
            let decimals = format!("{thousandths:03}");
            write!(f, "{whole}.{}%", decimals.trim_end_matches('0'))
        }
    }
}

/// What a rule claims of a workload's replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplicaShare {
    /// A percentage of the workload's replicas.
    Percent(Percent),
    /// Exactly this many.
    Count(u32),
}

impl fmt::Display for ReplicaShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplicaShare::Percent(percent) => percent.fmt(f),
            ReplicaShare::Count(count) => count.fmt(f),
        }
    }
}

impl Serialize for ReplicaShare {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            ReplicaShare::Percent(percent) => serializer.collect_str(percent),
            ReplicaShare::Count(count) => serializer.serialize_u32(*count),
        }
    }
}

impl<'de> Deserialize<'de> for ReplicaShare {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = ReplicaShare;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a percentage such as \"70%\" or an integer count")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<ReplicaShare, E> {
                text.parse().map(ReplicaShare::Percent).map_err(E::custom)
            }
            fn visit_u64<E: de::Error>(self, count: u64) -> Result<ReplicaShare, E> {
                let fits = i32::try_from(count).ok().and_then(|c| u32::try_from(c).ok());
                fits.map(ReplicaShare::Count)
                    .ok_or_else(|| E::custom(ShareError::Count(count.to_string())))
            }
            fn visit_i64<E: de::Error>(self, count: i64) -> Result<ReplicaShare, E> {
                let count =
                    u64::try_from(count).map_err(|_| E::custom(ShareError::Count(count.to_string())))?;
                self.visit_u64(count)
            }
            fn visit_f64<E: de::Error>(self, count: f64) -> Result<ReplicaShare, E> {
                // As it was written: 10.0 is no integer, and `10` would not say so.
                Err(E::custom(ShareError::Count(format!("{count:?}"))))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl JsonSchema for ReplicaShare {
    fn schema_name() -> Cow<'static, str> {
        "ReplicaShare".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"x-kubernetes-int-or-string": true})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages() {
        for (text, milli) in [
            ("0%", 0),
            ("70%", 70_000),
            ("12.5%", 12_500),
            ("33.333%", 33_333),
            ("100%", 100_000),
        ] {
            let percent: Percent = text.parse().unwrap();
            assert_eq!(percent.milli(), milli, "{text}");
            assert_eq!(percent.to_string(), text);
        }
        for text in [
            "", "%", "70", "70 %", "-1%", "+1%", "1.%", ".5%", "1.2345%", "1e1%", "७%", "70%%",
        ] {
            assert!(
                matches!(text.parse::<Percent>(), Err(ShareError::Malformed(_))),
                "{text:?}"
            );
        }
        for text in ["100.001%", "101%", "99999999999999999999%"] {
            assert!(
                matches!(text.parse::<Percent>(), Err(ShareError::Above(_))),
                "{text:?}"
            );
        }
    }

    #[test]
    fn shares_read_and_write() {
        for (json, shown) in [("\"70%\"", "70%"), ("3", "3"), ("0", "0")] {
            let share: ReplicaShare = serde_json::from_str(json).unwrap();
            assert_eq!(share.to_string(), shown);
            assert_eq!(serde_json::to_string(&share).unwrap(), json);
        }
        for json in ["-1", "1.5", "\"3\"", "3000000000", "true", "null", "[]"] {
            assert!(serde_json::from_str::<ReplicaShare>(json).is_err(), "{json}");
        }
    }
}
