//! The calculus keeps its promises for any epoch: sums close, shares are proportional, order does not matter.
#![expect(clippy::unwrap_used, reason = "tests")]

mod support;

use proptest::{collection::vec, prelude::*};
use rewards::{
    Allocation, Amount, InputSet, Limits, Policy, Quarantine, Residual, Row, RowsHasher, Rule, Ruleset, Run,
    compute, read_row, write_row,
};
use support::{Rows, actor, each, epoch, inputs, inputs_in_order, node, policy, served, snapshot, terms};

fn paid(ruleset: Ruleset, pool: u128, scores: &[(&str, u128)]) -> Vec<(String, u128)> {
    let run = compute(&policy(ruleset, pool), &inputs(&[served(scores)]).unwrap()).unwrap();
    run.allocations().map(|a| (a.actor.to_owned(), a.payout.minor())).collect()
}

fn amounts(pairs: &[(&str, u128)]) -> Vec<(String, u128)> {
    pairs.iter().map(|(name, amount)| ((*name).to_owned(), *amount)).collect()
}

#[test]
fn a_metric_counts_also_where_nobody_has_one_that_comes_before_it() {
    let of = support::rows(&[("a", "requests", 9), ("a", "stored.bytes", 3), ("b", "stored.bytes", 1)]);
    for ruleset in Ruleset::ALL {
        let run = compute(&policy(ruleset, 8), &inputs(std::slice::from_ref(&of)).unwrap()).unwrap();
        let payouts: Vec<_> = run.allocations().map(|a| (a.actor.to_owned(), a.payout.minor())).collect();
        assert_eq!(payouts, amounts(&[("a", 6), ("b", 2)]));
    }
}

#[test]
fn units_left_over_go_to_the_largest_remainders_and_ties_to_the_first_names() {
    for ruleset in Ruleset::ALL {
        assert_eq!(
            paid(ruleset, 10, &[("a", 1), ("b", 1), ("c", 1)]),
            amounts(&[("a", 4), ("b", 3), ("c", 3)])
        );
        assert_eq!(
            paid(ruleset, 11, &[("a", 1), ("b", 1), ("c", 1)]),
            amounts(&[("a", 4), ("b", 4), ("c", 3)])
        );
        assert_eq!(paid(ruleset, 10, &[("a", 1), ("b", 2)]), amounts(&[("a", 3), ("b", 7)]));
        assert_eq!(
            paid(ruleset, 1, &[("B", 1), ("a", 1)]),
            amounts(&[("B", 1), ("a", 0)]),
            "bytes, not letters"
        );
        assert_eq!(paid(ruleset, 5, &[("a", 7)]), amounts(&[("a", 5)]));
    }
}

#[test]
fn who_has_no_score_has_no_line_and_a_pool_without_scores_is_left_whole() {
    for ruleset in Ruleset::ALL {
        let rows = support::rows(&[("a", "used.requests", 9), ("b", "served.bytes", 0), ("c", "unknown", 3)]);
        let run = compute(&policy(ruleset, 100), &inputs(&[rows]).unwrap()).unwrap();
        assert_eq!((run.lines(), run.manifest().residual.minor(), run.manifest().paid.minor()), (0, 100, 0));
        assert_eq!(run.batches().count(), 0);
    }
}

#[test]
fn a_cap_leaves_the_rest_over_in_the_first_rules_and_to_the_others_in_the_second() {
    let scores = served(&[("a", 90), ("b", 6), ("c", 4)]);
    let of = |ruleset| {
        let mut terms = terms(ruleset, 100);
        terms.cap_ppm = 500_000;
        compute(&Policy::new(terms).unwrap(), &inputs(std::slice::from_ref(&scores)).unwrap()).unwrap()
    };
    let shown = |run: &Run| -> Vec<_> {
        run.allocations().map(|a| (a.share.minor(), a.payout.minor(), a.rule)).collect()
    };
    let first = of(Ruleset::V1);
    assert_eq!(shown(&first), [(90, 50, Rule::Capped), (6, 6, Rule::Full), (4, 4, Rule::Full)]);
    assert_eq!(first.manifest().residual.minor(), 40);
    let second = of(Ruleset::V2);
    assert_eq!(shown(&second), [(50, 50, Rule::Capped), (30, 30, Rule::Full), (20, 20, Rule::Full)]);
    assert_eq!(second.manifest().residual.minor(), 0);
}

