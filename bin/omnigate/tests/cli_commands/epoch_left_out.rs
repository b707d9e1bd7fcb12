//! `omnigate epoch verify` of an epoch from which snapshots were left out: who says so, and that it can be so.

use std::{fs, path::Path};

use rewards::{Epoch, Excluded, ExclusionNotice};
use tempfile::TempDir;

use crate::{
    bundle::{Counted, Plan, Rows, key, write},
    cli_run::{omnigate, run},
};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/oracle/golden/v1");

#[test]
fn snapshots_that_were_left_out_are_shown_if_the_notice_holds() {
    let dir = TempDir::new().unwrap();
    let plan = Plan::resealed(Path::new(GOLDEN), &[1, 2]);
    let folder = dir.path().join("bundle");
    write(&plan.files(), &folder);
    let rows = Rows::from([(("mallory".to_owned(), "served.bytes".to_owned()), u128::MAX)]);
    let notice = |counted: &Counted, epoch: u64| {
        let (reason, detail) = ("overflow".to_owned(), "scores overflow".to_owned());
        let excluded = vec![Excluded { snapshot: counted.snapshot(), reason, detail }];
        String::from_utf8(ExclusionNotice::of(Epoch::new(epoch).unwrap(), excluded, &key(1)).to_bytes())
            .unwrap()
    };
    let verify = |notice: &str| {
        fs::write(folder.join("excluded.json"), notice).unwrap();
        run(omnigate(dir.path(), &["epoch", "verify", "bundle", "--require", "rows"]))
    };
    let absurd = Counted::by(3, 7, rows);
    let ran = verify(&notice(&absurd, 7));
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    let words = format!("  left out      {}: scores overflow\n", absurd.node);
    assert!(ran.out.contains(&words), "{}", ran.out);
    for (wrong, words) in [
        (notice(&absurd, 8), "it is of another epoch, or its signature is not good"),
        (notice(&absurd, 7).replace("scores", "points"), "or its signature is not good"),
        (notice(&plan.counted[0], 7), "counts, and is said to be left out"),
        ("{}".to_owned(), "excluded.json: the format is not"),
    ] {
        let ran = verify(&wrong);
        assert!(ran.code == Some(1) && ran.err.contains(words), "{words}: {}{}", ran.out, ran.err);
    }
}
