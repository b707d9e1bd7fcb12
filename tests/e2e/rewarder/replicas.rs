//! Rewarders that share a store: they race for the same epochs, one of them dies now and then, and everybody is paid once.

use svc_rewarder::CRASH_POINTS;

use super::{
    ground::{Ground, Place, patiently},
    server::Database,
};

#[test]
fn two_rewarders_on_one_store_pay_once_while_one_keeps_dying() {
    let mut ground = Ground::new(Place::Postgres(Database::new()), 2);
    let steady = ground.start(0, None);
    // It has no usage of its own to seal. Every other point, unless all are asked for.
    let step = if std::env::var_os("OMNIGATE_FULL_PROOFS").is_some() { 1 } else { 2 };
    let points = CRASH_POINTS.iter().filter(|point| !point.starts_with("seal.")).step_by(step);
    for (number, point) in points.enumerate() {
        ground.book_epoch();
        let mut dying = ground.start(1, Some(point));
        // The other may be quicker at some points; then it is killed where it stands.
        patiently("it dies, or all is paid without it", || {
            (dying.is_dead() || ground.settled() == number + 1).then_some(())
        });
    }
    let both = ground.start(1, None);
    patiently("every epoch is settled", || (ground.settled() == ground.epochs.len()).then_some(()));
    drop((steady, both));
    ground.check();
}
