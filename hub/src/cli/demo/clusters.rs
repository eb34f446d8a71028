//! The clusters of the demo: three fifths in the east, the others in the west.

use crate::simulate::MemberSpec;
use roundhouse_api::names::{ClusterName, NameError};

/// The members of a demo with that many clusters.
pub(super) fn specs(number: u16) -> Result<Vec<MemberSpec>, NameError> {
    let number = u32::from(number);
    let east = (number * 3).div_ceil(5).min(number.saturating_sub(1));
    let west = number - east;
    let digits = east.to_string().len();
    let region = |region: &'static str, count: u32| {
        (1..=count).map(move |index| {
            // The first of each region is where news go first.
            let tier = if index == 1 { "canary" } else { "production" };
            Ok(MemberSpec {
                name: ClusterName::new(format!("{region}-{index:0digits$}"))?,
                labels: [("region", region), ("tier", tier)]
                    .map(|(key, value)| (key.to_owned(), value.to_owned()))
                    .into(),
            })
        })
    };
    region("east", east).chain(region("west", west)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_are_three_east_and_two_west() {
        let names = |number| -> Vec<String> {
            let specs = specs(number).unwrap();
            specs.iter().map(|spec| spec.name.to_string()).collect()
        };
        assert_eq!(names(5), ["east-1", "east-2", "east-3", "west-1", "west-2"]);
        assert_eq!(names(2), ["east-1", "west-1"]);
        assert_eq!(names(20).first().map(String::as_str), Some("east-01"));
        assert_eq!(specs(5).unwrap()[3].labels["region"], "west");
        assert_eq!(specs(5).unwrap()[1].labels["tier"], "production");
    }
}
