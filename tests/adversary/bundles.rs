//! Bundles of epochs that somebody has tampered with: none is verified by whoever knows the policy's key and the nodes.
//!
//! The forger has every file and any keys of its own, and can compute epochs as well as anybody. What it has not are the
//! keys of the nodes and of those who sign policies. `OMNIGATE_TAMPERINGS` says how many mutations are tried.

use std::{fs, path::Path, process::Command};

use fastrand::Rng;
use rewards::{
    Attestation, Carried, Correction, Epoch, Int, Manifest, PayeeEntry, Payees, Policy, PolicyId, RunName,
    Sign, SignedCorrection, SignedPayees, SignedPolicy, bundle,
};
use tempfile::TempDir;
use types::ActorId;

use crate::support::bundle::{Counted, Files, Plan, Rows, TakenOver, key, node_id, write};

/// The nodes that count, by the numbers of their keys.
const NODES: [u8; 3] = [1, 2, 3];
/// Who signs policies.
const AUTHORITY: u8 = 9;
/// Keys that the forger has.
const FORGER: [u8; 3] = [201, 202, 203];
/// How many mutations are tried unless somebody asks for more.
const USUAL: u64 = 250;

fn terms(ruleset: u64, version: u64, pool: u64) -> Policy {
    let text = format!(
        r#"{{"cap_ppm":400000,"first_epoch":0,"format":"omnigate-policy/1","id":"default","last_epoch":null,
        "min_payout":"10","pool":"{pool}","residual":{{"rule":"pay","to":"treasury"}},"ruleset":{ruleset},"version":{version},
        "weights_ppm":{{"provided.bytes":1000000,"provided.requests":7000000}}}}"#
    );
    Policy::read(text.as_bytes()).unwrap()
}

/// Terms signed with the key of this number.
fn signed(terms: Policy, seed: u8) -> SignedPolicy {
    SignedPolicy::unsigned(terms).signed_by(&key(seed))
}

fn some_rows(random: &mut Rng) -> Rows {
    let mut rows = Rows::new();
    for actor in ["ada", "bo", "cy", "dee", "other"] {
        for metric in ["provided.bytes", "provided.requests", "used.requests"] {
            if random.u8(..) < 200 {
                rows.insert((actor.to_owned(), metric.to_owned()), random.u64(1..1_000_000).into());
            }
        }
    }
    rows.insert(("ada".to_owned(), "provided.bytes".to_owned()), 7);
    rows
}

/// An epoch as it was computed, counted by all nodes and attested to by the first.
fn honest(ruleset: u64, epoch: u64) -> Plan {
    let mut random = Rng::with_seed(epoch);
    let counted = NODES.map(|node| Counted::by(node, epoch, some_rows(&mut random))).to_vec();
    let policy = signed(terms(ruleset, 1, 1_000_003), AUTHORITY);
    let taken = if ruleset == 3 { taken_over(AUTHORITY, "ada") } else { TakenOver::default() };
    Plan { policy, epoch, counted, attesters: vec![NODES[0]], taken }
}

/// What an epoch of ruleset 3 takes over, in favour of somebody, signed with the key of this number.
fn taken_over(signer: u8, favoured: &str) -> TakenOver {
    let actor = |name: &str| ActorId::new(name).unwrap();
    let amount = |minor: u64| rewards::Amount::from(minor);
    let run = |byte| RunName { epoch: Epoch::new(6).unwrap(), commitment: rewards::Digest::new([byte; 32]) };
    let default = PolicyId::new("default").unwrap();
    let correction = Correction {
        policy: default.clone(),
        corrects: run(5),
        credits: vec![(actor(favoured), amount(77))],
        debits: vec![(actor("bo"), amount(5))],
        reason: "rows were counted twice".to_owned(),
    };
    let entry = PayeeEntry {
        actor: actor("cy"),
        payee: actor(favoured),
        first_epoch: Epoch::new(0).unwrap(),
        last_epoch: None,
        consent: None,
    };
    let payees = Payees::new(default, Int::from(1), vec![entry]).unwrap();
    TakenOver {
        previous: Some(run(6)),
        carried: Carried::new(vec![(actor(favoured), amount(9)), (actor("zoe"), amount(3))]).unwrap(),
        corrections: vec![SignedCorrection::unsigned(correction).signed_by(&key(signer))],
        payees: Some(SignedPayees::unsigned(payees).signed_by(&key(signer))),
    }
}

