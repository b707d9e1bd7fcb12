//! `omnigate epoch usage`: what is quarantined is booked where it counts.

use std::time::{Duration, SystemTime};

use ron_accounting::{Accounts, BootId, Correction, Journal, Page};
use tempfile::TempDir;
use types::ActorId;

use crate::{assert_clean, cli};

const YEAR: u64 = 365 * 24 * 3600;

#[test]
fn quarantined_usage_is_booked_in_the_present_epoch_and_not_where_it_would_never_count() {
    let dir = TempDir::new().unwrap();
    let config = "[node]\ndata_dir = \"data\"\ndanger_ok = true\n[rewarder]\nenabled = true\nepoch_duration = \"365d\"\n";
    std::fs::write(dir.path().join("omnigate.toml"), config).unwrap();
    std::fs::create_dir(dir.path().join("data")).unwrap();
    let path = dir.path().join("data").join(Accounts::JOURNAL);
    let mut journal = Journal::open(&path, Duration::from_secs(YEAR)).unwrap();
    let units = vec![(ActorId::new("ada").unwrap(), "provided.bytes", 7)];
    let [boot, next] = [1, 2].map(|byte| BootId::new([byte; 16]));
    journal.book(boot, &[Page { epoch: 7, units }]).unwrap();
    journal.correct((boot, next), Correction { from: 7, to: None }).unwrap();
    drop(journal);
    let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    // An epoch has a year, so that none ends meanwhile, but on one day.
    let present = unix.as_secs() / YEAR;
    let book =
        |epoch: u64| cli(dir.path(), &["epoch", "usage", "--quarantined", "--book-in", &epoch.to_string()]);
    for epoch in [0, 7, present - 1, present + 2, (1 << 53) - 1] {
        let ran = book(epoch);
        let words = format!("epoch {epoch} is neither the present one nor the next");
        assert!(ran.code == Some(1) && ran.err.contains(&words), "{}{}", ran.out, ran.err);
    }
    let shown = cli(dir.path(), &["epoch", "usage", "--quarantined"]);
    assert!(shown.out.contains("ada"), "nothing is lost: {}{}", shown.out, shown.err);
    let ran = book(present);
    assert_clean(&ran);
    assert_eq!(ran.out, format!("1 rows are booked in epoch {present}\n"));
    let shown = cli(dir.path(), &["epoch", "usage", &present.to_string()]);
    assert!(shown.out.contains("ada  provided.bytes  7"), "{}", shown.out);
}
