//! The time that a command has. While a person is being asked, it stands still.

use std::{future::pending, time::Duration};

use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

/// What stops the clock, as numbers of questions that are open.
pub(super) struct ClockPauses {
    /// About hosts that the command wants to reach.
    pub hosts: Option<watch::Receiver<usize>>,
    /// Those that a client asks by itself.
    pub elicitations: watch::Receiver<u64>,
}

impl ClockPauses {
    /// Ends when the time is up, counted from `began`. Never without a time, nor when whoever asks is gone: the
    /// command is gone then too, which is somebody else's to notice.
    pub async fn elapse(mut self, began: Instant, time: Option<Duration>) {
        let Some(time) = time else { return pending().await };
        let mut until = began + time;
        loop {
            let is_asked = tokio::select! {
                () = sleep_until(until) => return,
                is_asked = self.begun() => is_asked,
            };
            let since = Instant::now();
            if !is_asked || !self.over().await {
                return pending().await;
            }
            until += since.elapsed();
        }
    }

    async fn begun(&mut self) -> bool {
        let hosts = async {
            match &mut self.hosts {
                Some(hosts) => hosts.wait_for(|open| *open > 0).await.is_ok(),
                None => pending().await,
            }
        };
        tokio::select! {
            is_asked = hosts => is_asked,
            asked = self.elicitations.wait_for(|open| *open > 0) => asked.is_ok(),
        }
    }

    async fn over(&mut self) -> bool {
        loop {
            if let Some(hosts) = &mut self.hosts
                && hosts.wait_for(|open| *open == 0).await.is_err()
            {
                return false;
            }
            if self.elicitations.wait_for(|open| *open == 0).await.is_err() {
                return false;
            }
            // Meanwhile the next host may have been asked about.
            if self.hosts.as_ref().is_none_or(|hosts| *hosts.borrow() == 0) {
                return true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn time_in_which_anybody_is_asked_does_not_count() {
        let (hosts, hosts_seen) = watch::channel(0);
        let (elicitations, elicitations_seen) = watch::channel(0);
        let pauses = ClockPauses { hosts: Some(hosts_seen), elicitations: elicitations_seen };
        let began = Instant::now();
        let clock = tokio::spawn(pauses.elapse(began, Some(Duration::from_secs(10))));
        tokio::time::sleep(Duration::from_secs(5)).await;
        elicitations.send_replace(1);
        tokio::time::sleep(Duration::from_secs(60)).await;
        hosts.send_replace(1);
        elicitations.send_replace(0);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(!clock.is_finished());

        hosts.send_replace(0);

        clock.await.unwrap();
        assert_eq!(began.elapsed().as_secs(), 130);
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_time_there_is_no_end() {
        let (_elicitations, seen) = watch::channel(0);
        let clock = ClockPauses { hosts: None, elicitations: seen }.elapse(Instant::now(), None);
        assert!(tokio::time::timeout(Duration::from_secs(3600), clock).await.is_err());
    }
}
