//! The judgement of a connection, on a paused clock.

use super::*;

const HTTP2: Protocol = Protocol::Http2 { max_idle_bytes: 100 };

async fn after(activity: &Activity, secs: f64) -> Verdict {
    tokio::time::advance(Duration::from_secs_f64(secs)).await;
    activity.judge(activity.clock.now())
}

/// A connection on a clock that has been running for a while.
async fn speaking(protocol: Protocol) -> Activity {
    with_patience(protocol, 0).await
}

async fn with_patience(protocol: Protocol, patience: u8) -> Activity {
    let clock = Clock::start();
    tokio::time::advance(Duration::from_secs(1)).await;
    let metrics = ron_kernel::metrics::Metrics::new("t").service("t");
    Activity::new(clock, protocol, InFlight::new(), Arc::new(HttpLimits::default()), metrics, patience)
}

async fn activity() -> Activity {
    speaking(Protocol::Http1).await
}

#[tokio::test(start_paused = true)]
async fn a_connection_parks_after_two_idle_seconds_and_closes_after_sixty() {
    let a = activity().await;
    assert!(matches!(after(&a, 1.999).await, Verdict::Wait(_)));
    assert_eq!(after(&a, 0.001).await, Verdict::Park);
    assert_eq!(after(&a, 57.999).await, Verdict::Park);
    assert_eq!(after(&a, 0.001).await, Verdict::IdleTooLong);
}

#[tokio::test(start_paused = true)]
async fn a_trickled_head_does_not_gain_time_by_trickling() {
    let a = activity().await;
    for _ in 0..4 {
        assert!(a.read(1));
        assert!(matches!(after(&a, 1.2).await, Verdict::Wait(_)));
    }
    assert!(a.read(1));
    assert_eq!(after(&a, 0.2).await, Verdict::HeadTooSlow);
}

