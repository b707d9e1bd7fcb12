//! A primary of PostgreSQL that fails in the middle of settling: its synchronous standby takes over, and everybody is paid once.
//!
//! How many times is `OMNIGATE_FAILOVERS`, once unless it is set.

use super::{
    ground::{Ground, Place, patiently},
    server::Database,
};

/// Epochs that are to be settled; the server fails after some of them.
const EPOCHS: usize = 8;

#[test]
fn a_failover_in_the_middle_of_settling_pays_everybody_once() {
    let asked = std::env::var("OMNIGATE_FAILOVERS").ok().and_then(|text| text.parse().ok());
    for round in 0..asked.unwrap_or(1) {
        let mut ground = Ground::new(Place::Postgres(Database::replicated()), 2);
        (0..EPOCHS).for_each(|_| ground.book_epoch());
        let running = [ground.start(0, None), ground.start(1, None)];
        let before = 1 + round % (EPOCHS - 2);
        patiently("some epochs are settled", || (ground.settled() >= before).then_some(()));
        ground.fail_over();
        let at = ground.settled();
        println!("round {round}: {at} of {EPOCHS} epochs were settled when the primary failed");
        patiently("every epoch is settled", || (ground.settled() == EPOCHS).then_some(()));
        drop(running);
        ground.check();
    }
}
