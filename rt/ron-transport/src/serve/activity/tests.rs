//! The judgement of a connection, on a paused clock.

use super::*;

const HTTP2: Protocol = Protocol::Http2 { max_idle_bytes: 100 };

async fn after(activity: &Activity, secs: f64) -> Verdict {
    tokio::time::advance(Duration::from_secs_f64(secs)).await;
    activity.judge(activity.clock.now(), &HttpLimits::default())
}

/// A connection on a clock that has been running for a while.
async fn speaking(protocol: Protocol) -> Activity {
    let clock = Clock::start();
    tokio::time::advance(Duration::from_secs(1)).await;
    Activity::new(clock, protocol, InFlight::new())
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
    for _ in 0..10 {
        let since = a.body_waits();
        assert!(matches!(after(&a, 4.9).await, Verdict::Wait(_)));
        a.body_arrived(Some(since));
    }
    let since = a.body_waits();
    assert_eq!(after(&a, 5.0).await, Verdict::BodyTooSlow);
    a.body_ended(Some(since), 0);
    assert!(matches!(after(&a, 3600.0).await, Verdict::Wait(_)), "nobody waits for the body any more");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_nothing_is_found_by_socket_or_by_frame() {
    let a = activity().await;
    let _request = a.request_began();
    a.wrote(true);
    assert!(matches!(after(&a, 4.9).await, Verdict::Wait(_)));
    assert_eq!(after(&a, 0.1).await, Verdict::WriteTooSlow);
    a.wrote(false);
    assert!(matches!(after(&a, 0.0).await, Verdict::Wait(_)));
    let since = a.frame_handed_over();
    assert_eq!(after(&a, 5.0).await, Verdict::WriteTooSlow);
    a.frame_taken(since);
    assert!(matches!(after(&a, 0.0).await, Verdict::Wait(_)));
    let since = a.frame_handed_over();
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
        a.wrote(false);
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
    a.body_arrived(None);
    assert!(a.read(100));
    assert!(!a.was_flooded());
    assert!(!a.read(1));
    assert!(a.was_flooded());
}