/// What is taken over is changed by whoever can compute; the forger signs with a key of its own, or nobody signs.
fn taken_over_otherwise(plan: &mut Plan, random: &mut Rng) {
    let (truly, forged) = (plan.taken.clone(), taken_over(FORGER[2], "mallory"));
    match random.u8(..7) {
        0 => plan.taken = forged,
        1 => plan.taken.carried = forged.carried,
        2 => plan.taken.corrections = forged.corrections,
        3 => plan.taken.payees = forged.payees,
        4 => drop(plan.taken.corrections.pop()),
        5 => plan.taken.payees = None,
        _ => {
            plan.taken = TakenOver {
                previous: forged.previous.map(|run| RunName { epoch: Epoch::new(5).unwrap(), ..run }),
                ..truly
            }
        }
    }
}

/// Checks a folder as a stranger does that knows the policy's key and the nodes.
fn verify(dir: &Path, more: &[&str]) -> (bool, String) {
    let program = std::env::var_os("OMNIGATE_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_omnigate").into());
    let ran = Command::new(program)
        .env_clear()
        .current_dir(dir)
        .args(["epoch", "verify", "bundle", "--threads", "1"])
        .args(more)
        .output()
        .unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    (ran.status.success(), said)
}

fn some_name(files: &Files, random: &mut Rng) -> String {
    files.keys().nth(random.usize(..files.len())).unwrap().clone()
}

fn damaged(files: &mut Files, random: &mut Rng) {
    let name = some_name(files, random);
    let bytes = files.get_mut(&name).unwrap();
    match random.u8(..5) {
        0 => bytes.clear(),
        1 => bytes.truncate(random.usize(..bytes.len().max(1))),
        2 => bytes.push(random.u8(..)),
        _ if bytes.is_empty() => {}
        3 => {
            let at = random.usize(..bytes.len());
            bytes[at] ^= 1 << random.u8(..8);
        }
        _ => {
            let at = random.usize(..bytes.len());
            bytes[at] = random.u8(b'0'..=b'9');
        }
    }
}

fn swapped(files: &mut Files, random: &mut Rng) {
    let (one, other) = (some_name(files, random), some_name(files, random));
    let (first, second) = (files[&one].clone(), files[&other].clone());
    files.insert(one, second);
    files.insert(other, first);
}

/// Rows are edited by whoever can compute: everything that follows from them is written anew.
fn edited(plan: &mut Plan, random: &mut Rng) {
    let at = random.usize(..plan.counted.len());
    let counted = &mut plan.counted[at];
    let place = counted.rows.keys().nth(random.usize(..counted.rows.len())).unwrap().clone();
    match random.u8(..4) {
        0 => drop(counted.rows.remove(&place)),
        1 => drop(counted.rows.insert(("mallory".to_owned(), place.1), 1 << random.u32(..60))),
        2 => {
            let units = counted.rows.remove(&place).unwrap();
            *counted.rows.entry(("mallory".to_owned(), place.1)).or_default() += units;
        }
        _ => *counted.rows.get_mut(&place).unwrap() += u128::from(random.u64(1..1_000_000)),
    }
    // Sealed by the forger: in the name of the node, or in its own.
    if random.bool() {
        counted.seed = FORGER[0];
    } else {
        *counted = Counted::by(FORGER[0], counted.epoch, counted.rows.clone());
    }
}

