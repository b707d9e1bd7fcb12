//! The JSON of a small service, at rest and alive.

use super::*;
use crate::supervisor::{TaskReport, TaskState};

#[test]
fn the_declaration_alone_has_no_live_numbers() {
    let json = topology_json(&[&SAMPLE, &EMPTY], &Live::default());
    insta::assert_snapshot!(format!("{:#}", json["services"][0]), @r#"
    {
      "service": "post",
      "purpose": "Takes letters in and delivers them.",
      "last_reviewed": "2026-11-15",
      "invariants": [
        "A letter is delivered once or returned.",
        "One writer owns the ledger."
      ],
      "tasks": [
        {
          "name": "counter",
          "plane": "data",
          "restart": {
            "when": "on_failure",
            "base_ms": 100,
            "cap_ms": 5000,
            "per_minute": 5,
            "then": {
              "degrade": "shed_writes"
            }
          },
          "stop": "intake",
          "doc": "takes letters in",
          "instances": []
        },
        {
          "name": "ledger",
          "plane": "control",
          "restart": {
            "when": "never",
            "then": "fail_closed"
          },
          "stop": "writers",
          "doc": "writes down what was delivered",
          "instances": []
        },
        {
          "name": "bell",
          "plane": "control",
          "restart": {
            "when": "on_failure",
            "base_ms": 100,
            "cap_ms": 5000,
            "per_minute": 5,
            "then": {
              "degrade": "report"
            }
          },
          "stop": "readiness",
          "doc": "rings every hour | twice at noon",
          "instances": []
        }
      ],
      "children": [
        {
          "kind": "courier",
          "plane": "data",
          "stop": "workers",
          "bound": "`max_couriers`",
          "doc": "carries one letter",
          "live": null
        }
      ],
      "queues": [
        {
          "name": "letters",
          "policy": "RejectNew",
          "waits": null,
          "when_full": "the newcomer is refused as busy",
          "capacity": 512,
          "from": "counter",
          "to": "courier",
          "doc": "letters to deliver",
          "depth": null
        },
        {
          "name": "receipts",
          "policy": "Await",
          "waits": {
            "max_ms": 5000
          },
          "when_full": "the sender waits up to 5s, then is refused as busy",
          "capacity": 16,
          "from": "courier",
          "to": "ledger",
          "doc": "signed receipts",
          "depth": null
        },
        {
          "name": "news",
          "policy": "Broadcast",
          "waits": null,
          "when_full": "a slow subscriber loses the oldest and is told how many",
          "capacity": 8,
          "from": "ledger",
          "to": "subscribers",
          "doc": "what was delivered",
          "depth": null
        }
      ],
      "locks": [
        {
          "name": "stamps",
          "rank": 2,
          "doc": "stamps left; too short to be worth a task"
        },
        {
          "name": "addresses",
          "rank": 1,
          "doc": "the address book"
        }
      ],
      "timeouts": [
        {
          "name": "delivery_timeout",
          "default_ms": 1500,
          "doc": "one delivery; then the letter is returned"
        }
      ],
      "metrics": [
        {
          "name": "letters_total",
          "labels": "class",
          "doc": "letters taken in"
        }
      ],
      "trade_offs": [
        "A full counter refuses at once: waiting in line costs the sender more than coming back."
      ]
    }
    "#);
    assert_eq!(json["services"][1]["service"], "void");
}

#[test]
fn live_numbers_stand_beside_what_they_count() {
    let report =
        |service, name: &str, state, restarts| TaskReport { service, name: name.to_owned(), state, restarts };
    let live = Live {
        tasks: vec![
            report("post", "counter#0", TaskState::Running, 0),
            report("post", "counter#1", TaskState::BackingOff, 2),
            report("post", "counterfeit", TaskState::Running, 0),
            report("other", "ledger", TaskState::Running, 0),
        ],
        children: vec![("post", "courier", 7), ("other", "courier", 9)],
        depths: vec![("other", "letters", 1), ("post", "letters", 3)],
    };
    let json = topology_json(&[&SAMPLE], &live);
    let post = &json["services"][0];
    let counter = serde_json::json!([
        { "name": "counter#0", "state": "running", "restarts": 0 },
        { "name": "counter#1", "state": "backing_off", "restarts": 2 },
    ]);
    assert_eq!(post["tasks"][0]["instances"], counter);
    assert_eq!(post["tasks"][1]["instances"], serde_json::json!([]), "another service's task");
    assert_eq!(post["children"][0]["live"], 7);
    assert_eq!(
        (&post["queues"][0]["depth"], &post["queues"][1]["depth"]),
        (&3.into(), &serde_json::Value::Null)
    );
}