#[test]
fn a_share_of_exactly_the_cap_is_no_capped_share() {
    for ruleset in Ruleset::ALL {
        let mut terms = terms(ruleset, 100);
        terms.cap_ppm = 500_000;
        let policy = Policy::new(terms).unwrap();
        let run = compute(&policy, &inputs(&[served(&[("a", 1), ("b", 1)])]).unwrap()).unwrap();
        assert!(run.allocations().all(|a| a.payout.minor() == 50 && a.rule == Rule::Full), "{ruleset:?}");
    }
}

#[test]
fn a_share_of_exactly_the_minimum_is_paid_and_one_less_is_not() {
    for ruleset in [Ruleset::V1, Ruleset::V2] {
        let mut terms = terms(ruleset, 100);
        terms.min_payout = Amount::from(10);
        let policy = Policy::new(terms).unwrap();
        let run = compute(&policy, &inputs(&[served(&[("a", 81), ("b", 10), ("c", 9)])]).unwrap()).unwrap();
        let shown: Vec<_> = run.allocations().map(|a| (a.payout.minor(), a.rule)).collect();
        assert_eq!(shown, [(81, Rule::Full), (10, Rule::Full), (0, Rule::BelowMinimum)], "{ruleset:?}");
        assert_eq!(run.manifest().residual.minor(), 9);
    }
}

#[test]
fn when_everybody_is_at_the_cap_the_rest_is_left_over() {
    let mut terms = terms(Ruleset::V2, 100);
    terms.cap_ppm = 300_000;
    let policy = Policy::new(terms).unwrap();
    let run = compute(&policy, &inputs(&[served(&[("a", 5), ("b", 4)])]).unwrap()).unwrap();
    assert_eq!((run.manifest().paid.minor(), run.manifest().residual.minor()), (60, 40));
}

#[test]
fn the_crowd_has_a_share_and_is_not_paid() {
    let run =
        compute(&policy(Ruleset::V1, 100), &inputs(&[served(&[("a", 3), ("other", 1)])]).unwrap()).unwrap();
    let shown: Vec<_> = run.allocations().map(|a| (a.share.minor(), a.payout.minor(), a.rule)).collect();
    assert_eq!(shown, [(75, 75, Rule::Full), (25, 0, Rule::Nobody)]);
    assert_eq!(run.manifest().residual.minor(), 25);
}

#[test]
fn the_greatest_pool_and_the_greatest_scores_are_divided_exactly() {
    let third = u128::MAX / 3 / 1_000_000;
    let rows = served(&[("a", third), ("b", third), ("c", third)]);
    for ruleset in Ruleset::ALL {
        let run = compute(&policy(ruleset, i128::MAX as u128), &inputs(std::slice::from_ref(&rows)).unwrap());
        let payouts: Vec<_> = run.unwrap().allocations().map(|a| a.payout.minor()).collect();
        let (share, extra) = (i128::MAX as u128 / 3, i128::MAX as u128 % 3);
        assert_eq!(payouts, [share + u128::from(extra > 0), share + u128::from(extra > 1), share]);
    }
}

#[test]
fn batches_are_cut_where_the_rules_say_and_nothing_is_transferred_for_nothing() {
    let names: Vec<String> = (0..1001).map(|at| format!("actor-{at:04}")).collect();
    let of = |actors: usize, pool: u128| {
        let mut terms = terms(Ruleset::V1, pool);
        terms.residual = Residual::Pay(actor("treasury"));
        terms.cap_ppm = 1000;
        let rows = names[..actors].iter().map(|name| (name.as_str(), 1)).collect::<Vec<_>>();
        let run = compute(&Policy::new(terms).unwrap(), &inputs(&[served(&rows)]).unwrap()).unwrap();
        let batches: Vec<_> = run.batches().collect();
        assert_eq!(run.manifest().batches.get(), batches.len() as u64);
        for (at, batch) in batches.iter().enumerate() {
            assert_eq!((batch.key(), batch.run_key), (format!("reward/7/{at}"), run.key()));
            assert!(batch.transfers.iter().all(|transfer| transfer.amount > Amount::ZERO));
        }
        batches.iter().map(|batch| batch.transfers.len()).collect::<Vec<_>>()
    };
    assert_eq!(of(1000, 1000), [1000], "a residual of nothing is not transferred");
    assert_eq!(of(1001, 1000), [1000], "nor is a share of nothing");
    assert_eq!(of(999, 1000), [1000], "the residual has its place behind the payouts");
    assert_eq!(of(1000, 1_000_001), [1000, 1], "and a batch of its own where the last one is full");
    assert_eq!(of(998, 1000), [999]);
}

