//! The same on servers that are started as real ones are.

use anyhow::Result;
use roundhouse_e2e::double::told_again;

#[test]
fn a_delivery_is_the_same_on_servers_that_are_started_as_real_ones() -> Result<()> {
    let test = "seed::the_seed_puts_seven_in_the_east_two_in_the_west_and_reports_one";
    if let Some(said) = told_again(test, 2)? {
        let counted = "members on embedded API servers beside real ones: 3 in 1 tests";
        assert!(said.contains(counted), "{said}");
    }
    Ok(())
}
