//! Ruleset 3: what is below the minimum waits for the next epoch, corrections take effect in a later run, payouts go where
//! the registry says, and nothing is lost or made on the way.
#![expect(clippy::unwrap_used, reason = "tests")]

mod support;

use std::{collections::BTreeMap, sync::Arc};

use proptest::{collection::vec, prelude::*};
use rewards::{
    Action, Amount, Brought, BroughtNames, Carried, Correction, Delegation, Digest, Dispute, DocumentError,
    Int, Manifest, Order, PayeeEntry, Payees, PayeesError, Policy, PolicyId, PublicKey, Quarantine, Rule,
    Ruleset, Run, RunName, Sign, SignatureError, SignedCorrection, SignedOrder, SignedPayees, compute,
    compute_after,
};
use support::{Rows, Seal, actor, epoch, inputs, policy, served, terms};
use types::NodeId;

fn amount(minor: u128) -> Amount {
    Amount::new(minor).unwrap()
}

fn with_minimum(pool: u128, minimum: u128) -> Policy {
    let mut terms = terms(Ruleset::V3, pool);
    terms.min_payout = amount(minimum);
    Policy::new(terms).unwrap()
}

/// What the next run takes over from this one.
fn after(run: &Run) -> Brought {
    let carried = Arc::new(run.carried_out().unwrap().clone());
    Brought { previous: Some(run.manifest().name()), carried, ..Brought::default() }
}

fn lines(run: &Run) -> BTreeMap<String, (u128, Rule, u128)> {
    let line = |a: rewards::Allocation<'_>| {
        (a.actor.to_owned(), (a.payout.minor(), a.rule, a.due.unwrap().carried_out.minor()))
    };
    run.allocations().map(line).collect()
}

fn some_run() -> RunName {
    RunName { epoch: epoch(3), commitment: Digest::new([3; 32]) }
}

fn correction(credits: &[(&str, u128)], debits: &[(&str, u128)]) -> Correction {
    let list =
        |list: &[(&str, u128)]| list.iter().map(|(name, minor)| (actor(name), amount(*minor))).collect();
    Correction {
        policy: PolicyId::new("default").unwrap(),
        corrects: some_run(),
        credits: list(credits),
        debits: list(debits),
        reason: "rows were counted twice".to_owned(),
    }
}

#[test]
fn what_is_below_the_minimum_waits_until_it_is_enough() {
    let policy = with_minimum(100, 30);
    let run =
        |rows: Rows, brought: &Brought| compute_after(&policy, &inputs(&[rows]).unwrap(), brought).unwrap();
    let first = run(served(&[("ada", 80), ("bo", 20)]), &Brought::default());
    assert_eq!(lines(&first)["bo"], (0, Rule::Carried, 20));
    assert_eq!(first.manifest().residual, Amount::ZERO, "what waits is not left over");
    // Bo is absent for an epoch, and is not forgotten.
    let second = run(served(&[("ada", 1)]), &after(&first));
    assert_eq!(lines(&second)["bo"], (0, Rule::Carried, 20));
    let third = run(served(&[("ada", 90), ("bo", 10)]), &after(&second));
    assert_eq!(lines(&third)["bo"], (30, Rule::Full, 0), "exactly the minimum is paid");
    assert_eq!(third.manifest().paid, amount(120));
    assert!(third.carried_out().unwrap().amounts().is_empty());
    let names: Vec<_> = [&first, &second, &third].map(|run| run.manifest().linked.clone().unwrap()).into();
    assert_eq!(names[1].brought.previous, Some(first.manifest().name()));
    assert_eq!(
        (&names[1].brought.carried, &names[2].brought.carried),
        (&names[0].carried_out, &names[1].carried_out)
    );
    assert_eq!(third.prove("bo").unwrap().check(third.manifest()), Ok(()));
    assert_eq!(third.line_of("nobody-at-all"), None);
}

#[test]
fn older_rulesets_take_nothing_over_and_keep_their_format() {
    for ruleset in [Ruleset::V1, Ruleset::V2] {
        let policy = policy(ruleset, 100);
        let inputs = inputs(&[served(&[("ada", 1)])]).unwrap();
        let run = compute(&policy, &inputs).unwrap();
        assert!(run.manifest().linked.is_none() && run.carried_out().is_none());
        let brought = Brought { previous: Some(some_run()), ..Brought::default() };
        let refused = compute_after(&policy, &inputs, &brought).map(drop);
        assert_eq!(refused, Err(Quarantine::Brought("the ruleset takes nothing over")));
    }
}

