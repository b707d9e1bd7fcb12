//! Clients that do as they are told: whoever is refused comes back after exactly as many seconds as it was told.

use std::{sync::Arc, time::Duration};

use types::Moment;

use super::load::{Manner, Sending};

/// One client of a flow, the `index`th.
pub(super) async fn send_as_told(sending: Arc<Sending>, index: usize) {
    // Connected before the first request is due, so that a burst is one.
    let (mut conn, request) = (sending.connect().await.ok(), sending.request());
    let mut next = next_due(&sending, index, sending.start);
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
        next = next_due(&sending, index, sending.clock.now().max(due.after(Duration::from_nanos(1))));
    }
}

/// When a client sends next, `now` or later. In a burst, all at once and once only. Otherwise each has its own times, as
/// far from the others' as can be; what it would have sent while it waited is let go.
fn next_due(sending: &Sending, index: usize, now: Moment) -> Option<Moment> {
    let flow = &sending.flow;
    let Manner::Flood { rate, lasts } = flow.manner else {
        return (now <= sending.counted_from).then_some(sending.counted_from);
    };
    let calm = sending.start.after(lasts);
    let flooding = nth_turn(sending.start, rate, (index, flow.conns), now);
    Some(if flooding < calm { flooding } else { nth_turn(calm, flow.rate, (index, flow.conns), now) })
}

/// The first turn, `from` or later, of one of many clients who take turns at a rate.
#[expect(clippy::cast_precision_loss, reason = "a few clients")]
fn nth_turn(start: Moment, rate: f64, (index, clients): (usize, usize), from: Moment) -> Moment {
    let (first, period) = (index as f64 / rate, clients as f64 / rate);
    let periods = ((from.since(start).as_secs_f64() - first) / period).ceil().max(0.0);
    start.after(Duration::from_secs_f64(first + periods * period))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_take_turns_and_let_go_those_they_miss() {
        let start = Moment::ORIGIN.after(Duration::from_secs(1));
        let millis = |moment: Moment| moment.since(start).as_millis();
        let turn = |index, from: u64| {
            millis(nth_turn(start, 100.0, (index, 10), start.after(Duration::from_millis(from))))
        };
        assert_eq!(
            (0..10).map(|index| turn(index, 0)).collect::<Vec<_>>(),
            [0, 10, 20, 30, 40, 50, 60, 70, 80, 90]
        );
        assert_eq!([turn(3, 30), turn(3, 31), turn(3, 500)], [30, 130, 530]);
        assert_eq!(millis(nth_turn(start, 100.0, (3, 10), Moment::ORIGIN)), 30);
    }
}