#[test]
fn sums_beyond_128_bits_are_quarantined() {
    let policy = policy(Ruleset::V1, 100);
    let of = |nodes: &[Rows]| inputs(nodes).and_then(|inputs| compute(&policy, &inputs)).map(|_| ());
    let half = served(&[("a", u128::MAX / 2 + 1)]);
    assert_eq!(of(&[half.clone(), half]), Err(Quarantine::Overflow("units")));
    let heavy = u128::MAX / 1_000_000;
    assert_eq!(of(&[served(&[("a", heavy)])]), Ok(()));
    assert_eq!(of(&[served(&[("a", heavy + 1)])]), Err(Quarantine::Overflow("scores")), "one score");
    let both = support::rows(&[("a", "served.bytes", heavy), ("a", "stored.bytes", 2)]);
    assert_eq!(of(&[both]), Err(Quarantine::Overflow("scores")), "one actor's points");
    assert_eq!(of(&[served(&[("a", heavy), ("b", 1)])]), Err(Quarantine::Overflow("scores")), "the total");
}

fn any_rows() -> impl Strategy<Value = Rows> {
    let units = prop_oneof![0..20_u128, 0..1_000_000_u128, 0..=(1_u128 << 90)];
    let metric = prop_oneof![Just("served.bytes"), Just("stored.bytes"), Just("used.requests")];
    let name = prop_oneof!["[a-e]", "[A-Za-z]{1,3}", Just("other".to_owned()), Just("\"\\".to_owned())];
    proptest::collection::btree_map((name, metric.prop_map(str::to_owned)), units, 0..40)
}

fn any_policy() -> impl Strategy<Value = Policy> {
    let pool = prop_oneof![1..100_u128, 1..1_000_000_000_u128, 1..=Amount::MAX.minor()];
    let cap = prop_oneof![3 => Just(1_000_000_u32), 1 => 200_000..1_000_000_u32, 1 => 1..=1_000_000_u32];
    (
        prop_oneof![Just(Ruleset::V1), Just(Ruleset::V2), Just(Ruleset::V3)],
        pool,
        cap,
        0..1000_u128,
        any::<bool>(),
    )
        .prop_map(|(ruleset, pool, cap_ppm, part, pay)| {
            let mut terms = terms(ruleset, pool);
            terms.cap_ppm = cap_ppm;
            terms.min_payout = Amount::new(ruleset.cap(terms.pool, cap_ppm).minor() / 1000 * part).unwrap();
            terms.residual = if pay { Residual::Pay(actor("treasury")) } else { Residual::Keep };
            Policy::new(terms).unwrap()
        })
}

/// Every promise that one allocation keeps by itself.
fn keeps_the_rules(run: &Run, a: Allocation<'_>) {
    let (policy, total) = (run.policy(), run.manifest().score_total);
    assert!(a.payout <= policy.cap() && a.payout <= a.share);
    assert!(a.payout == Amount::ZERO || a.payout >= policy.terms().min_payout);
    match a.rule {
        Rule::Full => assert_eq!(a.payout, a.share),
        Rule::Capped => assert_eq!(a.payout, policy.cap()),
        Rule::BelowMinimum => assert!(a.payout == Amount::ZERO && a.share < policy.terms().min_payout),
        Rule::Carried => assert!(a.payout == Amount::ZERO && a.share < policy.terms().min_payout),
        Rule::Deducted => panic!("there are no corrections"),
        Rule::Nobody => assert!(a.payout == Amount::ZERO && a.actor == "other"),
    }
    if policy.terms().ruleset == Ruleset::V1
        && let Some(product) = policy.terms().pool.minor().checked_mul(a.score)
    {
        let (quota, remainder) = (product / total, product % total);
        assert_eq!(a.share.minor(), quota + u128::from(a.extra), "within one unit of the exact share");
        assert!(!a.extra || remainder > 0, "nothing is added where nothing was cut off");
    }
}