#[test]
fn corrections_add_and_take_off_no_more_than_is_due() {
    let policy = with_minimum(100, 10);
    let inputs = inputs(&[served(&[("ada", 60), ("bo", 25), ("cy", 15)])]).unwrap();
    let run = |corrections: Vec<Correction>| {
        let brought = Brought { corrections: Arc::new(corrections), ..Brought::default() };
        compute_after(&policy, &inputs, &brought)
    };
    let corrected = run(vec![
        correction(&[("dee", 12)], &[("ada", 5), ("bo", 1000), ("cy", 6)]),
        correction(&[("cy", 1), ("eve", 3)], &[]),
    ])
    .unwrap();
    let all = lines(&corrected);
    assert_eq!(all["ada"], (55, Rule::Full, 0));
    assert_eq!(all["bo"], (0, Rule::Deducted, 0), "a debit takes no more than is due");
    assert_eq!(all["cy"], (10, Rule::Full, 0));
    assert_eq!((all["dee"], all["eve"]), ((12, Rule::Full, 0), (0, Rule::Carried, 3)));
    let linked = corrected.manifest().linked.clone().unwrap();
    assert_eq!((linked.credited, linked.deducted), (amount(16), amount(36)));
    assert_eq!(corrected.manifest().residual, amount(36), "what is taken off is left over");
    assert_eq!(linked.brought.corrections[0].0, some_run());
    let twice = run(vec![correction(&[("ada", 1)], &[]), correction(&[("ada", 1)], &[])]).map(drop);
    assert_eq!(twice, Err(Quarantine::Brought("a correction is there twice")));
    let mut other = correction(&[("ada", 1)], &[]);
    other.policy = PolicyId::new("other").unwrap();
    assert_eq!(run(vec![other]).map(drop), Err(Quarantine::Brought("a correction is of another policy")));
    let huge = correction(&[("ada", i128::MAX as u128)], &[]);
    assert_eq!(run(vec![huge]).map(drop), Err(Quarantine::Overflow("payouts")));
}

