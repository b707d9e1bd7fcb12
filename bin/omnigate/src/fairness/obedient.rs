//! Clients that do as they are told: whoever is refused comes back after exactly as many seconds as it was told.

use std::{sync::Arc, time::Duration};

use types::Moment;

use super::load::{Manner, Sending};

/// One client of a flow, the `index`th.
pub(super) async fn send_as_told(sending: Arc<Sending>, index: usize) {
    // Connected before the first request is due, so that a burst is one.
    let (mut conn, request) = (sending.connect().await.ok(), sending.request());
    let mut next = Some(first_due(&sending, index));
    while let Some(due) = next.filter(|due| *due < sending.end) {
        let mut answer = sending.send(&mut conn, &request, due).await;
        let mut told_before = false;
        while let Some(wait) = answer.as_ref().ok().and_then(|answer| answer.retry_after) {
            let back = sending.clock.now().after(wait);
            if back >= sending.end {
                return;
            }
            answer = sending.send(&mut conn, &request, back).await;
            if !std::mem::replace(&mut told_before, true) {
                let mut outcome = sending.outcome();
                outcome.returned += 1;
                outcome.welcome += u64::from(answer.as_ref().is_ok_and(|answer| answer.status == 200));
            }
        }
        let now = sending.clock.now();
        next = period(&sending, now).map(|period| due.after(period).max(now));
    }
}

/// When a client sends first: all at once in a burst, else spread over one period.
#[expect(clippy::cast_precision_loss, reason = "a few clients")]
fn first_due(sending: &Sending, index: usize) -> Moment {
    match sending.flow.manner {
        Manner::Flood { rate, .. } => sending.start.after(Duration::from_secs_f64(index as f64 / rate)),
        Manner::Burst | Manner::Heedless => sending.counted_from,
    }
}

/// How long after a request a client has the next one, at this time; `None` if it had only one.
#[expect(clippy::cast_precision_loss, reason = "a few clients")]
fn period(sending: &Sending, now: Moment) -> Option<Duration> {
    let flow = &sending.flow;
    let rate = match flow.manner {
        Manner::Flood { rate, lasts } if now < sending.start.after(lasts) => rate,
        Manner::Flood { .. } | Manner::Heedless => flow.rate,
        Manner::Burst => return None,
    };
    Some(Duration::from_secs_f64(flow.conns as f64 / rate))
}
