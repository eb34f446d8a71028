//! Schedules of CronJobs, as Kubernetes reads them: five fields, or a word such as `@daily`.

/// A field of a schedule: its name, the numbers that it may have, and the words for them.
struct Field {
    name: &'static str,
    min: u32,
    max: u32,
    words: &'static [&'static str],
}

const FIELDS: [Field; 5] = [
    Field {
        name: "minute",
        min: 0,
        max: 59,
        words: &[],
    },
    Field {
        name: "hour",
        min: 0,
        max: 23,
        words: &[],
    },
    Field {
        name: "day of the month",
        min: 1,
        max: 31,
        words: &[],
    },
    Field {
        name: "month",
        min: 1,
        max: 12,
        words: &[
            "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
        ],
    },
    Field {
        name: "day of the week",
        min: 0,
        max: 6,
        words: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
    },
];
const WORDS: [&str; 7] = [
    "@yearly",
    "@annually",
    "@monthly",
    "@weekly",
    "@daily",
    "@midnight",
    "@hourly",
];

/// What is wrong with a schedule; `None` if Kubernetes takes it.
pub(super) fn problem(schedule: &str) -> Option<String> {
    if WORDS.contains(&schedule) {
        return None;
    }
    if schedule.starts_with("TZ=") || schedule.starts_with("CRON_TZ=") {
        return Some("names a time zone, which Kubernetes refuses in a schedule: leave it out".to_owned());
    }
    if schedule.starts_with('@') {
        return Some(format!(
            "{schedule:?} is not known here: use five fields, or one of {}",
            WORDS.join(", ")
        ));
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        return Some(format!(
            "has {} fields: write five, minute, hour, day of the month, month, day of the week, as in \"*/5 * * * *\"",
            fields.len()
        ));
    }
    fields.iter().zip(&FIELDS).find_map(|(text, field)| {
        let legal = text.split(',').all(|part| part_is_legal(part, field));
        (!legal).then(|| {
            format!(
                "{text:?} is no {}: use numbers from {} to {}, ranges such as {}-{}, steps such as */2, lists, or *",
                field.name, field.min, field.max, field.min, field.max
            )
        })
    })
}

/// A number, a range or `*`, with an optional step.
fn part_is_legal(part: &str, field: &Field) -> bool {
    let (range, step) = match part.split_once('/') {
        Some((range, step)) => (range, Some(step)),
        None => (part, None),
    };
    let step_is_legal = step.is_none_or(|step| number(step).is_some_and(|step| step > 0));
    let range_is_legal = match range.split_once('-') {
        _ if range == "*" || range == "?" => true,
        None => value(range, field).is_some(),
        Some((from, to)) => value(from, field)
            .zip(value(to, field))
            .is_some_and(|(from, to)| from <= to),
    };
    step_is_legal && range_is_legal
}

fn value(text: &str, field: &Field) -> Option<u32> {
    let word = field
        .words
        .iter()
        .position(|word| word.eq_ignore_ascii_case(text));
    let value = match word {
        Some(place) => u32::try_from(place).ok()? + field.min,
        None => number(text)?,
    };
    (field.min..=field.max).contains(&value).then_some(value)
}

fn number(text: &str) -> Option<u32> {
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::problem;

    #[test]
    fn schedules() {
        for good in [
            "* * * * *",
            "*/5 * * * *",
            "0 0 1 1 0",
            "59 23 31 12 6",
            "0-30/10,45 8-18 * jan-MAR mon,Wed-fri",
            "0 0 ? * ?",
            "@daily",
            "@hourly",
            "5/15 * * * *",
        ] {
            assert_eq!(problem(good), None, "{good}");
        }
        for (bad, part) in [
            ("", "has 0 fields"),
            ("* * * *", "has 4 fields"),
            ("0 * * * * *", "has 6 fields"),
            ("60 * * * *", "\"60\" is no minute: use numbers from 0 to 59"),
            ("* 24 * * *", "\"24\" is no hour"),
            ("* * 0 * *", "\"0\" is no day of the month"),
            ("* * * 13 *", "\"13\" is no month"),
            ("* * * * 7", "\"7\" is no day of the week"),
            ("*/0 * * * *", "\"*/0\" is no minute"),
            ("5-1 * * * *", "\"5-1\" is no minute"),
            ("1,,2 * * * *", "is no minute"),
            ("-1 * * * *", "is no minute"),
            ("+1 * * * *", "is no minute"),
            ("mon * * * *", "is no minute"),
            ("99999999999 * * * *", "is no minute"),
            ("@dayly", "\"@dayly\" is not known here"),
            ("TZ=UTC * * * * *", "names a time zone"),
        ] {
            let found = problem(bad).unwrap_or_default();
            assert!(found.contains(part), "{bad}: {found}");
        }
    }
}
