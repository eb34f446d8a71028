//! How long a Lease holds, and how often it is renewed: client-go's three settings, with its defaults.

use std::time::Duration;

/// The settings of an election.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    lease_duration: Duration,
    renew_deadline: Duration,
    retry_period: Duration,
}

/// Why settings are refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TimingError {
    /// A leader would have to stop before it can renew, or would write when its Lease is another's.
    #[error(
        "the lease duration ({lease:?}) has to be longer than the renew deadline ({deadline:?}), and that longer than the \
         retry period ({retry:?}): a leader stops writing at the deadline, and others wait for the duration"
    )]
    Order {
        /// Lease duration.
        lease: Duration,
        /// Renew deadline.
        deadline: Duration,
        /// Retry period.
        retry: Duration,
    },
    /// A Lease counts whole seconds.
    #[error("the lease duration ({0:?}) has to be whole seconds, and no longer than an hour")]
    Seconds(Duration),
    /// No time at all.
    #[error("the retry period has to be longer than nothing")]
    NoRetry,
}

/// The longest duration of a Lease, whoever wrote it.
pub(super) const LONGEST: Duration = Duration::from_secs(3600);

impl Timing {
    /// Settings: how long others wait for a leader that is not heard of, when a leader that cannot renew stops, and how often
    /// it renews.
    ///
    /// # Errors
    /// Not `lease_duration > renew_deadline > retry_period > 0`, or no whole seconds up to an hour.
    pub fn new(
        lease_duration: Duration,
        renew_deadline: Duration,
        retry_period: Duration,
    ) -> Result<Timing, TimingError> {
        if lease_duration <= renew_deadline || renew_deadline <= retry_period {
            return Err(TimingError::Order {
                lease: lease_duration,
                deadline: renew_deadline,
                retry: retry_period,
            });
        }
        if lease_duration.subsec_nanos() != 0 || lease_duration > LONGEST {
            return Err(TimingError::Seconds(lease_duration));
        }
        if retry_period.is_zero() {
            return Err(TimingError::NoRetry);
        }
        Ok(Timing {
            lease_duration,
            renew_deadline,
            retry_period,
        })
    }

    /// How long others wait after the last renewal that they saw.
    pub fn lease_duration(&self) -> Duration {
        self.lease_duration
    }

    /// How long after the last renewal that it asked for with success a leader writes.
    pub fn renew_deadline(&self) -> Duration {
        self.renew_deadline
    }

    /// How often a leader renews, and how long it waits after a failure.
    pub fn retry_period(&self) -> Duration {
        self.retry_period
    }
}

impl Default for Timing {
    fn default() -> Self {
        Timing {
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leader_has_to_stop_before_others_begin() {
        let new = |lease, deadline, retry| {
            let seconds = Duration::from_secs_f64;
            Timing::new(seconds(lease), seconds(deadline), seconds(retry))
        };
        assert_eq!(new(15.0, 10.0, 2.0), Ok(Timing::default()));
        assert!(new(2.0, 1.0, 0.25).is_ok());
        for (lease, deadline, retry) in [
            (10.0, 10.0, 2.0),
            (9.0, 10.0, 2.0),
            (15.0, 2.0, 2.0),
            (15.0, 1.0, 2.0),
        ] {
            let error = new(lease, deadline, retry).unwrap_err();
            assert!(
                matches!(error, TimingError::Order { .. }),
                "{lease} {deadline} {retry}"
            );
        }
        assert!(matches!(new(1.5, 1.0, 0.5), Err(TimingError::Seconds(_))));
        assert!(matches!(new(3601.0, 10.0, 2.0), Err(TimingError::Seconds(_))));
        assert_eq!(new(15.0, 10.0, 0.0), Err(TimingError::NoRetry));
    }
}