#[tokio::test(start_paused = true)]
async fn a_body_may_take_long_as_long_as_it_moves() {
    let a = activity().await;
    let _request = a.request_began();
    a.body_began();
    let mut pace = Pace::default();
    for _ in 0..10 {
        let since = a.body_waits(&pace);
        assert!(matches!(after(&a, 4.9).await, Verdict::Wait(_)));
        a.body_arrived(Some(since), 2000, &mut pace);
    }
    let since = a.body_waits(&pace);
    assert_eq!(a.body_until(), Some((since.after(Duration::from_secs(5)), Slowness::Stalled)));
    assert!(matches!(after(&a, 5.9).await, Verdict::Wait(_)), "its reader can still answer");
    assert_eq!(after(&a, 0.1).await, Verdict::BodyTooSlow);
    a.body_given_up(since);
    a.body_ended(0);
    assert!(matches!(after(&a, 3600.0).await, Verdict::Wait(_)), "nobody waits for the body any more");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_nothing_is_found_by_socket_or_by_frame() {
    let a = activity().await;
    let _request = a.request_began();
    a.wrote(None);
    assert!(matches!(after(&a, 4.9).await, Verdict::Wait(_)));
    assert_eq!(after(&a, 0.1).await, Verdict::WriteTooSlow);
    a.wrote(Some(17));
    assert!(matches!(after(&a, 0.0).await, Verdict::Wait(_)));
    let mut pace = Pace::default();
    let since = a.frame_handed_over(&pace);
    assert_eq!(after(&a, 5.0).await, Verdict::WriteTooSlow);
    a.frame_taken(since, 1, &mut pace);
    assert!(matches!(after(&a, 0.0).await, Verdict::Wait(_)));
    let since = a.frame_handed_over(&pace);
    a.frame_dropped(since);
    assert!(matches!(after(&a, 3600.0).await, Verdict::Wait(_)));
}

#[tokio::test(start_paused = true)]
async fn what_is_still_to_be_flushed_keeps_a_connection_from_being_parked() {
    let a = activity().await;
    let request = a.request_began();
    a.request_ended(request);
    a.flushed(true);
    assert!(matches!(after(&a, 4.9).await, Verdict::Wait(_)));
    assert_eq!(after(&a, 0.1).await, Verdict::WriteTooSlow);
    a.flushed(false);
    assert_eq!(after(&a, 0.0).await, Verdict::Park);
}

#[tokio::test(start_paused = true)]
async fn a_slow_upstream_is_not_the_clients_fault() {
    let a = activity().await;
    let request = a.request_began();
    assert!(matches!(after(&a, 3600.0).await, Verdict::Wait(_)));
    a.request_ended(request);
    assert!(matches!(after(&a, 1.9).await, Verdict::Wait(_)));
}

#[tokio::test(start_paused = true)]
async fn the_timer_is_set_for_the_exact_moment_that_matters() {
    let a = activity().await;
    assert!(a.read(1));
    let began = a.clock.now();
    let Verdict::Wait(_) = after(&a, 4.0).await else { panic!("too early") };
    let Verdict::Wait(next) = after(&a, 0.0).await else { panic!("too early") };
    assert_eq!(next, began.after(Duration::from_secs(5)));
}

#[tokio::test(start_paused = true)]
async fn an_http2_client_that_only_pings_is_idle_and_has_no_late_head() {
    let a = speaking(HTTP2).await;
    let request = a.request_began();
    assert!(matches!(after(&a, 100.0).await, Verdict::Wait(_)));
    a.request_ended(request);
    for _ in 0..5 {
        assert!(a.read(17));
        a.wrote(Some(17));
        assert!(matches!(after(&a, 11.9).await, Verdict::Wait(_)));
    }
    assert_eq!(after(&a, 0.5).await, Verdict::IdleTooLong);
}

#[tokio::test(start_paused = true)]
async fn an_http2_client_may_send_so_much_between_two_steps_and_no_more() {
    let a = speaking(HTTP2).await;
    assert!(a.read(100));
    let _request = a.request_began();
    assert!(a.read(60));
    a.body_began();
    a.body_arrived(None, 1, &mut Pace::default());
    assert!(a.read(100));
    assert!(!a.was_flooded());
    assert!(!a.read(1));
    assert!(a.was_flooded());
}

#[tokio::test(start_paused = true)]
async fn a_body_that_trickles_is_below_the_minimum_rate_once_its_grace_is_over() {
    for protocol in [Protocol::Http1, HTTP2] {
        let a = speaking(protocol).await;
        let _request = a.request_began();
        a.body_began();
        let mut pace = Pace::default();
        for _ in 0..4 {
            let since = a.body_waits(&pace);
            assert!(matches!(after(&a, 2.0).await, Verdict::Wait(_)));
            a.body_arrived(Some(since), 1, &mut pace);
        }
        let since = a.body_waits(&pace);
        let (until, why) = a.body_until().expect("it is waited for");
        assert_eq!(why, Slowness::BelowMinRate, "{protocol:?}");
        assert!(until < since.after(Duration::from_millis(2100)), "{protocol:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_response_that_is_taken_in_drops_is_cut_and_one_that_keeps_the_rate_is_not() {
    let a = activity().await;
    let _request = a.request_began();
    for _ in 0..20 {
        a.wrote(None);
        assert!(matches!(after(&a, 4.0).await, Verdict::Wait(_)));
        a.wrote(Some(1100));
    }
    for _ in 0..2 {
        a.wrote(None);
        assert!(matches!(after(&a, 4.0).await, Verdict::Wait(_)));
        a.wrote(Some(10));
    }
    a.wrote(None);
    assert!(matches!(after(&a, 1.9).await, Verdict::Wait(_)));
    assert_eq!(after(&a, 0.2).await, Verdict::WriteBelowMinRate);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_trickles_beside_quick_ones_is_given_up_after_a_minute() {
    let a = speaking(HTTP2).await;
    let _request = a.request_began();
    let (mut slow, mut quick) = (Pace::default(), Pace::default());
    for second in 0..59 {
        let (waits, moves) = (a.frame_handed_over(&slow), a.frame_handed_over(&quick));
        assert!(matches!(after(&a, 1.0).await, Verdict::Wait(_)), "second {second}");
        a.frame_taken(waits, 1, &mut slow);
        a.frame_taken(moves, 16_384, &mut quick);
    }
    let _waits = a.frame_handed_over(&slow);
    assert_eq!(after(&a, 1.5).await, Verdict::WriteBelowMinRate);
}

#[tokio::test(start_paused = true)]
async fn a_whole_request_has_so_much_time_from_its_first_byte() {
    let a = activity().await;
    assert!(a.read(1));
    let first_byte = a.clock.now();
    tokio::time::advance(Duration::from_secs(3)).await;
    let _request = a.request_began();
    assert_eq!(a.body_began(), first_byte.after(Duration::from_secs(300)));
}

#[tokio::test(start_paused = true)]
async fn slow_clients_that_came_together_are_cut_off_over_a_tenth_of_the_limit() {
    let mut cut_at = Vec::new();
    for patience in [0, 64, 128, u8::MAX] {
        let a = with_patience(Protocol::Http1, patience).await;
        assert!(a.read(1));
        let mut waited = 0.0;
        while after(&a, 0.01).await != Verdict::HeadTooSlow {
            waited += 0.01;
        }
        cut_at.push(waited);
    }
    let limit = HttpLimits::default().read_timeout.as_secs_f64();
    assert!(cut_at.is_sorted_by(|a, b| a < b), "{cut_at:?}");
    assert!(cut_at[0] >= limit - 0.02 && cut_at[3] <= limit * 1.1, "{cut_at:?}");
    assert!(cut_at[3] > limit * 1.09, "{cut_at:?}");
}