/// An epoch of the forger's own making, as far as it can make it.
fn forged(ruleset: u64, random: &mut Rng) -> Files {
    let mut plan = honest(ruleset, 7);
    match random.u8(..7) {
        _ if ruleset == 3 && random.bool() => taken_over_otherwise(&mut plan, random),
        0..3 => edited(&mut plan, random),
        3 => drop(plan.counted.remove(random.usize(..plan.counted.len()))),
        4 => {
            let rows = some_rows(random);
            plan.counted.push(Counted::by(FORGER[1], 7, rows));
        }
        5 => {
            // The snapshot of another epoch in the place of this one's.
            let at = random.usize(..plan.counted.len());
            plan.counted[at] = honest(ruleset, 8).counted[at].clone();
        }
        _ => {
            let (version, signer) =
                *random.choice(&[(1, FORGER[2]), (2, AUTHORITY), (2, FORGER[2])]).unwrap();
            plan.policy = signed(terms(ruleset, version, 2_000_000), signer);
        }
    }
    // The true attestation is of another run, and the forger's is nobody's.
    let truly = honest(ruleset, 7).files();
    plan.attesters = if random.bool() { vec![FORGER[0]] } else { Vec::new() };
    let mut files = plan.files();
    keep_some(&mut files, &truly, random);
    files
}

/// What the forger leaves as it was, or takes away, beside what it has made.
fn keep_some(files: &mut Files, truly: &Files, random: &mut Rng) {
    let is_seal = |name: &str| name.ends_with(".seal.json");
    let keep = |which: &dyn Fn(&str) -> bool, files: &mut Files| {
        let kept = truly.iter().filter(|(name, _)| which(name));
        files.extend(kept.map(|(name, bytes)| (name.clone(), bytes.clone())));
    };
    match random.u8(..4) {
        0 => files.retain(|name, _| !is_seal(name)),
        1 => keep(&is_seal, files),
        _ => {}
    }
    match random.u8(..3) {
        0 => files.retain(|name, _| !name.ends_with(".jsonl") || name == bundle::ALLOCATIONS),
        1 => keep(&|name| name.starts_with("attestations/"), files),
        _ => {}
    }
}

/// Seals and attestations that are good, and not of this epoch or this node.
fn borrowed(files: &mut Files, ruleset: u64, random: &mut Rng) {
    let other = honest(ruleset, 8);
    let seals: Vec<_> = files.keys().filter(|name| name.ends_with(".seal.json")).cloned().collect();
    let name = random.choice(&seals).unwrap().clone();
    match random.u8(..5) {
        0 => drop(files.insert(name, random.choice(&other.counted).unwrap().seal().to_bytes())),
        1 => {
            let seal = random.choice(&other.counted).unwrap().seal();
            files.remove(&name);
            files.insert(bundle::seal_file(seal.snapshot.rows_root, seal.key), seal.to_bytes());
        }
        2 => {
            let mut counted = random.choice(&honest(ruleset, 7).counted).unwrap().clone();
            counted.seed = FORGER[0];
            let seal = counted.seal();
            files.remove(&name);
            files.insert(bundle::seal_file(seal.snapshot.rows_root, seal.key), seal.to_bytes());
        }
        which => {
            let (run, by) =
                if which == 3 { (other.run(), NODES[0]) } else { (honest(ruleset, 7).run(), FORGER[0]) };
            let attestation = Attestation::of(&run, &key(by));
            files.retain(|name, _| !name.starts_with("attestations/"));
            files.insert(bundle::attestation_file(attestation.key), attestation.to_bytes());
        }
    }
}