#[test]
fn corrections_are_signed_documents_with_one_form() {
    let signed = SignedCorrection::unsigned(correction(&[("ada", 1)], &[("bo", 2)])).signed_by(&Seal(1));
    let bytes = signed.to_bytes();
    assert_eq!(SignedCorrection::read(&bytes).unwrap(), signed);
    assert!(signed.judge(&[Seal(1).public_key()], &Seal(0)).is_ok());
    assert_eq!(signed.judge(&[Seal(2).public_key()], &Seal(0)), Err(SignatureError::Untrusted));
    let altered = String::from_utf8(bytes).unwrap().replace(r#""amount":"1""#, r#""amount":"9""#);
    let altered = SignedCorrection::read(altered.as_bytes()).unwrap();
    let forged = SignatureError::Forged(Seal(1).public_key());
    assert_eq!(altered.judge(&[Seal(1).public_key()], &Seal(0)), Err(forged));
    let refused = |credits: &[(&str, u128)], debits: &[(&str, u128)]| {
        let bytes = SignedCorrection::unsigned(correction(credits, debits)).to_bytes();
        SignedCorrection::read(&bytes).unwrap_err()
    };
    assert_eq!(refused(&[], &[]), DocumentError::Wrong("credits"), "it corrects nothing");
    assert_eq!(refused(&[("bo", 1), ("ada", 1)], &[]), DocumentError::Wrong("credits"), "out of order");
    assert_eq!(refused(&[("ada", 0)], &[]), DocumentError::Wrong("credits"));
    assert_eq!(refused(&[("other", 1)], &[]), DocumentError::Wrong("credits"));
    assert_eq!(refused(&[("ada", 1)], &[("ada", 1)]), DocumentError::Wrong("debits"), "both ways");
}

#[test]
fn carried_amounts_have_one_file() {
    let carried = Carried::new(vec![(actor("ada"), amount(7)), (actor("bo"), amount(1))]).unwrap();
    assert_eq!(
        carried.to_bytes(),
        b"{\"actor\":\"ada\",\"amount\":\"7\"}\n{\"actor\":\"bo\",\"amount\":\"1\"}\n"
    );
    assert_eq!(Carried::read(&carried.to_bytes()).unwrap(), carried);
    assert_eq!(Carried::read(b"").unwrap(), Carried::default());
    for wrong in [
        &b"{\"actor\":\"ada\",\"amount\":\"7\"}"[..],
        b"{\"actor\":\"ada\",\"amount\":\"0\"}\n",
        b"\n",
        b"{}\n",
    ] {
        assert!(Carried::read(wrong).is_err());
    }
    let from_nowhere = Brought { carried: Arc::new(carried), ..Brought::default() };
    let run = compute_after(&policy(Ruleset::V3, 9), &inputs(&[served(&[("x", 1)])]).unwrap(), &from_nowhere);
    assert_eq!(run.map(drop), Err(Quarantine::Brought("amounts are carried over from no run")));
}

fn entry(name: &str, payee: &str, epochs: (u64, Option<u64>)) -> PayeeEntry {
    let (first, last) = epochs;
    PayeeEntry {
        actor: actor(name),
        payee: actor(payee),
        first_epoch: epoch(first),
        last_epoch: last.map(epoch),
        consent: None,
    }
}

fn registry(entries: Vec<PayeeEntry>) -> Result<Payees, PayeesError> {
    Payees::new(PolicyId::new("default").unwrap(), Int::from(1), entries)
}

#[test]
fn payouts_go_where_the_registry_says_in_the_epochs_that_it_says() {
    let payees = registry(vec![
        entry("bo", "bo-new", (7, None)),
        entry("bo", "bo-old", (0, Some(6))),
        entry("ada", "trust", (8, None)),
        entry("cy", "trust", (0, Some(7))),
    ]);
    let payees = payees.unwrap();
    for (name, at, payee) in
        [("bo", 6, "bo-old"), ("bo", 7, "bo-new"), ("cy", 8, "cy"), ("ada", 8, "trust"), ("dee", 1, "dee")]
    {
        assert_eq!(payees.payee_of(name, epoch(at)), payee, "{name} {at}");
    }
    let brought = Brought { payees: Some(Arc::new(payees)), ..Brought::default() };
    let inputs = inputs(&[served(&[("ada", 1), ("bo", 1), ("cy", 1)])]).unwrap();
    let run = compute_after(&policy(Ruleset::V3, 9), &inputs, &brought).unwrap();
    let paid: Vec<_> =
        run.batches().flat_map(|intent| intent.transfers).map(|one| one.to.to_string()).collect();
    assert_eq!(paid, ["ada", "bo-new", "trust"]);
    let overlap = registry(vec![entry("bo", "a", (0, Some(7))), entry("bo", "b", (7, None))]);
    assert_eq!(overlap, Err(PayeesError::Overlap(actor("bo"))));
}

#[test]
fn an_actor_that_is_a_key_consents_itself_or_by_its_delegate() {
    let policy = PolicyId::new("default").unwrap();
    let (own, delegate, operator) = (Seal(5), Seal(6), Seal(1));
    let name = NodeId::of_key(own.public_key().as_bytes()).to_string();
    let bound = |epochs| entry(&name, "trust", epochs);
    let judge = |entry: PayeeEntry| {
        let signed = SignedPayees::unsigned(registry(vec![entry]).unwrap()).signed_by(&operator);
        let read = SignedPayees::read(&signed.to_bytes()).unwrap();
        assert_eq!(read, signed);
        read.judge(&[operator.public_key()], &Seal(0)).map(drop)
    };
    let word = |key: PublicKey, last| Delegation::of(&actor(&name), key, last, &own);
    let forever = bound((0, None));
    assert_eq!(judge(forever.clone().consented_by(&policy, &own)), Ok(()));
    let by_delegate =
        |entry: PayeeEntry, last| entry.consented_for(&policy, &delegate, word(delegate.public_key(), last));
    assert_eq!(judge(by_delegate(forever.clone(), None)), Ok(()));
    assert_eq!(judge(by_delegate(bound((0, Some(9))), Some(epoch(9)))), Ok(()));
    let refused = |entry: PayeeEntry, why: &str| {
        let error = judge(entry).unwrap_err();
        assert!(error.to_string().ends_with(why), "{error}");
    };
    refused(forever.clone(), "there is no signature");
    refused(forever.clone().consented_by(&policy, &delegate), "by another key");
    refused(by_delegate(bound((0, Some(10))), Some(epoch(9))), "longer than the delegation");
    refused(by_delegate(forever.clone(), Some(epoch(9))), "longer than the delegation");
    let for_another = forever.clone().consented_for(&policy, &delegate, word(operator.public_key(), None));
    refused(for_another, "the delegation is not signed by the key");
    let mut moved = forever.consented_by(&policy, &own);
    moved.payee = actor("thief");
    refused(moved, "not over this entry");
    let unsigned = SignedPayees::unsigned(registry(Vec::new()).unwrap());
    let error = unsigned.judge(&[operator.public_key()], &Seal(0)).unwrap_err();
    assert_eq!(error, PayeesError::Signatures(SignatureError::Unsigned));
}

#[test]
fn what_is_taken_over_and_the_run_are_read_as_they_are_written() {
    let payees = registry(vec![entry("bo", "trust", (0, None))]).unwrap();
    let brought = Brought {
        previous: Some(some_run()),
        carried: Arc::new(Carried::new(vec![(actor("zoe"), amount(4))]).unwrap()),
        corrections: Arc::new(vec![correction(&[("ada", 1)], &[])]),
        payees: Some(Arc::new(payees)),
    };
    let names = brought.names();
    assert_eq!(BroughtNames::read(&names.to_bytes()).unwrap(), names);
    let run =
        compute_after(&with_minimum(100, 5), &inputs(&[served(&[("ada", 1)])]).unwrap(), &brought).unwrap();
    let read = Manifest::read(run.document()).unwrap();
    assert_eq!(&read, run.manifest());
    let text = String::from_utf8(run.document().to_vec()).unwrap();
    for (was, is) in
        [("run/2", "run/1"), ("\"ruleset\":3", "\"ruleset\":2"), ("\"credited\":\"1\"", "\"credited\":\"2\"")]
    {
        assert!(text.contains(was) && Manifest::read(text.replace(was, is).as_bytes()).is_err(), "{was}");
    }
    let without = |brought: Brought| {
        let inputs = inputs(&[served(&[("ada", 1)])]).unwrap();
        compute_after(&with_minimum(100, 5), &inputs, &brought).unwrap().key()
    };
    assert_ne!(without(Brought { previous: None, carried: Arc::default(), ..brought.clone() }), run.key());
    assert_ne!(without(Brought { payees: None, ..brought }), run.key());
}

proptest! {
    /// Over any number of epochs, what was put in is what was paid, what is left over, and what still waits.
    #[test]
    fn nothing_is_lost_or_made_over_many_epochs(
        epochs in vec((vec(("[a-e]", 1..1000_u128), 0..6), 1..10_000_u128, 0..500_u128), 1..12),
        credit in 0..50_u128,
        debit in 0..500_u128,
    ) {
        let (mut into, mut out) = (0_u128, 0_u128);
        let mut brought = Brought::default();
        for (at, (rows, pool, minimum)) in epochs.iter().enumerate() {
            let policy = with_minimum(*pool, (*minimum).min(*pool));
            let rows: Rows = rows.iter().map(|(name, units)| ((name.clone(), "served.bytes".to_owned()), *units)).collect();
            if at % 3 == 1 && credit > 0 {
                let debits = [("b", debit + 1)];
                brought.corrections = Arc::new(vec![correction(&[("a", credit)], &debits)]);
            }
            let run = compute_after(&policy, &inputs(&[rows]).unwrap(), &brought).unwrap();
            let linked = run.manifest().linked.clone().unwrap();
            prop_assert_eq!(&linked.brought.carried, brought.carried.file());
            into += pool + linked.credited.minor();
            out += run.manifest().paid.minor() + run.manifest().residual.minor();
            let transferred: u128 = run.batches().map(|batch| batch.sum().minor()).sum();
            prop_assert_eq!(transferred, run.manifest().paid.minor());
            prop_assert!(run.allocations().all(|a| a.payout == Amount::ZERO || a.payout >= policy.terms().min_payout));
            brought = after(&run);
            prop_assert_eq!(into, out + brought.carried.file().amount.minor());
        }
    }
}

#[test]
fn orders_and_disputes_are_signed_documents() {
    for action in [Action::Hold, Action::Release, Action::Exclude(actor("node-3"))] {
        let order = Order { epoch: epoch(7), action, reason: "its disk lost rows".to_owned() };
        let signed = SignedOrder::unsigned(order.clone()).signed_by(&Seal(1));
        let read = SignedOrder::read(&signed.to_bytes()).unwrap();
        assert_eq!(read.judge(&[Seal(1).public_key()], &Seal(0)), Ok(&order));
        assert_eq!(read.judge(&[Seal(2).public_key()], &Seal(0)), Err(SignatureError::Untrusted));
        let text = String::from_utf8(signed.to_bytes()).unwrap();
        let altered = SignedOrder::read(text.replace("\"epoch\":7", "\"epoch\":8").as_bytes()).unwrap();
        assert!(altered.judge(&[Seal(1).public_key()], &Seal(0)).is_err());
        for (was, is) in [("its disk lost rows", " "), ("omnigate-order/1", "omnigate-order/2")] {
            assert!(SignedOrder::read(text.replace(was, is).as_bytes()).is_err(), "{is}");
        }
    }
    let dispute = Dispute::of(some_run(), actor("ada"), "300 requests are missing", &Seal(4)).unwrap();
    assert!(dispute.is_good(&Seal(0)));
    assert_eq!(Dispute::read(&dispute.to_bytes()).unwrap(), dispute);
    let other = Dispute { actor: actor("bo"), ..dispute };
    assert!(!other.is_good(&Seal(0)));
    assert!(Dispute::of(some_run(), actor("ada"), "", &Seal(4)).is_err());
}
