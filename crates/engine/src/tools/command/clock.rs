//! The time limit of a command, which pauses while the user is being asked.

use std::{future::pending, time::Duration};

use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

/// The numbers of open questions. Time does not count while one of them is above zero.
pub(super) struct ClockPauses {
    /// Questions about hosts that the command wants to reach.
    pub hosts: Option<watch::Receiver<usize>>,
    /// Questions that the client asks by itself.
    pub elicitations: watch::Receiver<u64>,
}

impl ClockPauses {
    /// Returns when `limit` has passed since `began`. Never returns without a limit, nor after the senders are gone: the
    /// command has ended by then, which its caller notices by other means.
    pub async fn elapse(mut self, began: Instant, limit: Option<Duration>) {
        let Some(limit) = limit else { return pending().await };
        let mut deadline = began + limit;
        loop {
            let has_paused = tokio::select! {
                () = sleep_until(deadline) => return,
                has_paused = self.paused() => has_paused,
            };
            let pause_began = Instant::now();
            if !has_paused || !self.resumed().await {
                return pending().await;
            }
            deadline += pause_began.elapsed();
        }
    }

    /// Waits for an open question. False when a sender is gone.
    async fn paused(&mut self) -> bool {
        let hosts = async {
            match &mut self.hosts {
                Some(hosts) => hosts.wait_for(|open| *open > 0).await.is_ok(),
                None => pending().await,
            }
        };
        tokio::select! {
            is_paused = hosts => is_paused,
            open = self.elicitations.wait_for(|open| *open > 0) => open.is_ok(),
        }
    }

    /// Waits until no question is open. False when a sender is gone.
    async fn resumed(&mut self) -> bool {
        loop {
            if let Some(hosts) = &mut self.hosts
                && hosts.wait_for(|open| *open == 0).await.is_err()
            {
                return false;
            }
            if self.elicitations.wait_for(|open| *open == 0).await.is_err() {
                return false;
            }
            // Another question about a host may have been opened meanwhile.
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
    async fn time_during_questions_does_not_count() {
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
    async fn without_a_limit_it_never_elapses() {
        let (_elicitations, seen) = watch::channel(0);
        let clock = ClockPauses { hosts: None, elicitations: seen }.elapse(Instant::now(), None);
        assert!(tokio::time::timeout(Duration::from_secs(3600), clock).await.is_err());
    }
}