/// A payout is edited, and its hashes, the sums and the commitment with it.
fn paid_more(files: &mut Files, random: &mut Rng) {
    let text = String::from_utf8(files[bundle::ALLOCATIONS].clone()).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let at = random.usize(..lines.len());
    let start = lines[at].find("\"payout\":\"").unwrap() + "\"payout\":\"".len();
    lines[at].insert(start, '1');
    let keyed = |kind: &str, bytes: &[u8]| {
        let mut name = [b'.'; 32];
        name[..kind.len()].copy_from_slice(kind.as_bytes());
        rewards::Digest::new(*blake3::keyed_hash(&name, bytes).as_bytes())
    };
    let leaves = lines.iter().map(|line| keyed("omnigate.rewards.leaf.1", line.as_bytes())).collect();
    let file: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let mut manifest = Manifest::read(&files[bundle::RUN]).unwrap();
    manifest.allocations.root = rewards::Tree::new(leaves).root();
    manifest.allocations.hash = types::ObjectId::new(*blake3::hash(file.as_bytes()).as_bytes());
    let more = rewards::Amount::from(random.u64(..1000));
    manifest.residual = manifest.residual.checked_sub(more).unwrap_or(manifest.residual);
    manifest.paid = manifest.pool.checked_sub(manifest.residual).unwrap();
    files.insert(bundle::ALLOCATIONS.to_owned(), file.into_bytes());
    files.insert(bundle::RUN.to_owned(), manifest.to_bytes());
    files.insert(bundle::COMMITMENT.to_owned(), format!("{}\n", manifest.commitment()).into_bytes());
}

fn mutate(files: &mut Files, ruleset: u64, random: &mut Rng) {
    match random.u8(..10) {
        0 => drop(files.remove(&some_name(files, random))),
        1 | 2 => damaged(files, random),
        3 => swapped(files, random),
        4..7 => *files = forged(ruleset, random),
        7 | 8 => borrowed(files, ruleset, random),
        _ => paid_more(files, random),
    }
}

fn without_attestations(files: &Files) -> Vec<(&String, &Vec<u8>)> {
    files.iter().filter(|(name, _)| !name.starts_with("attestations/")).collect()
}

#[test]
fn no_bundle_that_was_tampered_with_is_verified() {
    none_is_verified(2);
}

#[test]
fn no_bundle_that_takes_something_over_and_was_tampered_with_is_verified() {
    none_is_verified(3);
}

fn none_is_verified(ruleset: u64) {
    let tries = std::env::var("OMNIGATE_TAMPERINGS").map_or(USUAL, |tries| tries.parse().unwrap());
    let dir = TempDir::new().unwrap();
    let nodes: String = NODES.iter().map(|node| format!("{}\n", node_id(*node))).collect();
    fs::write(dir.path().join("nodes"), nodes).unwrap();
    let authority = key(AUTHORITY).public_key().to_string();
    let commitment = honest(ruleset, 7).run().commitment().to_string();
    // The runs before are not there: the chain is not asked for.
    let known = ["--nodes", "nodes", "--policy-key", &authority, "--require", "policy,seals,rows,commitment"];
    let published = [&known[..], &["--commitment", &commitment]].concat();
    let truly = honest(ruleset, 7).files();
    write(&truly, &dir.path().join("bundle"));
    let trusting = [&known[..], &published[..], &[]];
    for flags in &trusting[..2] {
        let (verified, said) = verify(dir.path(), flags);
        assert!(verified && said.starts_with("epoch 7: verified\n"), "{said}");
    }
    assert!(!verify(dir.path(), &[]).0, "a bundle does not vouch for itself");
    for seed in 0..tries {
        let mut random = Rng::with_seed(seed);
        let mut files = truly.clone();
        mutate(&mut files, ruleset, &mut random);
        if files == truly {
            continue;
        }
        write(&files, &dir.path().join("bundle"));
        // Whoever knows the commitment needs no attestation to it.
        let only_attestations = without_attestations(&files) == without_attestations(&truly);
        let flags = if only_attestations { &known[..] } else { *random.choice(&trusting).unwrap() };
        let (verified, said) = verify(dir.path(), flags);
        assert!(!verified && !said.contains(": verified"), "mutation {seed} with {flags:?}: {said}");
    }
}