proptest! {
    #[test]
    fn a_row_has_one_line_and_nothing_else_is_read_as_one(
        actor in "[!-~]{1,6}",
        metric in "[a-z.]{1,5}",
        units in any::<u128>(),
        at in any::<proptest::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let row = Row { actor: &actor, metric: &metric, units };
        let mut line = Vec::new();
        write_row(&mut line, row);
        line.pop();
        let mut room = String::new();
        prop_assert_eq!(read_row(&line, &mut room), Ok(row));
        *at.get_mut(&mut line) = byte;
        if let Ok(read) = read_row(&line, &mut room) {
            let mut hasher = RowsHasher::new();
            if hasher.push(read).is_ok() {
                let mut again = Vec::new();
                write_row(&mut again, read);
                prop_assert_eq!(&again[..again.len() - 1], &line[..]);
            }
        }
    }

    #[test]
    fn the_sums_close_and_every_payout_keeps_the_rules(nodes in vec(any_rows(), 0..4), policy in any_policy()) {
        let run = compute(&policy, &inputs(&nodes).unwrap()).unwrap();
        let paid: u128 = run.allocations().map(|a| a.payout.minor()).sum();
        prop_assert_eq!(paid, run.manifest().paid.minor());
        let on = run.manifest().linked.as_ref().map_or(0, |linked| linked.carried_out.amount.minor());
        let out = paid + on + run.manifest().residual.minor();
        prop_assert_eq!(out, policy.terms().pool.minor(), "Σ payouts + residual = pool");
        run.allocations().for_each(|a| keeps_the_rules(&run, a));
        let transferred: u128 = run.batches().map(|batch| batch.sum().minor()).sum();
        let residual = match policy.terms().residual {
            Residual::Keep => 0,
            Residual::Pay(_) => run.manifest().residual.minor(),
        };
        prop_assert_eq!(transferred, paid + residual);
    }

    #[test]
    fn a_greater_score_is_never_paid_less(nodes in vec(any_rows(), 1..3), policy in any_policy()) {
        let run = compute(&policy, &inputs(&nodes).unwrap()).unwrap();
        let mut all: Vec<_> = run.allocations().filter(|a| a.rule != Rule::Nobody).collect();
        all.sort_by_key(|a| a.score);
        for pair in all.windows(2) {
            prop_assert!(pair[0].payout <= pair[1].payout || pair[0].score == pair[1].score, "{pair:?}");
            if pair[0].score == pair[1].score {
                prop_assert!(pair[0].share.minor().abs_diff(pair[1].share.minor()) <= 1, "{pair:?}");
            }
        }
    }

    #[test]
    fn the_order_of_snapshots_and_where_they_were_added_up_do_not_matter(
        nodes in vec(any_rows(), 1..6),
        policy in any_policy(),
        seed in any::<u64>(),
    ) {
        let straight = compute(&policy, &inputs(&nodes).unwrap()).unwrap();
        let mut order: Vec<_> = (0..nodes.len()).collect();
        order.sort_by_key(|at| (seed ^ *at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let shuffled = compute(&policy, &inputs_in_order(&nodes, order.clone()).unwrap()).unwrap();
        let known: std::collections::BTreeSet<_> = (0..nodes.len()).map(|at| actor(&node(at))).collect();
        let mut halves = [0, 1].map(|_| InputSet::builder(epoch(7), known.clone(), Limits::default()));
        for at in order {
            let mut taken = halves[at % 2].snapshot(snapshot(&node(at), &nodes[at])).unwrap();
            each(&nodes[at]).for_each(|row| taken.row(row).unwrap());
            taken.finish().unwrap();
        }
        let [mut left, right] = halves;
        left.merge(right).unwrap();
        let merged = compute(&policy, &left.close().unwrap()).unwrap();
        for other in [shuffled, merged] {
            prop_assert_eq!(straight.document(), other.document());
            prop_assert_eq!(straight.commitment(), other.commitment());
            prop_assert!(straight.batches().eq(other.batches()));
        }
    }
}
